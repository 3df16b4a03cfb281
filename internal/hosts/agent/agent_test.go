//go:build unix

package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// An output collects what a process wrote.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer

	// on gets something at each write, if there is room.
	on chan struct{}
}

func newOutput() *output { return &output{on: make(chan struct{}, 1)} }

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

// await waits until the output holds want.
func (o *output) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !strings.Contains(o.String(), want) {
		select {
		case <-o.on:
		case <-deadline:
			t.Fatalf("output %q, want %q in it", o.String(), want)
		}
	}
}

// serve runs an agent in this process.
func serve(t *testing.T, cfg Config) (*Client, chan error) {
	t.Helper()
	return serveUntil(t, t.Context(), cfg)
}

// serveUntil is serve until ctx ends.
func serveUntil(t *testing.T, ctx context.Context, cfg Config) (*Client, chan error) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { err := Serve(ctx, inR, outW, cfg); outW.Close(); inR.Close(); served <- err }()
	c, err := NewClient(t.Context(), "d1", inW, outR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c, served
}

func await(t *testing.T, h process.Handle) process.Exit {
	t.Helper()
	select {
	case <-h.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("process %d has not ended", h.PID())
	}
	return h.Exit()
}

func shell(script string) process.Spec {
	return process.Spec{Name: "worker 0", Command: []string{"/bin/sh", "-c", script}}
}

func TestStartTellsOutputAndExit(t *testing.T) {
	c, _ := serve(t, Config{})
	for _, tc := range []struct {
		script, stdout, stderr, exit string
		status                       int
	}{
		{"echo out; echo err >&2", "out\n", "err\n", "exit 0", 0},
		{"exit 3", "", "", "exit 3", 3},
		{"kill -9 $$", "", "", "signal 9 (killed)", 137},
		{`printf %s "$V"`, "it's \"$HOME\"\n`x` é", "", "exit 0", 0},
		{"pwd", "/\n", "", "exit 0", 0},
		{`echo report >&3`, "", "", "exit 0", 0},
	} {
		out, errs, report := newOutput(), newOutput(), newOutput()
		spec := shell(tc.script)
		spec.Env, spec.Dir, spec.Report = []string{"V=it's \"$HOME\"\n`x` é"}, "/", true
		h, err := c.Start(t.Context(), spec, process.Output{Stdout: out, Stderr: errs, Report: report})
		if err != nil {
			t.Fatal(err)
		}
		e := await(t, h)
		if e.String() != tc.exit || e.Status() != tc.status || out.String() != tc.stdout || errs.String() != tc.stderr {
			t.Errorf("%s: %s, status %d, stdout %q, stderr %q, want %s, %d, %q, %q",
				tc.script, e, e.Status(), out, errs, tc.exit, tc.status, tc.stdout, tc.stderr)
		}
		if strings.Contains(tc.script, "report") && report.String() != "report\n" {
			t.Errorf("%s: reported %q", tc.script, report)
		}
	}
}

// A process sees the GPUs that it was given, and is not started where there are too few.
func TestProcessesSeeTheirOwnGPUs(t *testing.T) {
	c, _ := serve(t, Config{GPUs: func() ([]string, error) { return []string{"GPU-a", "GPU-b", "GPU-c"}, nil }})
	for _, tc := range []struct {
		want gpus.Want
		out  string
		err  string
	}{
		{gpus.Want{Request: gpus.Request{Each: 1}, Slot: 1, Workers: 2}, "GPU-b", ""},
		{gpus.Want{Request: gpus.Request{Auto: true}, Slot: 0, Workers: 1}, "GPU-a,GPU-b,GPU-c", ""},
		{gpus.Want{Request: gpus.Request{Each: -1}, Slot: 0, Workers: 1}, "-1", ""},
		{gpus.Want{Request: gpus.Request{Each: 2}, Slot: 0, Workers: 2}, "", "on d1: start "},
		{gpus.Want{Request: gpus.Request{Each: 2}, Slot: 0, Workers: 2}, "", "got 3 GPUs, want 4"},
		{gpus.Want{Limit: 2, Slot: 1, Workers: 2}, "GPU-a,GPU-b", ""},
		{gpus.Want{Limit: -1, Slot: 0, Workers: 1}, "-1", ""},
		{gpus.Want{Request: gpus.Request{Auto: true}, Limit: 2, Slot: 1, Workers: 2}, "GPU-b", ""},
		{gpus.Want{Request: gpus.Request{Auto: true}, Limit: -1, Slot: 0, Workers: 1}, "-1", ""},
		{gpus.Want{Request: gpus.Request{Each: 1}, Limit: 2, Slot: 0, Workers: 3}, "", "within gpus=2 of the hosts file: got 2 GPUs, want 3"},
		{gpus.Want{Request: gpus.Request{Each: 1}, Limit: -1, Slot: 0, Workers: 1}, "", "within gpus=0 of the hosts file: got no"},
		{gpus.Want{Request: gpus.Request{UUIDs: []string{"GPU-c"}}, Limit: 2, Slot: 0, Workers: 1}, "", "within gpus=2 of the hosts file: got no"},
		{gpus.Want{Limit: 4, Slot: 0, Workers: 1}, "", "got 3 GPUs, want 4: the hosts file has gpus=4"},
	} {
		out := newOutput()
		spec := shell(`printf %s "$CUDA_VISIBLE_DEVICES"`)
		spec.Env, spec.GPUs = []string{"CUDA_VISIBLE_DEVICES=7"}, &tc.want
		h, err := c.Start(t.Context(), spec, process.Output{Stdout: out})
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%+v: got error %v, want one with %q", tc.want, err, tc.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if await(t, h); out.String() != tc.out {
			t.Errorf("%+v: got %q, want %q", tc.want, out, tc.out)
		}
	}
}

