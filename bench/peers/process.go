package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/bench/internal/processes"
)

// errLate is the end of a program, or of a row, that takes longer than its time.
var errLate = errors.New("too slow")

// A peerError is a failure of the peer's program: a row that says so. One of ours is also an error
// of the run.
type peerError struct{ error }

func (e peerError) Unwrap() error { return e.error }

// blame tells a peer's failure from one of ours.
func (b *bench) blame(err error, args []string) error {
	if err != nil && (args[0] == b.python || args[0] == b.llmc) {
		return peerError{err}
	}
	return err
}

// A process is a child that answers each line with a line.
type process struct {
	*processes.Process
	args []string
	b    *bench

	// ctx ends with the row's time.
	ctx context.Context

	cancel  context.CancelCauseFunc
	stopped bool
}

// start returns when the child is ready.
func (b *bench) start(ctx context.Context, env []string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{args: args, b: b, ctx: ctx, cancel: cancel}
	var err error
	if p.Process, err = processes.Start(ctx, filepath.Base(args[0]), env, args...); err != nil {
		defer cancel(nil)
		return nil, p.failed(err, 0)
	}
	line, err := p.read()
	if err == nil && string(line) != "ready" {
		err = p.failed(fmt.Errorf("%s: got %.100q, want ready", p.Name, line), 0)
	}
	if err != nil {
		_ = p.stop()
		return nil, err
	}
	return p, nil
}

// read is the next line. A child that takes longer than the limit, or than the row's time, is
// killed, which ends its output.
func (p *process) read() ([]byte, error) {
	begun := time.Now()
	late := time.AfterFunc(p.b.limit, func() { p.cancel(errLate) })
	line, err := p.Line()
	late.Stop()
	if err != nil {
		waited := time.Since(begun)
		if end := p.stop(); end != nil {
			err = end
		}
		return nil, p.failed(err, waited)
	}
	return line, nil
}

// failed is an error of the child, or that it was killed since its time was up.
func (p *process) failed(err error, waited time.Duration) error {
	switch cause := context.Cause(p.ctx); {
	case cause == errLate: //nolint:errorlint // a wrapped one says more, below
		return fmt.Errorf("%s: no answer within %v: %w", filepath.Base(p.args[0]), waited.Round(time.Second/10), errLate)
	case errors.Is(cause, errLate):
		return fmt.Errorf("%s: no answer when %w", filepath.Base(p.args[0]), cause)
	}
	return p.b.blame(err, p.args)
}

// ask returns the three numbers of an answer.
func (p *process) ask(question string) (n [3]float64, err error) {
	if _, err := fmt.Fprintln(p.In, question); err != nil {
		return n, p.failed(fmt.Errorf("%s: %q: %w", p.Name, question, errors.Join(err, p.stop())), 0)
	}
	line, err := p.read()
	if err != nil {
		return n, err
	}
	_, err = fmt.Sscan(string(line), &n[0], &n[1], &n[2])
	if err != nil || !(n[0] >= 0 && n[1] >= 0 && n[2] >= 0) {
		return n, p.failed(fmt.Errorf("%s: %q: got %.100q, want three numbers, none below 0", p.Name, question, line), 0)
	}
	return n, nil
}

// run plays a spell: steps, seconds, seconds of CPU time.
func (p *process) run(seconds float64) ([3]float64, error) {
	n, err := p.ask(fmt.Sprintf("run %g", seconds))
	if err == nil && (n[0] == 0 || n[1] == 0) {
		err = p.failed(fmt.Errorf("%s: got %v steps in %v s, want both above 0", p.Name, n[0], n[1]), 0)
	}
	return n, err
}

// stop ends the child's input and waits for its end, not for long.
func (p *process) stop() error {
	if p.stopped {
		return nil
	}
	p.stopped = true
	defer p.cancel(nil)
	return p.Stop()
}
