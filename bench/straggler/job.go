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
	"strings"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// What a process of a job is told besides the job's own variables.
const (
	roleEnv     = "PARAGON_STRAGGLER_ROLE"
	settingsEnv = "PARAGON_STRAGGLER_SETTINGS" // JSON
)

// A report is what a worker writes to its standard output at the end, as JSON.
type report struct {
	Steps        int
	Missed, Lead metrics.Histogram
	Snapshots    []snapshot // of rank 0
}

// A snapshot is how far the job had come at a time.
type snapshot struct {
	Seconds  float64
	Examples float64 // trained by all workers
	Accuracy float64
}

// A result is what a job brought.
type result struct {
	Steps        []int // by rank
	Missed, Lead metrics.Histogram
	Snapshots    []snapshot
}

func (r *result) last() snapshot { return r.Snapshots[len(r.Snapshots)-1] }

// at returns accuracy and time when so many examples had been trained, on a straight line between snapshots.
func (r *result) at(examples float64) (accuracy, seconds float64) {
	before := r.Snapshots[0]
	for _, s := range r.Snapshots {
		if s.Examples >= examples {
			share := 1.0
			if s.Examples > before.Examples {
				share = (examples - before.Examples) / (s.Examples - before.Examples)
			}
			return before.Accuracy + share*(s.Accuracy-before.Accuracy), before.Seconds + share*(s.Seconds-before.Seconds)
		}
		before = s
	}
	return before.Accuracy, before.Seconds
}

// A child is one process of a job.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// run runs one job.
func run(ctx context.Context, s settings) (r result, err error) {
	var children []*child
	defer func() {
		for i := len(children) - 1; i >= 0; i-- { // workers first: they say what was wrong
			c := children[i]
			if err != nil {
				c.stdin.Close()
			}
			io.Copy(io.Discard, c.stdout)
			if end := c.cmd.Wait(); end != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w: %s", c.name, end, bytes.TrimSpace(c.stderr.Bytes())))
			}
		}
	}()
	told, err := json.Marshal(s)
	if err != nil {
		return r, err
	}
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	start := func(role string, rank int, scheduler string) (*child, error) {
		host, port, err := net.SplitHostPort(scheduler)
		if err != nil {
			return nil, err
		}
		c, err := startChild(ctx, fmt.Sprintf("%s %d", role, rank), "DMLC_ROLE="+role, "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
			fmt.Sprintf("DMLC_NUM_WORKER=%d", s.Workers), "DMLC_NUM_SERVER=1", fmt.Sprintf("PARAGON_RANK=%d", rank),
			"PARAGON_SECRET="+hex.EncodeToString(secret[:]), "DMLC_NODE_HOST=127.0.0.1", roleEnv+"="+role, settingsEnv+"="+string(told))
		if err == nil {
			children = append(children, c)
		}
		return c, err
	}
	scheduler, err := start("scheduler", 0, "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	addr, err := scheduler.stdout.ReadString('\n')
	if err != nil {
		return r, fmt.Errorf("the scheduler did not say where it listens: %w", err)
	}
	addr = strings.TrimSpace(addr)
	if _, err := start("server", 0, addr); err != nil {
		return r, err
	}
	workers := make([]*child, s.Workers)
	for rank := range workers {
		if workers[rank], err = start("worker", rank, addr); err != nil {
			return r, err
		}
	}
	for rank, w := range workers {
		var own report
		line, err := w.stdout.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &own)
		}
		if err != nil {
			return r, fmt.Errorf("worker %d: %w", rank, err)
		}
		r.Steps = append(r.Steps, own.Steps)
		r.Missed.Merge(&own.Missed)
		r.Lead.Merge(&own.Lead)
		if rank == 0 {
			r.Snapshots = own.Snapshots
		}
	}
	return r, nil
}

func startChild(ctx context.Context, name string, env ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, cmd: exec.CommandContext(ctx, exe)}
	c.cmd.Env, c.cmd.Stderr, c.cmd.WaitDelay = append(os.Environ(), env...), &c.stderr, 5*time.Second
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	return c, c.cmd.Start()
}
