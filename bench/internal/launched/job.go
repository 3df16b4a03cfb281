// Package launched runs a job with the launch program for a benchmark, reads what launch says, and
// asks the job's scheduler as launch ctl does.
//
//	j, err := launched.Start(ctx, launched.Config{Dir: dir, Launch: "bin/launch", Args: []string{"-n", "2", "-s", "2", "--", exe, "worker"}})
//	defer j.Close()
//	err = j.Until(ctx, "the job trains", func() (bool, error) { ... j.Ask(ctx, request, &answer) ... })
package launched

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
)

// Config says what is run.
type Config struct {
	// Dir is the job's folder, which exists: launch and its programs run there, and have it as
	// home. Close removes it.
	Dir string
	// Launch is the launch program.
	Launch string
	Args   []string
	// Env has variables beside this process's.
	Env []string
	// Show shows on standard error what launch says.
	Show bool
	Log  io.Writer
	// Each gets the lines that launch writes, one at a time. Those that are taken are not in
	// errors. It may be nil.
	Each func(line string) (taken bool)
	// Command makes the command; nil: exec.CommandContext.
	Command func(ctx context.Context, program string, args ...string) *exec.Cmd
}

// A Job is a job of launch that runs. Its methods but Close may be called concurrently.
type Job struct {
	Dir string
	// Env is launch's.
	Env []string
	// Launch is its absolute path.
	Launch string

	cmd   *exec.Cmd
	ended chan struct{}
	// err is launch's, once it has ended.
	err  error
	said output
	// runs is where launch writes records of jobs.
	runs string
}

// Start starts launch. The job may still be forming.
func Start(ctx context.Context, c Config) (*Job, error) {
	path, err := filepath.Abs(c.Launch)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"XDG_RUNTIME_DIR": c.Dir}
	runs, err := record.Dir(func(name string) string { return env[name] })
	if err != nil {
		return nil, err
	}
	j := &Job{Dir: c.Dir, Launch: path, ended: make(chan struct{}), said: output{each: c.Each}, runs: runs}
	j.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+c.Dir, "HOME="+c.Dir), c.Env...)
	if c.Command == nil {
		c.Command = exec.CommandContext
	}
	j.cmd = c.Command(ctx, path, c.Args...)
	j.cmd.Dir, j.cmd.Env = c.Dir, j.Env
	j.cmd.Cancel = func() error { return j.cmd.Process.Signal(os.Interrupt) }
	j.cmd.WaitDelay = patience
	outs := []io.Writer{&j.said}
	if c.Log != nil {
		outs = append(outs, c.Log)
	}
	if c.Show {
		outs = append(outs, os.Stderr)
	}
	out := io.MultiWriter(outs...)
	j.cmd.Stdout, j.cmd.Stderr = out, out
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		j.err = j.cmd.Wait()
		close(j.ended)
	}()
	return j, nil
}

// patience is how long launch may take to end after an interrupt, before it is killed.
const patience = 20 * time.Second

// PID is launch's process ID.
func (j *Job) PID() int { return j.cmd.Process.Pid }

// Ended is closed when launch has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Err is the error with which launch ended. Call it after Ended.
func (j *Job) Err() error { return j.err }

// Close ends launch, by force if need be, and removes the folder. A nil Job has nothing to end.
func (j *Job) Close() {
	if j == nil {
		return
	}
	_ = j.cmd.Process.Signal(os.Interrupt)
	select {
	case <-j.ended:
	case <-time.After(patience):
		_ = j.cmd.Process.Kill()
		<-j.ended
	}
	os.RemoveAll(j.Dir)
}

// Explain adds to an error what launch said last.
func (j *Job) Explain(err error) error {
	if tail := j.said.tail(); tail != "" && err != nil {
		return fmt.Errorf("%w; the last lines of launch:\n%s", err, tail)
	}
	return err
}

// errNoFailure stands for the error of a process that ended without one, before its time.
var errNoFailure = errors.New("exit status 0")

// longest bounds each wait.
const longest = 2 * time.Minute

// Until waits until ok says so, which it calls at short intervals.
func (j *Job) Until(ctx context.Context, what string, ok func() (bool, error)) error {
	for begun := time.Now(); ; {
		switch done, err := ok(); {
		case err != nil:
			return fmt.Errorf("until %s: %w", what, err)
		case done:
			return nil
		case time.Since(begun) > longest:
			return fmt.Errorf("until %s: not within %v", what, longest)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-j.ended:
			return fmt.Errorf("until %s: launch has ended: %w", what, cmp.Or(j.err, errNoFailure))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ErrForming: launch has not yet written where its job is.
var ErrForming = errors.New("launch has not told where the job is yet")

// find reads where the job is.
func (j *Job) find() (r record.Record, err error) {
	r, err = record.Find(j.runs, "", "")
	if errors.Is(err, record.ErrNone) {
		return r, ErrForming
	}
	if err == nil {
		err = r.Open()
	}
	return r, err
}

// Credential is one of those with which the job can be reached, by name; empty: there is none.
func (j *Job) Credential(name string) (string, error) {
	r, err := j.find()
	return credential(&r, name), err
}

func credential(r *record.Record, name string) string {
	for _, v := range r.Credentials {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Ask asks the scheduler as launch ctl does, and reads the answer. ErrForming: it is too early.
func (j *Job) Ask(ctx context.Context, q control.Request, answer control.Answer) error {
	r, err := j.find()
	if err != nil {
		return err
	}
	tc, err := cluster.TransportFromEnv(func(name string) string { return credential(&r, name) })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
		return cluster.Control(ctx, r.Scheduler, tc, request)
	}, q, answer)
	return err
}
