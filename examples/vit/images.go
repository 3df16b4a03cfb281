package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
)

// imageSettings say which images a run trains on and is judged by.
type imageSettings struct {
	// data is CIFAR-10's archive or folder; none: synthetic images.
	data string

	// download fetches CIFAR-10 into data first.
	download bool

	// trainExamples and testExamples are how many images are used; 0: all, or of synthetic ones
	// the numbers below.
	trainExamples, testExamples int
}

// Synthetic images, where the flags name no number.
const syntheticTrain, syntheticTest = 10_000, 2_000

func imageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "CIFAR-10: the binary archive (.tar.gz) or the folder of its .bin files", EnvVars: []string{"PARAGON_CIFAR10"}},
		&cli.BoolFlag{Name: "download", Usage: "fetch CIFAR-10 into the folder --data first"},
		&cli.IntFlag{Name: "train-examples", Usage: "use only this many training images (0: all; of synthetic ones: 10,000)"},
		&cli.IntFlag{Name: "test-examples", Usage: "use only this many test images (0: all; of synthetic ones: 2,000)"},
	}
}

func imagesFrom(c *cli.Context) imageSettings {
	return imageSettings{data: c.String("data"), download: c.Bool("download"), trainExamples: c.Int("train-examples"), testExamples: c.Int("test-examples")}
}

func (s *imageSettings) validate() error {
	most := data.MaxSynthetic
	switch {
	case s.download && s.data == "":
		return errors.New("--download needs --data, the folder to fetch into")
	case min(s.trainExamples, s.testExamples) < 0 || s.data == "" && max(s.trainExamples, s.testExamples) > most:
		return fmt.Errorf("--train-examples is %d and --test-examples %d, want at least 1, or 0 for all; of synthetic images at most %d", s.trainExamples, s.testExamples, most)
	}
	return nil
}

// load reads CIFAR-10, or draws images like it from the seed: two sets that share no image.
func (s *imageSettings) load(ctx context.Context, seed uint64) (train, test *data.ImageSet, err error) {
	if s.data == "" {
		fmt.Println("No --data: training on synthetic images (--data takes CIFAR-10).")
		return data.Synthetic(orElse(s.trainExamples, syntheticTrain), seed), data.Synthetic(orElse(s.testExamples, syntheticTest), seed+1<<32), nil
	}
	if s.download {
		if err := data.FetchCIFAR10(ctx, http.DefaultClient, s.data); err != nil {
			return nil, nil, err
		}
	}
	train, test, err = data.LoadCIFAR10(s.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, kvstore.Final(fmt.Errorf("%w, or let --download do it", err))
	case err != nil:
		return nil, nil, err
	case s.trainExamples > train.Len() || s.testExamples > test.Len():
		return nil, nil, kvstore.Final(fmt.Errorf("--train-examples is %d and --test-examples %d, want at most the %d and %d images of %s, or 0 for all", s.trainExamples, s.testExamples, train.Len(), test.Len(), s.data))
	}
	return train.Head(orElse(s.trainExamples, train.Len())), test.Head(orElse(s.testExamples, test.Len())), nil
}

// name is what the picture of the curves calls the images.
func (s *imageSettings) name() string {
	if s.data == "" {
		return "synthetic images"
	}
	return "CIFAR-10"
}

func orElse(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
