package slurmtest

import "syscall"

// daemonAttributes let no daemon outlive a test that is killed.
func daemonAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
