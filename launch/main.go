// Command launch starts a training job: a scheduler, servers and workers, on this machine or on a
// list of hosts.
//
//	launch -n 2 -s 2 -- go run ./examples/cifar10
//	launch -n 4 -s 2 -H hosts --sync-dst-dir /home/me/job ./cifar10 --epochs 5
//	launch -n 4 -s 2 --launcher agents --agents 4 --secret-file secret ./cifar10 --epochs 5
//
// The workers run the command; servers and scheduler are this program in another role. launch
// merges the output of all, ends with the exit code of the first process that fails, and leaves no
// process behind, however it ends.
//
// `launch ctl` shows and changes a running job, and shows how keys would be placed on servers.
// `launch top` watches one. `launch tune` searches the hyper-parameters of a command; each trial is
// a process or a job of its own. `launch image` makes a container image of a worker's program,
// `launch k8s` the manifests of a job for Kubernetes, `launch slurm` batch scripts. `launch data`
// packs, checks and shows data sets of images. Three subcommands are for launch's own use: `launch
// agent` supervises the processes of one host (package internal/hosts/agent), `launch role` is a
// server or a scheduler, as DMLC_ROLE says, or with `bridge` behind it a Python process's part in a
// job, and `launch slot` runs a worker of an elastic trial (package tune/slot).
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/command/ctl"
	"github.com/paragon-train/paragon/launch/internal/command/data"
	"github.com/paragon-train/paragon/launch/internal/command/image"
	"github.com/paragon-train/paragon/launch/internal/command/k8s"
	"github.com/paragon-train/paragon/launch/internal/command/role"
	"github.com/paragon-train/paragon/launch/internal/command/run"
	"github.com/paragon-train/paragon/launch/internal/command/slurm"
	"github.com/paragon-train/paragon/launch/internal/command/tune"
)

func main() { os.Exit(launch(os.Args, os.Stdout, os.Stderr)) }

// launch runs a command line and returns the exit code. It is main, but for the end of the process.
func launch(args []string, stdout, stderr io.Writer) int {
	level, _, err := joblog.Level(os.Getenv)
	if err != nil {
		fmt.Fprintf(stderr, "launch: %v\n", err)
		return command.ExitUsage
	}
	log, err := newLog(args, level, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "launch: %v\n", err)
		return command.ExitUsage
	}
	slog.SetDefault(log)
	out := command.NewOutput(stdout, stderr)
	if len(args) > 1 {
		if run := subcommands[args[1]]; run != nil {
			return out.Code(run(args[2:], out, stderr, log))
		}
	}
	return out.Code(run.Run(args, out, stderr))
}

// newLog makes the log of a command, before its flags have been read: text, except in processes of
// a job, whose launcher has chosen the form for all of them.
func newLog(args []string, level slog.Level, stderr io.Writer) (*slog.Logger, error) {
	if len(args) > 1 && (args[1] == "role" || args[1] == "slot") {
		format, err := joblog.FormatFromEnv(os.Getenv)
		if err != nil {
			return nil, err
		}
		if format == joblog.JSON {
			return joblog.New(stderr, level, joblog.FromEnv(os.Getenv)), nil
		}
	}
	return slog.New(logline.New(stderr, level, joblog.IsEvent)), nil
}

// A subcommand runs with the arguments behind its name, and returns the exit code.
type subcommand func(args []string, stdout, stderr io.Writer, log *slog.Logger) int

// subcommands are the words that are no command of a job's workers when they stand right behind
// launch. A program of such a name runs as ./NAME or behind "--".
var subcommands = map[string]subcommand{
	"agent": agent.Run,
	"carry": role.RunCarry,
	"ctl":   withoutLog(ctl.Run),
	"data":  withoutLog(data.Run),
	"image": withoutLog(image.Run),
	"k8s":   withoutLog(k8s.Run),
	"role":  func(args []string, _, _ io.Writer, log *slog.Logger) int { return role.Run(args, log) },
	"slot":  func(args []string, _, _ io.Writer, log *slog.Logger) int { return role.RunSlot(args, log) },
	"slurm": withoutLog(slurm.Run),
	"top":   withoutLog(ctl.RunTop),
	"tune":  withoutLog(tune.Run),
}

// withoutLog makes a subcommand of one that writes no log, or makes its own.
func withoutLog(run func(args []string, stdout, stderr io.Writer) int) subcommand {
	return func(args []string, stdout, stderr io.Writer, _ *slog.Logger) int { return run(args, stdout, stderr) }
}
