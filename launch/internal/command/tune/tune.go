package tune

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// Description is what launch tune --help says. A test runs the study in it.
const Description = `Searches the parameters of a command: it runs the command many times with different flags, stops bad trials early,
and reports which parameters were best and why. A file describes the search:

  study.yaml
    name: mnist
    metric: accuracy                  # the command prints lines like: accuracy=0.91 step=3
    mode: max
    command: ./mnist --data data/mnist --epochs 9 --out out/{trial} --optimizer {optimizer} --learning-rate {lr}
    space:
      optimizer: [sgd, adam]
      lr: {real: [1e-4, 1e-1], log: true}
    samples: 20
    suggester: tpe                    # auto (if none is named), random, sobol, tpe, gp, cmaes, external; for several objectives nsga2, motpe
    scheduler:
      asha: {max_step: 9, guard: true}
    resources: {slots: 2, servers: 1} # each trial is a job of two workers and a server

This command is examples/mnist: go build ./examples/mnist && ./mnist --download --data data/mnist

{lr} stands for the parameter; {trial} and {seed} for the trial's number and seed. {checkpoint} is a folder for a command that can go on: it
continues from the files there, if any, and saves its state there before it prints a line (each file under another name that it renames).
With hosts it is a temporary folder there, whose files are copied from and to this machine; the workers of a trial on a host share it. On other hosts than that of rank 0 they write files of their own names.
Without it a trial that is paused, promoted (promotion, hyperband), tried again, or takes over another's state (pbt) begins anew.

Without scheduler: a trial is stopped when it will hardly end among the best (predict), going by the values of earlier trials at the same
steps; with scheduler: fifo all trials train to their end.

With objectives: {accuracy: max, latency: min} in place of metric and mode it looks for the best trade-offs, and
with constraints: [memory <= 8] for trials that keep the bounds.

With fidelity: {parameter: width, low: 16, high: 128} beside space: trials are tried cheaply first, here with a narrow model: {width} is 16, and
48 and 128 (eta: 3) in further runs of those that the scheduler lets go on: promotion (if none is named), asha, hyperband, predict or median.
Only results at 128 count. A share of the data, {parameter: share, low: 0.1, high: 1}, or the size of images does as well.

With scheduler: goodput (or {goodput: {min_replicas: 1, max_replicas: 8, inner: {asha: {max_step: 27}}}}) each trial is an elastic job, whose
workers come and go while it trains: the slots of all hosts are divided among the trials by the goodput that each job predicts.

Examples:

  show the first trials without running them
    launch tune --dry-run study.yaml

  search; Ctrl-C stops it cleanly, and --resume continues, also after a crash (SIGUSR1 does, too, with exit code 85)
    launch tune study.yaml
    launch tune --resume study.yaml

  show the results, why trial 7 was stopped, and whether the log agrees with the rules
    launch tune show runs/mnist
    launch tune why runs/mnist 7
    launch tune replay runs/mnist/log.jsonl

  move a study's trials to Optuna, and from there (docs/how-to/optuna.md)
    launch tune export --optuna study.json runs/mnist
    launch tune import --optuna study.json study.yaml

Each trial has a folder for its logs, such as runs/mnist/trials/trial-000007. Tables and pictures are in runs/mnist:
trials.csv, curves.png and report.html.

With hosts: FILE trials run on hosts over ssh. The file is that of launch -H: host[:port] [slots=N] [gpus=N] [cpus=N]
on each line, and is read once, when the search starts. slots= is how many workers of trials run on the host at a time
(default: as many as processors and GPUs allow), gpus= and cpus= how many of its GPUs and processors trials may use. A host
that fails a trial or cannot be reached is set aside, and taken back when it answers. If no host is left the search waits
for host_timeout (10m). While the search runs hosts are shown, added and removed by commands:

    launch tune hosts runs/mnist
    launch tune add runs/mnist d3 slots=4
    launch tune remove runs/mnist d3

folder: DIR copies the current folder to the hosts for each trial, without the folders of searches. Checkpoints are copied
to the search and to the host where a trial continues, unless its hosts share the search's files; max_copied: bounds the
bytes of one.

In a Slurm allocation each trial runs in its own step on one of the nodes (docs/how-to/slurm.md).`

// Run is `launch tune`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:        "launch tune",
		Usage:       "search hyper-parameters of a command",
		UsageText:   "launch tune [flags] STUDY.YAML\nlaunch tune show|why|replay|export|import|hosts|add|remove ...",
		Description: Description,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "resume", Usage: "resume the search in the study's folder, if there is one", DisableDefaultText: true},
			&cli.StringFlag{Name: "failed", Usage: "with --resume: what to do with failed trials: keep, resume (from their checkpoints) or restart", Value: "keep"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the first trials, and exit", DisableDefaultText: true},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also show the output of the trials", DisableDefaultText: true},
			&cli.StringFlag{Name: "dir", Usage: "the study's `FOLDER`", DefaultText: "from the file, or runs/NAME"},
			command.NewLogFormatFlag(),
			&cli.StringFlag{Name: "deadline", Usage: "the `TIME` by which the best has to be known: 18:00, 2026-11-29T18:00, or 2h after the search began", DefaultText: "from the file, or none"},
			&cli.IntFlag{Name: "parallel", Usage: "how many trials run at once", DefaultText: "from the file, or as many as fit"},
			&cli.StringFlag{Name: command.PageFlag, Usage: "serve the search's live page for browsers at a loopback `ADDRESS` (host:port; port 0: a free one), or off; the log has the link", Value: "127.0.0.1:0"},
		},
		Commands: []*cli.Command{showCommand(stdout), whyCommand(stdout), replayCommand(stdout), exportCommand(stdout), importCommand(stdout), hostsCommand(stdout), addCommand(stdout), removeCommand(stdout)},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune: got %d arguments, want the file of the study: launch tune study.yaml (flags come before it)", c.NArg())
			}
			return searchCommand(c, stdout, stderr)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}
