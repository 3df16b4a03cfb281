package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// The job that faults meet.
const (
	workers, servers = 4, 2
	heartbeat, lease = 500 * time.Millisecond, 3 * time.Second

	// brief is shorter than a lease, and than what the scheduler leaves a node whose connection
	// broke; long is longer than a lease.
	brief, long = 700 * time.Millisecond, 6 * time.Second

	// limit bounds a job: what takes longer hangs.
	limit = 90 * time.Second
)

var training = settings{Examples: 600, Batch: 3, Epochs: 3, Step: 40 * time.Millisecond}

// A job is one that runs.
type job struct {
	lab *netlab.Lab

	// dir is the folder of the scheduler's state, and address where the scheduler listens: port 0
	// until it has said.
	dir     string
	address string

	secret  string
	elastic bool
	backups int
	verbose bool

	// mu guards the rest.
	mu sync.Mutex

	// procs are the newest processes by their names, and all those that there ever were.
	procs map[string]*proc
	all   []*proc

	// steps are the times at which any worker was done with a step; mark is when the fault began.
	steps []time.Time
	mark  time.Time

	ends map[string]*ending

	// others stop what the fault left running.
	others []func()
}

// A proc is one process.
type proc struct {
	// name is its role with a number, such as worker1, and that of its host.
	name string

	cmd   *exec.Cmd
	stdin io.Closer
	log   tail

	// err is how it ended, once ended is closed.
	ended chan struct{}
	err   error

	// killed says that the fault ends it: how it ends does not matter.
	killed bool
}

// A tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	b    []byte
	also io.Writer
}

// Write keeps the last 64 KiB.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-64<<10):]
	if t.also != nil {
		_, _ = t.also.Write(b)
	}
	return len(b), nil
}

// lastLine is the last line, without the log's keys.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return lines[len(lines)-1]
}

// spare are hosts without a process at first: for a worker that joins, and for a stranger.
var spare = []string{"worker4", "stranger"}

// hostNames are the hosts of the lab: one for each process, and the spare ones.
func hostNames() []string {
	names := []string{"scheduler"}
	for i := range servers {
		names = append(names, fmt.Sprint("server", i))
	}
	for i := range workers {
		names = append(names, fmt.Sprint("worker", i))
	}
	return append(names, spare...)
}

// newJob makes the hosts. No process runs yet: the scheduler comes first, for it says where it
// listens.
func newJob(seed uint64, f fault, verbose bool) (*job, error) {
	lab, err := netlab.New(seed, hostNames()...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "paragon-faults")
	if err != nil {
		lab.Close()
		return nil, err
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:])
	return &job{
		lab: lab, dir: dir, secret: hex.EncodeToString(secret[:]), address: lab.Address("scheduler") + ":0", elastic: !f.fixed, backups: f.backups,
		verbose: verbose, procs: map[string]*proc{}, ends: map[string]*ending{},
	}, nil
}

// statePath is where the scheduler writes.
func (j *job) statePath() string { return filepath.Join(j.dir, "state") }

