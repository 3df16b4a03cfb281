// Package procs finds processes of this machine by their environment, and measures what they use,
// for programs that watch whole jobs. It reads /proc.
package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Process is one that ran when it was looked for.
type Process struct {
	PID int
	env []string
}

// Env is the value of a variable that the process was started with, "" where it has none.
func (p Process) Env(name string) string {
	for _, v := range p.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Find lists the processes that were started with name=value in their environment.
func Find(name, value string) (list []Process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		p := Process{}
		if _, err := fmt.Sscan(entry.Name(), &p.PID); err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil {
			// The process has just ended, or is another user's.
			continue
		}
		p.env = strings.Split(string(env), "\x00")
		if p.Env(name) == value {
			list = append(list, p)
		}
	}
	return list, nil
}

// A Usage is what a process uses.
type Usage struct {
	// Resident is the memory in KiB that the system counts as the process's, shared memory
	// included.
	Resident int

	// Shared is the part of it that is shared memory: rings, and buffers that others on this
	// machine read.
	Shared int

	// Files is the number of open files.
	Files int
}

// ErrEnded says that the process has ended.
var ErrEnded = errors.New("procs: the process has ended")

// UsageOf tells what a process uses.
func UsageOf(pid int) (u Usage, err error) {
	dir := fmt.Sprint("/proc/", pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		for _, field := range []struct {
			name string
			to   *int
		}{{"VmRSS:", &u.Resident}, {"RssShmem:", &u.Shared}} {
			if rest, ok := strings.CutPrefix(line, field.name); ok {
				if _, err := fmt.Sscan(rest, field.to); err != nil {
					return u, fmt.Errorf("procs: process %d: %q: %w", pid, line, err)
				}
			}
		}
	}
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return u, err
	}

	// A process that has ended, but was not waited for, has no memory.
	if u.Files = len(files); u.Resident == 0 {
		return u, fmt.Errorf("process %d: %w", pid, ErrEnded)
	}
	return u, nil
}
