//go:build unix

package procgroup

import (
	"os"
	"os/exec"
	"syscall"
)

// Own makes a command that has not started begin in a process group of its own.
func Own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// system is nothing on Unix: the group has the number of its first process.
type system struct{}

func (system) prepare() error          { return nil }
func (system) adopt(*os.Process) error { return nil }

// Kill kills the command and all of its descendants that have not left the group. It is called
// before the command has been waited for.
func (g *Group) Kill() error { return syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

// Close frees what belongs to the group.
func (g *Group) Close() {}
