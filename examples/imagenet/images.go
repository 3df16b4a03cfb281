package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// imageSettings say where the images are, and how they are read.
type imageSettings struct {
	// data is the folder or URL with train and val; trainData and valData name others in their
	// place.
	data, trainData, valData string

	// classes is how many the network tells apart; 0: as many as the data has. firstLabel is the
	// number of the first one in the data.
	classes, firstLabel int

	// size is the width and the height of what the network sees.
	size int

	// readers is how many goroutines read and decode; 0: one for each core.
	readers int

	// order is the order of an epoch's images, and window the number of blocks that it mixes.
	order  string
	window int

	// bad is how many damaged images of an epoch are left out.
	bad int

	// cacheDir keeps what was read over the network, at most cacheBytes; 0: 64 GB.
	cacheDir   string
	cacheBytes int64
}

// Other sizes are a slip of the pen; they are in pixels.
const leastSize, mostSize = 32, 4096

func imageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "folder or URL with train and val: folders with one of each class, train.rec and val.rec, or shards", EnvVars: []string{"PARAGON_IMAGENET"}},
		&cli.StringFlag{Name: "train-data", Usage: "folder, file or URL of the training images, if they are not at --data/train"},
		&cli.StringFlag{Name: "val-data", Usage: "folder, file or URL of the images for evaluations, if they are not at --data/val"},
		&cli.StringFlag{Name: "sample", Usage: "write synthetic images into this new folder, with train and val, and end: something to train on"},
		&cli.IntFlag{Name: "classes", Usage: "number of classes, where the data does not name them (0: those of the data; of .rec files 1000)"},
		&cli.IntFlag{Name: "first-label", Usage: "number of the first class in the data: 1 for ImageNet in TFRecord as TensorFlow packs it"},
		&cli.IntFlag{Name: "image-size", Value: 224, Usage: "width and height of the images that are trained on; evaluations resize the shorter edge to 256/224 of it and take the middle"},
		&cli.IntFlag{Name: "readers", Usage: "goroutines that read and decode images (0: one for each core that the process may use)"},
		&cli.StringFlag{Name: "order", Value: "auto", Usage: "order of an epoch's images: permutation of all; blocks, such as shards, permuted and mixed within a window; contiguous, where a worker has the same run in each epoch, mixed (auto: permutation, or blocks where single images are dear to read)"},
		&cli.IntFlag{Name: "order-window", Value: 16, Usage: "with --order blocks: how many blocks are mixed with each other"},
		&cli.IntFlag{Name: "bad-examples", Usage: "leave out this many damaged images of an epoch, of all workers together; the next one ends the job"},
		&cli.StringFlag{Name: "cache-dir", Usage: "folder of this host that keeps what was read over the network"},
		&cli.Int64Flag{Name: "cache-gb", Usage: "with --cache-dir: the most that it may take, in GB (0: 64)"},
	}
}

func imagesFrom(c *cli.Context) imageSettings {
	return imageSettings{
		data:       c.String("data"),
		trainData:  c.String("train-data"),
		valData:    c.String("val-data"),
		classes:    c.Int("classes"),
		firstLabel: c.Int("first-label"),
		size:       c.Int("image-size"),
		readers:    c.Int("readers"),
		order:      c.String("order"),
		window:     c.Int("order-window"),
		bad:        c.Int("bad-examples"),
		cacheDir:   c.String("cache-dir"),
		cacheBytes: c.Int64("cache-gb") * 1e9,
	}
}

