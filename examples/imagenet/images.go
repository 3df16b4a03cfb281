package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

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
	cfg := data.OpenOptions{CacheDir: s.cacheDir, CacheBytes: s.cacheBytes, FirstLabel: s.firstLabel, Logger: slog.Default(), Transforms: s.trainTransforms()}
	if found.train, err = openSet(ctx, s.data, s.trainData, "train", cfg); err != nil {
		return found, err
	}
	cfg.Transforms = s.testTransforms()
	cfg.Classes = found.train.Classes()
	if found.val, err = openSet(ctx, s.data, s.valData, "val", cfg); err != nil {
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

// trainTransforms are the recipe's, of training.
func (s *settings) trainTransforms() []transform.Transform {
	list := []transform.Transform{transform.RandomResizedCrop(s.imageSize), transform.Flip()}
	switch s.autoAugment {
	case "trivial":
		list = append(list, transform.TrivialAugment())
	case "rand":
		list = append(list, transform.RandAugment(2, 9))
	}
	if s.randomErasing > 0 {
		list = append(list, transform.RandomErasing(s.randomErasing))
	}
	return list
}

// orderOf is --order for the training images.
func (s *settings) orderOf(train *data.Images) (sampler.Order, error) {
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

// testTransforms are the recipe's, of evaluations.
func (s *settings) testTransforms() []transform.Transform {
	return []transform.Transform{transform.Resize((s.imageSize*256 + 112) / 224), transform.CenterCrop(s.imageSize)}
}

// countClasses finds out how many classes the network tells apart.
func (s *settings) countClasses(train *data.Images) (int, error) {
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
