package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	_ "github.com/paragon-train/paragon/data/formats" // whatever trainers read
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/command"
)

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
		return nil, command.Usagef("%s: --format: got %q, want one of %s", called(c), cfg.Format, strings.Join(data.ImageFormats(), ", "))
	}
	if c.Int("num-thread") < 1 {
		return nil, command.Usagef("%s: --num-thread: got %d, want at least 1", called(c), c.Int("num-thread"))
	}
	if file := c.Path("classes"); file != "" {
		names, err := data.ReadClasses(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("launch: %s: --classes: %w", called(c), err)
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
		return nil, fmt.Errorf("launch: %s: %w", called(c), err)
	}
	return m, nil
}

// called is what a subcommand of launch data is called in messages.
func called(c *cli.Context) string { return "data " + c.Command.Name }

// errInterrupted is what a command ends with that a signal has ended.
var errInterrupted = errors.New("interrupted")

// interruptible makes a context that ends with the signals that end programs.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}
