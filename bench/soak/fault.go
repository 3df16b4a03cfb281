package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// A fault is something that may happen to the job.
type fault struct {
	name, how string
	do        func(ctx context.Context, j *job, r *rand.Rand) (what string, err error)
}

func faults() []fault {
	kill := func(role string) func(context.Context, *job, *rand.Rand) (string, error) {
		return func(_ context.Context, j *job, r *rand.Rand) (string, error) {
			p, err := j.pick(role, r)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %d on %s", p.role, p.pid, p.host), syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	stand := func(role string, d time.Duration) func(context.Context, *job, *rand.Rand) (string, error) {
		return func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
			p, err := j.pick(role, r)
			if err != nil {
				return "", err
			}
			if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
				return "", err
			}
			sleep(ctx, d)
			_ = syscall.Kill(p.pid, syscall.SIGCONT) // it may have been ended meanwhile
			return fmt.Sprintf("%s %d on %s", p.role, p.pid, p.host), nil
		}
	}
	cut := func(d time.Duration) func(context.Context, *job, *rand.Rand) (string, error) {
		return func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
			// One that has a server, too, is lost with it: that is one loss, which one
			// backup is for.
			host := j.here[r.IntN(len(j.here))]
			j.lab.Isolate(host)
			defer j.lab.Rejoin(host)
			sleep(ctx, d)
			return host, nil
		}
	}
	links := func(l netlab.Link, d time.Duration) func(context.Context, *job, *rand.Rand) (string, error) {
		return func(ctx context.Context, j *job, _ *rand.Rand) (string, error) {
			j.lab.Set(netlab.Any, netlab.Any, l)
			defer j.lab.Unset(netlab.Any, netlab.Any)
			sleep(ctx, d)
			return "all", nil
		}
	}
	return []fault{
		{"kill worker", "kill -9", kill("worker")},
		{"kill server", "kill -9", kill("server")},
		{"kill scheduler", "kill -9", kill("scheduler")},
		{"stop worker briefly", fmt.Sprintf("SIGSTOP, %v, SIGCONT", shortly), stand("worker", shortly)},
		{"stop worker for long", fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), stand("worker", long)},
		{"stop server briefly", fmt.Sprintf("SIGSTOP, %v, SIGCONT", shortly), stand("server", shortly)},
		{"stop scheduler for long", fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), stand("scheduler", long)},
		{"cut host briefly", fmt.Sprintf("its packets vanish for %v", shortly), cut(shortly)},
		{"cut host for long", fmt.Sprintf("its packets vanish for %v", long), cut(long)},
		{"lossy links", "5 % lost for 10 s", links(netlab.Link{Loss: 0.05}, 10*time.Second)},
		{"slow links", "50 ms each way for 10 s", links(netlab.Link{Delay: 50 * time.Millisecond}, 10*time.Second)},
		{"add host", "launch ctl add", func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
			for i := range hosts {
				if name := hostName(i); !slices.Contains(j.here, name) {
					j.here = append(j.here, name)
					_, err := j.ctl(ctx, "add", name)
					return name, err
				}
			}
			return "", errNone
		}},
		{"remove host", "launch ctl remove", func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
			if len(j.here) <= 2 {
				return "", errNone
			}
			i := r.IntN(len(j.here))
			name := j.here[i]
			j.here = slices.Delete(j.here, i, i+1)
			_, err := j.ctl(ctx, "remove", name)
			return name, err
		}},
		{"add server", "launch ctl add-server", func(ctx context.Context, j *job, _ *rand.Rand) (string, error) {
			// On a host of its own: one backup is for the loss of one server, and a
			// host that is cut off takes all with it.
			i := slices.IndexFunc(j.ranks[:], func(rank int) bool { return rank < 0 })
			if i < 0 {
				return "", errNone
			}
			out, err := j.ctl(ctx, "add-server", "--wait", hostName(i))
			if err != nil {
				return "", err
			}
			if _, err := fmt.Sscanf(out, "server %d", &j.ranks[i]); err != nil {
				return "", fmt.Errorf("add-server said %q: %w", out, err)
			}
			return fmt.Sprintf("server %d on %s", j.ranks[i], hostName(i)), nil
		}},
		{"remove server", "launch ctl remove-server", func(ctx context.Context, j *job, r *rand.Rand) (string, error) {
			var here []int
			for i, rank := range j.ranks {
				if rank >= 0 {
					here = append(here, i)
				}
			}
			if len(here) <= minServers {
				return "", errNone
			}
			i := here[r.IntN(len(here))]
			rank := j.ranks[i]
			out, err := j.ctl(ctx, "remove-server", fmt.Sprint(rank))
			if strings.Contains(out, "REMOVED") { // it may fail later, while it waits for backups
				j.ranks[i] = -1
			}
			return fmt.Sprintf("server %d on %s", rank, hostName(i)), err
		}},
		{"tell worker to end", "SIGTERM", func(_ context.Context, j *job, r *rand.Rand) (string, error) {
			list, err := processes(j.events())
			if err != nil {
				return "", err
			}
			list = slices.DeleteFunc(list, func(p process) bool { return p.role != "worker" || p.pid == os.Getpid() })
			if len(j.here) <= 2 || len(list) <= 2 { // the job would end without it
				return "", errNone
			}
			p := list[r.IntN(len(list))]
			i := slices.Index(j.here, p.host)
			if i < 0 {
				return "", errNone
			}
			j.here = slices.Delete(j.here, i, i+1)
			return fmt.Sprintf("worker %d on %s", p.pid, p.host), syscall.Kill(p.pid, syscall.SIGTERM)
		}},
	}
}

var errNone = fmt.Errorf("there is none that it could meet")

// pick chooses a process of a role.
func (j *job) pick(role string, r *rand.Rand) (process, error) {
	list, err := processes(j.events())
	if err != nil {
		return process{}, err
	}
	list = slices.DeleteFunc(list, func(p process) bool { return p.role != role || p.pid == os.Getpid() })
	if len(list) == 0 {
		return process{}, errNone
	}
	return list[r.IntN(len(list))], nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
