// Package processes runs a benchmark's job as processes of its own: a scheduler, servers and
// workers, each the benchmark's program in another role, or another program that reads the same
// variables.
//
//	running, err := processes.Job{Workers: 2, Servers: 1, Env: []string{settings}}.Start(ctx)
//	defer func() { err = errors.Join(err, running.End(err != nil)) }()
//	line, err := running.Workers[0].Line()
//
// In such a process Main plays the scheduler or a server, or calls what a worker does.
package processes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Job says what processes there are.
type Job struct {
	Workers, Servers int
	// Env has variables of all processes, besides those of the job.
	Env []string
	// Of one process, where it is not as the others; each may be nil.
	// EnvOf says which further variables a process has.
	EnvOf func(role string, rank int) ([]string, error)
	// Command says what runs in place of this program.
	Command func(role string, rank int) []string
	// Address is where others reach a process, in place of 127.0.0.1.
	Address func(role string, rank int) string
}

// Running are the processes of a job that was started.
type Running struct {
	// Workers are in the order of their ranks.
	Workers []*Process

	all []*Process
}

// Start starts the scheduler, then servers and workers. After an error no process is left.
func (j Job) Start(ctx context.Context) (*Running, error) {
	r := &Running{}
	if err := j.start(ctx, r); err != nil {
		// The processes' own words come first.
		return nil, errors.Join(r.End(true), err)
	}
	return r, nil
}

func (j Job) start(ctx context.Context, r *Running) error {
	var secret [16]byte
	rand.Read(secret[:])
	one := func(role string, rank int, scheduler string) (*Process, error) {
		host, port, err := net.SplitHostPort(scheduler)
		if err != nil {
			return nil, err
		}
		env := append([]string{"DMLC_ROLE=" + role, "DMLC_PS_ROOT_URI=" + host, "DMLC_PS_ROOT_PORT=" + port,
			fmt.Sprintf("DMLC_NUM_WORKER=%d", j.Workers), fmt.Sprintf("DMLC_NUM_SERVER=%d", j.Servers), fmt.Sprintf("PARAGON_RANK=%d", rank),
			"PARAGON_SECRET=" + hex.EncodeToString(secret[:]), "DMLC_NODE_HOST=" + j.address(role, rank)}, j.Env...)
		if j.EnvOf != nil {
			more, err := j.EnvOf(role, rank)
			if err != nil {
				return nil, err
			}
			env = append(env, more...)
		}
		return j.process(ctx, r, role, rank, env)
	}
	scheduler, err := one("scheduler", 0, net.JoinHostPort(j.address("scheduler", 0), "0"))
	if err != nil {
		return err
	}
	line, err := scheduler.Line()
	if err != nil {
		return fmt.Errorf("the scheduler did not say where it listens: %w", err)
	}
	addr := strings.TrimSpace(string(line))
	for rank := range j.Servers {
		if _, err := one("server", rank, addr); err != nil {
			return err
		}
	}
	for rank := range j.Workers {
		w, err := one("worker", rank, addr)
		if err != nil {
			return err
		}
		r.Workers = append(r.Workers, w)
	}
	return nil
}

func (j Job) address(role string, rank int) string {
	if j.Address == nil {
		return "127.0.0.1"
	}
	return j.Address(role, rank)
}

func (j Job) process(ctx context.Context, r *Running, role string, rank int, env []string) (*Process, error) {
	var command []string
	if j.Command != nil {
		command = j.Command(role, rank)
	}
	if command == nil {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = []string{exe}
	}
	p, err := Start(ctx, fmt.Sprintf("%s %d", role, rank), env, command...)
	if err != nil {
		return nil, err
	}
	r.all = append(r.all, p)
	return p, nil
}

// End waits for all processes; where the job is broken they are ended first. Its errors have what
// the failed ones wrote to standard error.
func (r *Running) End(broken bool) (err error) {
	if broken {
		for _, p := range r.all {
			p.In.Close()
		}
		late := time.AfterFunc(grace, func() {
			for _, p := range r.all {
				p.kill()
			}
		})
		defer late.Stop()
	}
	for i := len(r.all) - 1; i >= 0; i-- {
		// Workers come first, since they say what was wrong.
		err = errors.Join(err, r.all[i].Wait())
	}
	return err
}

// CPU returns the CPU time that all processes of a role have used ("": of any), or 0 where the
// system does not tell it.
func (r *Running) CPU(role string) time.Duration {
	// USER_HZ is 100 on all of Linux' common machines.
	const tick = 10 * time.Millisecond
	total := time.Duration(0)
	for _, p := range r.all {
		if !strings.HasPrefix(p.Name, role) {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
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
