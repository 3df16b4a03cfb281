package options

import (
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// Start says how the processes of a job are started, and where.
type Start struct {
	// Method is the start method's name, one of the constants below. Its own flags are in the
	// fields that have its name.
	Method string

	// hostfile is the file of -H; empty: none.
	hostfile string

	// Agents is for start methods whose agents dial in and, with those that reach hosts themselves,
	// for launch ctl on other machines.
	Agents Agents

	// Source is a list of hosts that others keep.
	Source Source

	// SSH says how hosts are reached by ssh.
	SSH SSH

	// Slurm is the allocation that the job runs on.
	Slurm slurm.Allocation

	// Mpirun is the command that starts the agents, with its options.
	Mpirun []string

	// Remote says that processes run on other hosts than this machine.
	Remote bool

	// Hosts is nil if the hosts are known only when the job starts.
	Hosts []hosts.Host
}

// The names of the start methods, which are the values of --launcher.
const (
	SSHMethod    = "ssh"
	SlurmMethod  = "slurm"
	MPIMethod    = "mpi"
	AgentsMethod = "agents"
	LocalMethod  = "local"
)

// A request is what a start method needs to know of the flags that were read before its own.
type request struct {
	workers     int
	hostTimeout time.Duration

	// lookup finds the variables of Slurm.
	lookup func(string) (string, bool)
}

// Connections is how many hosts the launcher of so many workers connects to: none where all runs on
// this machine. Where the hosts are not known yet it is the number that they cannot exceed.
func (s *Start) Connections(workers int) int {
	switch {
	case !s.Remote:
		return 0
	case s.Hosts != nil:
		return len(s.Hosts)
	case s.Agents.Number > 0:
		return s.Agents.Number
	}
	return workers
}

// sshCommandGiven reports whether the command line has --ssh-command; its variable alone is no
// mistake with other start methods.
func sshCommandGiven(c *cli.Context) bool {
	return c.IsSet("ssh-command") && c.String("ssh-command") != os.Getenv(ssh.Variable)
}

// Agents has the flags about agents that dial in.
type Agents struct {
	// Number is 0 for as many as have slots for all workers.
	Number int

	// Listen is host:port; empty: the start method decides.
	Listen string

	// SecretFile is empty if the secret is in the environment.
	SecretFile string

	// AddressFile gets the addresses of Listen while launch runs; empty: none.
	AddressFile string
}

// SSH has the flags of --launcher ssh besides the hosts.
type SSH struct {
	// Command is the ssh client with its options.
	Command []string

	// SyncDir is the folder on each host that gets a copy of the current one; empty: none. Paths
	// of SyncExclude are left out.
	SyncDir     string
	SyncExclude []string
}

// Source has the flags about a list of hosts that others keep.
type Source struct {
	// Flag is HostsCommandFlag or HostsURLFlag; empty: there is no such list.
	Flag string

	// Value is that of the flag.
	Value string

	// Interval is the time between two questions.
	Interval time.Duration

	// Force says that hosts are removed even if an answer names fewer than half of them.
	Force bool
}
