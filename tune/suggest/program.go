package suggest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/procgroup"
)

// A program is a running process.
type program struct {
	cmd    *exec.Cmd
	group  *procgroup.Group
	stdin  io.WriteCloser
	stdout io.Closer
	// lines is closed when the output has ended.
	lines chan []byte
	// err is why lines was closed, and is read after that.
	err    error
	stderr tail
	done   sync.WaitGroup
}

// tail keeps the end of what is written to it, and passes it on.
type tail struct {
	mu   sync.Mutex
	next io.Writer
	end  []byte
}

// Write keeps between 1,000 and 2,000 bytes.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end = append(t.end, b...); len(t.end) > 2000 {
		t.end = append([]byte(nil), t.end[len(t.end)-1000:]...)
	}
	if t.next != nil {
		return t.next.Write(b)
	}
	return len(b), nil
}

// text is the end, as a part of an error's text; "" if nothing was written.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.end)); s != "" {
		return "; its standard error ends: " + s
	}
	return ""
}

// start starts the program.
func (e *External) start() (*program, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(e.Command[0], e.Command[1:]...), lines: make(chan []byte)}
	p.stderr.next = e.Stderr
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("suggest: External: %s: %w", e.Command[0], err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("suggest: External: %s: %w", e.Command[0], err)
	}
	if p.group, err = procgroup.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("suggest: External: %w", err)
	}
	p.stdin, p.stdout = stdin, stdout
	p.done.Go(func() {
		defer close(p.lines)
		s := bufio.NewScanner(stdout)
		s.Buffer(nil, maxAnswer)
		for s.Scan() {
			p.lines <- append([]byte(nil), s.Bytes()...)
		}
		p.err = s.Err()
	})
	return p, nil
}

// stop ends the process and waits for it.
func (p *program) stop(kill bool) {
	p.stdin.Close()
	end := func() {
		// The whole group ends: what the program has started may print without end.
		_ = p.group.Kill()
		p.stdout.Close()
	}
	timer := time.AfterFunc(5*time.Second, end)
	if kill {
		end()
	}
	// The lines are read until the program's output has ended.
	for range p.lines {
	}
	p.done.Wait()
	p.cmd.Wait()
	p.group.Close()
	timer.Stop()
}
