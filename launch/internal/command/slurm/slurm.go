package slurm

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
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
