package agent

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childAttr puts a child into its own session; the kernel kills it if the agent dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// adopt makes this process the parent of orphaned descendants, and reaps those that end.
func (s *server) adopt() (stop func(), err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("launch: agent: adopt orphans: %w", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-ended:
				s.reapOrphans()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(ended); close(done); <-gone }, nil
}

// reapOrphans collects adopted processes that ended; our own children belong to their child.wait.
func (s *server) reapOrphans() {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := make(map[int]bool)
	for _, c := range s.children {
		own[c.cmd.Process.Pid] = true
	}
	for pid, p := range processes() {
		if p.parent == os.Getpid() && p.zombie && !own[pid] {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// killDescendants kills every process below this one until none is left or the time is over.
func (s *server) killDescendants(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		all := processes()
		living := 0
		for pid, p := range all {
			if p.zombie || !below(all, pid, os.Getpid()) {
				continue
			}
			living++
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if living == 0 {
			return
		}

		// The kernel notifies only of direct children.
		time.Sleep(5 * time.Millisecond)
	}
}

func below(all map[int]procStat, pid, ancestor int) bool {
	for range len(all) {
		p, ok := all[pid]
		if !ok {
			return false
		}
		if p.parent == ancestor {
			return true
		}
		pid = p.parent
	}
	return false
}

type procStat struct {
	parent int
	zombie bool
}

// processes reads parent and state of every process from /proc/PID/stat: "pid (name) state ppid
// ...", where the name may hold anything.
func processes() map[int]procStat {
	entries, _ := os.ReadDir("/proc")
	all := make(map[int]procStat, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		all[pid] = procStat{parent: parent, zombie: string(fields[0]) == "Z"}
	}
	return all
}
