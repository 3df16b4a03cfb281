package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
	"github.com/urfave/cli/v2"
)

// train is a worker of a job, for what more workers bring:
//
//	launch -n 2 -s 2 -- cpu train --threads 1 --steps 20
func trainCommand() *cli.Command {
	return &cli.Command{
		Name:   "train",
		Usage:  "time steps as a worker of a job",
		Flags:  append(workFlags(), &cli.IntFlag{Name: "steps", Value: 10}),
		Action: train,
	}
}

// train is one worker of a job, for bench/peers. All workers begin the measured steps together, and
// the time ends with the last value.
func train(c *cli.Context) (err error) {
	ctx, w := c.Context, workOf(c)
	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := w.compile()
	if err != nil {
		return err
	}
	defer p.Close()
	t, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{p}, Optimizer: models[w.model].rule})
	if err != nil {
		return err
	}
	defer t.Close()
	step := func(ctx context.Context) error { return t.Step(ctx, []int{w.batch}) }
	for range 2 {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(t.Sync(ctx), store.Barrier(ctx)); err != nil {
		return err
	}
	cpu, start := cpuTime(), time.Now()
	for range c.Int("steps") {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := t.Sync(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "spell %d %g %g\n", c.Int("steps"), time.Since(start).Seconds(), (cpuTime() - cpu).Seconds())
	return nil
}
