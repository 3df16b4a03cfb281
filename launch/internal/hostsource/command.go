package hostsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

const (
	// answerTime bounds the time for an answer. Clients of clouds repeat requests that fail,
	// and need some seconds for one that does not.
	answerTime = 30 * time.Second
	// startTime bounds the start of the machine.
	startTime = 30 * time.Second
	// killTime bounds the wait for a command that was killed.
	killTime = 5 * time.Second
	// maxComplaint bounds what is kept of a command's standard error.
	maxComplaint = 300
)

// A Machine starts commands, as an agent does: when it closes, or launch is killed, none of them is
// left.
type Machine interface {
	Start(ctx context.Context, spec process.Spec, out process.Output) (process.Handle, error)

	// Gone is closed when the machine is lost.
	Gone() <-chan struct{}

	Close() error
}

// A Command is the source of --hosts-command. Its methods may not be called together.
type Command struct {
	text  string
	start func(ctx context.Context) (Machine, error)

	// machine is nil if it was not started.
	machine Machine

	limit time.Duration
}

// NewCommand makes the source whose answers /bin/sh prints. start makes the machine on which it
// does so, and makes another one should it be lost.
func NewCommand(text string, start func(ctx context.Context) (Machine, error)) *Command {
	return &Command{text: text, start: start, limit: answerTime}
}

// String names the source in messages.
func (c *Command) String() string { return "--hosts-command" }

// Close ends what still runs.
func (c *Command) Close() error {
	if c.machine == nil {
		return nil
	}
	return c.machine.Close()
}

// Ask runs the command.
func (c *Command) Ask(ctx context.Context) ([]Instance, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("it did not end within %s, and was killed", c.limit))
	defer cancel()
	answer, complaint := &firstBytes{most: maxAnswer + 1}, &lastLine{}
	spec := process.Spec{Name: "hosts command", Command: []string{"/bin/sh", "-c", c.text}}
	h, err := c.machine.Start(ctx, spec, process.Output{Stdout: answer, Stderr: complaint})
	switch {
	case err != nil && ctx.Err() != nil:
		// If the command has begun, the machine kills it.
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	select {
	case <-h.Done():
	case <-ctx.Done():
		h.Signal(syscall.SIGKILL)
		select {
		case <-h.Done():
		case <-time.After(killTime):
		}
		return nil, context.Cause(ctx)
	}
	if exit := h.Exit(); !exit.OK() {
		text := exit.String()
		if last := complaint.String(); last != "" {
			text += ": " + last
		}
		return nil, errors.New(text)
	}
	return decode(answer.got)
}

// ready starts the machine if there is none.
func (c *Command) ready(ctx context.Context) error {
	if c.machine != nil {
		select {
		case <-c.machine.Gone():
			_ = c.machine.Close()
			c.machine = nil
		default:
			return nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no answer within %s", startTime))
	defer cancel()
	m, err := c.start(ctx)
	if err != nil {
		return err
	}
	c.machine = m
	return nil
}

// firstBytes keeps so many bytes, and drops what follows.
type firstBytes struct {
	got  []byte
	most int
}

func (f *firstBytes) Write(b []byte) (int, error) {
	f.got = append(f.got, b[:min(len(b), f.most-len(f.got))]...)
	return len(b), nil
}

// lastLine keeps the last line that is not blank, as far as maxComplaint.
type lastLine struct{ line, last []byte }

func (l *lastLine) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n':
			l.end()
		case len(l.line) < maxComplaint:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}

func (l *lastLine) end() {
	if text := strings.TrimSpace(string(l.line)); text != "" {
		l.last = []byte(text)
	}
	l.line = l.line[:0]
}

func (l *lastLine) String() string {
	l.end()
	return strings.ToValidUTF8(string(l.last), "?")
}
