package data

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/datapack"
)

// packCommand is `launch data pack`.
func packCommand() *cli.Command {
	return &cli.Command{
		Name:      "pack",
		Usage:     "pack images into .rec files or tar shards",
		ArgsUsage: "SOURCE PREFIX.rec|PREFIX.tar",
		Description: `Few large files are read faster than many small ones, and small images decode faster than large ones:

   launch data pack photos/train train.rec                        files as they are, in the folder's order
   launch data pack --resize 256 photos/train train.rec           the shorter side 256 pixels, JPEG of quality 95
   launch data pack --resize 256 --center-crop --encoding .png photos/train train.rec
   launch data pack --shard-size 128MB photos/train train.tar     train-000000.tar, train-000001.tar, ...
   launch data pack --shuffle --train-ratio 0.9 photos set.rec    set_train.rec and set_val.rec
   launch data pack --root images train.lst train.rec             as im2rec train images does, labels from the list
   launch data pack --classes classes.txt photos/val val.rec      labels as in train.rec, whatever classes are missing

A .rec file has an index, .idx, beside it; MXNet reads both. Tar shards are WebDataset's. Labels stay as they are: those of a folder
are the places of its classes in the order of their names, which classes.txt beside the output has. Files in one folder have the
same classes. Ids are the numbers of the examples in the source.

Files get their names when all of them are whole. An image that cannot be read is named and left out, and the exit code is 1 unless
--bad-examples allows as many. Without --resize, --center-crop, --quality, --encoding or --color files are packed as they are, and only
their headers are looked at: see launch data check.`,
		Flags: append(dataSourceFlags(),
			&cli.IntFlag{Name: "resize", Usage: "make the shorter side `SIZE` pixels", DefaultText: "as it is"},
			&cli.BoolFlag{Name: "center-crop", Usage: "cut a square out of the middle first", DisableDefaultText: true},
			&cli.IntFlag{Name: "quality", Usage: "`QUALITY` of JPEG, 1 to 100, or effort of PNG, 1 to 9", DefaultText: "95, and 3 for PNG"},
			&cli.StringFlag{Name: "encoding", Usage: "encode as `.jpg|.png`", DefaultText: ".jpg"},
			&cli.IntFlag{Name: "color", Usage: "`1|0`: colour or grey", DefaultText: "1"},
			&cli.BoolFlag{Name: "pass-through", Usage: "pack files as they are, without decoding", DefaultText: "unless a flag above asks for other images"},
			&cli.BoolFlag{Name: "shuffle", Usage: "mix the order; trainers mix it in each epoch anyway", DisableDefaultText: true},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of --shuffle", Value: 100},
			&cli.Float64Flag{Name: "train-ratio", Usage: "`SHARE` of the images for PREFIX_train; what neither ratio takes is PREFIX_val", Value: 1},
			&cli.Float64Flag{Name: "test-ratio", Usage: "`SHARE` of the images for PREFIX_test", Value: 0},
			&cli.IntFlag{Name: "chunks", Usage: "write `N` files of consecutive images, PREFIX_0.rec and so on, or N shards", Value: 1},
			&cli.StringFlag{Name: "shard-size", Usage: "a tar shard is full from `BYTES` on, such as 128MB", Value: "256MB"},
			&cli.BoolFlag{Name: "pack-label", Usage: "write one label behind the header of a record, as several are", DisableDefaultText: true},
			&cli.IntFlag{Name: "bad-examples", Usage: "end with exit code 0 if at most `N` images cannot be read", Value: 0},
			&cli.BoolFlag{Name: "overwrite", Usage: "replace files of the same names", DisableDefaultText: true},
		),
		Action: packData,
	}
}

