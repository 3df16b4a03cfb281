package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
)

// A spell is some steps in a row.
type spell struct {
	steps     int
	wall, cpu time.Duration
}

// spellOf makes steps until d has passed, at least one.
func spellOf(ctx context.Context, d time.Duration, step func(ctx context.Context) error) (s spell, err error) {
	cpu, start := cpuTime(), time.Now()
	for s.steps == 0 || s.wall < d {
		if err := step(ctx); err != nil {
			return s, err
		}
		s.steps++
		s.wall = time.Since(start)
	}
	s.cpu = cpuTime() - cpu
	return s, nil
}

func stepCommand() *cli.Command {
	return &cli.Command{
		Name:  "step",
		Usage: "time whole training steps",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "model", Value: cli.NewStringSlice("resnet18-imagenet", "resnet18-cifar", "mlp")},
			&cli.IntSliceFlag{Name: "batch", Value: cli.NewIntSlice(64, 128)},
			&cli.IntSliceFlag{Name: "threads", Value: cli.NewIntSlice(1, 2)},
			&cli.StringSliceFlag{Name: "dtype", Value: cli.NewStringSlice("float32"), Usage: "float32, bf16"},
			&cli.DurationFlag{Name: "time", Value: time.Second, Usage: "of one result"},
			&cli.IntFlag{Name: "count", Value: 1, Usage: "results of each"},
		},
		Action: func(c *cli.Context) error {
			if err := header(c); err != nil {
				return err
			}
			for _, model := range c.StringSlice("model") {
				for _, batch := range c.IntSlice("batch") {
					for _, threads := range c.IntSlice("threads") {
						for _, dtype := range c.StringSlice("dtype") {
							if err := timeSteps(c, work{model, batch, threads, dtype}); err != nil {
								return err
							}
						}
					}
				}
			}
			return nil
		},
	}
}

func timeSteps(c *cli.Context, w work) error {
	t, err := newTraining(w)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Step(c.Context); err != nil { // touches the memory
		return err
	}
	for range c.Int("count") {
		s, err := spellOf(c.Context, c.Duration("time"), t.Step)
		if err != nil {
			return err
		}
		images := float64(s.steps * w.batch)
		fmt.Fprintf(c.App.Writer, "BenchmarkStep/%v \t%d\t%d ns/op\t%d cpu-ns/op\t%.1f images/s\t%.1f images/cpu-s\t%.1f plan-MB\n",
			w, s.steps, s.wall.Nanoseconds()/int64(s.steps), s.cpu.Nanoseconds()/int64(s.steps),
			images/s.wall.Seconds(), images/s.cpu.Seconds(), float64(t.program.Memory().Total())/1e6)
	}
	return nil
}
