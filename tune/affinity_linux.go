package tune

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// setAffinity lets all threads of this process run on these processors only. Threads that begin later take it from theirs.
func setAffinity(cpus []int) error {
	set := affinity(cpus)
	// A thread may begin while others are set: twice finds those that did meanwhile, whose parent was not set yet.
	for range 2 {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("run on processors %v: %w", cpus, err)
		}
		for _, e := range entries {
			id, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("run on processors %v: %w", cpus, err)
			}
		}
	}
	return nil
}

func affinity(cpus []int) *unix.CPUSet {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return &set
}

// withProcess runs f, which starts a process and waits for it, on a thread of its own that has these processors only (none: all), and so
// has the process. attr ends the process when this one dies, however it does.
func withProcess(cpus []int, f func(attr *syscall.SysProcAttr) error) error {
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and not before, which the process would take for our death.
		runtime.LockOSThread()
		if len(cpus) > 0 {
			if err := unix.SchedSetaffinity(0, affinity(cpus)); err != nil {
				done <- fmt.Errorf("start on processors %v: %w", cpus, err)
				return
			}
		}
		done <- f(&syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM})
	}()
	return <-done
}

// ownCPUs are the numbers of the processors this process may use.
func ownCPUs() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return firstCPUs(runtime.NumCPU())
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}
