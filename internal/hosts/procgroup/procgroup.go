// Package procgroup starts commands in process groups of their own, so that a terminal's Ctrl-C is
// not for them, and kills them with what they have started.
//
//	group, err := procgroup.Start(exec.Command("sh", "-c", "train & wait"))
//	...
//	group.Kill() // the shell and train
//	cmd.Wait()
package procgroup

import (
	"fmt"
	"os/exec"
)

// A Group is a command that runs, with its descendants.
type Group struct {
	cmd *exec.Cmd
	system
}

// Start starts the command in a group of its own. The caller waits for it, and then calls Close.
func Start(cmd *exec.Cmd) (*Group, error) {
	Own(cmd)
	g := &Group{cmd: cmd}
	if err := g.prepare(); err != nil {
		return nil, fmt.Errorf("procgroup: start %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		g.Close()
		return nil, err
	}
	if err := g.adopt(cmd.Process); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		g.Close()
		return nil, fmt.Errorf("procgroup: start %s: %w", cmd.Path, err)
	}
	return g, nil
}
