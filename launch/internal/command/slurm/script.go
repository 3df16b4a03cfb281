package slurm

import (
	"io"
	"path/filepath"
	"regexp"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

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

// notInName matches what the name of a job does not hold.
var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
