package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/internal/launched"
	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// The job: workers and servers on the first hosts; two more may be added.
const (
	workers, servers = 3, 3
	hosts            = 5
	heartbeat, lease = time.Second, 6 * time.Second
	// So many servers stay at least.
	minServers    = 2
	shortly, long = time.Second, 12 * time.Second
)

// A job is the one that runs.
type job struct {
	*launched.Job // nil until launch runs

	c     *config
	lab   *netlab.Lab
	dir   string
	log   *os.File
	said  progress
	begun time.Time
	done  []injected
	use   []sample
	here  []string   // hosts with workers, as was asked
	ranks [hosts]int // of the server on each host, as was asked; -1: there is none
}

// An injected fault is one that was carried out.
type injected struct {
	fault
	what string
	at   time.Time
}

// A sample is what a process used at a time.
type sample struct {
	process
	rss, files int
}

func hostName(i int) string { return fmt.Sprint("host", i) }

// start makes the hosts and starts launch.
func start(ctx context.Context, c *config) (j *job, err error) {
	names := []string{"launcher"}
	for i := range hosts {
		names = append(names, hostName(i))
	}
	j = &job{c: c}
	if j.dir, err = os.MkdirTemp("", "paragon-soak"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.lab, err = netlab.New(c.seed, names...); err != nil {
		return j, err
	}
	exe, err := os.Executable()
	if err != nil {
		return j, err
	}
	var places, lines []string
	for _, name := range names {
		places = append(places, name+"="+j.lab.Namespace(name)+"="+j.lab.Address(name))
	}
	for i := range j.ranks {
		if j.ranks[i] = i; i >= servers {
			j.ranks[i] = -1
		}
	}
	for i := range workers {
		lines = append(lines, hostName(i))
		j.here = append(j.here, hostName(i))
	}
	if err := os.WriteFile(filepath.Join(j.dir, "hosts"), []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		return j, err
	}
	if err := os.Mkdir(filepath.Join(j.dir, "events"), 0o777); err != nil {
		return j, err
	}
	// Hosts come and go: more workers take fewer steps for an epoch. If the job ends early,
	// another one follows.
	perEpoch := time.Duration(examples/((workers+1)*batch)) * (stepTime + 10*time.Millisecond)
	epochs := max(2, int(time.Duration(c.minutes*float64(time.Minute))/perEpoch))
	args := []string{"-n", fmt.Sprint(workers), "-s", fmt.Sprint(servers), "-H", "hosts", "--ssh-command", exe + " ssh",
		"--elastic-training-enabled", "--on-worker-loss", "shrink", "--backups", "1", "--rejoin", "1000", "--state", filepath.Join(j.dir, "state"),
		"--join-timeout", "1m",
		"--env", eventsEnv + "=" + j.events(), "--env", fmt.Sprintf("%s=%d", epochsEnv, epochs),
		"--env", "PARAGON_HEARTBEAT=" + heartbeat.String(), "--env", "PARAGON_LEASE=" + lease.String(), "--"}
	if c.cifar10 == "" {
		args = append(args, exe, "worker")
	} else {
		program, err := filepath.Abs(c.cifar10)
		if err != nil {
			return j, err
		}
		args = append(args, program, "--epochs", fmt.Sprint(c.epochs), "--batch", "16", "--train-examples", "1920", "--test-examples", "500",
			"--threads", "1", "--lr", "0.0005", "--out", filepath.Join(j.dir, "out"))
	}
	if j.log, err = os.Create(filepath.Join(j.dir, "launch.log")); err != nil {
		return j, err
	}
	fmt.Printf("%d workers and %d servers on %d hosts; launch %s\n", workers, servers, workers, strings.Join(args, " "))
	j.Job, err = launched.Start(ctx, launched.Config{Dir: j.dir, Launch: c.launch, Args: args, Env: []string{labEnv + "=" + strings.Join(places, ",")},
		Show: c.verbose, Log: j.log, Each: j.said.read, Command: j.command})
	if err != nil {
		return j, err
	}
	j.begun = time.Now()
	return j, nil
}

// command is one on the launcher's host.
func (j *job) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return j.lab.Command(ctx, "launcher", program, args...)
}

func (j *job) events() string { return filepath.Join(j.dir, "events") }

// close ends launch and what is left of the job.
func (j *job) close() {
	if j.Job != nil {
		j.Job.Close()
		list, _ := processes(j.events())
		for _, p := range list {
			if it, err := os.FindProcess(p.pid); err == nil {
				_ = it.Kill()
			}
		}
	}
	if j.lab != nil {
		if err := j.lab.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
	}
	if j.log != nil {
		j.log.Close()
	}
	os.RemoveAll(j.dir)
}

// steps reads all that workers have told, in the order of time.
func (j *job) steps() (list []event, ends []*ending, err error) {
	if j.c.cifar10 != "" {
		return j.said.steps(), nil, nil
	}
	files, err := filepath.Glob(filepath.Join(j.events(), "*.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil { // the last line of a killed process
				continue
			}
			if e.End != nil {
				ends = append(ends, e.End)
			} else {
				list = append(list, e)
			}
		}
		err = errors.Join(lines.Err(), f.Close())
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(list, func(a, b event) int { return a.At.Compare(b.At) })
	return list, ends, nil
}

// ctl runs launch ctl.
func (j *job) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cmd := j.command(ctx, j.Launch, append([]string{"ctl"}, args...)...)
	cmd.Dir, cmd.Env = j.dir, j.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("launch ctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
