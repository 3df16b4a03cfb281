package data

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/datacheck"
)

// checkCommand is `launch data check`.
func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "read all images, count them, and name what is damaged",
		ArgsUsage: "SOURCE...",
		Description: `Reads and decodes each image, as a trainer does:

   launch data check photos/train photos/val
   launch data check --table train.rec                a table of the classes, too
   launch data check "shards/train-{000000..000099}.tar"

Each damaged image is named on a line, with its file, the place in it, and what is wrong. The exit code is 1 if there is one. In a .rec
file the check goes on behind damage: it finds the next record by itself, and compares the number of records with the .idx file.
--headers reads the images' headers and does not decode them, which is much faster.`,
		Flags: append(dataSourceFlags(),
			&cli.BoolFlag{Name: "headers", Usage: "do not decode the images", DisableDefaultText: true},
			&cli.BoolFlag{Name: "table", Usage: "print a table of the classes", DisableDefaultText: true},
		),
		Action: checkData,
	}
}

// checkData checks all sources, also behind one that is damaged, so that one run names everything.
func checkData(c *cli.Context) error {
	if c.NArg() == 0 {
		return command.Usagef("data check: got no source; give a folder, a file or a URL: launch data check photos/train")
	}
	ctx, forget := interruptible(c.Context)
	defer forget()

	// The exit code tells of all sources together.
	sound := true
	for _, url := range c.Args().Slice() {
		ok, err := checkSource(ctx, c, url)
		if err != nil {
			return err
		}
		sound = sound && ok
	}
	if !sound {
		return command.ExitError(1)
	}
	return nil
}

// checkSource checks one source, and reports whether it is sound.
func checkSource(ctx context.Context, c *cli.Context, url string) (sound bool, err error) {
	src, err := openSource(ctx, c, url, data.OpenOptions{Resync: true})
	if err != nil {
		return false, err
	}
	defer src.Close()
	r, err := datacheck.Check(ctx, src, datacheck.Config{
		HeadersOnly: c.Bool("headers"), Goroutines: c.Int("num-thread"), BlockBytes: farBlockBytes(src),
		Damaged:  func(e *data.BadExampleError) { fmt.Fprintf(c.App.Writer, "damaged: %v\n", e) },
		Progress: newProgress(c, src.Len()).at,
	})
	if err != nil {
		if ctx.Err() != nil {
			err = errInterrupted
		}
		return false, fmt.Errorf("launch: data check: %s: %w", url, err)
	}
	fmt.Fprintln(c.App.Writer, url)
	if err := r.Write(c.App.Writer); err != nil {
		return false, err
	}
	if c.Bool("table") {
		if err := r.WriteClasses(c.App.Writer); err != nil {
			return false, err
		}
	}

	// Decoding finds damage within an image. Hashes, where the index has them, also find bytes
	// that were exchanged for other good ones.
	checked, wrong, err := src.CheckHashes(ctx)
	if err != nil {
		return false, fmt.Errorf("launch: data check: %s: %w", url, err)
	}
	for _, err := range wrong {
		fmt.Fprintf(c.App.Writer, "damaged: %v\n", err)
	}
	if r.Damaged > 0 || len(wrong) > 0 {
		return false, nil
	}
	if checked > 0 {
		fmt.Fprintf(c.App.Writer, "  %-9s %s as the index says\n", "hashes", plural.Of(checked, "file"))
	}

	// Only .rec files were opened without their index, to find what the index may not have.
	if !strings.HasPrefix(src.Fingerprint(), "recordio:") {
		return true, nil
	}
	return checkIndex(ctx, c, url, src.Len())
}

// farBlockBytes is the size of the blocks that a local file would have far away; 0: images in files
// of their own have none.
func farBlockBytes(src *data.Images) int64 {
	format, _, _ := strings.Cut(src.Fingerprint(), ":")
	if format == "folder" || format == "list" {
		return 0
	}
	return 8 << 20
}

// checkIndex opens .rec files as a trainer does, by their indices, which the check did without.
func checkIndex(ctx context.Context, c *cli.Context, url string, found int) (sound bool, err error) {
	src, err := openSource(ctx, c, url, data.OpenOptions{})
	if err != nil {
		fmt.Fprintf(c.App.Writer, "damaged: %v\n", errors.Unwrap(err))
		return false, nil
	}
	defer src.Close()
	if n := src.Len(); n != found {
		fmt.Fprintf(c.App.Writer, "  %-9s %s: a trainer reads these alone\n", "index", plural.Of(n, "example"))
	}
	return true, nil
}
