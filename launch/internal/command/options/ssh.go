package options

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// SSH are the flags of --launcher ssh besides the hosts.
type SSH struct {
	Command []string

	// SyncDir is the folder on each host that gets a copy of the current one; empty: none. Paths
	// of syncExclude are left out.
	SyncDir     string
	SyncExclude []string
}

// readSSH reads the hosts, unless others keep their list, and how they are reached.
func (s *Start) readSSH(c *cli.Context, _ request) error {
	if s.hostfile == "" && !hasSource(c) {
		return command.Usagef("--launcher ssh needs the hosts: give them with -H FILE, or --%s", HostsCommandFlag)
	}
	s.Remote = true
	var err error
	if s.hostfile != "" {
		if s.Hosts, err = hosts.Read(s.hostfile); err != nil {
			return command.Usage(fmt.Errorf("launch: %w", err))
		}
	}
	if s.SSH.Command, err = ssh.SplitWords(c.String("ssh-command")); err != nil || len(s.SSH.Command) == 0 {
		return command.Usagef("--ssh-command %q is not a command: %v", c.String("ssh-command"), err)
	}
	if s.SSH.SyncDir == "" && len(s.SSH.SyncExclude) > 0 {
		return command.Usagef("--sync-exclude is about the copy of --sync-dst-dir; give that, too")
	}
	if s.SSH.SyncDir != "" {
		s.SSH.SyncDir = ssh.Folder(s.SSH.SyncDir)
	}
	return s.readControl(c)
}

// sshCommandGiven reports whether the command line has --ssh-command; its variable alone is no
// mistake with other start methods.
func sshCommandGiven(c *cli.Context) bool {
	return c.IsSet("ssh-command") && c.String("ssh-command") != os.Getenv(ssh.Variable)
}
