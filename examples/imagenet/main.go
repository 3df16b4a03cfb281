// Command imagenet trains a residual network on photographs of one's own, alone or as a worker of a
// job:
//
//	launch -n 2 -s 2 -- imagenet --data photos --image-size 64 --model resnet18 --epochs 10
//	launch -n 8 -s 8 -H hosts -- imagenet --data s3://bucket/imagenet --cache-dir /scratch/cache --mixup 0.2 --cutmix 1 --auto-augment trivial
//
// The data is a folder, or a prefix of a bucket, with train and val: each a folder with one of each
// class, train.rec and val.rec of MXNet, or shards. The recipe is the usual one of ImageNet: random
// crops, SGD with Nesterov's momentum, and a cosine schedule after a warm-up.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	// Package formats reads Parquet, WebP, BMP and TIFF.
	_ "github.com/paragon-train/paragon/data/formats"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
)

func main() {
	text, code := program.Ending(newApp().Run(os.Args))
	if text != "" {
		fmt.Fprintln(os.Stderr, "imagenet:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "imagenet",
		Usage:           "train a residual network on photographs",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   imagenet --sample photos
   imagenet --data photos --image-size 32 --model resnet18 --epochs 10
   launch -n 2 -s 2 -- imagenet --data photos --image-size 64 --model resnet18 --epochs 10

--data is a folder or a URL with train and val in it: folders with one of each class, train.rec and val.rec, or shards.`,
	}
}

func run(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if dir := c.String("sample"); dir != "" {
		return writeSample(dir)
	}
	s := fromFlags(c)
	if err := s.validate(); err != nil {
		// Launch need not start it again.
		return kvstore.Final(err)
	}
	stop, leave, forget := program.Signals()
	defer forget()
	s.stop, s.leave = stop, leave
	return train(context.Background(), s)
}
