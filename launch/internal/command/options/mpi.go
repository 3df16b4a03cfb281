package options

import (
	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// mpiFlag is the flag of --launcher mpi.
const mpiFlag = "mpirun"

// mpiFlags are the flags of --launcher mpi.
func mpiFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: mpiFlag, Usage: "Open MPI's mpirun, with its options for the hosts (`WORDS` as in a shell; --launcher mpi)", Value: "mpirun"},
	}
}

// readMPI reads the command that starts the agents, and refuses what is about other ways to the
// hosts.
func (s *Start) readMPI(c *cli.Context, _ request) error {
	s.Remote = true
	var err error
	switch s.Mpirun, err = ssh.SplitWords(c.String(mpiFlag)); {
	case err != nil || len(s.Mpirun) == 0:
		return command.Usagef("--mpirun %q is not a command: %v", c.String(mpiFlag), err)
	case s.hostfile != "":
		return command.Usagef("--launcher mpi runs on the hosts of mpirun; leave out -H %s, and give mpirun its own: --mpirun \"mpirun --hostfile FILE\"", s.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies over ssh; with mpirun start launch in a folder that all hosts share, and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; with mpirun the scheduler runs beside launch")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; mpirun has its own: --mpirun \"mpirun --mca plm_rsh_agent COMMAND\"")
	case c.IsSet("agents"):
		return command.Usagef("--agents is for --launcher agents; with mpirun there is one agent for each of its hosts")
	}
	return s.readListen(c)
}
