package run

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// checkMachine refuses a job that this machine has no room for, before anything is started. Halfway
// through a start the same limits would be errors of processes that are hard to understand.
func checkMachine(o *options.Options) error {
	return machineLimits().check(o.Workers, o.Servers, o.Start.Connections(o.Workers), o.SchedulerHost == nil)
}

// limits are those of this machine for one process or one user. 0: unknown, or unlimited.
type limits struct {
	// files is how many a process may have open.
	files uint64

	// tasks is how many processes and threads may be added to those that run.
	tasks uint64

	// cause names what sets the limit of tasks.
	cause string
}

// What a job needs at least of this machine; more is likely.
const (
	// agentFiles are the agent's pipes for each of its processes.
	agentFiles = 2

	// sshFiles are the launcher's pipes for each connection.
	sshFiles = 3

	// ownFiles are what agent or launcher need for themselves.
	ownFiles = 16

	goTasks     = 4 // threads of a server or scheduler
	launchTasks = 8 // threads of launcher and agent
)

// check refuses a job that cannot run here because of the limits: better before anything is started
// than in the middle of it. hosts is 0 where all workers and servers run on this machine; scheduler
// tells whether the scheduler does.
func (l limits) check(workers, servers, hosts int, scheduler bool) error {
	nodes := uint64(workers + servers)
	files, what := nodes*agentFiles+ownFiles, "the pipes of its processes"
	tasks := uint64(launchTasks + workers + (servers+1)*goTasks)
	if hosts > 0 {
		files, what = uint64(hosts)*sshFiles+ownFiles, "the connections to "+plural.Of(hosts, "host")
		tasks = uint64(launchTasks + hosts + goTasks)
	}
	if own := nodes + ownFiles; scheduler && own > files {
		files, what = own, "the scheduler's connections"
	}
	switch {
	case l.files > 0 && files > l.files:
		return command.Usagef("%d workers and %d servers need %d open files on this machine for %s, and a process may have %d (ulimit -n); start fewer, or raise that limit",
			workers, servers, files, what, l.files)
	case l.tasks > 0 && tasks > l.tasks:
		return command.Usagef("%d workers and %d servers need %d processes and threads on this machine, and no more than %d can be added (%s); start fewer, or raise that limit",
			workers, servers, tasks, l.tasks, l.cause)
	}
	return nil
}

// machineLimits reads the limits of this machine, as far as it tells them.
func machineLimits() limits {
	var l limits
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil && r.Max < math.MaxInt64 {
		// Go raises the limit as far as it may.
		l.files = max(r.Cur, r.Max)
	}
	lower := func(n uint64, cause string) {
		if n < math.MaxInt64 && (l.tasks == 0 || n < l.tasks) {
			l.tasks, l.cause = max(n, 1), cause
		}
	}
	if os.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &r) == nil {
		lower(r.Cur, "ulimit -u")
	}
	if n, ok := readNumber("/proc/sys/kernel/threads-max"); ok {
		lower(n, "kernel.threads-max")
	}
	if n, ok := readNumber("/proc/sys/kernel/pid_max"); ok {
		lower(n, "kernel.pid_max")
	}
	// Control groups, version 2: each one up to the root has a limit.
	b, err := os.ReadFile("/proc/self/cgroup")
	path, ok := strings.CutPrefix(string(bytes.TrimSpace(b)), "0::/")
	for err == nil && ok {
		dir := filepath.Join("/sys/fs/cgroup", path)
		most, limited := readNumber(filepath.Join(dir, "pids.max"))
		now, known := readNumber(filepath.Join(dir, "pids.current"))
		if limited && known {
			lower(most-min(now, most), "pids.max of "+dir)
		}
		if path == "" {
			break
		}
		if path = filepath.Dir(path); path == "." {
			path = ""
		}
	}
	return l
}

// readNumber reads a file of the kernel with one number. Where there is no limit the file says
// "max", which is none.
func readNumber(path string) (uint64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil // "max" is no number
}
