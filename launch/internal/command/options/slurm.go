package options

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// inSlurm reports whether the job runs on an allocation of Slurm where --launcher is not given. A
// launch that a process of another job starts runs on that process's host.
func inSlurm(*cli.Context) bool { return os.Getenv("PARAGON_JOB") == "" && slurm.Inside(os.LookupEnv) }

// readSlurm reads the allocation from Slurm's variables, and refuses what is about other hosts.
func (s *Start) readSlurm(c *cli.Context, r request) error {
	s.Remote = true
	var err error
	if s.Slurm, err = slurm.Read(r.lookup); err != nil {
		return command.Usage(fmt.Errorf("launch: --launcher slurm: %w", err))
	}
	switch tasks := s.Slurm.Tasks(); {
	case s.hostfile != "":
		return command.Usagef("--launcher slurm runs on the nodes of the allocation; leave out -H %s, or use --launcher ssh", s.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies over ssh; on Slurm start launch in a folder that all nodes share, and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; on Slurm the scheduler runs beside launch, on the first node of a batch job")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; on Slurm srun starts the agents")
	case c.IsSet("agents"):
		return command.Usagef("--agents is for --launcher agents; on Slurm there is one agent for each of the %d nodes", len(s.Slurm.Nodes))
	case tasks > 0 && r.workers > tasks:
		return command.Usagef("-n is %d, and the allocation of job %s has %d tasks; lower -n, or ask Slurm for more (--ntasks, --ntasks-per-node)", r.workers, s.Slurm.Job, tasks)
	}
	s.Hosts = s.Slurm.Hosts()
	return s.readListen(c)
}