// A process of a host with cpus= runs on so many of its processors, and on all where there are
// fewer.
func TestProcessesRunOnTheProcessorsTheyMayUse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux binds processes to processors")
	}
	c, _ := serve(t, Config{})
	have := len(affinity.Own())
	for _, cpus := range []int{0, 1, 1 << 16} {
		out := newOutput()
		spec := shell("unset OMP_NUM_THREADS; nproc")
		spec.CPUs = cpus
		h, err := c.Start(t.Context(), spec, process.Output{Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		want := have
		if cpus > 0 {
			want = min(cpus, have)
		}
		if await(t, h); strings.TrimSpace(out.String()) != strconv.Itoa(want) {
			t.Errorf("cpus=%d: the process has %q processors, want %d of %d", cpus, out, want, have)
		}
	}
}

// Processes that share a machine get a share of its cores each, unless the user said how many.
func TestProcessesShareTheCores(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	os.Unsetenv("GOMAXPROCS")
	c, _ := serve(t, Config{})
	for _, tc := range []struct {
		sharers int
		env     []string
		want    string
	}{
		{0, nil, ""},
		{1, nil, ""},
		{1000, nil, "1"},
		{1000, []string{"GOMAXPROCS=7"}, "7"},
	} {
		out := newOutput()
		spec := shell(`printf %s "$GOMAXPROCS"`)
		spec.Env, spec.Sharers = tc.env, tc.sharers
		h, err := c.Start(t.Context(), spec, process.Output{Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		if await(t, h); out.String() != tc.want {
			t.Errorf("%d sharers, %q: got GOMAXPROCS %q, want %q", tc.sharers, tc.env, out, tc.want)
		}
	}
	if got := withShare(nil, 3, 10); len(got) != 1 || got[0] != "GOMAXPROCS=3" {
		t.Errorf("a third of 10 cores: got %q, want GOMAXPROCS=3", got)
	}
}

func TestStartSaysWhyItCannot(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, _ := serve(t, Config{})
	for _, tc := range []struct {
		spec process.Spec
		want string
	}{
		{process.Spec{Command: []string{"no-such-program"}, Env: []string{"PATH=/nowhere"}}, `"no-such-program" is not in PATH=/nowhere`},
		{process.Spec{Command: []string{"./gone"}, Dir: dir}, "there is no program " + dir + "/gone here; build it, or copy it"},
		{process.Spec{Command: []string{plain}}, "is not executable"},
		{process.Spec{Command: []string{dir}}, "is a directory"},
		{process.Spec{Command: []string{"true"}, Dir: dir + "/gone"}, "there is no directory " + dir + "/gone"},
		{process.Spec{Command: []string{"true"}, Dir: plain}, "is not a directory"},
		{process.Spec{}, "no command"},
	} {
		tc.spec.Name = "worker 1"
		_, err := c.Start(t.Context(), tc.spec, process.Output{})
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "start worker 1") {
			t.Errorf("Start %v: error %v, want one with %q", tc.spec.Command, err, tc.want)
		}
	}
}

func TestSignalReachesTheWholeGroup(t *testing.T) {
	c, _ := serve(t, Config{})
	out := newOutput()
	// The outer shell dies of the signal at once, the inner one, its grandchild, writes its
	// checkpoint first.
	h, err := c.Start(t.Context(), shell(`sh -c 'trap "echo checkpoint; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait`),
		process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "ready")
	h.Signal(syscall.SIGTERM)
	if e := await(t, h); e.Signal != syscall.SIGTERM {
		t.Errorf("the outer shell ended by %s, want signal 15", e)
	}
	if got, want := out.String(), "ready\ncheckpoint\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func TestProcessThatEndsTakesItsGroupAlong(t *testing.T) {
	c, _ := serve(t, Config{})
	out := newOutput()
	h, err := c.Start(t.Context(), shell(`sleep 1000 & echo $!; exit 3`), process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	if e := await(t, h); e.Code != 3 {
		t.Errorf("%s, want exit 3", e)
	}
	awaitGone(t, out.String())
}

// awaitGone waits until the process whose ID was printed is gone or a zombie.
func awaitGone(t *testing.T, text string) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(text, &pid); err != nil {
		t.Fatalf("no process ID in %q: %v", text, err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still lives: %s", pid, b)
		}
	}
}

func TestAgentStopsAllWhenItsInputEnds(t *testing.T) {
	c, served := serve(t, Config{Grace: 100 * time.Millisecond})
	out := newOutput()
	h, err := c.Start(t.Context(), shell(`trap "" TERM; echo $$; while :; do sleep 0.01; done`), process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "\n")
	c.stop() // closes the agent's input
	if err := <-served; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
	awaitGone(t, out.String())
	if e := await(t, h); e.OK() {
		t.Errorf("exit of a process whose agent is gone: %s, want a failure", e)
	}
}

// An agent that is told to end, as its host is, gives its processes more time than one whose
// launcher is gone: workers leave the job in order, and the launcher hears how they ended.
func TestAgentThatIsToldToEndLetsItsProcessesFinish(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, served := serveUntil(t, ctx, Config{Grace: time.Millisecond})
	out := newOutput()
	h, err := c.Start(t.Context(), shell(`trap 'sleep 0.3; echo left; exit 0' TERM; echo ready; while :; do sleep 0.01; done`), process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "ready")
	cancel()
	out.await(t, "left")
	if e := await(t, h); !e.OK() {
		t.Errorf("exit: %s, want 0", e)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
}

// When the launcher goes meanwhile, or the time is over, they are killed.
func TestAgentThatIsToldToEndKillsWhatStays(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		gone bool
	}{{"time over", Config{Drain: time.Second}, false}, {"launcher gone", Config{Grace: time.Second}, true}} {
		ctx, cancel := context.WithCancel(t.Context())
		c, served := serveUntil(t, ctx, tc.cfg)
		out := newOutput()
		if _, err := c.Start(t.Context(), shell(`trap "echo asked" TERM; echo $$; while :; do sleep 0.01; done`), process.Output{Stdout: out}); err != nil {
			t.Fatal(err)
		}
		out.await(t, "\n")
		pid, _, _ := strings.Cut(out.String(), "\n")
		cancel()
		out.await(t, "asked")
		if tc.gone {
			c.stop()
		}
		if err := <-served; err != nil {
			t.Errorf("%s: Serve: %v, want nil", tc.name, err)
		}
		awaitGone(t, pid)
	}
}

func TestAgentStopsAllWhenTheLauncherIsSilent(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), inR, outW, Config{Lease: time.Second}); outW.Close() }()
	got := newOutput()
	read := make(chan struct{})
	go func() { io.Copy(got, outR); close(read) }()
	spec := []byte(`{"Name":"worker 0","Command":["/bin/sh","-c","echo process $$; sleep 1000"]}`)
	if _, err := inW.Write(appendFrame(nil, kindStart, 1, spec)); err != nil {
		t.Fatal(err)
	}
	silent, over := make(chan struct{}), make(chan struct{})

	// The launcher lives until the process does.
	go func() {
		defer close(over)
		for {
			select {
			case <-silent:
				return
			case <-time.After(10 * time.Millisecond):
				inW.Write(appendFrame(nil, kindPing, 0, nil))
			}
		}
	}()
	got.await(t, "process ")
	close(silent)
	if err := <-served; err == nil || !strings.Contains(err.Error(), "silent for 1s") {
		t.Errorf("Serve: %v, want that the launcher has been silent", err)
	}
	<-read
	inR.Close()
	<-over
	r := &lineReader{bufio.NewReader(strings.NewReader(got.String()))}
	if _, err := readHello(r); err != nil {
		t.Fatal(err)
	}
	for {
		k, _, body, _, err := readFrame(r, nil)
		if err != nil {
			t.Fatal("no output of the process: ", err)
		}
		if k == kindStdout {
			awaitGone(t, strings.TrimPrefix(string(body), "process "))
			return
		}
	}
}

