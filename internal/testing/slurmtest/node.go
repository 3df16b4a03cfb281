package slurmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/procs"
)

// A Process is one of a job, or slurmstepd.
type Process struct {
	PID int
	// Node is what the process runs on; empty: it was not started by a node.
	Node    string
	Job     string
	Command string
}

func (p Process) String() string { return fmt.Sprintf("%d on %q: %s", p.PID, p.Node, p.Command) }

// Processes lists the processes that have the cluster's environment and are not its daemons: of
// jobs, and those that tests started with Command.
func (c *Cluster) Processes() (list []Process) {
	found, _ := procs.Find("SLURM_CONF", c.config)
	daemons := c.daemons("")
	for _, p := range found {
		if p.Env(daemonVariable) != "" || slices.ContainsFunc(daemons, func(d Process) bool { return d.PID == p.PID }) {
			continue
		}
		list = append(list, Process{PID: p.PID, Node: p.Env("SLURMD_NODENAME"), Job: p.Env("SLURM_JOB_ID"), Command: commandLine(p.PID)})
	}
	return list
}

// AwaitEmptyQueue waits until squeue lists nothing, for a time at most: Slurm goes on completing a
// job for a moment after its last process has ended. Arguments are added to squeue's.
func (c *Cluster) AwaitEmptyQueue(t testing.TB, within time.Duration, args ...string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left := c.Run(t, "squeue", append([]string{"--noheader"}, args...)...)
		if left == "" {
			return
		}
		if time.Since(start) > within {
			t.Errorf("squeue lists after %s: %s", within, left)
			return
		}
	}
}

// AwaitNoProcess waits until no job has a process, for a time at most, and says how long it took
// from now.
func (c *Cluster) AwaitNoProcess(t testing.TB, within time.Duration) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		left := c.Processes()
		if len(left) == 0 {
			return time.Since(start)
		}
		if time.Since(start) > within {
			t.Errorf("processes left after %s: %v", within, left)
			return within
		}
	}
}

// KillNode ends a node as a power failure does: its slurmd, its steps and their processes get
// SIGKILL. Slurm sees it after some 5 s.
func (c *Cluster) KillNode(t testing.TB, node string) {
	t.Helper()
	if !c.stop(node, syscall.SIGKILL) {
		t.Fatalf("slurmtest: kill node %s: it does not run; want one of %v", node, c.Nodes)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		// slurmstepd ends first: it would report how its processes ended.
		left := c.daemons(node)
		for _, p := range c.Processes() {
			if p.Node == node {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("slurmtest: kill node %s: processes survived SIGKILL: %v", node, left)
		}
		for _, p := range left {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

// StartNode starts a node again that was killed.
func (c *Cluster) StartNode(t testing.TB, node string) {
	t.Helper()
	if err := c.start(node, "slurmd", "-D", "-N", node); err != nil {
		t.Fatalf("slurmtest: %v", err)
	}
}

// StopMunge ends munged; without it no command of Slurm works. StartMunge starts it again.
func (c *Cluster) StopMunge(t testing.TB) {
	t.Helper()
	if !c.stop("munged", syscall.SIGTERM) {
		t.Fatal("slurmtest: munged does not run")
	}
}

// StartMunge starts munged again.
func (c *Cluster) StartMunge(t testing.TB) {
	t.Helper()
	if err := c.startMunge(); err != nil {
		t.Fatalf("slurmtest: %v", err)
	}
}

// daemons lists slurmd and slurmstepd of a node, or of all nodes, by the log file that they hold
// open: slurmstepd overwrites its environment.
func (c *Cluster) daemons(node string) (list []Process) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscan(entry.Name(), &pid); err != nil {
			continue
		}
		command := commandLine(pid)
		if !strings.Contains(command, "slurm") {
			continue
		}
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		for _, f := range files {
			target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
			name, isLog := strings.CutSuffix(filepath.Base(target), ".log")
			if isLog && filepath.Dir(target) == c.Dir && (node == "" || name == node) {
				list = append(list, Process{PID: pid, Node: name, Command: command})
				break
			}
		}
	}
	return list
}

func commandLine(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}
