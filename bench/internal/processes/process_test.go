package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, ctx context.Context, script string) *Process {
	t.Helper()
	p, err := Start(ctx, "peer", nil, "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A program that hangs ends with its context, and so does what it has started, although that holds
// its output open.
func TestAProgramEndsWithWhatItStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := start(t, ctx, "sleep 600 & echo $!; wait")
	line, err := p.Line()
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(line))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if line, err := p.Line(); err == nil {
		t.Errorf("got line %q of a program that was killed", line)
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "peer: signal: killed") {
		t.Errorf("got error %v, want the program's name and signal", err)
	}
	for deadline := time.Now().Add(10 * time.Second); running(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d, which the program had started, still runs", child)
		}
	}
}

// running reports whether a process still runs. A zombie does not.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z")
}

// A program that writes without end, and does not end with its input, is an error and costs neither
// much memory nor much time.
func TestAProgramThatWritesWithoutEndIsStopped(t *testing.T) {
	p := start(t, t.Context(), "yes >&2 & tr '\\0' x </dev/zero")
	if line, err := p.Line(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %d bytes and error %v, want an error of a line that is too long", len(line), err)
	}
	begun := time.Now()
	if err := p.Stop(); err != nil {
		t.Errorf("got error %v, want none of a program that was killed", err)
	}
	if said := p.stderr.Last(); !strings.HasSuffix(said, "\ny") || len(said) > 3000 {
		t.Errorf("got %d bytes %.100q, want the end of what the program wrote to standard error", len(said), said)
	}
	if took := time.Since(begun); took > grace+10*time.Second {
		t.Errorf("it took %v, want about %v", took, grace)
	}
}

func TestReasonIsOneLine(t *testing.T) {
	got := Reason(errors.Join(errors.New("worker 0: a|b"), errors.New("worker 1: \x1b[31m"+strings.Repeat("é", 300))))
	if want := "worker 0: a b; worker 1:  [31m" + strings.Repeat("é", 170); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
