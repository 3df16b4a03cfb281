package bridge

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// parentEvery is how often a bridge without a pidfd looks for its parent.
const parentEvery = 100 * time.Millisecond

// supported says whether this system has bridges.
func supported() error { return nil }

// watchParent calls ended when Python has ended, unless stop comes first. The socket does not tell:
// children that Python has forked keep it open.
func watchParent(pidfd int, ended func()) (stop func(), err error) {
	if pidfd < 0 {
		return pollParent(os.Getppid(), ended), nil
	}
	unix.CloseOnExec(pidfd)
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return nil, fmt.Errorf("bridge: --parent %d: %w", pidfd, err)
	}
	file := os.NewFile(uintptr(pidfd), "parent")
	// A file that cannot be waited for has no deadlines either. It would never tell.
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("bridge: --parent %d: %w: it cannot be waited for; want a pidfd of the Python process, or -1", pidfd, err), file.Close())
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("bridge: --parent %d: %w", pidfd, err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		err := raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 && err == nil
		})
		if err == nil {
			ended()
		}
	})
	return func() { file.Close(); watching.Wait() }, nil
}

// pollParent is watchParent without a pidfd.
func pollParent(parent int, ended func()) (stop func()) {
	quit := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(parentEvery)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
		ended()
	})
	return func() { close(quit); watching.Wait() }
}

// switchStderr makes fd the standard error; -1 or 2: it stays.
func switchStderr(fd int) error {
	if fd < 0 || fd == 2 {
		return nil
	}
	if err := unix.Dup3(fd, 2, 0); err != nil {
		return fmt.Errorf("bridge: --stderr %d: %w", fd, err)
	}
	if fd > 2 {
		return unix.Close(fd)
	}
	return nil
}
