package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

func TestLocalJobRunsAllRolesAndEndsWithZero(t *testing.T) {
	needProc(t)
	// All roles are this program here, with the race detector if the tests have it.
	l := startProgram(t, self(t), t.TempDir(), "-n", "2", "-s", "2", "--env-worker", "V=it's $HOME, \"x\"", "--", self(t))
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	for rank := range 2 {
		want := fmt.Sprintf("worker %d  | rank %[1]d of 2 has its sums at localhost in %s, V=%q\n", rank, l.Dir, "it's $HOME, \"x\"")
		if !strings.Contains(l.stdout.String(), want) {
			t.Errorf("stdout has no line %q", want)
		}
	}
	for _, want := range []string{"scheduler  -     localhost", "server     1     localhost", "worker     1     localhost", "ENDED", "LAST LINE"} {
		if !strings.Contains(l.stderr.String(), want) {
			t.Errorf("the tables have no %q", want)
		}
	}
	if n := strings.Count(l.stderr.String(), "exit 0"); n != 5 {
		t.Errorf("the table at the end has exit 0 %d times, want 5", n)
	}
	wantNoProcess(t, l.job(t), time.Now())
}

// With --output json a program reads whose line is whose without a look at any text.
func TestOutputAsJSON(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startLauncher(t, "", "-n", "2", "-s", "1", "--output", "json", `echo "worker 7 | rank $PARAGON_RANK"; printf err >&2`)
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	got := make(map[control.Line]int)
	if err := control.ReadLines(strings.NewReader(l.stdout.String()), func(line control.Line) { got[line]++ }); err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		for _, want := range []control.Line{
			{Role: control.Worker, Rank: rank, Stream: control.Stdout, Text: fmt.Sprintf("worker 7 | rank %d", rank)},
			{Role: control.Worker, Rank: rank, Stream: control.Stderr, Text: "err"},
		} {
			if got[want] != 1 {
				t.Errorf("the line %+v is there %d times, want once, in\n%s", want, got[want], l.stdout)
			}
		}
	}
	if !strings.Contains(l.stderr.String(), "LAST LINE") {
		t.Errorf("the standard error has no table at the end:\n%s", l.stderr)
	}
}

func TestExitCodeIsThatOfTheFirstFailure(t *testing.T) {
	t.Parallel()
	needProc(t)
	for _, tc := range []struct {
		script string
		want   int
	}{
		{`if [ $PARAGON_RANK = 1 ]; then echo "lost my mind" >&2; exit 3; fi; sleep 1000 & wait`, 3},
		{`if [ $PARAGON_RANK = 1 ]; then kill -9 $$; fi; sleep 1000 & wait`, 137},
	} {
		l := startLauncher(t, "", "-n", "3", "-s", "1", tc.script)
		if code := l.exit(t); code != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.script, code, tc.want)
		}
		if want := "worker 1 on localhost failed"; !strings.Contains(l.stderr.String(), want) {
			t.Errorf("%s: stderr has no %q", tc.script, want)
		}
		wantNoProcess(t, l.job(t), time.Now())
	}
}

func TestInterruptLetsWorkersSaveTheirState(t *testing.T) {
	needProc(t)
	const script = `trap 'echo checkpoint; exit 0' TERM; echo ready; while :; do sleep 0.05; done`
	for _, tc := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		l := startLauncher(t, "", "-n", "2", "-s", "1", script)
		job := l.job(t)
		l.await(t, "worker 0  | ready")
		l.await(t, "worker 1  | ready")
		at := time.Now()
		l.Process.Signal(tc.signal)
		if code := l.exit(t); code != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.signal, code, tc.want)
		}
		wantNoProcess(t, job, at)
		if n := strings.Count(l.stdout.String(), "| checkpoint\n"); n != 2 {
			t.Errorf("%s: %d workers saved their state, want 2", tc.signal, n)
		}
	}
}

