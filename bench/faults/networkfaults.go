package main

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// networkFaults change the links between hosts. A host that is cut off for less than its lease, and
// a link between two hosts alone, must change no value: messages are repeated until they arrive,
// and counted once.
func networkFaults() []fault {
	down, slow := netlab.Link{Down: true}, netlab.Link{Delay: 200 * time.Millisecond}
	return []fault{
		{name: "worker cut off briefly", how: fmt.Sprintf("all its packets vanish for %v", brief), inject: isolate(brief, "worker1"), same: true},
		{name: "worker cut off for longer than the lease", how: fmt.Sprintf("all its packets vanish for %v", long), inject: isolate(long, "worker1"), within: lease + 2*time.Second},
		{name: "server cut off briefly", how: fmt.Sprintf("all its packets vanish for %v", brief), inject: isolate(brief, "server0"), same: true},
		{name: "half of the workers cut off", how: fmt.Sprintf("packets of two workers vanish for %v", long), inject: isolate(long, "worker0", "worker1"), within: lease + 2*time.Second},
		{name: "scheduler cut off for longer than the lease", how: fmt.Sprintf("all its packets vanish for %v", long), inject: isolate(long, "scheduler"), same: true, within: time.Second},
		{name: "half-open, to a server", how: fmt.Sprintf("what a worker sends to a server vanishes for %v", long), inject: impair("worker1", "server0", down, long), same: true},
		{name: "half-open, from a server", how: fmt.Sprintf("what a server sends to a worker vanishes for %v", long), inject: impair("server1", "worker2", down, long), same: true},
		{name: "connections reset", how: "every packet between workers and servers answered with a TCP reset for 0.3 s", inject: resetConnections, same: true},
		{name: "slow links", how: "200 ms each way between all, for 10 s", inject: impair(netlab.Any, netlab.Any, slow, 10*time.Second), same: true},
		{name: "lossy links", how: "5 % of all packets lost, to the end", inject: impairAll(netlab.Link{Loss: 0.05}), same: true},
		{name: "duplicating links", how: "20 % of all packets come twice, up to 20 ms late, to the end", inject: impairAll(netlab.Link{Duplicate: 0.2, Jitter: 20 * time.Millisecond}), same: true},
		{name: "device down", how: fmt.Sprintf("ip link set down on a worker's host, up after %v", brief), inject: deviceDown, same: true},
	}
}

// isolate takes hosts from the network for a time.
func isolate(d time.Duration, hosts ...string) injector {
	return func(ctx context.Context, j *job) error {
		for _, h := range hosts {
			j.lab.Isolate(h)
			defer j.lab.Rejoin(h)
		}
		return pause(ctx, d)
	}
}

// impair changes the link from one host to another for a time.
func impair(from, to string, l netlab.Link, d time.Duration) injector {
	return func(ctx context.Context, j *job) error {
		j.lab.Set(from, to, l)
		defer j.lab.Unset(from, to)
		return pause(ctx, d)
	}
}

// impairAll changes all links to the end of the job.
func impairAll(l netlab.Link) injector {
	return func(_ context.Context, j *job) error {
		j.lab.Set(netlab.Any, netlab.Any, l)
		return nil
	}
}

// resetConnections answers every packet between workers and servers with a reset: connections break
// in the middle of messages.
func resetConnections(ctx context.Context, j *job) error {
	for w := range workers {
		for s := range servers {
			a, b := fmt.Sprint("worker", w), fmt.Sprint("server", s)
			j.lab.Set(a, b, netlab.Link{Reset: true})
			j.lab.Set(b, a, netlab.Link{Reset: true})
			defer j.lab.Unset(a, b)
			defer j.lab.Unset(b, a)
		}
	}
	return pause(ctx, 300*time.Millisecond)
}

// deviceDown takes a host's device down for a time. It goes up again even if the pause is cut short.
func deviceDown(ctx context.Context, j *job) error {
	if err := j.device("worker1", "down"); err != nil {
		return err
	}
	err := pause(ctx, brief)
	if up := j.device("worker1", "up"); up != nil {
		return up
	}
	return err
}