func (s *imageSettings) validate() error {
	switch {
	case s.data == "" && (s.trainData == "" || s.valData == ""):
		return errors.New("--data is not given, want the folder or URL with train and val, or --train-data and --val-data")
	case s.size < leastSize || s.size > mostSize:
		return fmt.Errorf("--image-size is %d, want %d to %d", s.size, leastSize, mostSize)
	case s.classes < 0:
		return fmt.Errorf("--classes is %d, want at least 2, or 0 for those of the data", s.classes)
	case s.firstLabel < 0:
		return fmt.Errorf("--first-label is %d, want at least 0", s.firstLabel)
	case s.readers < 0 || s.bad < 0:
		return fmt.Errorf("--readers is %d and --bad-examples %d, want at least 0", s.readers, s.bad)
	case !slices.Contains([]string{"auto", "permutation", "blocks", "contiguous"}, s.order):
		return fmt.Errorf("--order is %q, want auto, permutation, blocks or contiguous", s.order)
	case s.window < 1:
		return fmt.Errorf("--order-window is %d, want at least 1", s.window)
	}
	return nil
}

// sets are the images of a run.
type sets struct{ train, val *data.Images }

func (s *sets) Close() (err error) {
	for _, m := range []*data.Images{s.val, s.train} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// openSets opens the training images, and those for evaluations with the classes of the training
// images.
func openSets(ctx context.Context, s settings) (found sets, err error) {
	cfg := data.OpenOptions{CacheDir: s.images.cacheDir, CacheBytes: s.images.cacheBytes, FirstLabel: s.images.firstLabel, Logger: slog.Default()}
	cfg.Transforms = s.augment.trainTransforms(s.images.size)
	if found.train, err = openSet(ctx, s.images.data, s.images.trainData, "train", cfg); err != nil {
		return found, err
	}
	cfg.Transforms = testTransforms(s.images.size)
	cfg.Classes = found.train.Classes()
	if found.val, err = openSet(ctx, s.images.data, s.images.valData, "val", cfg); err != nil {
		return found, errors.Join(err, found.Close())
	}
	return found, nil
}

// openSet opens the images at a URL, or those of a name below the folder: as a folder, or as files
// of one of the formats. Shards are named as launch data pack names them, and as TensorFlow's
// scripts do.
func openSet(ctx context.Context, folder, url, name string, cfg data.OpenOptions) (*data.Images, error) {
	if url != "" {
		m, err := data.OpenImages(ctx, url, cfg)
		return m, orFinal(err)
	}
	var tried []string
	for _, ending := range []string{"", ".rec", ".lst", ".tar", "-*.tar", "-*-of-*"} {
		url := checkpoint.Join(folder, name+ending)
		m, err := data.OpenImages(ctx, url, cfg)
		// A web server has no lists, which folders and patterns need.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
			return m, orFinal(err)
		}
		tried = append(tried, name+ending)
	}
	return nil, kvstore.Final(fmt.Errorf("--data: %s has none of %s: %w; --%s-data names other files", folder, strings.Join(tried, ", "), fs.ErrNotExist, name))
}

// orFinal says of an error of a file that is not there, or that may not be read, that no restart
// can mend it.
func orFinal(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return kvstore.Final(err)
	}
	return err
}

// orderOf is --order for the training images.
func (s *imageSettings) orderOf(train *data.Images) (sampler.Order, error) {
	switch s.order {
	case "auto":
		return train.Order(), nil
	case "permutation":
		return sampler.Permutation, nil
	case "contiguous":
		return sampler.Contiguous, nil
	}
	firsts := train.Blocks()
	if len(firsts) == 0 {
		return sampler.Order{}, errors.New("--order is blocks and the training images have none, want permutation: they are as cheap to read in any order")
	}
	return sampler.Blocks(firsts, s.window), nil
}

// countClasses finds out how many classes the network tells apart.
func (s *imageSettings) countClasses(train *data.Images) (int, error) {
	named := len(train.Classes())
	switch {
	case named > 0 && s.classes > 0 && s.classes < named:
		return 0, fmt.Errorf("--classes is %d and the data has %d classes, want at least as many, or 0", s.classes, named)
	case s.classes > 0:
		return s.classes, nil
	case named > 0:
		return named, nil
	}
	return 1000, nil
}
