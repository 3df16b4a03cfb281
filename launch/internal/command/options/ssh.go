package options

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/launch/internal/command"
)

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
