package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// A fault is what is done to a job, and what the job must do.
type fault struct {
	name, how string
	fixed     bool // the job is one whose workers may not change
	backups   int
	prepare   func(j *job) error // before the job starts
	inject    func(ctx context.Context, j *job) error

	ends   bool          // the job cannot go on
	same   bool          // it must end with the values of a run without faults
	within time.Duration // the longest time without progress there may be; 0: not said
}

// all are the faults of the table.
func all() []fault {
	return append(append(processFaults(), networkFaults()...), otherFaults()...)
}

func processFaults() []fault {
	kill := func(names ...string) func(context.Context, *job) error {
		return func(_ context.Context, j *job) error {
			for _, name := range names {
				j.kill(name)
			}
			return nil
		}
	}
	stop := func(name string, d time.Duration) func(context.Context, *job) error {
		return func(ctx context.Context, j *job) error {
			j.signal(name, syscall.SIGSTOP)
			defer j.signal(name, syscall.SIGCONT)
			return pause(ctx, d)
		}
	}
	restart := func(after time.Duration) func(context.Context, *job) error {
		return func(ctx context.Context, j *job) error {
			<-j.kill("scheduler").ended
			if err := pause(ctx, after); err != nil {
				return err
			}
			_, err := j.start(ctx, "scheduler")
			return err
		}
	}
	return []fault{
		{name: "worker killed", how: "kill -9", inject: kill("worker1"), within: 2500 * time.Millisecond},
		{name: "two workers killed", how: "kill -9 of both", inject: kill("worker0", "worker3"), within: 2500 * time.Millisecond},
		{name: "worker killed, another joins", how: "kill -9; a new process with PARAGON_JOIN=1", within: 2500 * time.Millisecond, inject: func(ctx context.Context, j *job) error {
			<-j.kill("worker2").ended
			_, err := j.start(ctx, "worker4", "PARAGON_JOIN=1", "PARAGON_RANK=-1")
			return err
		}},
		{name: "worker killed, job of fixed size", how: "kill -9, without --elastic-training-enabled", fixed: true, inject: kill("worker1"), ends: true},
		{name: "worker's host loses power", how: "its packets vanish; kill -9", within: lease + 2*time.Second, inject: func(_ context.Context, j *job) error {
			j.lab.Isolate("worker1")
			j.kill("worker1")
			return nil
		}},
		{name: "worker joins", how: "a new process with PARAGON_JOIN=1", within: 2 * time.Second, inject: func(ctx context.Context, j *job) error {
			_, err := j.start(ctx, "worker4", "PARAGON_JOIN=1", "PARAGON_RANK=-1")
			return err
		}},
		{name: "worker removed", how: "control: remove its host", within: 2 * time.Second, inject: func(ctx context.Context, j *job) error {
			return j.control(ctx, `{"op":"remove","host":"worker2"}`)
		}},
		{name: "worker gets SIGTERM", how: "SIGTERM", within: 2 * time.Second, inject: func(_ context.Context, j *job) error {
			j.signal("worker1", syscall.SIGTERM)
			return nil
		}},
		{name: "two workers get SIGTERM", how: "SIGTERM to both", within: 2 * time.Second, inject: func(_ context.Context, j *job) error {
			j.signal("worker0", syscall.SIGTERM)
			j.signal("worker3", syscall.SIGTERM)
			return nil
		}},
		{name: "worker gets SIGTERM, scheduler down", how: "kill -9 of the scheduler; SIGTERM; the scheduler restarted after 2 s", within: 2 * time.Second, inject: func(ctx context.Context, j *job) error {
			<-j.kill("scheduler").ended
			j.signal("worker2", syscall.SIGTERM)
			if err := pause(ctx, 2*time.Second); err != nil {
				return err
			}
			_, err := j.start(ctx, "scheduler")
			return err
		}},
		{name: "worker stopped briefly", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", brief), inject: stop("worker1", brief), same: true},
		{name: "worker stopped for longer than the lease", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), inject: stop("worker1", long), within: lease + 2*time.Second},
		{name: "server killed, backups", how: "kill -9, --backups 1", backups: 1, inject: kill("server1"), same: true, within: 3 * time.Second},
		{name: "server killed, no backups", how: "kill -9", inject: kill("server1"), ends: true},
		{name: "server stopped briefly", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", brief), inject: stop("server0", brief), same: true},
		{name: "server stopped for longer than the lease, backups", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT, --backups 1", long), backups: 1, inject: stop("server0", long), same: true, within: lease + 2*time.Second},
		{name: "scheduler killed and restarted", how: "kill -9; restarted after 2 s", inject: restart(2 * time.Second), same: true, within: time.Second},
		{name: "scheduler killed for longer than the lease", how: fmt.Sprintf("kill -9; restarted after %v", long), inject: restart(long), same: true, within: time.Second},
		{name: "scheduler stopped for longer than the lease", how: fmt.Sprintf("SIGSTOP, %v, SIGCONT", long), inject: stop("scheduler", long), same: true, within: time.Second},
		{name: "all stop for longer than the lease", how: fmt.Sprintf("SIGSTOP of all processes, %v, SIGCONT: a machine that sleeps", long), same: true, inject: func(ctx context.Context, j *job) error {
			j.signalAll(syscall.SIGSTOP)
			defer j.signalAll(syscall.SIGCONT)
			return pause(ctx, long)
		}},
		{name: "worker short of CPU", how: "stopped for 90 of every 100 ms", same: true, inject: func(ctx context.Context, j *job) error {
			for range 40 {
				j.signal("worker1", syscall.SIGSTOP)
				_ = pause(ctx, 90*time.Millisecond)
				j.signal("worker1", syscall.SIGCONT)
				_ = pause(ctx, 10*time.Millisecond)
			}
			return nil
		}},
	}
}

func networkFaults() []fault {
	link := func(from, to string, l netlab.Link, d time.Duration) func(context.Context, *job) error {
		return func(ctx context.Context, j *job) error {
			j.lab.Set(from, to, l)
			defer j.lab.Unset(from, to)
			return pause(ctx, d)
		}
	}
	isolate := func(d time.Duration, hosts ...string) func(context.Context, *job) error {
		return func(ctx context.Context, j *job) error {
			for _, h := range hosts {
				j.lab.Isolate(h)
				defer j.lab.Rejoin(h)
			}
			return pause(ctx, d)
		}
	}
	down := netlab.Link{Down: true}
	return []fault{
		{name: "worker cut off briefly", how: fmt.Sprintf("all its packets vanish for %v", brief), inject: isolate(brief, "worker1"), same: true},
		{name: "worker cut off for longer than the lease", how: fmt.Sprintf("all its packets vanish for %v", long), inject: isolate(long, "worker1"), within: lease + 2*time.Second},
		{name: "server cut off briefly", how: fmt.Sprintf("all its packets vanish for %v", brief), inject: isolate(brief, "server0"), same: true},
		{name: "half of the workers cut off", how: fmt.Sprintf("packets of two workers vanish for %v", long), inject: isolate(long, "worker0", "worker1"), within: lease + 2*time.Second},
		{name: "scheduler cut off for longer than the lease", how: fmt.Sprintf("all its packets vanish for %v", long), inject: isolate(long, "scheduler"), same: true, within: time.Second},
		{name: "half-open, to a server", how: fmt.Sprintf("what a worker sends to a server vanishes for %v", long), inject: link("worker1", "server0", down, long), same: true},
		{name: "half-open, from a server", how: fmt.Sprintf("what a server sends to a worker vanishes for %v", long), inject: link("server1", "worker2", down, long), same: true},
		{name: "connections reset", how: "every packet between workers and servers answered with a TCP reset for 0.3 s", same: true, inject: func(ctx context.Context, j *job) error {
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
		}},
		{name: "slow links", how: "200 ms each way between all, for 10 s", inject: link(netlab.Any, netlab.Any, netlab.Link{Delay: 200 * time.Millisecond}, 10*time.Second), same: true},
		{name: "lossy links", how: "5 % of all packets lost, to the end", inject: func(_ context.Context, j *job) error {
			j.lab.Set(netlab.Any, netlab.Any, netlab.Link{Loss: 0.05})
			return nil
		}, same: true},
		{name: "duplicating links", how: "20 % of all packets come twice, up to 20 ms late, to the end", inject: func(_ context.Context, j *job) error {
			j.lab.Set(netlab.Any, netlab.Any, netlab.Link{Duplicate: 0.2, Jitter: 20 * time.Millisecond})
			return nil
		}, same: true},
		{name: "device down", how: fmt.Sprintf("ip link set down on a worker's host, up after %v", brief), same: true, inject: func(ctx context.Context, j *job) error {
			if err := j.device("worker1", "down"); err != nil {
				return err
			}
			err := pause(ctx, brief)
			if up := j.device("worker1", "up"); up != nil {
				return up
			}
			return err
		}},
	}
}

func otherFaults() []fault {
	list := []fault{
		{name: "bad bytes", how: "an unauthenticated client sends random bytes to scheduler and servers, 200 connections", same: true, within: time.Second, inject: func(ctx context.Context, j *job) error {
			return j.stranger(ctx, "garbage", 200)
		}},
		{name: "slow clients", how: "an unauthenticated client holds 300 connections open, a byte each second", same: true, within: time.Second, inject: func(ctx context.Context, j *job) error {
			return j.stranger(ctx, "slow", 300)
		}},
		{name: "wrong secret", how: "a worker with a wrong secret joins", same: true, within: time.Second, inject: func(ctx context.Context, j *job) error {
			p, err := j.start(ctx, "worker4", "PARAGON_JOIN=1", "PARAGON_RANK=-1", "PARAGON_START_TIMEOUT=5s", "PARAGON_SECRET="+strings.Repeat("ab", 16))
			if err != nil {
				return err
			}
			p.killed = true // it ends with an error
			return nil
		}},
		{name: "disk full", how: "no room left where the scheduler keeps its state, when a worker is killed", prepare: func(j *job) error {
			return mountSmall(j)
		}, inject: func(_ context.Context, j *job) error {
			fill(j.dir)
			j.kill("worker1")
			return nil
		}, within: 2500 * time.Millisecond},
	}
	if jumpWall != nil {
		list = append(list, fault{name: "clock jumps", how: fmt.Sprintf("the wall clocks of all processes jump by %v, and a second later by %v", jumps[0], jumps[1]), same: true,
			within: time.Second, inject: func(ctx context.Context, j *job) error {
				j.signalAll(syscall.SIGUSR1)
				if err := pause(ctx, time.Second); err != nil {
					return err
				}
				j.signalAll(syscall.SIGUSR1)
				return nil
			}})
	}
	return list
}

// control asks the scheduler something, from a host of the lab.
func (j *job) control(ctx context.Context, request string) error {
	out, err := j.helper(ctx, "scheduler", "control", request).Output()
	if err != nil {
		return fmt.Errorf("control %s: %w", request, err)
	}
	var done struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(out, &done); err != nil || done.Error != "" {
		return fmt.Errorf("control %s: got %s", request, out)
	}
	return nil
}

// helper is this program in another role on a host.
func (j *job) helper(ctx context.Context, host, role, argument string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	cmd := j.lab.Command(ctx, host, exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+role, roleEnv+"="+argument, "PARAGON_SECRET="+j.secret, addressEnv+"="+j.address)
	return cmd
}

func (j *job) signalAll(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.procs {
		_ = p.cmd.Process.Signal(s)
	}
}

func (j *job) device(host, state string) error {
	out, err := exec.Command("ip", "-n", j.lab.Namespace(host), "link", "set", "lab0", state).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip link set lab0 %s on %s: %w: %s", state, host, err, out)
	}
	return nil
}

// stranger lets a stranger disturb the scheduler and all servers until the job's end.
func (j *job) stranger(ctx context.Context, how string, connections int) error {
	targets := []string{j.address}
	for i := range servers {
		port, err := j.listening(fmt.Sprint("server", i))
		if err != nil {
			return err
		}
		targets = append(targets, net.JoinHostPort(j.lab.Address(fmt.Sprint("server", i)), port))
	}
	told, err := json.Marshal(disturbance{how, connections, targets})
	if err != nil {
		return err
	}
	cmd := j.helper(ctx, "stranger", "stranger", string(told))
	if err := cmd.Start(); err != nil {
		return err
	}
	j.others = append(j.others, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return nil
}

// listening returns the port on which a host listens.
func (j *job) listening(host string) (string, error) {
	out, err := exec.Command("ip", "netns", "exec", j.lab.Namespace(host), "cat", "/proc/net/tcp").Output()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		var port int
		if len(f) > 3 && f[3] == "0A" { // LISTEN
			if _, err := fmt.Sscanf(f[1][strings.Index(f[1], ":")+1:], "%X", &port); err == nil {
				return fmt.Sprint(port), nil
			}
		}
	}
	return "", fmt.Errorf("%s has no listening port", host)
}

// A disturbance is what a stranger does.
type disturbance struct {
	How         string
	Connections int
	Targets     []string
}

// disturb is the stranger.
func disturb(d disturbance) {
	for i := range d.Connections {
		go func() {
			for {
				c, err := net.DialTimeout("tcp", d.Targets[i%len(d.Targets)], 2*time.Second)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				go io.Copy(io.Discard, c)
				b := make([]byte, 4096)
				for err == nil {
					_, _ = rand.Read(b)
					if d.How == "slow" {
						b = b[:1]
						time.Sleep(time.Second)
					} else {
						time.Sleep(50 * time.Millisecond)
					}
					_, err = c.Write(b)
				}
				c.Close()
			}
		}()
	}
	select {}
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
