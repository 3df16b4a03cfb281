package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// bridgeCommand starts the test's binary as a bridge. Its end of the socket is descriptor 3, the
// pidfd of this process 4 unless it is to have none.
func bridgeCommand(socket *os.File, withParent bool, more ...string) *exec.Cmd {
	args := []string{"--socket", "3"}
	cmd := exec.Command(os.Args[0])
	cmd.ExtraFiles = []*os.File{socket}
	if withParent {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			panic(err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "self"))
		args = append(args, "--parent", "4")
	}
	cmd.Args = append(cmd.Args[:1:1], append(args, more...)...)
	cmd.Env = append(os.Environ(), processVariable+"=bridge")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd
}

// beKilled is a Python process: it joins a job of the environment, begins an exchange that waits for
// another worker, has a child that keeps the socket open, writes the numbers of the bridge's and the
// child's processes, and waits to be killed.
func beKilled() {
	t := &program{}
	socket, fd := socketPair(t)
	end := os.NewFile(uintptr(fd), "bridge")
	cmd := bridgeCommand(end, os.Getenv("PARAGON_TEST_PIDFD") != "")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end.Close()
	file, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.ExtraFiles = []*os.File{file}
	child.Env = append(os.Environ(), processVariable+"=child")
	child.Stdin = os.Stdin
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := playPython(t, socket).join("dist_sync")
	_, plan := p.plan(100, 50000)
	p.exchange(flagAnswer, plan, 0, 2, 1)
	p.mustAsk("state", nil, nil)
	fmt.Println(cmd.Process.Pid, child.Process.Pid)
	select {}
}

// A program is a testing.TB of a process that is no test.
type program struct{ testing.TB }

func (*program) Helper()             {}
func (*program) Cleanup(func())      {}
func (p *program) Fatal(args ...any) { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (p *program) Fatalf(format string, args ...any) {
	p.Fatal(fmt.Sprintf(format, args...))
}

// environment is that of worker 0 of a job over TCP.
func environment(t *testing.T, job *jobtest.Job) []string {
	t.Helper()
	cfg := job.WorkerConfig(0)
	host, port, err := net.SplitHostPort(cfg.Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "DMLC_ROLE=worker", "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
		fmt.Sprint("DMLC_NUM_WORKER=", cfg.NumWorkers), fmt.Sprint("DMLC_NUM_SERVER=", cfg.NumServers), "PARAGON_RANK=0",
		"PARAGON_JOB="+cfg.Job, "PARAGON_SECRET="+hex.EncodeToString(cfg.Secret), "DMLC_NODE_HOST=127.0.0.1", "PARAGON_LEASE=1m")
}

// awaitEnd waits for the end of a process that is no child.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			unix.Kill(pid, unix.SIGKILL)
			t.Fatalf("process %d has not ended: %v", pid, err)
		}
		return
	}
}

// initAndWait is the other worker: it initialises the keys of beKilled, and waits at a barrier.
func initAndWait(ctx context.Context, kv kvstore.Store) error {
	for key, size := range map[string]int{"key0": 100, "key1": 50000} {
		if err := kv.InitAverage(ctx, key, make([]float32, size)); err != nil {
			return err
		}
	}
	return kv.Barrier(ctx)
}

// A Python process that is killed while an exchange waits takes its bridge with it, although a
// forked child holds the socket, and the other workers hear of it, not by a lease.
func TestABridgeEndsWithItsPython(t *testing.T) {
	for _, pidfd := range []string{"1", ""} {
		t.Run("pidfd="+pidfd, func(t *testing.T) {
			job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1, TCP: true, Secret: []byte("0123456789abcdef0123456789abcdef")})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(environment(t, job), processVariable+"=python", "PARAGON_TEST_PIDFD="+pidfd)
			stderr := &bytes.Buffer{}
			cmd.Stderr = stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer stdin.Close()
			defer cmd.Process.Kill()

			other, err := joining.Join(t.Context(), job.WorkerConfig(1), "dist_sync", kvstore.WithTimeout(patience))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			ended := make(chan error, 1)
			go func() { ended <- initAndWait(t.Context(), other) }()
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			var bridge, child int
			if _, err := fmt.Sscan(line, &bridge, &child); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, bridge)
			err = <-ended
			if err == nil || !strings.Contains(err.Error(), " ended, and it did not close the store") || time.Since(begin) > patience/2 {
				t.Errorf("the other worker got %v after %v, want that the Python process ended", err, time.Since(begin))
			}
			stdin.Close()
			awaitEnd(t, child)
		})
	}
}

