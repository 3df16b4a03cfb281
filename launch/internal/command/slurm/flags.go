package slurm

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/flagerr"
)

// sbatchFlags are what a script asks Slurm for.
func sbatchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "nodes", Usage: "`NUMBER` of nodes", DefaultText: "must be given"},
		&cli.IntFlag{Name: "ntasks-per-node", Usage: "`NUMBER` of workers that may run on each node", DefaultText: "as -n asks for, else 1"},
		&cli.IntFlag{Name: "cpus-per-task", Usage: "`NUMBER` of processors for each worker", DefaultText: "as the cluster decides, often 1"},
		&cli.IntFlag{Name: "gpus-per-node", Usage: "`NUMBER` of GPUs of each node", DefaultText: "none"},
		&cli.StringFlag{Name: "mem", Usage: "memory of each node: `SIZE` such as 16G", DefaultText: "as the cluster decides"},
		&cli.StringFlag{Name: "time", Usage: "time limit: `TIME` such as 8:00:00, 2-12:00 (days-hours:minutes) or 90m", DefaultText: "the partition's"},
		&cli.StringFlag{Name: "partition", Usage: "`NAME` of the partition", DefaultText: "the cluster's default"},
		&cli.StringFlag{Name: "account", Usage: "`NAME` of the account to charge", DefaultText: "yours"},
		&cli.StringFlag{Name: "qos", Usage: "`NAME` of the quality of service"},
		&cli.StringFlag{Name: "constraint", Usage: "`FEATURES` that the nodes must have"},
		&cli.StringFlag{Name: "job-name", Usage: "`NAME` of the job", DefaultText: "the command's"},
		&cli.StringFlag{Name: "log", Usage: "`FILE` for what the job prints; %j is its ID, %x its name", Value: "%x-%j.out"},
		&cli.StringSliceFlag{Name: "sbatch", Usage: "a further `OPTION` of sbatch, such as --exclusive; repeatable"},
	}
}

// scriptFlags are the flags of a script for a job, besides those of sbatch.
func scriptFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "notice", Usage: "`TIME` before the time limit at which the job writes a checkpoint and is requeued", Value: 2 * time.Minute},
	}
}

// ownFlags takes the flags of an app out of arguments, up to the command or to all of them. The
// rest are the flags of launch.
func ownFlags(own, others []cli.Flag, args []string) (mine, rest []string) {
	value := func(flags []cli.Flag, name string) (takes, known bool) {
		for _, f := range flags {
			for _, n := range f.Names() {
				if n == name {
					_, isBool := f.(*cli.BoolFlag)
					return !isBool, true
				}
			}
		}
		return false, false
	}
	for i := 0; i < len(args); i++ {
		name, _, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if args[i] == "--" || !strings.HasPrefix(args[i], "-") {
			return mine, append(rest, args[i:]...)
		}

		// A flag that neither knows goes to launch, whose error names its own flags.
		to := &mine
		takes, known := value(own, name)
		if !known {
			to = &rest
			takes, _ = value(others, name)
		}
		*to = append(*to, args[i])
		if takes && !given && i+1 < len(args) {
			i++
			*to = append(*to, args[i])
		}
	}
	return mine, rest
}

// parseOwn reads flags of a command of launch slurm, and calls action.
func parseOwn(c *cli.Context, args []string, action cli.ActionFunc) error {
	app := &cli.App{
		Name: c.App.Name + " " + c.Command.Name, HideHelp: true, HideHelpCommand: true, Flags: c.Command.Flags, Action: action,
		DisableSliceFlagSeparator: true, Writer: c.App.Writer, ErrWriter: c.App.ErrWriter, ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return command.Usage(fmt.Errorf("%s %s: %w", c.App.Name, c.Command.Name, flagerr.Explain(c.Command.VisibleFlags(), err)))
		},
	}
	return app.Run(append([]string{app.Name}, args...))
}

// wantsHelp reports whether the flags before the command ask for help.
func wantsHelp(args []string) bool {
	for _, a := range args {
		switch {
		case a == "--help" || a == "-h":
			return true
		case a == "--":
			return false
		}
	}
	return false
}
