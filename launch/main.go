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
// server or a scheduler, as DMLC_ROLE says, `launch slot` runs a worker of an elastic trial
// (package tune/slot).
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/data"
	"github.com/paragon-train/paragon/launch/internal/command/image"
	"github.com/paragon-train/paragon/launch/internal/command/role"
	"github.com/paragon-train/paragon/launch/internal/command/tune"
	"github.com/paragon-train/paragon/version"
)

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	out := command.NewOutput(stdout, stderr)
	return out.Code(runCommand(args, out, stderr))
}

func runCommand(args []string, stdout, stderr io.Writer) int {
	level, _, err := joblog.Level(os.Getenv)
	if err != nil {
		fmt.Fprintf(stderr, "launch: %v\n", err)
		return command.ExitUsage
	}
	log := slog.New(logline.New(stderr, level, joblog.IsEvent))
	if len(args) > 1 && (args[1] == "role" || args[1] == "slot") { // a process of the job
		format, err := joblog.FormatFromEnv(os.Getenv)
		if err != nil {
			fmt.Fprintf(stderr, "launch: %v\n", err)
			return command.ExitUsage
		}
		if format == joblog.JSON {
			log = joblog.New(stderr, level, joblog.FromEnv(os.Getenv))
		}
	}
	slog.SetDefault(log)
	if len(args) > 1 {
		switch args[1] {
		case "agent":
			return runAgent(args[2:], stdout, stderr, log)
		case "role":
			return role.Run(log)
		case "ctl":
			return runCtl(args[2:], stdout, stderr)
		case "data":
			return data.Run(args[2:], stdout, stderr)
		case "image":
			return image.Run(args[2:], stdout, stderr)
		case "k8s":
			return runK8s(args[2:], stdout, stderr)
		case "top":
			return runTop(args[2:], stdout, stderr)
		case "slurm":
			return runSlurm(args[2:], stdout, stderr)
		case "carry":
			return role.RunCarry(args[2:], stdout, stderr, log)
		case "slot":
			return role.RunSlot(args[2:], log)
		case "tune":
			return tune.Run(args[2:], stdout, stderr)
		}
	}
	app := newApp(stdout, stderr)
	return command.ExitCode(app.Run(joinBool(app, args)), app.Name, stderr)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:                      "launch",
		Usage:                     "start a training job on this machine or on a list of hosts",
		Version:                   version.Text(),
		UsageText:                 usageText,
		Description:               description,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // values of --env may hold commas
		Writer:                    stdout,
		ErrWriter:                 stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // run decides
		Flags:                     flags(),
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return command.Usage(explainFlag(c.App, err))
		},
		Action: func(c *cli.Context) error {
			o, err := readOptions(c)
			if err != nil {
				return err
			}
			if err := machineLimits().check(o.workers, o.servers, o.connections(), o.schedulerHost == nil); err != nil {
				return err
			}
			return o.runLogged(c.Context, stdout, stderr)
		},
	}
}
