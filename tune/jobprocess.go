package tune

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a trial's processes have to end when they are told to; less if the search gives a trial up before.
const stopTimeout = 10 * time.Second

// drainTimeout is how long output is waited for when the process that wrote it is gone.
const drainTimeout = 2 * time.Second

// stopAfter is how long the processes of an attempt have to end: they are to be gone before the search gives the attempt up.
func (a *Attempt) stopAfter() time.Duration {
	if a.grace > 0 {
		return min(stopTimeout, a.grace/2)
	}
	return stopTimeout
}

// execute runs the command until it and all that it left in its process group is gone. When ctx ends it is told to end, and after patience
// it is killed. group says whether the whole group is told, or the command alone, which then tells the others.
func execute(ctx context.Context, cmd *exec.Cmd, stdout, stderr io.Writer, patience time.Duration, group bool) error {
	var read sync.WaitGroup
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	for _, to := range []io.Writer{stdout, stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(ours, theirs...))
			return fmt.Errorf("tune: start a process: %w", err)
		}
		ours, theirs = append(ours, r), append(theirs, w)
		read.Go(func() { _, _ = io.Copy(to, r) }) // it ends with the last writer, or at the deadline
	}
	cmd.Stdout, cmd.Stderr = theirs[0], theirs[1]
	err := cmd.Start()
	closeAll(theirs)
	if err != nil {
		read.Wait()
		closeAll(ours)
		return err
	}
	pid := cmd.Process.Pid
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		if group {
			_ = syscall.Kill(-pid, syscall.SIGTERM)
		} else {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})
	err = cmd.Wait()
	close(ended)
	watch.Wait()
	_ = syscall.Kill(-pid, syscall.SIGKILL) // what it left behind
	for _, r := range ours {
		_ = r.SetReadDeadline(time.Now().Add(drainTimeout)) // who left the group may keep it open
	}
	read.Wait()
	closeAll(ours)
	return err
}
