package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/record"
)

func stopCommand() *cli.Command {
	return &cli.Command{
		Name:  "stop",
		Usage: "stop a running job with a checkpoint, so that it can be resumed",
		Description: `All workers write a checkpoint after the same step, and end; launch then ends with exit code 85:

   launch ctl stop

SIGUSR1 to launch does the same. The workers need a folder for checkpoints (examples/cifar10 --checkpoint-dir), and must train with
worker.Fit or do what kvstore.Stopper says. If no checkpoint is complete within launch --checkpoint-timeout the job is stopped without
one, and launch ends with another code.`,
		Flags:  jobFlags(),
		Action: stopJob,
	}
}

func stopJob(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("ctl stop: got %q, want no argument; --job names a job", c.Args().Slice())
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}
	if _, err := k.ask(c.Context, control.Request{Op: control.OpCheckpointStop, Reason: "launch ctl stop"}, &control.Done{}); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "job %s was asked to stop with a checkpoint; launch prints how it ended\n", k.Job)
	return nil
}