// `launch ... | less` must end when it is asked to, though nobody reads what the workers still
// write.
func TestInterruptDoesNotWaitForAReader(t *testing.T) {
	t.Parallel()
	needProc(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(launchProgram, "-n", "2", "-s", "1", "while :; do echo a line of a worker that never rests; done")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = w, w, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	defer func() { cmd.Process.Kill(); <-done }()
	head := make([]byte, 4096)

	// The workers write, and from here on nobody reads.
	for got := 0; got < 64<<10; {
		n, err := r.Read(head)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("launch did not end within %s", patience)
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

func TestSecondInterruptKills(t *testing.T) {
	needProc(t)
	l := startLauncher(t, "", "-n", "1", "--stop-timeout", "1000s", `trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done`)
	job := l.job(t)
	l.await(t, "| ready")
	l.Process.Signal(syscall.SIGINT)
	l.await(t, "| no")
	at := time.Now()
	l.Process.Signal(syscall.SIGINT)
	if code := l.exit(t); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	wantNoProcess(t, job, at)
}

func TestKilledLauncherLeavesNoProcess(t *testing.T) {
	t.Parallel()
	needProc(t)
	// Every worker has a child in its group, one that left its group and session, and ignores
	// polite requests.
	const script = `trap '' TERM; sleep 1000 & setsid sh -c 'trap "" TERM HUP; echo away; while :; do sleep 0.2; done' & echo ready; while :; do sleep 0.2; done`
	l := startLauncher(t, "", "-n", "2", "-s", "1", script)
	job := l.job(t)
	for _, want := range []string{"worker 0  | ready", "worker 1  | ready", "worker 0  | away", "worker 1  | away"} {
		l.await(t, want)
	}
	if n := len(processesOf(job, "")); n < 8 {
		t.Fatalf("%d processes of the job, want at least 8", n)
	}
	at := time.Now()
	l.Process.Kill()
	wantNoProcess(t, job, at)
}

// A launcher that is stopped (Ctrl-Z) is silent, but lives: its job on the same machine goes on.
func TestStoppedLauncherKeepsItsLocalJob(t *testing.T) {
	t.Parallel()
	needProc(t)
	file := filepath.Join(t.TempDir(), "file")
	l := startLauncher(t, "", "-n", "1", "--host-timeout", "1001ms", "echo ready; until [ -e "+file+" ]; do sleep 0.05; done; "+self(t))
	l.await(t, "| ready")
	l.Process.Signal(syscall.SIGSTOP)

	// This is longer than any silence that an agent would forgive.
	time.Sleep(1500 * time.Millisecond)
	l.Process.Signal(syscall.SIGCONT)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestWorkerThatCannotStartStopsTheJob(t *testing.T) {
	needProc(t)
	l := startLauncher(t, "", "-n", "1", "no-such-program", "--flag")
	if code := l.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := `start worker 0: program "no-such-program" is not in PATH`; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
}

func TestSecretsAreOnNoCommandLineAndInNoLog(t *testing.T) {
	needProc(t)
	l := startLauncher(t, "", "-n", "1", "--tls", "on", `echo ready; sleep 1000 & wait`)
	job := l.job(t)
	l.await(t, "| ready")
	secrets := make(map[string]bool)
	for _, pid := range processesOf(job, "") {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		for v := range strings.SplitSeq(string(b), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			switch {
			case name == "PARAGON_SECRET" && len(value) != 64:
				t.Errorf("secret of %d characters, want 64", len(value))
			case name == "PARAGON_SECRET":
				secrets[value] = true
			case name == "PARAGON_IDENTITY" && len(value) > 1000:
				secrets[value[len(value)-40:]] = true // the key
			}
		}
	}

	// There is one for all, and scheduler, server and worker have a key each.
	if len(secrets) != 4 {
		t.Fatalf("got %d secrets, want 4", len(secrets))
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, _ := os.ReadFile(path)
		for secret := range secrets {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s has a secret", path)
			}
		}
	}
	l.Process.Signal(syscall.SIGTERM)
	l.exit(t)
	for secret := range secrets {
		if strings.Contains(l.stdout.String()+l.stderr.String(), secret) {
			t.Error("the output has a secret")
		}
	}
}

func TestTwoJobsAtOnce(t *testing.T) {
	needProc(t)
	// The first job's worker waits for a file that the second job's worker makes.
	file := filepath.Join(t.TempDir(), "file")
	a := startLauncher(t, "", "-n", "1", "until [ -e "+file+" ]; do sleep 0.05; done; "+self(t))
	jobA := a.job(t)
	b := startLauncher(t, "", "-n", "1", self(t)+" && echo > "+file)
	if code := b.exit(t); code != 0 {
		t.Errorf("second job: exit code %d, want 0", code)
	}
	if code := a.exit(t); code != 0 {
		t.Errorf("first job: exit code %d, want 0", code)
	}
	if jobA == b.job(t) {
		t.Error("both jobs have the ID ", jobA)
	}
}

func TestGoRunIsBuiltOnceAndKeepsItsExitCode(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module m\n\ngo 1.21\n",
		"main.go": "package main\n\nimport \"os\"\n\nfunc main() { println(len(os.Args), os.Args[1]); os.Exit(5) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := startLauncher(t, dir, "-n", "1", "--", "go", "run", ".", "-n=7")
	if code := l.exit(t); code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
	if want := "worker 0  | 2 -n=7"; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
}
