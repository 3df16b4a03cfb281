package slurm

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/flagerr"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// slurmDescription is what launch slurm --help says.
const slurmDescription = `Inside a Slurm allocation launch uses the allocation's nodes:

   salloc --nodes=4 launch -s 2 -- ./cifar10                       a worker for each task
   launch slurm script --nodes 4 --time 8:00:00 -s 2 -- ./cifar10 --checkpoint-dir ckpt > job.sh
   sbatch job.sh                                                    is requeued at its time limit, and resumes
   launch slurm join 1234 --nodes 2 | sbatch                        two more nodes for the running job 1234, if it is elastic

See docs/how-to/slurm.md.`

// Run is `launch slurm`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:        "launch slurm",
		Usage:       "write batch scripts for Slurm",
		Description: slurmDescription,
		Commands: []*cli.Command{
			{
				Name:      "script",
				Usage:     "print a batch script for sbatch that runs launch with the given flags",
				UsageText: "launch slurm script --nodes NUMBER [flags below] [flags of launch] -- COMMAND [arguments]",
				Flags:     append(sbatchFlags(), scriptFlags()...),

				// launch's flags stand between the command's own.
				SkipFlagParsing: true,
				Action:          func(c *cli.Context) error { return printScript(c, c.Args().Slice(), stdout, stderr) },
			},
			{
				Name:      "join",
				Usage:     "print a batch script for sbatch whose nodes join a running elastic job",
				UsageText: "launch slurm join JOBID [flags]",
				Flags:     sbatchFlags(),
				// The flags may stand behind the job's ID.
				SkipFlagParsing: true,
				Action:          func(c *cli.Context) error { return printJoin(c, c.Args().Slice(), stdout, stderr) },
			},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return command.UnknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}

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

// readSbatch reads what a script asks Slurm for.
func readSbatch(c *cli.Context, name string) (slurm.ScriptConfig, error) {
	exe, err := os.Executable()
	if err != nil {
		return slurm.ScriptConfig{}, fmt.Errorf("launch: find own program: %w", err)
	}
	cfg := slurm.ScriptConfig{
		Name: c.String("job-name"), Nodes: c.Int("nodes"), TasksPerNode: c.Int("ntasks-per-node"), CPUsPerTask: c.Int("cpus-per-task"), GPUsPerNode: c.Int("gpus-per-node"),
		Memory: c.String("mem"), Partition: c.String("partition"), Account: c.String("account"), QOS: c.String("qos"), Constraint: c.String("constraint"),
		Log: c.String("log"), More: c.StringSlice("sbatch"), Launch: exe, Notice: c.Duration("notice"),
	}
	if cfg.Name == "" {
		cfg.Name = name
	}
	if !c.IsSet("nodes") {
		return cfg, command.Usagef("slurm: the number of nodes is missing; give --nodes NUMBER")
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"nodes", cfg.Nodes}, {"ntasks-per-node", cfg.TasksPerNode}, {"cpus-per-task", cfg.CPUsPerTask}, {"gpus-per-node", cfg.GPUsPerNode}} {
		if c.IsSet(n.name) && (n.value < 1 || n.value > 65_536) {
			return cfg, command.Usagef("slurm: --%s is %d, want 1 to 65536", n.name, n.value)
		}
	}
	if c.IsSet("time") {
		if cfg.Time, err = slurm.Limit(c.String("time")); err != nil {
			return cfg, command.Usagef("slurm: --time %v", err)
		}
	}
	return cfg, nil
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

// printScript is `launch slurm script`. The command's own flags and those of launch may stand in
// any order before the workers' command, so they are taken apart first, and each part is read by an
// app of its own.
func printScript(c *cli.Context, args []string, stdout, stderr io.Writer) error {
	mine, rest := ownFlags(c.Command.Flags, options.Flags(), args)
	if wantsHelp(mine) || wantsHelp(rest) {
		return cli.ShowSubcommandHelp(c)
	}
	app := options.NewApp(stdout, stderr)
	return parseOwn(c, mine, func(own *cli.Context) error {
		var cfg slurm.ScriptConfig
		app.Action = func(c *cli.Context) (err error) {
			cfg, err = readScript(own, c, rest)
			return err
		}
		if err := app.Run(options.JoinBool(app, append([]string{"launch", "--launcher", options.SlurmMethod}, rest...))); err != nil {
			return err
		}
		warnProcessors(stderr, "script", cfg)
		text, err := slurm.Script(cfg)
		if err != nil {
			return command.Usagef("slurm script: %v", err)
		}
		_, err = io.WriteString(stdout, text)
		return err
	})
}

