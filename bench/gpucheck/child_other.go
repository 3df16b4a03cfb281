//go:build !linux

package main

import "syscall"

// childAttr makes a child the head of a process group of its own.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
