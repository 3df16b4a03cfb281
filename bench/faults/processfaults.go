package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// workerFaults end workers or let them stand still. A worker that closes its connections is missed
// at once, one that falls silent after its lease.
func workerFaults() []fault {
	return []fault{
		{name: "worker killed", how: "kill -9", inject: kill("worker1"), within: 2500 * time.Millisecond},
		{name: "two workers killed", how: "kill -9 of both", inject: kill("worker0", "worker3"), within: 2500 * time.Millisecond},
		{name: "worker killed, another joins", how: "kill -9; a new process with PARAGON_JOIN=1", inject: replaceWorker, within: 2500 * time.Millisecond},
		{name: "worker killed, job of fixed size", how: "kill -9, without --elastic-training-enabled", fixed: true, inject: kill("worker1"), ends: true},
		{name: "worker's host loses power", how: "its packets vanish; kill -9", inject: powerLoss, within: lease + 2*time.Second},
		{name: "worker joins", how: "a new process with PARAGON_JOIN=1", inject: startJoiner, within: 2 * time.Second},
		{name: "worker removed", how: "control: remove its host", inject: removeWorker, within: 2 * time.Second},
		{name: "worker gets SIGTERM", how: "SIGTERM", inject: terminate("worker1"), within: 2 * time.Second},
		{name: "two workers get SIGTERM", how: "SIGTERM to both", inject: terminate("worker0", "worker3"), within: 2 * time.Second},
		{name: "worker gets SIGTERM, scheduler down", how: "kill -9 of the scheduler; SIGTERM; the scheduler restarted after 2 s", inject: terminateUnseen, within: 2 * time.Second},
		{name: "worker stopped briefly", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", brief), inject: suspend("worker1", brief), same: true},
		{name: "worker stopped for longer than the lease", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), inject: suspend("worker1", long), within: lease + 2*time.Second},
	}
}

func replaceWorker(ctx context.Context, j *job) error {
	<-j.kill("worker2").ended
	return startJoiner(ctx, j)
}

// powerLoss ends a worker whose connections stay open: no one hears of its end.
func powerLoss(_ context.Context, j *job) error {
	j.lab.Isolate("worker1")
	j.kill("worker1")
	return nil
}

func removeWorker(ctx context.Context, j *job) error {
	return j.control(ctx, `{"op":"remove","host":"worker2"}`)
}

// terminateUnseen asks a worker to end while there is no scheduler that it could tell.
func terminateUnseen(ctx context.Context, j *job) error {
	<-j.kill("scheduler").ended
	j.signal("worker2", syscall.SIGTERM)
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	_, err := j.start(ctx, "scheduler")
	return err
}

// serverFaults need backups, but for the one that shows how a job without them ends.
func serverFaults() []fault {
	return []fault{
		{name: "server killed, backups", how: "kill -9, --backups 1", backups: 1, inject: kill("server1"), same: true, within: 3 * time.Second},
		{name: "server killed, no backups", how: "kill -9", inject: kill("server1"), ends: true},
		{name: "server stopped briefly", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", brief), inject: suspend("server0", brief), same: true},
		{name: "server stopped for longer than the lease, backups", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT, --backups 1", long), backups: 1, inject: suspend("server0", long), same: true, within: lease + 2*time.Second},
	}
}

// schedulerFaults must not stop training: workers and servers go on without a scheduler until the
// members are to change.
func schedulerFaults() []fault {
	return []fault{
		{name: "scheduler killed and restarted", how: "kill -9; restarted after 2 s", inject: restartScheduler(2 * time.Second), same: true, within: time.Second},
		{name: "scheduler killed for longer than the lease", how: fmt.Sprintf("kill -9; restarted after %v", long), inject: restartScheduler(long), same: true, within: time.Second},
		{name: "scheduler stopped for longer than the lease", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), inject: suspend("scheduler", long), same: true, within: time.Second},
	}
}

// restartScheduler kills the scheduler and starts one that reads its journal.
func restartScheduler(after time.Duration) injector {
	return func(ctx context.Context, j *job) error {
		<-j.kill("scheduler").ended
		if err := pause(ctx, after); err != nil {
			return err
		}
		_, err := j.start(ctx, "scheduler")
		return err
	}
}

func machineFaults() []fault {
	return []fault{
		{name: "all stop for longer than the lease", how: fmt.Sprintf("SIGSTOP of all processes, %v, SIGCONT: a machine that sleeps", long), inject: suspendAll, same: true},
		{name: "worker short of CPU", how: "stopped for 90 of every 100 ms", inject: starveWorker, same: true},
	}
}

func suspendAll(ctx context.Context, j *job) error {
	j.signalAll(syscall.SIGSTOP)
	defer j.signalAll(syscall.SIGCONT)
	return pause(ctx, long)
}

// starveWorker lets a worker run for a tenth of four seconds.
func starveWorker(ctx context.Context, j *job) error {
	for range 40 {
		j.signal("worker1", syscall.SIGSTOP)
		_ = pause(ctx, 90*time.Millisecond)
		j.signal("worker1", syscall.SIGCONT)
		_ = pause(ctx, 10*time.Millisecond)
	}
	return nil
}