// readScript reads the flags of a script, own, and those of the launch that it runs, c, whose
// arguments are rest.
func readScript(own, c *cli.Context, rest []string) (slurm.ScriptConfig, error) {
	// The job has the name of its program, if that is more than a shell.
	name := "launch"
	if words := options.WorkerCommand(c.Args().Slice()); len(words) > 0 && words[0] != "/bin/sh" {
		name = notInName.ReplaceAllString(filepath.Base(words[0]), "_")
	}
	cfg, err := readSbatch(own, name)
	if err != nil {
		return cfg, err
	}

	// The tasks of the allocation are the slots of the job, so there have to be as many as
	// workers.
	if cfg.TasksPerNode == 0 {
		cfg.TasksPerNode = 1
		if n := c.Int("num-workers"); n > 0 {
			cfg.TasksPerNode = (n + cfg.Nodes - 1) / cfg.Nodes
		}
	}
	if cfg.Notice < time.Second || cfg.Notice > 18*time.Hour {
		return cfg, command.Usagef("slurm script: --notice is %s, want 1s to 18h", cfg.Notice)
	}
	// Slurm signals up to a minute early.
	if limit, ok := slurm.LimitTime(cfg.Time); ok && cfg.Time != "" && limit <= cfg.Notice+time.Minute {
		return cfg, command.Usagef("slurm script: --time %s and --notice %s: want more than %s of time, since the job stops with a checkpoint %s to %s before its limit",
			own.String("time"), cfg.Notice, cfg.Notice+time.Minute, cfg.Notice, cfg.Notice+time.Minute)
	}
	// The flags are read as the script's launch will read them.
	if _, err := options.ReadFor(c, slurm.Example(cfg.Nodes, cfg.TasksPerNode)); err != nil {
		return cfg, err
	}

	// What package cli has left over are the command's words, the last ones.
	cfg.Flags = rest[:len(rest)-c.NArg()]
	if last := len(cfg.Flags) - 1; last >= 0 && cfg.Flags[last] == "--" {
		cfg.Flags = cfg.Flags[:last]
	}
	cfg.Command = c.Args().Slice()
	return cfg, nil
}

// namesProcessors are options of sbatch that say how many processors a worker has.
var namesProcessors = regexp.MustCompile(`^(--exclusive|--cpus-per-(task|gpu)|-c)`)

// warnProcessors warns of a script that does not say how many processors a worker has: on many
// clusters it then gets one.
func warnProcessors(stderr io.Writer, command string, cfg slurm.ScriptConfig) {
	if cfg.CPUsPerTask > 0 || slices.ContainsFunc(cfg.More, namesProcessors.MatchString) {
		return
	}
	fmt.Fprintf(stderr, "launch: slurm %s: without --cpus-per-task a worker gets one processor on many clusters; give --cpus-per-task NUMBER, or --sbatch --exclusive for whole nodes\n", command)
}

// notInName matches what the name of a job does not hold.
var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// jobID matches the number of a job. It becomes the name of a folder.
var jobID = regexp.MustCompile(`^[1-9][0-9]{0,9}$`)

// printJoin is `launch slurm join`. The script's nodes find the job by the files in its folder,
// which its launch has written (slurm.JoinFiles), whenever Slurm starts them.
func printJoin(c *cli.Context, args []string, stdout, stderr io.Writer) error {
	if wantsHelp(args) {
		return cli.ShowSubcommandHelp(c)
	}
	id := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		id, args = args[0], args[1:]
	}
	return parseOwn(c, args, func(own *cli.Context) error {
		// The job's number may stand before the flags or behind them.
		left := own.Args().Slice()
		if id == "" && len(left) > 0 {
			id, left = left[0], left[1:]
		}
		switch {
		case len(left) > 0:
			return command.Usagef("slurm join: got argument %q, want one job and flags", left[0])
		case !jobID.MatchString(id):
			return command.Usagef("slurm join: got the job %q, want its number; squeue --me shows it", id)
		}
		cfg, err := readSbatch(own, "join-"+id)
		if err != nil {
			return err
		}
		if cfg.TasksPerNode == 0 {
			cfg.TasksPerNode = 1
		}
		folder, err := slurm.JoinFolder(id)
		if err != nil {
			return err
		}
		warnProcessors(stderr, "join", cfg)
		text, err := slurm.Join(slurm.JoinConfig{ScriptConfig: cfg, Folder: folder})
		if err != nil {
			return command.Usagef("slurm join: %v", err)
		}
		_, err = io.WriteString(stdout, text)
		return err
	})
}
