package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asLauncher in the environment makes this test program the launch program. Its first argument makes it one, too, when it is
// one of those that launch gives to itself, and "worker" makes it a worker.
const asLauncher = "LAUNCH_TEST_MAIN"

// realRoles in the environment of `launch role` keeps it from being a fake.
const realRoles = "LAUNCH_TEST_REAL"

func TestMain(m *testing.M) {
	first := ""
	if len(os.Args) > 1 {
		first = os.Args[1]
	}
	switch {
	case first == "worker":
		os.Exit(fakeWorker())
	case first == "kvworker":
		os.Exit(kvWorker())
	case first == "agent", first == "role", os.Getenv(asLauncher) != "":
		if os.Getenv(realRoles) == "" {
			roles = map[string]role{"scheduler": fakeScheduler, "server": fakeServer}
		}
		os.Exit(run(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// fakeScheduler ends once all workers have come and gone.
func fakeScheduler(ctx context.Context, getenv func(string) string, report func(string) error) error {
	l, err := net.Listen("tcp", net.JoinHostPort(getenv("DMLC_PS_ROOT_URI"), getenv("DMLC_PS_ROOT_PORT")))
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if err := report(l.Addr().String()); err != nil {
		return err
	}
	workers, err := strconv.Atoi(getenv("DMLC_NUM_WORKER"))
	if err != nil {
		return err
	}
	servers, err := strconv.Atoi(getenv("DMLC_NUM_SERVER"))
	if err != nil {
		return err
	}
	var gone sync.WaitGroup
	gone.Add(workers + servers)
	go func() { gone.Wait(); l.Close() }()
	for {
		c, err := l.Accept()
		if err != nil {
			return ctx.Err() // closed: all is over; the servers see their connections end
		}
		go func() {
			r := bufio.NewReader(c)
			line, _ := r.ReadString('\n')
			if line == "worker\n" {
				r.ReadString('\n')
			}
			gone.Done()
			r.ReadString('\n')
		}()
	}
}

// fakeServer ends when the scheduler does.
func fakeServer(ctx context.Context, getenv func(string) string, _ func(string) error) error {
	c, err := joinFake(getenv, "server")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	c.Read(make([]byte, 1))
	return nil
}

// fakeWorker joins the job, waits until standard input ends (at once) and leaves.
func fakeWorker() int {
	c, err := joinFake(os.Getenv, "worker")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	dir, _ := os.Getwd()
	fmt.Printf("rank %s of %s at %s in %s, V=%q\n", os.Getenv("PARAGON_RANK"), os.Getenv("DMLC_NUM_WORKER"),
		os.Getenv("DMLC_NODE_HOST"), dir, os.Getenv("V"))
	return 0
}

func joinFake(getenv func(string) string, role string) (net.Conn, error) {
	c, err := net.Dial("tcp", net.JoinHostPort(getenv("DMLC_PS_ROOT_URI"), getenv("DMLC_PS_ROOT_PORT")))
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte(role + "\n"))
	return c, err
}

// A launcher is a launch under test.
type launcher struct {
	*exec.Cmd
	stdout, stderr *output
	done           chan struct{}
}

// An output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
	on chan struct{} // gets something at each write, if there is room
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
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &launcher{Cmd: exec.Command(exe, args...), done: make(chan struct{})}
	l.stdout, l.stderr = &output{on: make(chan struct{}, 1)}, &output{on: make(chan struct{}, 1)}
	l.Stdout, l.Stderr, l.Dir = l.stdout, l.stderr, dir
	l.Env = append(os.Environ(), asLauncher+"=1")
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
	deadline := time.After(patience)
	for !strings.Contains(l.stdout.String(), want) && !strings.Contains(l.stderr.String(), want) {
		select {
		case <-l.stdout.on:
		case <-l.stderr.on:
		case <-l.done:
			if !strings.Contains(l.stdout.String(), want) && !strings.Contains(l.stderr.String(), want) {
				t.Fatalf("launch ended without a word of %q", want)
			}
		case <-deadline:
			t.Fatalf("no output %q after %s", want, patience)
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

// processesOf finds all processes of a job by their environment, wherever they went.
func processesOf(job string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		b, err := os.ReadFile(path) // empty for zombies
		if err == nil && bytes.Contains(b, []byte("PARAGON_JOB="+job)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// wantNoProcess waits until no process of the job is left, and fails if that takes longer than 5 s from since.
func wantNoProcess(t *testing.T, job string, since time.Time) {
	t.Helper()
	for {
		pids := processesOf(job)
		if len(pids) == 0 {
			return
		}
		if time.Since(since) > 5*time.Second {
			for _, pid := range pids {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d of the job is left after %s: %q", pid, time.Since(since), b)
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
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
