package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A Process is a program that was started, with its standard input and output. It is to end when
// its input does.
type Process struct {
	// Name has the role and the rank, such as "worker 0"; In is the standard input.
	Name string
	In   io.WriteCloser

	cmd    *exec.Cmd
	cancel context.CancelFunc
	// killed says that kill ended it.
	killed atomic.Bool
	out    io.ReadCloser
	// lines reads out.
	lines  *bufio.Scanner
	stderr Tail
}

const (
	// maxLine bounds a line, in bytes.
	maxLine = 16 << 20
	// grace is how long a program may take to end behind its input, and to close what it writes to.
	grace = 2 * time.Second
)

// Start starts a program; env is variables besides those of this process. When ctx ends the program
// is killed with all that it has started.
func Start(ctx context.Context, name string, env []string, command ...string) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{Name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...), cancel: cancel}
	if err := p.start(env); err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func (p *Process) start(env []string) (err error) {
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = append(os.Environ(), env...), &p.stderr, grace
	OwnGroup(p.cmd)
	p.cmd.Cancel = func() error {
		// A process that has left the group may hold it open.
		p.out.Close()
		return SignalGroup(p.cmd, syscall.SIGKILL)
	}
	if p.In, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return err
	}
	p.lines = bufio.NewScanner(p.out)
	p.lines.Buffer(nil, maxLine)
	return p.cmd.Start()
}

// Line returns the next line of the program's standard output. It is valid until the next call.
func (p *Process) Line() ([]byte, error) {
	if p.lines.Scan() {
		return p.lines.Bytes(), nil
	}
	if err := p.lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		return nil, fmt.Errorf("%s: standard output: %w", p.Name, err)
	}
	return nil, fmt.Errorf("%s: its standard output ended", p.Name)
}

// Wait returns when the program has ended by itself or with its context. Its error has the end of
// what the program wrote to standard error; that kill has ended it is no error.
func (p *Process) Wait() error {
	_, _ = io.Copy(io.Discard, p.out)
	err := p.cmd.Wait()
	// This ends what it has left behind.
	_ = SignalGroup(p.cmd, syscall.SIGKILL)
	p.cancel()
	said := p.stderr.Last()
	switch {
	case err == nil || p.killed.Load():
		return nil
	case said == "":
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return fmt.Errorf("%s: %w: %s", p.Name, err, said)
}

// Stop ends the program's input and waits for its end; after a while it is killed.
func (p *Process) Stop() error {
	p.In.Close()
	late := time.AfterFunc(grace, p.kill)
	defer late.Stop()
	return p.Wait()
}

func (p *Process) kill() {
	p.killed.Store(true)
	p.cancel()
}

// OwnGroup lets a program that is not yet started be the first of a process group.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// SignalGroup sends a signal to a program with a group of its own and to all that it has started.
func SignalGroup(cmd *exec.Cmd, signal syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// A Tail keeps the end of what is written to it.
type Tail struct{ kept []byte }

const tailBytes = 64 << 10

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-tailBytes):]
	return len(b), nil
}

// String is what was kept.
func (t *Tail) String() string { return string(t.kept) }

// Last is the last lines, few enough for an error.
func (t *Tail) Last() string {
	const most = 2000
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept[max(0, len(t.kept)-most):])), "")
}

// Reason is an error in one line, to stand in a row of results.
func Reason(err error) string {
	const most = 200
	text := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '|' {
			return ' '
		}
		return r
	}, string(text[:min(len(text), most)]))
}
