package data

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/datacheck"
	"github.com/paragon-train/paragon/launch/internal/datashow"
)

// showCommand is `launch data show`.
func showCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "draw some images with their labels, and list the classes",
		ArgsUsage: "SOURCE",
		Description: `Prints a table of the classes, with the number of images of each and their mean size:

   launch data show photos/train

and draws a contact sheet of some images, chosen by --seed, with their labels and numbers:

   launch data show --output sheet.png photos/train
   launch data show --output sheet.png --count 8 --repeat 4 --transforms random-resized-crop:224,flip,trivial-augment train.rec

With --transforms images are drawn as a trainer sees them, each --repeat times with other random numbers. A transform is one of
` + strings.Replace(datashow.Forms(), " color-jitter", "\ncolor-jitter", 1) + `.`,
		Flags: append(dataSourceFlags(),
			&cli.PathFlag{Name: "output", Aliases: []string{"o"}, Usage: "draw a contact sheet into `FILE.png`", DefaultText: "none", TakesFile: true},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "draw `N` images", Value: 32},
			&cli.IntFlag{Name: "first", Usage: "draw consecutive images, from number `I` on", DefaultText: "any"},
			&cli.IntFlag{Name: "repeat", Usage: "draw each image `N` times", Value: 1},
			&cli.IntFlag{Name: "columns", Usage: "draw `N` images in a row", Value: 8},
			&cli.IntFlag{Name: "size", Usage: "fit each image into a square of `PIXELS`", Value: 160},
			&cli.StringFlag{Name: "transforms", Usage: "apply `LIST` to the images", DefaultText: "none"},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of the choice and of the transforms", Value: 0},
			&cli.BoolFlag{Name: "no-table", Usage: "print no table, for which all images are read", DisableDefaultText: true},
		),
		Action: showData,
	}
}

// showData draws a sheet of some images first, which is fast, and then reads all of them for the
// table.
func showData(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("data show: got %q, want one source: launch data show photos/train", c.Args().Slice())
	}
	cfg := datashow.Config{Columns: c.Int("columns"), Size: c.Int("size"), Seed: c.Uint64("seed"), Goroutines: c.Int("num-thread")}
	var err error
	if cfg.Transforms, err = datashow.ParseTransforms(c.String("transforms")); err != nil {
		return command.Usagef("data show: --transforms: %w", err)
	}
	switch {
	case cfg.Columns < 1 || cfg.Size < 8 || cfg.Size > 4096:
		return command.Usagef("data show: --columns and --size: got %d columns of %d pixels, want at least 1, of 8 to 4096", cfg.Columns, cfg.Size)
	case c.Int("count") < 1 || c.Int("repeat") < 1 || c.Int("count") > 10_000 || c.Int("repeat") > 1000:
		return command.Usagef("data show: --count and --repeat: got %d and %d, want 1 to 10000 and 1 to 1000", c.Int("count"), c.Int("repeat"))
	case c.Path("output") != "" && filepath.Ext(c.Path("output")) != ".png":
		return command.Usagef("data show: --output: got %s, want a name that ends in .png", c.Path("output"))
	case c.Path("output") == "" && c.Bool("no-table"):
		return command.Usagef("data show: --no-table without --output shows nothing; give --output sheet.png")
	}
	ctx, forget := interruptible(c.Context)
	defer forget()
	src, err := openSource(ctx, c, c.Args().First(), data.OpenOptions{})
	if err != nil {
		return err
	}
	defer src.Close()
	if c.Path("output") != "" {
		if err := drawSheet(ctx, c, src, cfg); err != nil {
			return fmt.Errorf("launch: data show: %w", err)
		}
	}
	if c.Bool("no-table") {
		return nil
	}

	// The headers have the sizes, which is all that the table needs.
	r, err := datacheck.Check(ctx, src, datacheck.Config{HeadersOnly: true, Goroutines: c.Int("num-thread"), Progress: newProgress(c, src.Len()).at})
	if err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		return fmt.Errorf("launch: data show: %w", err)
	}
	fmt.Fprintln(c.App.Writer, c.Args().First())
	if err := r.Write(c.App.Writer); err != nil {
		return err
	}
	return r.WriteClasses(c.App.Writer)
}

// drawSheet writes a contact sheet.
func drawSheet(ctx context.Context, c *cli.Context, src *data.Images, cfg datashow.Config) error {
	// The same seed chooses the same images, so that two sheets can be compared.
	chosen := datashow.Choose(c.Int("count"), src.Len(), cfg.Seed)
	if c.IsSet("first") {
		first := c.Int("first")
		if first < 0 || first >= src.Len() {
			return fmt.Errorf("--first: got %d, want 0 to %d", first, src.Len()-1)
		}
		chosen = nil
		for i := first; i < min(first+c.Int("count"), src.Len()); i++ {
			chosen = append(chosen, i)
		}
	}
	for _, i := range chosen {
		for range c.Int("repeat") {
			cfg.Images = append(cfg.Images, i)
		}
	}
	sheet, err := datashow.Sheet(ctx, src, cfg)
	if err != nil {
		return err
	}
	path := c.Path("output")

	// The sheet gets its name when it is whole.
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(png.Encode(f, sheet), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s shows %d of %d images\n", path, len(chosen), src.Len())
	return err
}
