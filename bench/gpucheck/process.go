package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// limitVariable tells a child how long it has.
const limitVariable = "GPUCHECK_LIMIT"

// grace is how long a child may take after SIGQUIT to write its stacks, and how long processes that it leaves behind may hold its pipes.
const grace = 2 * time.Second

// margin is by how much a child gives up before it is ended, so that it can end others and say how far it came.
func margin(limit time.Duration) time.Duration {
	return min(limit/2, max(limit/10, grace+time.Second))
}

// runSection runs one section in a child and takes its rows as they come.
func runSection(ctx context.Context, s settings, sec section, limit time.Duration, rep *report) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its time limit of %s has passed", limit.Round(time.Second)))
	defer cancel()
	text, err := runChild(ctx, s, sec, limit, rep)
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	detail := err.Error()
	if line := failure(text); line != "" {
		detail += ": " + line
	}
	rep.add(row{Section: sec.name, Name: "the section's process", Status: fail, Detail: detail})
	rep.Logs = append(rep.Logs, childLog{sec.name, err.Error(), text})
}

// runChild returns what a child wrote besides rows, and how it ended if that was not well.
func runChild(ctx context.Context, s settings, sec section, limit time.Duration, rep *report) (string, error) {
	self := s.self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return "", err
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, self, "-section", sec.name, "-data", s.data, "-bin", s.bin, "-python", s.python,
		"-device", strconv.Itoa(s.device), "-epochs", strconv.Itoa(s.epochs), "-small="+strconv.FormatBool(s.small))
	cmd.Env = append(os.Environ(), limitVariable+"="+(limit-margin(limit)).String())
	cmd.SysProcAttr = childAttr()
	tail := &tailWriter{}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = tail, tail, []*os.File{w}
	// One that hangs, perhaps within a library, says where; then it is killed, and so is whom it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = grace
	err = cmd.Start()
	w.Close()
	if err != nil {
		return "", err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		readRows(r, sec.name, rep)
	}()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = r.SetReadDeadline(time.Now().Add(grace)) // if one still has the pipe who left the group
	<-read
	if errors.Is(err, exec.ErrWaitDelay) { // it did end well
		err = nil
	}
	return tail.String(), err
}

// readRows adds rows to the report until the pipe ends.
func readRows(r *os.File, section string, rep *report) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v row
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			v = row{Name: "row", Status: fail, Detail: fmt.Sprintf("%v: %q", err, lines.Text())}
		}
		v.Section = section
		rep.add(v)
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		rep.add(row{Section: section, Name: "row", Status: fail, Detail: err.Error()})
	}
}

// failure is the line of a program's text that says why it ended: the first of a crash's, else the last.
func failure(text string) string {
	for line := range strings.Lines(text) {
		for _, begin := range []string{"panic: ", "fatal error: ", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGQUIT"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return lastLine(text)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// A tailWriter keeps the beginning and the end of what is written to it.
type tailWriter struct {
	mu         sync.Mutex
	head, tail []byte // guarded by mu
	lost       int    // bytes between them, guarded by mu
}

func (t *tailWriter) Write(p []byte) (int, error) {
	const room = 32 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), room-len(t.head))
	t.head = append(t.head, p[:n]...)
	t.tail = append(t.tail, p[n:]...)
	if over := len(t.tail) - room; over > room {
		t.lost += over
		t.tail = append([]byte(nil), t.tail[over:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost > 0 {
		return fmt.Sprintf("%s\n... %d bytes ...\n%s", t.head, t.lost, t.tail)
	}
	return string(t.head) + string(t.tail)
}
