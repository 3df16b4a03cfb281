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

const (
	// The first hosts have a worker and a server each; two more may be added.
	workers, servers = 3, 3
	hosts            = 5

	// minHosts and minServers stay at least: without them the job would end.
	minHosts, minServers = 2, 2

	heartbeat, lease = time.Second, 6 * time.Second

	// shortly is less than a lease, and long is more.
	shortly, long = time.Second, 12 * time.Second
)

// A job is the one that runs.
type job struct {
	// Job is nil until launch runs.
	*launched.Job

	c     *config
	lab   *netlab.Lab
	dir   string
	log   *os.File
	said  progress
	begun time.Time
	done  []injected
	use   []sample

	// here are the hosts with workers, as was asked for.
	here []string

	// ranks has the rank of each host's server, as was asked for; -1: it has none.
	ranks [hosts]int
}

// An injected fault is one that was carried out.
type injected struct {
	fault
	what string
	at   time.Time
}

// A sample is what a process used at a time: KiB of memory and open files.
type sample struct {
	process
	rss, files int
}

func hostName(i int) string { return fmt.Sprint("host", i) }

// start makes the hosts and starts launch. What it made before an error is closed.
func start(ctx context.Context, c *config) (j *job, err error) {
	j = &job{c: c}
	if j.dir, err = os.MkdirTemp("", "paragon-soak"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	names := []string{"launcher"}
	for i := range hosts {
		names = append(names, hostName(i))
	}
	if j.lab, err = netlab.New(c.seed, names...); err != nil {
		return j, err
	}
	if err := j.place(); err != nil {
		return j, err
	}
	args, err := j.launchArgs()
	if err != nil {
		return j, err
	}
	if j.log, err = os.Create(filepath.Join(j.dir, "launch.log")); err != nil {
		return j, err
	}
	fmt.Printf("%d workers and %d servers on %d hosts; launch %s\n", workers, servers, workers, strings.Join(args, " "))
	j.Job, err = launched.Start(ctx, launched.Config{
		Dir:     j.dir,
		Launch:  c.launch,
		Args:    args,
		Env:     []string{labEnv + "=" + j.places(names)},
		Show:    c.verbose,
		Log:     j.log,
		Each:    j.said.read,
		Command: j.command,
	})
	if err != nil {
		return j, err
	}
	j.begun = time.Now()
	return j, nil
}

// place notes which hosts have a worker and a server, and writes the files that launch and the
// workers need.
func (j *job) place() error {
	for i := range j.ranks {
		if j.ranks[i] = i; i >= servers {
			j.ranks[i] = -1
		}
	}
	for i := range workers {
		j.here = append(j.here, hostName(i))
	}
	if err := os.WriteFile(filepath.Join(j.dir, "hosts"), []byte(strings.Join(j.here, "\n")+"\n"), 0o666); err != nil {
		return err
	}
	return os.Mkdir(j.events(), 0o777)
}

// places are the hosts as labEnv has them.
func (j *job) places(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, name+"="+j.lab.Namespace(name)+"="+j.lab.Address(name))
	}
	return strings.Join(list, ",")
}

// launchArgs are launch's arguments, with the program and its own.
func (j *job) launchArgs() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-n", fmt.Sprint(workers), "-s", fmt.Sprint(servers), "-H", "hosts", "--ssh-command", exe + " ssh",
		"--elastic-training-enabled", "--on-worker-loss", "shrink", "--backups", "1", "--rejoin", "1000", "--state", filepath.Join(j.dir, "state"),
		"--join-timeout", "1m",
		"--env", eventsEnv + "=" + j.events(), "--env", fmt.Sprintf("%s=%d", epochsEnv, j.epochs()),
		"--env", "PARAGON_HEARTBEAT=" + heartbeat.String(), "--env", "PARAGON_LEASE=" + lease.String(), "--"}
	if j.c.cifar10 == "" {
		return append(args, exe, "worker"), nil
	}
	program, err := filepath.Abs(j.c.cifar10)
	if err != nil {
		return nil, err
	}
	return append(args, program, "--epochs", fmt.Sprint(j.c.epochs), "--batch", "16", "--train-examples", "1920", "--test-examples", "500",
		"--threads", "1", "--lr", "0.0005", "--out", filepath.Join(j.dir, "out")), nil
}

// epochs is how many fill the time. As hosts come, more workers take fewer steps for an epoch. If
// the job ends early, another one follows.
func (j *job) epochs() int {
	perEpoch := time.Duration(examples/((workers+1)*batch)) * (stepTime + 10*time.Millisecond)
	return max(2, int(time.Duration(j.c.minutes*float64(time.Minute))/perEpoch))
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
		events, err := readEvents(name)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range events {
			if e.End != nil {
				ends = append(ends, e.End)
			} else {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b event) int { return a.At.Compare(b.At) })
	return list, ends, nil
}

// readEvents reads the file of one worker. The last line of a killed process may be cut short, and
// does not count.
func readEvents(name string) (list []event, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			list = append(list, e)
		}
	}
	return list, errors.Join(lines.Err(), f.Close())
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
