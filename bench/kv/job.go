package main

import (
	"bufio"
	"bytes"
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
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/identity"
)

// A job is one run of processes.
type job struct {
	size
	transport string
	works     []string
	scale     float64
	profile   string
	peer      []string // command of another program that plays the works; nil: this one

	processes []*child
}

// A child is one process of a job.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// run runs the job and reports each work as it ends.
func (j *job) run(ctx context.Context, r *report) (err error) {
	defer func() { err = errors.Join(err, j.end(err != nil)) }()
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	plan, err := plan(j.works, j.scale)
	if err != nil {
		return err
	}
	var authority *identity.Authority
	if j.transport == secure {
		if authority, err = identity.NewAuthority("bench"); err != nil {
			return err
		}
	}
	backups := 0
	if j.backups {
		backups = 1
	}
	start := func(role string, rank int, scheduler string) (*child, error) {
		shown := "" // with no authority
		if authority != nil {
			id, err := authority.Issue(role, fmt.Sprintf("%s %d", role, rank))
			if err != nil {
				return nil, err
			}
			shown = id.Encode()
		}
		host, port, err := net.SplitHostPort(scheduler)
		if err != nil {
			return nil, err
		}
		return j.start(ctx, fmt.Sprintf("%s %d", role, rank), "DMLC_ROLE="+role, "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
			fmt.Sprintf("DMLC_NUM_WORKER=%d", j.workers), fmt.Sprintf("DMLC_NUM_SERVER=%d", j.servers), fmt.Sprintf("PARAGON_RANK=%d", rank),
			"PARAGON_SECRET="+hex.EncodeToString(secret[:]), "PARAGON_IDENTITY="+shown, "DMLC_NODE_HOST=127.0.0.1",
			roleEnv+"="+role, workEnv+"="+strings.Join(j.works, ","), scaleEnv+"="+strconv.FormatFloat(j.scale, 'g', -1, 64),
			fmt.Sprintf("PARAGON_BACKUPS=%d", backups), transportEnv+"="+j.transport, profileEnv+"="+j.profile, planEnv+"="+plan)
	}
	sched, err := start("scheduler", 0, "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr, err := sched.stdout.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the scheduler did not say where it listens: %w", err)
	}
	addr = strings.TrimSpace(addr)
	for rank := range j.servers {
		if _, err := start("server", rank, addr); err != nil {
			return err
		}
	}
	var workers []*child
	for rank := range j.workers {
		w, err := start("worker", rank, addr)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	for _, name := range j.works {
		m := measured{job: j.size, transport: j.transport}
		if m.work, err = findWork(name); err != nil {
			return err
		}
		skip := false
		for _, w := range workers {
			e, err := w.event(name, true)
			if err != nil {
				return err
			}
			skip = e.Skip
		}
		if skip {
			continue
		}
		before, workersBefore := j.cpu(""), j.cpu("worker")
		for _, w := range workers {
			e, err := w.event(name, false)
			if err != nil {
				return err
			}
			m.add(e)
		}
		m.cpu, m.workerCPU = j.cpu("")-before, j.cpu("worker")-workersBefore
		r.line(&m)
	}
	return nil
}

func (j *job) start(ctx context.Context, name string, env ...string) (*child, error) {
	command := j.peer
	if command == nil {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = []string{exe}
	}
	var err error
	c := &child{name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Env, c.cmd.Stderr, c.cmd.WaitDelay = append(os.Environ(), env...), &c.stderr, 5*time.Second
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	j.processes = append(j.processes, c)
	return c, nil
}

// event reads the child's next event, which must be this one.
func (c *child) event(work string, begin bool) (event, error) {
	var e event
	line, err := c.stdout.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &e)
	}
	if err == nil && (e.Work != work || e.Begin != begin && !(begin && e.Skip)) {
		err = fmt.Errorf("got %q, want work %s", line, work)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", c.name, err)
	}
	return e, nil
}

// end waits for all processes; where the job is broken they are ended first.
func (j *job) end(broken bool) error {
	var first error
	for i := len(j.processes) - 1; i >= 0; i-- { // workers first: they say what was wrong
		c := j.processes[i]
		if broken {
			c.stdin.Close()
		}
		io.Copy(io.Discard, c.stdout)
		if err := c.cmd.Wait(); err != nil && first == nil {
			first = fmt.Errorf("%s: %w: %s", c.name, err, bytes.TrimSpace(c.stderr.Bytes()))
		}
	}
	return first
}

// cpu returns the CPU time that all processes of a role have used ("": of any), or 0 where the system does not tell it.
func (j *job) cpu(role string) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all of Linux' common machines
	total := time.Duration(0)
	for _, c := range j.processes {
		if !strings.HasPrefix(c.name, role) {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err != nil {
			return 0
		}
		// pid (name) state ppid ...; utime and stime are fields 14 and 15.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 13 {
			return 0
		}
		for _, text := range f[11:13] {
			n, _ := strconv.ParseInt(text, 10, 64)
			total += time.Duration(n) * tick
		}
	}
	return total
}