// A bridge's log goes to its own standard error up to the hello, and then where Python says; after
// close it ends with code 0.
func TestABridgesLogGoesWherePythonSays(t *testing.T) {
	socket, fd := socketPair(t)
	end := os.NewFile(uintptr(fd), "bridge")
	cmd := bridgeCommand(end, true, "--stderr", "5")
	first := &bytes.Buffer{}
	cmd.Stderr = first
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end.Close()
	w.Close()
	p := playPython(t, socket)
	if pid := p.note("hello")["pid"]; pid != float64(cmd.Process.Pid) {
		t.Errorf("the hello is of process %v, want %d", pid, cmd.Process.Pid)
	}
	p.join("dist_sync")
	if !p.joined.Alone || p.joined.Type != "dist_sync" {
		t.Errorf("got %+v, want a job of one worker", p.joined)
	}
	for _, signal := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	p.mustAsk("close", nil, nil)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the bridge ended with %v, want code 0", err)
	}
	second, err := io.ReadAll(r)
	if err != nil || first.Len() > 0 || !strings.Contains(string(second), "no job in the environment") {
		t.Errorf("the first standard error got %q, the second %q, %v", first, second, err)
	}
}

// A start that fails says what is wrong on the first standard error.
func TestAStartThatFailsSaysWhy(t *testing.T) {
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stream[0])
	file := os.NewFile(uintptr(stream[1]), "stream")
	defer file.Close()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "want --socket N"},
		{[]string{"--socket", "x"}, 2, "invalid value"},
		{[]string{"--socket", "3", "more"}, 2, "want --socket N"},
		{[]string{"--socket", "77"}, 1, "--socket 77"},
		{[]string{"--socket", "3"}, 1, "SOCK_SEQPACKET"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Args = append(cmd.Args, tt.args...)
		cmd.Env = append(os.Environ(), processVariable+"=bridge")
		cmd.ExtraFiles = []*os.File{file}
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != tt.code || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: got %v and %q, want code %s and %q", tt.args, err, text, strconv.Itoa(tt.code), tt.want)
		}
	}
}

// A descriptor that cannot be waited for would never say that Python has ended: it is refused.
func TestAParentThatCannotBeWaitedForIsRefused(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "parent")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	stop, err := watchParent(fd, func() { t.Error("a file has ended") })
	if want := fmt.Sprintf("--parent %d", fd); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want a pidfd") {
		t.Errorf("got error %v, want one that names %s", err, want)
	}
	if err == nil {
		stop()
	}
}

// A Python process that was a worker before, such as a notebook's kernel that was started again, is
// told that its place is gone, and what to do.
func TestAWorkerThatComesAgainIsAConflict(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{Elastic: cluster.Elastic{Enabled: true}})
	first := newPython(t, of(job, 0)).join("dist_sync")
	got := newPython(t, of(job, 0)).ask("join", map[string]any{"protocol": protocol, "store": "dist_sync", "timeout_ms": 60000}, nil)
	if got == nil || got.Class != "Conflict" || !strings.Contains(got.Text, "conflict") {
		t.Errorf("beside the worker: got %+v, want class Conflict", got)
	}
	other := newPython(t, of(job, -1)).ask("join", map[string]any{"protocol": protocol, "store": "dist_sync", "timeout_ms": 60000}, nil)
	if other == nil || other.Class != "Conflict" || !strings.Contains(other.Text, "launch ctl add") {
		t.Errorf("of no rank: got %+v, want class Conflict and what to do", other)
	}
	first.mustAsk("close", nil, nil)
}