// packData packs a source. Images that cannot be read are left out and named; how many of them are
// no failure is for the user to say.
func packData(c *cli.Context) error {
	cfg, channels, err := readPackFlags(c)
	if err != nil {
		return err
	}
	ctx, forget := interruptible(c.Context)
	defer forget()
	src, err := openSource(ctx, c, c.Args().First(), data.OpenOptions{Channels: channels})
	if err != nil {
		return err
	}
	defer src.Close()
	cfg.Classes = src.Classes()
	cfg.Bad = func(e *data.BadExampleError) { fmt.Fprintf(c.App.ErrWriter, "launch: data pack: left out %v\n", e) }
	cfg.Progress = newProgress(c, src.Len()).at
	sum, err := datapack.Pack(ctx, src, cfg)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w; nothing was written", errInterrupted)
		}
		return fmt.Errorf("launch: data pack: %w", err)
	}
	for _, f := range sum.Files {
		fmt.Fprintf(c.App.Writer, "%s  %s, %d bytes\n", f.Name, plural.Of(f.Images, "image"), f.Bytes)
	}
	if sum.Bad > 0 {
		fmt.Fprintf(c.App.ErrWriter, "launch: data pack: %d of %d images cannot be read and were left out\n", sum.Bad, sum.Bad+sum.Images)
	}
	if allowed := c.Int("bad-examples"); sum.Bad > allowed {
		fmt.Fprintf(c.App.ErrWriter, "launch: data pack: --bad-examples allows %d: mend or remove the images that are named above, or give --bad-examples %d\n", allowed, sum.Bad)
		return command.ExitError(1)
	}
	return nil
}

// readPackFlags reads the command line.
func readPackFlags(c *cli.Context) (cfg datapack.Config, channels int, err error) {
	if c.NArg() != 2 {
		return cfg, 0, command.Usagef("data pack: got %q, want a source and a file to write: launch data pack photos/train train.rec", c.Args().Slice())
	}
	cfg = datapack.Config{
		Output: c.Args().Get(1), CenterCrop: c.Bool("center-crop"), Resize: c.Int("resize"), Encoding: strings.TrimPrefix(c.String("encoding"), "."),
		Quality: c.Int("quality"), Shuffle: c.Bool("shuffle"), Seed: c.Uint64("seed"), TrainRatio: c.Float64("train-ratio"), TestRatio: c.Float64("test-ratio"),
		Chunks: c.Int("chunks"), PackLabel: c.Bool("pack-label"), Goroutines: c.Int("num-thread"), Overwrite: c.Bool("overwrite"),
	}

	// A flag that asks for other images than those of the source has all of them decoded.
	var makes []string
	for _, name := range []string{"resize", "center-crop", "quality", "encoding", "color"} {
		if c.IsSet(name) {
			makes = append(makes, "--"+name)
		}
	}
	cfg.Decode = len(makes) > 0
	if cfg.Decode && c.Bool("pass-through") {
		return cfg, 0, command.Usagef("data pack: --pass-through packs files as they are, and %s makes other ones: give one of them", makes[0])
	}
	switch cfg.Encoding {
	case "":
		cfg.Encoding = "jpg"
	case "jpeg":
		cfg.Encoding = "jpg"
	}
	if !c.IsSet("quality") {
		// The number means another thing for PNG, whose images are the same whatever it is.
		cfg.Quality = map[bool]int{false: 95, true: 3}[cfg.Encoding == "png"]
	}
	channels = 3
	if c.IsSet("color") {
		switch c.Int("color") {
		case 1:
		case 0:
			channels = 1
		default:
			return cfg, 0, command.Usagef("data pack: --color: got %d, want 1 for colour or 0 for grey", c.Int("color"))
		}
	}
	if cfg.ShardSize, err = parseBytes(c.String("shard-size")); err != nil {
		return cfg, 0, command.Usagef("data pack: --shard-size: %w", err)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, 0, command.Usagef("data pack: %w", err)
	}
	return cfg, channels, nil
}

// parseBytes reads 1000, 64KB, 128MB, 2GB or 1GiB.
func parseBytes(text string) (int64, error) {
	// KiB and its like are tried before KB and B, which are their ends, too.
	number, unit := text, int64(1)
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > 1<<62/unit {
		return 0, fmt.Errorf("got %q, want a number of bytes such as 128MB", text)
	}
	return n * unit, nil
}
