// Command gpt trains a language model on a text, byte by byte, alone or as a worker of a job, and
// then writes on:
//
//	gpt --text shakespeare.txt --epochs 3
//	launch -n 2 -s 2 -- gpt --text shakespeare.txt --epochs 3
//
// Without --text it trains on the source of Go's standard library, where Go is installed.
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
		fmt.Fprintln(os.Stderr, "gpt:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "gpt",
		Usage:           "train a language model on a text",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   gpt --text shakespeare.txt --epochs 3
   launch -n 2 -s 2 -- gpt --text shakespeare.txt --epochs 3 --checkpoint-dir ckpt
   gpt --text shakespeare.txt --layers 6 --heads 6 --width 384 --context 256 --batch 16 --dropout 0.2 --epochs 10
   gpt --init-from ckpt --epochs 0 --prompt "ROMEO:" --sample 1000

Without --text it trains on the source of Go's standard library, where Go is installed.`,
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
