package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// listenForAgents is a launcher that waits for agents.
func listenForAgents(t *testing.T, s dialin.Secret, listen string) *dialin.Listener {
	t.Helper()
	build, err := dialin.BuildOf(launchProgram)
	if err != nil {
		t.Fatal(err)
	}
	l, err := dialin.Listen(t.Context(), dialin.Config{Listen: listen, Secret: s, Build: build, Lease: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// An agentProcess is a `launch agent --join` under test.
type agentProcess struct {
	*exec.Cmd
	stderr *output
	done   chan struct{}
}

func startAgentProcess(t *testing.T, env []string, args ...string) *agentProcess {
	t.Helper()
	a := &agentProcess{Cmd: exec.Command(launchProgram, append([]string{"agent"}, args...)...), stderr: newAgentOutput(), done: make(chan struct{})}
	a.Stderr, a.Env = a.stderr, append(os.Environ(), env...)
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { a.Wait(); close(a.done) }()
	t.Cleanup(func() { a.Process.Kill(); <-a.done })
	return a
}

func newAgentOutput() *output { return &output{on: make(chan struct{}, 1)} }

// awaitOutput waits until a process has written something.
func awaitOutput(t *testing.T, o *output, want string) {
	t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(o.String(), want) {
		select {
		case <-o.on:
		case <-deadline:
			t.Fatalf("output %q, want %q in it", o, want)
		}
	}
}

// wantExit wants it to end with a code, and to say why.
func (a *agentProcess) wantExit(t *testing.T, code int, says string) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatalf("%q has not ended; it printed:\n%s", a.Args, a.stderr)
	}
	if got := a.ProcessState.ExitCode(); got != code || !strings.Contains(a.stderr.String(), says) {
		t.Errorf("%q: exit code %d, want %d and %q; it printed:\n%s", a.Args[1:], got, code, says, a.stderr)
	}
}

func dialAgent(t *testing.T, l *dialin.Listener, name string) *dialin.Machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := l.Dial(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func runOnAgent(t *testing.T, m *dialin.Machine, script string) (process.Handle, *output) {
	t.Helper()
	out := newAgentOutput()
	h, err := m.Start(t.Context(), process.Spec{Name: "worker 0", Command: []string{"/bin/sh", "-c", script}}, process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	return h, out
}

func TestAgentThatCannotJoinSaysWhy(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := dialin.NewSecret()
	mine, other := file("secret", secret.Encode()+"\n", 0o600), file("other", dialin.NewSecret().Encode(), 0o600)
	open, broken := file("open", secret.Encode(), 0o644), file("broken", "hunter2", 0o600)
	l := listenForAgents(t, secret, "127.0.0.1:0")
	at := l.Addresses()[0]
	old, err := dialin.Listen(t.Context(), dialin.Config{Listen: "127.0.0.1:0", Secret: secret, Build: "another one", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	type want struct {
		args []string
		code int
		says string
	}
	var agents []*agentProcess
	cases := []want{
		{nil, 2, "give --join ADDR"},
		{[]string{"--join", "here", "--secret-file", mine}, 2, `"here" is not an address, want host:port`},
		{[]string{"--join", at}, 2, "no secret: give --secret-file"},
		{[]string{"--join", at, "--secret-file", mine, "--runs", "everything"}, 2, `runs is "everything", want workers, servers or nothing`},
		{[]string{"--join", at, "--secret-file", mine, "--name", "me@host"}, 2, "want a host name alone"},
		{[]string{"--join", at, "--secret-file", mine, "--slots", "-1"}, 2, "slots is -1"},
		{[]string{"--join", at, "--secret-file", mine, "--host-ip", "localhost"}, 2, "localhost"},
		{[]string{"--join", at, "--secret-file", mine, "more"}, 2, `got argument "more"`},
		{[]string{"--join", at, "--secret-files", mine}, 2, "did you mean --secret-file?"},
		{[]string{"--join", at, "--secret-file", dir + "/none"}, 1, "no such file"},
		{[]string{"--join", at, "--secret-file", broken}, 1, `does not begin with "paragon-secret-1"`},
		{[]string{"--join", at, "--secret-file", open}, 1, "chmod 600"},
		{[]string{"--join", at, "--secret-file", other}, 77, "another secret: give launcher and agents the same secret file"},
		{[]string{"--join", old.Addresses()[0], "--secret-file", mine}, 77, "start the same program on all hosts"},
		{[]string{"--join", "127.0.0.1:1", "--secret-file", mine, "--join-timeout", "1s"}, 1, "not reached for 1s"},
		{[]string{"--join", "@" + dir + "/addresses", "--secret-file", mine, "--join-timeout", "1s"}, 1, "no such file"},
	}
	for _, c := range cases {
		agents = append(agents, startAgentProcess(t, nil, c.args...))
	}
	for i, c := range cases {
		agents[i].wantExit(t, c.code, c.says)
		if strings.Contains(agents[i].stderr.String(), "hunter2") || strings.Contains(agents[i].stderr.String(), secret.Encode()[20:]) {
			t.Errorf("%q printed the secret:\n%s", c.args, agents[i].stderr)
		}
	}
}

// An agent with its secret in a variable finds its launcher by a file that comes later. Its
// processes do not see the secret. It leaves the job on SIGTERM, and its processes with it.
func TestAgentWithVariableAndFileLeavesOnSIGTERM(t *testing.T) {
	needProc(t)
	secret := dialin.NewSecret()
	addresses := filepath.Join(t.TempDir(), "addresses")
	a := startAgentProcess(t, []string{dialin.SecretVariable + "=" + secret.Encode()}, "--join", "@"+addresses, "--name", "n1", "--slots", "3", "--gpus", "0")
	l := listenForAgents(t, secret, "127.0.0.1:0")
	mustWrite(t, addresses, "127.0.0.1:1\n"+l.Addresses()[0]+"\n")
	m := dialAgent(t, l, "n1")
	if i := m.Info(); i.Slots != 3 || i.Host().Entry() != "n1 slots=3 gpus=0" || i.CPUs == 0 || m.Address() != "127.0.0.1" || m.LauncherAddress() != "127.0.0.1" {
		t.Errorf("the agent said %+v", i)
	}
	h, out := runOnAgent(t, m, `trap 'echo left; exit 0' TERM; env; echo ready; while :; do sleep 0.05; done`)
	awaitOutput(t, out, "ready")
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", a.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	key := secret.Encode()[20:]
	if strings.Contains(out.String(), dialin.SecretVariable) || strings.Contains(out.String(), key) || bytes.Contains(arguments, []byte(key)) {
		t.Error("a process of the agent, or its command line, has the secret")
	}
	a.Process.Signal(syscall.SIGTERM)
	a.wantExit(t, 143, "terminated")
	if e := h.Exit(); !e.OK() || !strings.HasSuffix(out.String(), "left\n") {
		t.Errorf("the process ended with %s and %q, want 0 and that it has left", e, out)
	}
	<-m.Gone()
}

// An agent whose launcher stops ends what it started. With --rejoin it goes to the next launcher,
// and ends with that one's job.
func TestAgentRejoinsTheNextLauncher(t *testing.T) {
	needProc(t)
	secret := dialin.NewSecret()
	file := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, file, secret.Encode())
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	l := listenForAgents(t, secret, "127.0.0.1:0")
	at := l.Addresses()[0]
	ends := startAgentProcess(t, nil, "--join", at, "--secret-file", file, "--name", "n1")
	stays := startAgentProcess(t, nil, "--join", at, "--secret-file", file, "--name", "n2", "--rejoin", "1m")
	var pids []string
	for _, name := range []string{"n1", "n2"} {
		_, out := runOnAgent(t, dialAgent(t, l, name), `echo $$; while :; do sleep 0.05; done`)
		awaitOutput(t, out, "\n")
		pids = append(pids, strings.TrimSpace(out.String()))
	}
	if err := l.Abandon(); err != nil {
		t.Error(err)
	}
	ends.wantExit(t, 0, "")
	next := listenForAgents(t, secret, at)
	h, out := runOnAgent(t, dialAgent(t, next, "n2"), "echo hello")
	if e := h.Exit(); !e.OK() || out.String() != "hello\n" {
		t.Errorf("%s, %q, want a hello", e, out)
	}
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("process %s of the first launcher still lives", pid)
		}
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	stays.wantExit(t, 0, "looking for a new launcher")
}
