package options

import (
	"net"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// maxLease bounds how long a host may be silent that has dialled in.
const maxLease = time.Hour

// maxAgents is the most agents of a job, each of which has a worker or a server.
const maxAgents = hosts.MaxSlots

// agentFlags are the flags of --launcher agents.
func agentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "agents", Usage: "wait for `NUMBER` agents before the job starts (--launcher agents)", DefaultText: "until they have slots for all workers"},
		&cli.StringFlag{Name: "listen", Usage: "wait for agents, and for launch ctl on other machines, on `ADDRESS` (host:port; port 0: a free one)", DefaultText: "a free port of all addresses with --launcher agents, else not"},
		&cli.PathFlag{Name: "secret-file", Usage: "secret `FILE` that launch shares with its agents and launch ctl; created if missing", TakesFile: true},
		&cli.PathFlag{Name: "address-file", Usage: "write the addresses of --listen to `FILE`, for --join @FILE of launch agent and launch ctl", TakesFile: true},
	}
}

// readAgents refuses what is about other ways to the hosts, and reads how many agents there are.
func (s *Start) readAgents(c *cli.Context, r request) error {
	s.Remote = true
	if err := s.readListen(c); err != nil {
		return err
	}
	switch {
	case s.hostfile != "":
		return command.Usagef("--launcher agents has no hosts file: the hosts are those whose agents dial in; leave out -H %s, or use --launcher ssh", s.hostfile)
	case c.IsSet("sync-dst-dir"):
		return command.Usagef("--sync-dst-dir copies by rsync over ssh, and agents have no ssh; put the folder on every host (a shared file system, an image, rsync by hand) and leave it out")
	case c.IsSet("scheduler-host"):
		return command.Usagef("--scheduler-host is for --launcher ssh; with agents the scheduler runs beside launch: start launch on the host where it should run")
	case sshCommandGiven(c):
		return command.Usagef("--ssh-command is for --launcher ssh; agents dial in without ssh")
	case r.hostTimeout > maxLease:
		return command.Usagef("--host-timeout is %s, want at most %s with agents", r.hostTimeout, maxLease)
	case s.Agents.SecretFile == "" && os.Getenv(dialin.SecretVariable) == "":
		return command.Usagef("--launcher agents needs the secret that launch and its agents share: give --secret-file FILE (it is created if missing)")
	}
	if s.Agents.Number = c.Int("agents"); c.IsSet("agents") {
		return command.CheckNumber("--agents", s.Agents.Number, 1, maxAgents, "")
	}
	return nil
}

// readListen reads where launch listens, and which secret those share who may come.
func (s *Start) readListen(c *cli.Context) error {
	s.Agents = Agents{Listen: c.String("listen"), SecretFile: c.Path("secret-file"), AddressFile: c.Path("address-file")}
	for _, name := range []string{"secret-file", "address-file"} {
		if c.IsSet(name) && c.Path(name) == "" {
			return command.Usagef("--%s is empty; give a file", name)
		}
	}
	if c.IsSet("listen") {
		if _, port, err := net.SplitHostPort(s.Agents.Listen); err != nil || port == "" {
			return command.Usagef("--listen %q: want host:port, such as :4000, or 10.0.0.5:0 for a free port", s.Agents.Listen)
		}
	}
	return nil
}

// readControl reads the flags about launch ctl on other machines, of jobs without agents that dial
// in.
func (s *Start) readControl(c *cli.Context) error {
	if c.IsSet("agents") {
		return command.Usagef("--agents is about agents that dial in; give --launcher agents, too")
	}
	if !c.IsSet("listen") {
		for _, name := range []string{"secret-file", "address-file"} {
			if c.IsSet(name) {
				return command.Usagef("--%s belongs to --listen ADDRESS, for launch ctl on other machines, or to --launcher agents", name)
			}
		}
		return nil
	}
	if err := s.readListen(c); err != nil {
		return err
	}
	if s.Agents.SecretFile == "" && os.Getenv(dialin.SecretVariable) == "" {
		return command.Usagef("--listen needs a secret, which launch ctl on other machines must have, too: give --secret-file FILE (it is created if missing)")
	}
	return nil
}
