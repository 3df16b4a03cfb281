// Command scale predicts the rounds of jobs that are larger than the machines at hand.
//
//	go run ./bench/kv -stages costs.json -transport tcp,auto -count 3
//	go run ./bench/scale predict --costs costs.json
//
// It simulates training steps event by event, in a time of its own, from what bench/kv measured of
// each stage: a step computes layer after layer; a layer's gradients are pushed as soon as they are
// there; servers add them in rank order, update and answer; a layer of the next step begins when
// its values are back. Each host has cores, which its tasks share, a last-level cache, which holds
// its part of what the host's processes pass over in a round, and a link, whose directions carry
// one message after the other. Workers of a host may add up before one push leaves it, and small
// keys travel together. Keys are placed by the scheduler's own planner.
package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
)

func main() {
	if err := newApp().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "scale",
		Usage:           "predict rounds of many workers",
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		Commands:        []*cli.Command{predictCommand()},
	}
}
