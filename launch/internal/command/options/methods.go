package options

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// A startMethod is a value of --launcher. How it starts a job is in package start, under its name.
type startMethod struct {
	name string

	// fits reports whether it is the one where --launcher is not given.
	fits func(c *cli.Context) bool

	// read reads its flags, and the hosts where they are known before the job starts.
	read func(s *Start, c *cli.Context, r request) error
}

// methods are the values of --launcher. The first one that fits is the default, so local, which
// always fits, is the last.
var methods = []startMethod{
	{SSHMethod, func(c *cli.Context) bool { return c.Path("hostfile") != "" || hasSource(c) }, (*Start).readSSH},
	{SlurmMethod, inSlurm, (*Start).readSlurm},
	{MPIMethod, never, (*Start).readMPI},
	{AgentsMethod, never, (*Start).readAgents},
	{LocalMethod, func(*cli.Context) bool { return true }, (*Start).readLocal},
}

// never fits methods that only --launcher chooses.
func never(*cli.Context) bool { return false }

// methodNames are the names for messages.
func methodNames() string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.name
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// methodOf is the start method that the flags ask for; false: there is none of that name.
func methodOf(c *cli.Context) (startMethod, bool) {
	name := c.String("launcher")
	for _, m := range methods {
		if m.name == name || name == "" && m.fits(c) {
			return m, true
		}
	}
	return startMethod{}, false
}

// read finds the start method and reads its flags. Each method refuses the flags of the others:
// what it would ignore, the user has meant.
func (s *Start) read(c *cli.Context, r request) error {
	m, ok := methodOf(c)
	if !ok {
		return command.Usagef("--launcher %q is unknown; want %s", c.String("launcher"), methodNames())
	}
	if c.IsSet(mpiFlag) && m.name != MPIMethod {
		return command.Usagef("--%s is for --launcher mpi; give that, too", mpiFlag)
	}
	s.Method, s.hostfile = m.name, c.Path("hostfile")
	s.SSH = SSH{SyncDir: c.String("sync-dst-dir"), SyncExclude: c.StringSlice("sync-exclude")}
	return m.read(s, c, r)
}

// readLocal refuses what is about other hosts.
func (s *Start) readLocal(c *cli.Context, _ request) error {
	if s.hostfile != "" {
		return command.Usagef("--launcher local runs everything on this machine; leave out -H %s, or use --launcher ssh", s.hostfile)
	}
	for _, name := range []string{"sync-dst-dir", "sync-exclude", "scheduler-host"} {
		if c.IsSet(name) {
			return command.Usagef("--%s is for jobs on several hosts; give them with -H FILE", name)
		}
	}
	s.Hosts = []hosts.Host{hosts.Local}
	return s.readControl(c)
}
