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
)

// What a process of a job is told besides the job's own variables.
const (
	settingsEnv = "PARAGON_BENCH_LINKS" // settings, JSON
	deviceEnv   = "PARAGON_BENCH_DEVICE"
)

// A turn is what rank 0 tells of some steps with one compression.
type turn struct {
	Way      int // index in settings.Ways
	Took     time.Duration
	Up, Down uint64 // bytes that left the workers' end of the link, and that came in
}

type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// runJob runs a job on both ends of a link and returns the turns of rank 0.
func runJob(ctx context.Context, l *link, s *settings) (turns []turn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var children []*child
	defer func() {
		for _, c := range children {
			if err != nil {
				c.stdin.Close() // a process ends with its standard input
			}
		}
		for _, c := range children {
			if ended := c.cmd.Wait(); ended != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w: %s", c.name, ended, strings.TrimSpace(c.stderr.String())))
			}
		}
		cancel()
	}()
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	told, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	start := func(role string, rank int, scheduler string) (*child, error) {
		host, port, err := net.SplitHostPort(scheduler)
		if err != nil {
			return nil, err
		}
		space, address := l.servers, serversAddress
		if role == "worker" {
			space, address = l.workers, workersAddress
		}
		c := &child{name: fmt.Sprintf("%s %d", role, rank), cmd: exec.CommandContext(ctx, "ip", "netns", "exec", space, exe)}
		c.cmd.Env = append(os.Environ(), "DMLC_ROLE="+role, "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
			fmt.Sprintf("DMLC_NUM_WORKER=%d", s.Workers), "DMLC_NUM_SERVER=1", fmt.Sprintf("PARAGON_RANK=%d", rank),
			"PARAGON_SECRET="+hex.EncodeToString(secret[:]), "DMLC_NODE_HOST="+address, settingsEnv+"="+string(told), deviceEnv+"="+l.device)
		c.cmd.Stderr, c.cmd.WaitDelay = &c.stderr, 5*time.Second
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
		children = append(children, c)
		return c, nil
	}
	scheduler, err := start("scheduler", 0, serversAddress+":0")
	if err != nil {
		return nil, err
	}
	addr, err := scheduler.stdout.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the scheduler did not say where it listens: %w", err)
	}
	if _, err := start("server", 0, strings.TrimSpace(addr)); err != nil {
		return nil, err
	}
	var first *child
	for rank := range s.Workers {
		w, err := start("worker", rank, strings.TrimSpace(addr))
		if err != nil {
			return nil, err
		}
		if rank == 0 {
			first = w
		}
	}
	lines := json.NewDecoder(first.stdout)
	for range len(s.Ways) * s.Count {
		var t turn
		if err := lines.Decode(&t); err != nil {
			return turns, fmt.Errorf("worker 0 told of %d turns, want %d: %w", len(turns), len(s.Ways)*s.Count, err)
		}
		turns = append(turns, t)
		fmt.Fprintf(os.Stderr, "%v: %v a step\n", s.Ways[t.Way], (t.Took / time.Duration(s.Steps)).Round(time.Millisecond))
	}
	return turns, nil
}
