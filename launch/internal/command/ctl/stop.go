package ctl

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// stopCommand is `launch ctl stop`.
func stopCommand() *cli.Command {
	return &cli.Command{
		Name:  "stop",
		Usage: "stop a running job with a checkpoint, so that it can be resumed",
		Description: `All workers write a checkpoint after the same step, and end; launch then ends with exit code 85:

   launch ctl stop

SIGUSR1 to launch does the same. The workers need a folder for checkpoints (examples/cifar10 --checkpoint-dir), and must train with
worker.Fit or do what kvstore.Stopper says; Python programs give paragon.torch.ElasticSampler, or paragon.elastic.batches, checkpoint=. If no checkpoint is complete within launch --checkpoint-timeout the job is stopped without
one, and launch ends with another code. Where the workers report that they have no folder for checkpoints the request is refused: all
training would be lost. --force stops the job all the same:

   launch ctl stop --force`,
		Flags:  jobFlags(&cli.BoolFlag{Name: "force", Usage: "stop the job also where its workers have no folder for checkpoints", DisableDefaultText: true}),
		Action: stopJob,
	}
}

// stopJob asks the job to stop. It does not wait: launch says how the job ended, and with which
// exit code.
func stopJob(c *cli.Context) error {
	if c.NArg() > 0 {
		return command.Usagef("ctl stop: got %q, want no argument; --job names a job", c.Args().Slice())
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}
	force := c.Bool("force")
	if _, err := k.ask(c.Context, control.Request{Op: control.OpCheckpointStop, Reason: "launch ctl stop", NeedsFolder: !force}, &control.Done{}); err != nil {
		return err
	}
	if force {
		fmt.Fprintf(c.App.Writer, "job %s was asked to stop, with a checkpoint if its workers have a folder for one; launch prints how it ended\n", k.Job)
		return nil
	}
	fmt.Fprintf(c.App.Writer, "job %s was asked to stop with a checkpoint; launch prints how it ended\n", k.Job)
	return nil
}
