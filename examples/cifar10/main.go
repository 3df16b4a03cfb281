// Command cifar10 trains a residual network on CIFAR-10, alone or as a worker of a job:
//
//	launch -n 2 -s 2 -- cifar10 --data data/cifar10
//	launch -n 2 -s 2 -H hosts --sync-dst-dir /home/me/job -- ./cifar10 --stem cifar --optimizer sgd --lr 0.1 --momentum 0.9 --schedule cosine --augment --epochs 30
//
// A recipe that is quick to a good accuracy on a GPU:
//
//	launch -n 1 -s 1 -- cifar10 --data data/cifar10 --devices cuda:0 --stem cifar --batch 512 --optimizer nag --lr 0.4 --momentum 0.9 \
//		--weight-decay 5e-4 --decay-weights-only --label-smoothing 0.1 --schedule onecycle --augment --epochs 24
//
// Without --data it trains on synthetic images.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
)

func main() {
	text, code := program.Ending(newApp().Run(os.Args))
	if text != "" {
		fmt.Fprintln(os.Stderr, "cifar10:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "cifar10",
		Usage:           "train a residual network on CIFAR-10",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   cifar10 --epochs 2
   launch -n 2 -s 2 -- cifar10 --data data/cifar10
   launch -n 2 -s 2 -- cifar10 --data data/cifar10 --stem cifar --optimizer sgd --lr 0.1 --momentum 0.9 --weight-decay 5e-4 --schedule cosine --augment --epochs 30

With --adapt the batch grows as the gradients' noise does:

   launch -n 2 -s 2 -- cifar10 --data data/cifar10 --batch 32 --adapt --max-batch 512

Without --data it trains on synthetic images. --download fetches CIFAR-10 first.`,
	}
}

func run(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
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
