package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
)

// augmentSettings say how images and labels are changed in training. Zero changes nothing.
type augmentSettings struct {
	// auto is none, trivial or rand.
	auto string

	// erasing is the probability with which a part of an image is erased.
	erasing float64

	// mixup and cutMix are the alphas of both.
	mixup, cutMix float64

	// smoothing is the share of each label that goes to all classes.
	smoothing float64
}

func augmentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "auto-augment", Value: "none", Usage: "none, trivial (TrivialAugment) or rand (RandAugment: two operations of magnitude 9)"},
		&cli.Float64Flag{Name: "random-erasing", Usage: "probability with which a part of an image is erased, such as 0.1"},
		&cli.Float64Flag{Name: "mixup", Usage: "Mixup's alpha, such as 0.2: each image is mixed with the next one of its batch; on CPUs (0: none)"},
		&cli.Float64Flag{Name: "cutmix", Usage: "CutMix's alpha, such as 1; with --mixup each image has one of them; on CPUs (0: none)"},
		&cli.Float64Flag{Name: "label-smoothing", Value: 0.1, Usage: "share of each label that is spread over all classes; in training only"},
	}
}

func augmentFrom(c *cli.Context) augmentSettings {
	return augmentSettings{
		auto:      c.String("auto-augment"),
		erasing:   c.Float64("random-erasing"),
		mixup:     c.Float64("mixup"),
		cutMix:    c.Float64("cutmix"),
		smoothing: c.Float64("label-smoothing"),
	}
}

func (s *augmentSettings) validate() error {
	switch {
	case !slices.Contains([]string{"none", "trivial", "rand"}, s.auto):
		return fmt.Errorf("--auto-augment is %q, want none, trivial or rand", s.auto)
	case !(s.mixup >= 0) || !(s.cutMix >= 0):
		return fmt.Errorf("--mixup is %v and --cutmix %v, want at least 0", s.mixup, s.cutMix)
	case !(s.smoothing >= 0 && s.smoothing < 1):
		return fmt.Errorf("--label-smoothing is %v, want at least 0 and below 1", s.smoothing)
	case !(s.erasing >= 0 && s.erasing <= 1):
		return fmt.Errorf("--random-erasing is %v, want 0 to 1", s.erasing)
	}
	return nil
}

// mixes says that images are mixed, so the training loss is one of soft targets.
func (s *augmentSettings) mixes() bool { return s.mixup > 0 || s.cutMix > 0 }

// mix is how images of these classes are mixed. Mixed targets are smoothed here, others in the
// loss.
func (s *augmentSettings) mix(classes int) data.Mix {
	if !s.mixes() {
		return data.Mix{}
	}
	return data.Mix{Mixup: s.mixup, CutMix: s.cutMix, Classes: classes, Smoothing: s.smoothing}
}

// normalise is what all images go through.
var normalise = data.Augment{Mean: data.ImageNetMean, Std: data.ImageNetStd}

// trainTransforms are the recipe's, of training.
func (s *augmentSettings) trainTransforms(size int) []transform.Transform {
	list := []transform.Transform{transform.RandomResizedCrop(size), transform.Flip()}
	switch s.auto {
	case "trivial":
		list = append(list, transform.TrivialAugment())
	case "rand":
		list = append(list, transform.RandAugment(2, 9))
	}
	if s.erasing > 0 {
		list = append(list, transform.RandomErasing(s.erasing))
	}
	return list
}

// testTransforms are the recipe's, of evaluations: the shorter edge becomes 256/224 of the size.
func testTransforms(size int) []transform.Transform {
	return []transform.Transform{transform.Resize((size*256 + 112) / 224), transform.CenterCrop(size)}
}