func TestLostAgentEndsEveryHandle(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go io.Copy(io.Discard, inR)
	go func() {
		io.WriteString(outW, "Welcome to d1\n"+opening)
		f := &frameWriter{w: outW}
		f.sendJSON(kindHello, 0, Hello{Hostname: "d1"})
		f.sendJSON(kindStarted, 1, startedBody{PID: 7})
		outW.Close()
	}()
	c, err := NewClient(t.Context(), "d1", inW, outR)
	if err != nil {
		t.Fatal(err)
	}
	if c.Hello().Hostname != "d1" {
		t.Errorf("Hello %+v", c.Hello())
	}
	<-c.Gone()
	if _, err := c.Start(t.Context(), shell("true"), process.Output{}); !errors.Is(err, ErrLost) {
		t.Errorf("Start after the end: %v, want ErrLost", err)
	}
	if _, err := c.Ask(t.Context(), Question{}); !errors.Is(err, ErrLost) {
		t.Errorf("Ask after the end: %v, want ErrLost", err)
	}
}

// The connection breaks after the request to start a process, and before its answer.
func TestAnAgentLostDuringAStartIsLost(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		f := &frameWriter{w: outW}
		io.WriteString(outW, opening)
		f.sendJSON(kindHello, 0, Hello{Hostname: "d1"})
		inR.Read(make([]byte, 1))
		outW.Close()
		io.Copy(io.Discard, inR)
	}()
	c, err := NewClient(t.Context(), "d1", inW, outR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), shell("true"), process.Output{}); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "d1") {
		t.Errorf("got %v, want ErrLost of d1", err)
	}
}

