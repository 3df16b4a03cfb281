package main

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
)

// serve takes turns with a peer that measures the same work. It answers each line of its input with
// a line:
//
//	ready                              first of all, after two steps
//	run SECONDS                        steps, seconds, seconds of CPU time: of steps until so much time has passed
//	memory                             bytes: the program's plan, what the process grew by from before the model to its peak,
//	                                   and its peak in all
//
// and ends with its input.
func serveCommand() *cli.Command {
	return &cli.Command{
		Name:   "serve",
		Usage:  "take turns with a peer, by standard input and output",
		Flags:  workFlags(),
		Action: serve,
	}
}

// A stepper is what is served: a training, or another work that is cut into steps.
type stepper interface {
	Step(ctx context.Context) error
	Close() error

	// plan is the bytes that the work is planned to take.
	plan() int64
}

func newStepper(w work) (stepper, error) {
	switch w.model {
	case sampleName:
		return newSampling(w)
	case readName:
		return newReading(w)
	}
	return newTraining(w)
}

// serve answers the lines of bench/peers: run SECONDS with the steps of a spell and their times,
// memory with what the plan says, what the process took more, and its peak. Two steps warm up.
func serve(c *cli.Context) error {
	resetPeak()
	before, _ := resident()
	t, err := newStepper(workOf(c))
	if err != nil {
		return err
	}
	defer t.Close()
	for range 2 {
		if err := t.Step(c.Context); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.App.Writer, "ready")
	for lines := bufio.NewScanner(c.App.Reader); lines.Scan(); {
		var seconds float64
		switch n, _ := fmt.Sscanf(lines.Text(), "run %g", &seconds); {
		case n == 1:
			s, err := spellOf(c.Context, time.Duration(seconds*float64(time.Second)), t.Step)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.App.Writer, s.steps, s.wall.Seconds(), s.cpu.Seconds())
		case lines.Text() == "memory":
			_, peak := resident()
			fmt.Fprintln(c.App.Writer, t.plan(), peak-before, peak)
		default:
			return fmt.Errorf("serve: got %q, want run SECONDS or memory", lines.Text())
		}
	}
	return nil
}
