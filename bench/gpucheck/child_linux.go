package main

import "syscall"

// childAttr makes a child the head of a process group of its own, which ends when the parent does.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
