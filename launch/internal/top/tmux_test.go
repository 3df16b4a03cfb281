package top

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// asProgram makes this test's program one that shows a made-up job in its terminal; its value
// "panic": until the second answer.
const asProgram = "TOP_TEST_PROGRAM"

func TestMain(m *testing.M) {
	mode := os.Getenv(asProgram)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := Run(context.Background(), &fakeSource{job: fakeJob{workers: 4, servers: 2}, panics: mode == "panic"}, time.Now(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A fakeSource answers for a made-up job.
type fakeSource struct {
	job    fakeJob
	panics bool
}

func (s *fakeSource) Ask(ctx context.Context, q control.Request, into control.Answer) ([]byte, error) {
	switch into := into.(type) {
	case *control.Telemetry:
		if s.job.seconds++; s.panics && s.job.seconds == 2 {
			panic("the second answer")
		}
		*into = *s.job.telemetry()
	case *control.Events:
		if q.WaitMillis > 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		into.Phase = control.Running
	}
	return nil, nil
}

func (s *fakeSource) Over() bool { return false }

// A terminal is one of tmux, with a shell in it.
type terminal struct {
	t      *testing.T
	socket string
}

func (x terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.CommandContext(x.t.Context(), "tmux", append([]string{"-S", x.socket, "-f", os.DevNull}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (x terminal) send(keys ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys", "-t", "top"}, keys...)...)
}

func (x terminal) await(what string, is func() bool) {
	x.t.Helper()
	for begin := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			x.t.Fatalf("no %s; the terminal shows\n%s", what, x.tmux("capture-pane", "-t", "top", "-p"))
		}
	}
}

func (x terminal) awaitText(text string) {
	x.t.Helper()
	x.await(fmt.Sprintf("%q", text), func() bool { return strings.Contains(x.tmux("capture-pane", "-t", "top", "-p"), text) })
}

// state says whether the alternate screen is on and the cursor is shown.
func (x terminal) state() string {
	x.t.Helper()
	return strings.TrimSpace(x.tmux("display-message", "-p", "-t", "top", "#{alternate_on} #{cursor_flag}"))
}

// foreground is the program that the terminal's keys go to.
func (x terminal) foreground() string {
	x.t.Helper()
	return strings.TrimSpace(x.tmux("display-message", "-p", "-t", "top", "#{pane_current_command}"))
}

// terminate sends SIGTERM to the process whose number is in a file.
func terminate(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// However it ends, and while it is suspended, the terminal is as it was.
func TestTheTerminalIsRestored(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skipf("tmux is not installed: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	x := terminal{t, filepath.Join(dir, "tmux")}
	x.tmux("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "env PS1='$ ' bash --norc --noprofile")
	defer x.tmux("kill-server")
	const normal, full = "0 1", "1 0"
	stty := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		x.send(fmt.Sprintf("stty -g > %s.new; mv %s.new %s", path, path, path), "Enter")
		x.await("stty", func() bool { _, err := os.Stat(path); return err == nil })
		b, err := os.ReadFile(path)
		if err != nil || len(b) < 10 {
			t.Fatalf("stty -g wrote %q, %v", b, err)
		}
		return string(b)
	}
	before := stty("before")
	restored := func(after string) {
		t.Helper()
		// Until it has ended, or stopped, it reads the terminal: it would take what is
		// typed for the shell.
		x.await("normal screen and shell after "+after, func() bool { return x.state() == normal && x.foreground() == "bash" })
		if got := stty(strings.ReplaceAll(after, " ", "-")); got != before {
			t.Errorf("after %s the terminal's modes are %q, want %q", after, got, before)
		}
	}
	begin := func(mode string) {
		t.Helper()
		x.send(fmt.Sprintf("clear; %s=%s sh -c 'echo $$ > %s/pid; exec %s'", asProgram, mode, dir, self), "Enter")
	}
	shown := func() {
		t.Helper()
		x.awaitText("host3")
		if got := x.state(); got != full {
			t.Errorf("while it runs: alternate screen and cursor are %q, want %q", got, full)
		}
	}

	begin("run")
	shown()
	x.tmux("resize-window", "-t", "top", "-x", "140", "-y", "40")
	x.awaitText("sorted by blame") // stands there in wide terminals
	x.send("C-z")
	restored("suspend")
	x.send("fg", "Enter")
	shown()
	x.send("q")
	restored("q")

	begin("run")
	shown()
	x.send("C-z")
	restored("second suspend")
	terminate(t, filepath.Join(dir, "pid"))
	x.send("clear; fg; echo ended", "Enter")
	x.awaitText("\nended")
	restored("SIGTERM while suspended")

	begin("run")
	shown()
	terminate(t, filepath.Join(dir, "pid"))
	restored("SIGTERM")

	begin("panic")
	x.awaitText("program experienced a panic")
	restored("a panic")
}