func TestNewClientShowsWhatAnsweredInPlaceOfAnAgent(t *testing.T) {
	_, inW := io.Pipe()
	_, err := NewClient(t.Context(), "d1", inW, io.NopCloser(strings.NewReader("bash: launch: command not found\n")))
	if err == nil || !strings.Contains(err.Error(), "command not found") {
		t.Errorf("error %v, want what the shell said", err)
	}
}

// An agent of another version is refused by name, whatever stands before its first line.
func TestAnAgentOfAnotherVersionIsRefused(t *testing.T) {
	for _, theirs := range []string{"1", "3"} {
		_, inW := io.Pipe()
		out := "Welcome to d1\npwd\n" + magic + theirs + "\n" + "h\x00\x00\x00\x00\x02\x00\x00\x00{}"
		_, err := NewClient(t.Context(), "d1", inW, io.NopCloser(strings.NewReader(out)))
		if want := `the agent is of version "` + theirs + `", want "2": use the same launch program on all hosts`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: got %v, want %q", theirs, err, want)
		}
	}
}

func TestAnswerTellsAboutTheMachine(t *testing.T) {
	c, _ := serve(t, Config{})
	dir := filepath.Join(t.TempDir(), "a", "b")
	a, err := c.Ask(t.Context(), Question{MakeDir: dir, Programs: []string{"sh", "no-such-program"}, Listen: "127.0.0.1:0", Hold: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if len(a.Missing) != 1 || a.Missing[0] != "no-such-program" || time.Since(a.Time) > time.Minute {
		t.Errorf("answer %+v", a)
	}
	if err := CheckGreeting(t.Context(), a.Listening); err != nil {
		t.Error(err)
	}
	b, err := c.Ask(t.Context(), Question{Dial: []string{a.Listening, "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if b.Dial[a.Listening] != "" || b.Dial["127.0.0.1:1"] == "" {
		t.Errorf("dialled: %v", b.Dial)
	}
	if _, err := c.Ask(t.Context(), Question{MakeDir: "/proc/none/such"}); err == nil || !strings.Contains(err.Error(), "on d1") {
		t.Errorf("MakeDir in /proc: error %v", err)
	}
}

// FuzzServe: nothing a broken launcher sends makes an agent panic or hang. Start is left out, it
// would run commands.
func FuzzServe(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, kindSignal, 1, []byte(`{"Signal":15}`)), kindPing, 0, nil))
	f.Add(appendFrame(nil, kindStart, 1, []byte(`{`)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'Q', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("ommand")) || bytes.ContainsAny(b, "QS\\") && len(b) > 20 {
			return
		}
		Serve(t.Context(), bytes.NewReader(b), io.Discard, Config{Grace: time.Millisecond})
	})
}

// FuzzClient: nothing a broken agent sends makes the launcher panic or hang.
func FuzzClient(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, kindStarted, 1, []byte(`{"PID":1}`)), kindExit, 1, []byte(`{"Code":3}`)))
	f.Add(appendFrame(nil, kindStdout, 1, []byte("x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		inR, inW := io.Pipe()
		go io.Copy(io.Discard, inR)
		out := opening + string(appendFrame(nil, kindHello, 0, []byte("{}"))) + string(b)
		c, err := NewClient(t.Context(), "d1", inW, io.NopCloser(strings.NewReader(out)))
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Start(t.Context(), shell("true"), process.Output{Stdout: io.Discard})
		if err == nil {
			h.Exit()
		}
		<-c.Gone()
	})
}
