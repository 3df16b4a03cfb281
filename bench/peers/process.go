package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// errLate is the end of a program, or of a row, that takes longer than its time.
var errLate = errors.New("too slow")

// A process is a child that answers each line with a line.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	limit  time.Duration
	ctx    context.Context // the child's: ends with the row's time
	cancel context.CancelCauseFunc
}

// start returns when the child is ready.
func (b *bench) start(ctx context.Context, env []string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{name: args[0] + " " + args[1], cmd: exec.CommandContext(ctx, args[0], args[1:]...), limit: b.limit, ctx: ctx, cancel: cancel}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, p.late(err, 0)
	}
	line, err := p.read()
	if err == nil && line != "ready" {
		err = fmt.Errorf("%s: got %q, want ready", p.name, line)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// read is the next line. A child that takes longer than the limit, or than the row's time, is killed, which ends its output.
func (p *process) read() (string, error) {
	begun := time.Now()
	late := time.AfterFunc(p.limit, func() { p.cancel(errLate) })
	defer late.Stop()
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	return "", p.late(fmt.Errorf("%s: no answer: it ended", p.name), time.Since(begun))
}

// late is an error of a child, or that it was ended since its time was up.
func (p *process) late(err error, waited time.Duration) error {
	if context.Cause(p.ctx) == errLate {
		return fmt.Errorf("%s: no answer within %v: %w", p.name, waited.Round(time.Second/10), errLate)
	}
	return err
}

// ask returns the three numbers of an answer.
func (p *process) ask(question string) (n [3]float64, err error) {
	if _, err := fmt.Fprintln(p.in, question); err != nil {
		return n, p.late(fmt.Errorf("%s: %q: %w", p.name, question, err), 0)
	}
	line, err := p.read()
	if err != nil {
		return n, err
	}
	if _, err := fmt.Sscan(line, &n[0], &n[1], &n[2]); err != nil {
		return n, fmt.Errorf("%s: %q: got %q, want three numbers: %w", p.name, question, line, err)
	}
	return n, nil
}

// stop ends the child's input and waits for it, not for long.
func (p *process) stop() {
	p.in.Close()
	late := time.AfterFunc(5*time.Second, func() { p.cancel(nil) })
	_ = p.cmd.Wait()
	late.Stop()
	p.cancel(nil)
}
