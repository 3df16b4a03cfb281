package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// otherFaults are those of strangers, disks and clocks.
func otherFaults() []fault {
	list := []fault{
		{name: "bad bytes", how: "an unauthenticated client sends random bytes to scheduler and servers, 200 connections", inject: disturbedBy("garbage", 200), same: true, within: time.Second},
		{name: "slow clients", how: "an unauthenticated client holds 300 connections open, a byte each second", inject: disturbedBy("slow", 300), same: true, within: time.Second},
		{name: "wrong secret", how: "a worker with a wrong secret joins", inject: joinWithWrongSecret, same: true, within: time.Second},
		{name: "disk full", how: "no room left where the scheduler keeps its state, when a worker is killed", prepare: mountSmall, inject: fillDisk, within: 2500 * time.Millisecond},
	}
	if jumpWall != nil {
		list = append(list, fault{
			name: "clock jumps", how: fmt.Sprintf("the wall clocks of all processes jump by %v, and a second later by %v", jumps[0], jumps[1]),
			inject: jumpClocks, same: true, within: time.Second,
		})
	}
	return list
}

func disturbedBy(how string, connections int) injector {
	return func(ctx context.Context, j *job) error { return j.stranger(ctx, how, connections) }
}

// joinWithWrongSecret starts a worker that must be refused: it ends with an error, as if it had been
// killed.
func joinWithWrongSecret(ctx context.Context, j *job) error {
	p, err := j.start(ctx, "worker4", "PARAGON_JOIN=1", "PARAGON_RANK=-1", "PARAGON_START_TIMEOUT=5s", "PARAGON_SECRET="+strings.Repeat("ab", 16))
	if err != nil {
		return err
	}
	p.killed = true
	return nil
}

func fillDisk(_ context.Context, j *job) error {
	fill(j.dir)
	j.kill("worker1")
	return nil
}

// jumpClocks lets the wall clocks jump there and back. Leases and timeouts go by the monotonic
// clock, so nothing may happen.
func jumpClocks(ctx context.Context, j *job) error {
	j.signalAll(syscall.SIGUSR1)
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	j.signalAll(syscall.SIGUSR1)
	return nil
}

// mountSmall gives the scheduler's state little room.
func mountSmall(j *job) error {
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", j.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount a small disk: %w: %s", err, out)
	}
	j.others = append(j.others, func() { _ = exec.Command("umount", "-l", j.dir).Run() })
	return nil
}

// fill leaves no room in a folder.
func fill(dir string) {
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return
	}
	defer f.Close()
	b := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(b)
	}
}
