package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	_ "github.com/paragon-train/paragon/data/formats" // what trainers may read, too
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// Run is `launch data`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:  "launch data",
		Usage: "check, show and pack data sets of images",
		Description: `SOURCE is what a trainer's --data is: a folder with a directory for each class, an .lst, .rec or .tar file,
several of them, or an https URL. What is in a bucket is copied to a disk first.

   launch data check photos/train                     what is there, and what is damaged?
   launch data show --output sheet.png photos/train   a picture of some images with their labels
   launch data pack --resize 256 photos/train train.rec

See docs/how-to/pack-and-check.md.`,
		Commands: []*cli.Command{packCommand(), checkCommand(), showCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.UnknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	if len(args) > 0 {
		if i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[0] }); i >= 0 {
			args = append(args[:1:1], flagsFirst(app.Commands[i].Flags, args[1:])...)
		}
	}
	return command.RunApp(app, args, stdout, stderr)
}

// flagsFirst puts flags that stand behind an argument before it, as package cli wants them.
func flagsFirst(flags []cli.Flag, args []string) []string {
	value := map[string]bool{}
	for _, f := range flags {
		if _, ok := f.(*cli.BoolFlag); !ok {
			for _, name := range f.Names() {
				value[name] = true
			}
		}
	}
	var first, rest []string
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case args[i] == "--":
			return slices.Concat(first, args[i:i+1], rest, args[i+1:])
		case name == args[i] || name == "":
			rest = append(rest, args[i])
		case value[name] && i+1 < len(args):
			first = append(first, args[i], args[i+1])
			i++
		default:
			first = append(first, args[i])
		}
	}
	return append(first, rest...)
}

// dataSourceFlags say how a source is read.
func dataSourceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "`FORMAT` of the source: " + strings.Join(data.ImageFormats(), ", "), DefaultText: "as the names of its files tell"},
		&cli.StringFlag{Name: "root", Usage: "`FOLDER` that the paths of an .lst file begin at", DefaultText: "the list's"},
		&cli.PathFlag{Name: "classes", Usage: "labels are the places of the classes in `FILE`, which has a name on each line, as classes.txt that pack writes", DefaultText: "the source's classes", TakesFile: true},
		&cli.BoolFlag{Name: "allow-empty", Usage: "take a folder in which classes have no image", DisableDefaultText: true},
		&cli.BoolFlag{Name: "same-keys", Usage: "take tar shards that each number their samples anew", DisableDefaultText: true},
		&cli.IntFlag{Name: "num-thread", Usage: "work on `N` images at once", Value: runtime.GOMAXPROCS(0), DefaultText: "the number of processors"},
	}
}

// openSource opens a source. The images are not transformed, and their sizes may differ.
func openSource(ctx context.Context, c *cli.Context, url string, cfg data.OpenOptions) (*data.Images, error) {
	cfg.Format, cfg.Root, cfg.AllowEmptyClasses, cfg.SameKeys = c.String("format"), c.String("root"), c.Bool("allow-empty"), c.Bool("same-keys")
	if cfg.Format != "" && !slices.Contains(data.ImageFormats(), cfg.Format) {
		return nil, command.Usagef("%s: --format: got %q, want one of %s", dataCommand(c), cfg.Format, strings.Join(data.ImageFormats(), ", "))
	}
	if c.Int("num-thread") < 1 {
		return nil, command.Usagef("%s: --num-thread: got %d, want at least 1", dataCommand(c), c.Int("num-thread"))
	}
	if file := c.Path("classes"); file != "" {
		names, err := data.ReadClasses(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("launch: %s: --classes: %w", dataCommand(c), err)
		}
		cfg.Classes = names
	}
	// Without a transform of a fixed size Open would look for the size of all images.
	cfg.Transforms = []transform.Transform{transform.CenterCrop(1)}
	cfg.Logger = slog.New(logline.New(c.App.ErrWriter, slog.LevelWarn, func(slog.Attr) bool { return false }))
	m, err := data.OpenImages(ctx, url, cfg)
	if ctx.Err() != nil && err != nil {
		err = errInterrupted
	}
	if err != nil {
		return nil, fmt.Errorf("launch: %s: %w", dataCommand(c), err)
	}
	return m, nil
}

// dataCommand is what a subcommand of launch data is called in messages.
func dataCommand(c *cli.Context) string { return "data " + c.Command.Name }

// errInterrupted is what a command ends with that a signal has ended.
var errInterrupted = errors.New("interrupted")

// interruptible makes a context that ends with the signals that end programs.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// progressEvery is how often progress is said.
const progressEvery = 10 * time.Second

// A progress says from time to time how far a command is.
type progress struct {
	w           io.Writer
	what        string
	all         int
	begun, said time.Time
}

func newProgress(c *cli.Context, all int) *progress {
	now := time.Now()
	return &progress{c.App.ErrWriter, dataCommand(c), all, now, now}
}

// at is told how many images are done.
func (p *progress) at(done int) {
	now := time.Now()
	if now.Sub(p.said) < progressEvery || done == 0 {
		return
	}
	p.said = now
	rate := float64(done) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(p.all-done) / rate * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(p.w, "launch: %s: %d of %d images, %.0f/s, %v left\n", p.what, done, p.all, rate, left)
}
