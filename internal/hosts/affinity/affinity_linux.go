package affinity

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Own returns the processors that this process may use, in ascending order.
func Own() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return counted()
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// Process binds all threads of this process. Threads that begin later inherit the processors from
// the thread that starts them.
func Process(cpus []int) error {
	set := setOf(cpus)
	// A thread that starts during the first pass inherits its parent's processors. The second
	// pass binds those whose parent was not bound yet.
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

// Start calls start with the calling thread bound to these processors (none: as it is). A process
// that start starts inherits them.
func Start(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the processors of a thread: %w", err)
	}
	if err := unix.SchedSetaffinity(0, setOf(cpus)); err != nil {
		return fmt.Errorf("start on processors %v: %w", cpus, err)
	}
	err := start()
	if restored := unix.SchedSetaffinity(0, &before); restored != nil {
		// The process runs. A thread that cannot be restored must not serve other
		// goroutines: it ends with this one.
		runtime.LockOSThread()
	}
	return err
}

func setOf(cpus []int) *unix.CPUSet {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return &set
}
