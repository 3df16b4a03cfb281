package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// launchProgram is the launch program, built for these tests. It is built without the race
// detector, whose processes take long to start; asLauncher makes a launcher of the test program
// itself, which has the detector where the tests have it.
var launchProgram string

const asLauncher = "LAUNCH_TEST_MAIN"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("DMLC_ROLE") == "worker" && os.Getenv(dividedTrial) != "":
		os.Exit(dividedWorker())
	case os.Getenv("DMLC_ROLE") == "worker" && os.Getenv(stopFile) != "":
		os.Exit(elasticWorker())
	case os.Getenv("DMLC_ROLE") == "worker" && os.Getenv(fitDir) != "":
		os.Exit(fitWorker())
	case os.Getenv("DMLC_ROLE") == "worker":
		os.Exit(testWorker())
	case os.Getenv(asLauncher) != "":
		os.Exit(launch(os.Args, os.Stdout, os.Stderr))
	}
	dir, err := os.MkdirTemp("", "launch-test-")
	if err == nil {
		launchProgram = filepath.Join(dir, "launch")
		err = testbuild.Programs(dir, "launch")
	}
	// Most tests wait for processes: more of them at a time keep the processors busy.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// A launcher is a launch under test.
type launcher struct {
	*exec.Cmd
	stdout, stderr *output
	records        string // $XDG_RUNTIME_DIR
	done           chan struct{}
}

// An output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer

	// on gets something at each write, if there is room.
	on chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.on <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// patience is how long tests wait for something that must come; the machine may be busy.
const patience = 60 * time.Second

// startLauncher runs `launch args` in dir.
func startLauncher(t *testing.T, dir string, args ...string) *launcher {
	t.Helper()
	return startProgram(t, launchProgram, dir, args...)
}

func startProgram(t *testing.T, program, dir string, args ...string) *launcher {
	t.Helper()
	return startWith(t, program, dir, nil, args...)
}

// startWith starts a launcher with more variables in its environment.
func startWith(t *testing.T, program, dir string, env []string, args ...string) *launcher {
	t.Helper()
	return startCommand(t, nil, exec.Command(program, args...), dir, env)
}

// startOutput starts a launcher whose standard output is a file.
func startOutput(t *testing.T, stdout *os.File, dir string, env []string, args ...string) *launcher {
	t.Helper()
	return startCommand(t, stdout, exec.Command(launchProgram, args...), dir, env)
}

func startCommand(t *testing.T, stdout *os.File, cmd *exec.Cmd, dir string, env []string) *launcher {
	t.Helper()
	program, args := cmd.Path, cmd.Args[1:]
	l := &launcher{Cmd: cmd, done: make(chan struct{})}
	l.stdout, l.stderr = &output{on: make(chan struct{}, 1)}, &output{on: make(chan struct{}, 1)}
	l.Stdout, l.Stderr, l.Dir = l.stdout, l.stderr, dir
	if stdout != nil {
		l.Stdout = stdout
	}
	if program != launchProgram {
		l.Env = append(os.Environ(), asLauncher+"=1")
	}

	// No record of a test stands among the user's.
	l.records = t.TempDir()
	l.Env = append(append(l.Environ(), "XDG_RUNTIME_DIR="+l.records), env...)
	l.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.WaitDelay = time.Second
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { l.Wait(); close(l.done) }()
	t.Cleanup(func() {
		l.Process.Kill()
		<-l.done
		if t.Failed() {
			t.Logf("launch %q\nstdout:\n%s\nstderr:\n%s", args, l.stdout, l.stderr)
		}
	})
	return l
}

// await waits until some output of the launcher holds want.
func (l *launcher) await(t *testing.T, want string) {
	t.Helper()
	l.awaitTimes(t, want, 1)
}

// awaitTimes waits until want stands there so often.
func (l *launcher) awaitTimes(t *testing.T, want string, times int) {
	t.Helper()
	deadline := time.After(patience)
	there := func() int { return strings.Count(l.stdout.String(), want) + strings.Count(l.stderr.String(), want) }
	for there() < times {
		select {
		case <-l.stdout.on:
		case <-l.stderr.on:
		case <-l.done:
			if n := there(); n < times {
				t.Fatalf("launch ended, and %q stands there %d times, want %d", want, n, times)
			}
		case <-deadline:
			t.Fatalf("%q stands there %d times after %s, want %d", want, there(), patience, times)
		}
	}
}

// exit waits for the launcher's end and returns its exit code.
func (l *launcher) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(patience):
		t.Fatalf("launch has not ended after %s", patience)
	}
	return l.ProcessState.ExitCode()
}

var jobLine = regexp.MustCompile(`job ([0-9a-f]{16}): scheduler at`)

// job is the job's ID.
func (l *launcher) job(t *testing.T) string {
	t.Helper()
	l.await(t, ": scheduler at ")
	return jobLine.FindStringSubmatch(l.stderr.String())[1]
}

// processesOf finds all processes of a job by their environment, wherever they went, but those of a
// role.
func processesOf(job, but string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		b, err := os.ReadFile(path) // empty for zombies
		if err == nil && bytes.Contains(b, []byte("PARAGON_JOB="+job)) && (but == "" || !bytes.Contains(b, []byte("DMLC_ROLE="+but))) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// wantNoProcess waits until no process of the job is left, and fails if that takes longer than 5 s
// from since. On a machine so busy that this test itself gets no time it may take longer.
func wantNoProcess(t *testing.T, job string, since time.Time) {
	t.Helper()
	wantNone(t, since, func() []int { return processesOf(job, "") })
}

func wantNone(t *testing.T, since time.Time, left func() []int) {
	t.Helper()
	limit := 5 * time.Second
	var pids []int
	for last := time.Now(); ; {
		// Those that are known first: a look at every process of the machine takes as long
		// as the wait below.
		if pids = slices.DeleteFunc(pids, ended); len(pids) == 0 {
			pids = left()
		}
		if len(pids) == 0 {
			return
		}
		if took := time.Since(since); took > limit {
			for _, pid := range pids {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d of the job is left after %s: %q", pid, took, b)
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
		now := time.Now()
		if gap := now.Sub(last); gap > 100*time.Millisecond {
			limit += 2 * gap
		}
		last = now
	}
}

// ended says whether a process is gone, or only its exit code is left.
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err != nil || len(b) == 0
}

// takesLong skips a test that starts many processes: half a second of processor time and more. CI
// runs it where it runs this package with the race detector or with clusters.
func takesLong(t *testing.T) {
	t.Helper()
	if os.Getenv("PARAGON_TEST_SLOW") == "" && os.Getenv("PARAGON_TEST_CLUSTERS") == "" {
		t.Skip("starts many processes; set PARAGON_TEST_SLOW=1")
	}
}

func needProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("finding left processes needs /proc: ", err)
	}
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}
