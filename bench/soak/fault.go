package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// A fault is something that may happen to the job.
type fault struct {
	name, how string
	do        injector
}

// An injector carries a fault out and says what it met. errNone is its error if there was nothing
// to meet; a fault that lasts is over when it returns.
type injector func(ctx context.Context, j *job, r *rand.Rand) (what string, err error)

// faults are drawn with equal chances.
func faults() []fault {
	return []fault{
		{"kill worker", "kill -9", kill("worker")},
		{"kill server", "kill -9", kill("server")},
		{"kill scheduler", "kill -9", kill("scheduler")},
		{"stop worker briefly", fmt.Sprintf("SIGSTOP, %v, SIGCONT", shortly), suspend("worker", shortly)},
		{"stop worker for long", fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), suspend("worker", long)},
		{"stop server briefly", fmt.Sprintf("SIGSTOP, %v, SIGCONT", shortly), suspend("server", shortly)},
		{"stop scheduler for long", fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), suspend("scheduler", long)},
		{"cut host briefly", fmt.Sprintf("its packets vanish for %v", shortly), cut(shortly)},
		{"cut host for long", fmt.Sprintf("its packets vanish for %v", long), cut(long)},
		{"lossy links", "5 % lost for 10 s", impair(netlab.Link{Loss: 0.05}, 10*time.Second)},
		{"slow links", "50 ms each way for 10 s", impair(netlab.Link{Delay: 50 * time.Millisecond}, 10*time.Second)},
		{"add host", "launch ctl add", addHost},
		{"remove host", "launch ctl remove", removeHost},
		{"add server", "launch ctl add-server", addServer},
		{"remove server", "launch ctl remove-server", removeServer},
		{"tell worker to end", "SIGTERM", endWorker},
	}
}

// kill ends a process of the role without a warning.
func kill(role string) injector {
	return func(_ context.Context, j *job, r *rand.Rand) (string, error) {
		p, err := j.pick(role, r)
		if err != nil {
			return "", err
		}
		return p.String(), syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// suspend lets a process of the role stand still for a time. Others may end it meanwhile.
func suspend(role string, d time.Duration) injector {
	return func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
		p, err := j.pick(role, r)
		if err != nil {
			return "", err
		}
		if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
			return "", err
		}
		sleep(ctx, d)
		_ = syscall.Kill(p.pid, syscall.SIGCONT)
		return p.String(), nil
	}
}

// cut takes a host from the network for a time. A server on it is lost with its worker: that is one
// loss, which one backup is for.
func cut(d time.Duration) injector {
	return func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
		host := j.here[r.IntN(len(j.here))]
		j.lab.Isolate(host)
		defer j.lab.Rejoin(host)
		sleep(ctx, d)
		return host, nil
	}
}

// impair makes all links lossy or slow for a time.
func impair(l netlab.Link, d time.Duration) injector {
	return func(ctx context.Context, j *job, _ *rand.Rand) (string, error) {
		j.lab.Set(netlab.Any, netlab.Any, l)
		defer j.lab.Unset(netlab.Any, netlab.Any)
		sleep(ctx, d)
		return "all", nil
	}
}

// endWorker asks a worker to leave, unless the job would end without it.
func endWorker(_ context.Context, j *job, r *rand.Rand) (string, error) {
	list, err := j.processes("worker")
	if err != nil {
		return "", err
	}
	if len(j.here) <= minHosts || len(list) <= minHosts {
		return "", errNone
	}
	p := list[r.IntN(len(list))]
	i := slices.Index(j.here, p.host)
	if i < 0 {
		return "", errNone
	}
	j.here = slices.Delete(j.here, i, i+1)
	return p.String(), syscall.Kill(p.pid, syscall.SIGTERM)
}

// errNone says that the job has nothing now that a fault could meet.
var errNone = fmt.Errorf("there is none that it could meet")

// pick chooses a process of a role.
func (j *job) pick(role string, r *rand.Rand) (process, error) {
	list, err := j.processes(role)
	if err != nil {
		return process{}, err
	}
	if len(list) == 0 {
		return process{}, errNone
	}
	return list[r.IntN(len(list))], nil
}

// processes are the job's processes of a role, without this one.
func (j *job) processes(role string) ([]process, error) {
	list, err := processes(j.events())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(p process) bool { return p.role != role || p.pid == os.Getpid() }), nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
