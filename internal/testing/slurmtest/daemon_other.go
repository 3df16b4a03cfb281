//go:build !linux

package slurmtest

import "syscall"

func daemonAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