// start starts a process on the host of its name. Extra variables come last, so they count. A
// scheduler has said where it listens when start returns.
func (j *job) start(ctx context.Context, name string, extra ...string) (*proc, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := j.environment(name)
	if err != nil {
		return nil, err
	}
	p := &proc{name: name, cmd: j.lab.Command(ctx, name, exe), ended: make(chan struct{})}
	p.cmd.Env = slices.Concat(os.Environ(), env, extra)
	if j.verbose {
		p.log.also = prefixed{name, os.Stderr}
	}
	p.cmd.Stderr, p.cmd.WaitDelay = &p.log, 5*time.Second
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	addresses := make(chan string, 1)
	go func() {
		j.follow(p, stdout, addresses)
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	j.mu.Lock()
	j.procs[name] = p
	j.all = append(j.all, p)
	j.mu.Unlock()
	if name == "scheduler" {
		select {
		case j.address = <-addresses:
		case <-p.ended:
			return nil, fmt.Errorf("the scheduler did not say where it listens: %w: %s", cmp.Or(p.err, errNoFailure), p.log.lastLine())
		}
	}
	return p, nil
}

// environment tells a process what it is, and where the job is.
func (j *job) environment(name string) ([]string, error) {
	role, rank := strings.TrimRight(name, "0123456789"), strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz")
	host, port, err := net.SplitHostPort(j.address)
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(training)
	if err != nil {
		return nil, err
	}
	env := []string{
		"DMLC_ROLE=" + role,
		"DMLC_PS_ROOT_URI=" + host,
		"DMLC_PS_ROOT_PORT=" + port,
		fmt.Sprintf("DMLC_NUM_WORKER=%d", workers),
		fmt.Sprintf("DMLC_NUM_SERVER=%d", servers),
		"DMLC_NODE_HOST=" + name,
		"PARAGON_RANK=" + cmp.Or(rank, "-1"),
		"PARAGON_SECRET=" + j.secret,
		"PARAGON_LISTEN=" + j.lab.Address(name) + ":0",
		"PARAGON_HEARTBEAT=" + heartbeat.String(),
		"PARAGON_LEASE=" + lease.String(),
		"PARAGON_START_TIMEOUT=30s",
		"PARAGON_JOIN_TIMEOUT=20s",
		"PARAGON_REJOIN_TIMEOUT=20s",
		"PARAGON_STATE=" + j.statePath(),
		fmt.Sprintf("PARAGON_BACKUPS=%d", j.backups),
		roleEnv + "=" + string(told),
	}
	if j.elastic {
		env = append(env, "PARAGON_ELASTIC=1")
	}
	return env, nil
}

// A prefixed writes lines with the name of their process before them.
type prefixed struct {
	name string
	w    io.Writer
}

func (p prefixed) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		fmt.Fprintf(p.w, "%-10s %s\n", p.name, bytes.TrimRight(line, "\n"))
	}
	return len(b), nil
}

// follow reads what a process tells.
func (j *job) follow(p *proc, r io.Reader, addresses chan<- string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue
		}
		j.mu.Lock()
		switch {
		case e.Address != "":
			addresses <- e.Address
		case e.End != nil:
			j.ends[p.name] = e.End
		default:
			j.steps = append(j.steps, time.Now())
		}
		j.mu.Unlock()
	}
}

// errNoFailure stands for the error of a process that ended without one, before its time.
var errNoFailure = errors.New("exit status 0")

// at waits until a number of steps were done, by all workers together.
func (j *job) at(ctx context.Context, steps int) error {
	for begin := time.Now(); ; {
		j.mu.Lock()
		done, all := len(j.steps), slices.Clone(j.all)
		j.mu.Unlock()
		if done >= steps {
			return nil
		}
		for _, p := range all {
			select {
			case <-p.ended:
				return fmt.Errorf("after %d steps %s ended: %w: %s", done, p.name, cmp.Or(p.err, errNoFailure), p.log.lastLine())
			default:
			}
		}
		if time.Since(begin) > 40*time.Second {
			return fmt.Errorf("after 40 s %d steps are done, want %d", done, steps)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or returns why the run is over.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin notes that the fault begins.
func (j *job) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mark = time.Now()
}

// kill ends a process with SIGKILL.
func (j *job) kill(name string) *proc {
	p := j.signal(name, syscall.SIGKILL)
	p.killed = true
	return p
}

// signal sends a signal to the newest process of a name. One that has ended gets none.
func (j *job) signal(name string, s syscall.Signal) *proc {
	j.mu.Lock()
	p := j.procs[name]
	j.mu.Unlock()

	// An error says that it has ended.
	_ = p.cmd.Process.Signal(s)
	return p
}

// wait returns once all processes have ended, or at the limit with the names of those that have
// not.
func (j *job) wait(ctx context.Context) (stuck []string) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for i := 0; ; i++ {
		j.mu.Lock()
		if i == len(j.all) {
			j.mu.Unlock()
			return stuck
		}
		p := j.all[i]
		j.mu.Unlock()
		select {
		case <-p.ended:
		case <-ctx.Done():
			return append(stuck, p.name)
		case <-timer.C:
			stuck = append(stuck, p.name)
			timer.Reset(0)
		}
	}
}

// close ends what is left, and removes the hosts.
func (j *job) close() {
	for _, stop := range j.others {
		stop()
	}
	for _, p := range j.all {
		_ = p.cmd.Process.Kill()
		p.stdin.Close()
		<-p.ended
	}
	if err := j.lab.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	os.RemoveAll(j.dir)
}
