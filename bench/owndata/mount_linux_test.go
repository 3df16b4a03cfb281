//go:build !nobuckets

package main

import "syscall"

// mountSmall mounts a file system of 64 KiB, which only root can.
func mountSmall(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") }

func unmount(dir string) { _ = syscall.Unmount(dir, 0) }
