package slurm

import (
	"io"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

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
