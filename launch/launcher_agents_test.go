package main

import (
	"encoding/json"
	"fmt"
	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// An agentJob is a folder with the secret and the addresses of jobs whose agents dial in.
type agentJob struct{ dir, secret, addresses string }

func newAgentJob(t *testing.T) *agentJob {
	t.Helper()
	needProc(t)
	dir := t.TempDir()
	return &agentJob{dir, filepath.Join(dir, "secret"), filepath.Join(dir, "addresses")}
}

func (a *agentJob) launch(t *testing.T, args ...string) *launcher {
	t.Helper()
	return startLauncher(t, a.dir, append([]string{"--launcher", "agents", "--listen", "127.0.0.1:0", "--secret-file", a.secret, "--address-file", a.addresses}, args...)...)
}

// join starts an agent, which joins through the address file.
func (a *agentJob) join(t *testing.T, name string, args ...string) *launcher {
	t.Helper()
	awaitFile(t, a.addresses)
	cmd := exec.Command(launchProgram, append([]string{"agent", "--join", "@" + a.addresses, "--secret-file", a.secret, "--name", name, "--host-ip", "127.0.0.2"}, args...)...)
	return startCommand(t, nil, cmd, a.dir, nil)
}

// While launch waits it says how agents join, and who is there. An interrupt ends it at once, and
// the agents.
func TestLaunchSaysWhichAgentsItWaitsFor(t *testing.T) {
	t.Parallel()
	a := newAgentJob(t)
	result := filepath.Join(a.dir, "result")
	l := a.launch(t, "-n", "2", "--agents", "3", "--result", result, "true")
	awaitFile(t, a.addresses)
	l.await(t, fmt.Sprintf(" INFO agents join with: launch agent --join %s --secret-file %s\n", firstLine(a.addresses), a.secret))
	l.await(t, " INFO waiting for 3 agents (5m0s at most)\n")
	n10, n9 := a.join(t, "n10"), a.join(t, "n9")
	l.await(t, " INFO 2 of 3 agents are there: n9, n10\n")
	if info, err := os.Stat(a.secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret that launch made: %v, %v, want mode 0600", info.Mode(), err)
	}
	at := time.Now()
	l.Process.Signal(syscall.SIGINT)
	if code := l.exit(t); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if took := time.Since(at); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, agent := range []*launcher{n9, n10} {
		if code := agent.exit(t); code != 0 {
			t.Errorf("exit code %d of an agent, want 0", code)
		}
	}
	if _, err := os.Stat(a.addresses); err == nil {
		t.Error("the address file is left")
	}
	wantFailure(t, result, control.Interrupted, 130)
}

// wantFailure wants the result of a job to name a failure.
func wantFailure(t *testing.T, path string, failure control.Code, code int) *control.Result {
	t.Helper()
	b, err := os.ReadFile(path)
	var r control.Result
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || r.ExitCode != code || r.Failure == nil || r.Failure.Code != failure {
		t.Errorf("the result is %s (%v), want exit code %d and failure %s", b, err, code, failure)
	}
	return &r
}

func TestAgentsThatDoNotComeAreNamed(t *testing.T) {
	t.Parallel()
	a := newAgentJob(t)
	result := filepath.Join(a.dir, "result")
	l := a.launch(t, "-n", "2", "--start-timeout", "2s", "--result", result, "true")
	a.join(t, "n1")
	if code := l.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	want := "launch: gave up after 2s (--start-timeout): 1 agent with slots for 1 of 2 workers is there: n1; an agent joins with: launch agent --join 127.0.0.1:"
	if !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
	wantFailure(t, result, control.NotStarted, 1)
}

func TestWrongInputOfAgentsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	a := newAgentJob(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(a.dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"--listen", taken.Addr().String()}, []string{"listen for agents on " + taken.Addr().String(), "address already in use"}},
		{[]string{"--secret-file", write("readable", "x", 0o644)}, []string{"readable", "chmod 600"}},
		{[]string{"--secret-file", write("junk", "x", 0o600)}, []string{"junk"}},
		{[]string{"--address-file", filepath.Join(a.dir, "no", "addresses")}, []string{"--address-file", "no such file or directory"}},
	} {
		l := a.launch(t, append(tc.args, "-n", "1", "true")...)
		if code := l.exit(t); code != 1 {
			t.Errorf("launch %q: exit code %d, want 1", tc.args, code)
		}
		for _, want := range tc.want {
			if !strings.Contains(l.stderr.String(), want) {
				t.Errorf("launch %q: stderr is %q, want it with %q", tc.args, l.stderr, want)
			}
		}
	}
}

// Agents say how many workers they have room for, and may run only workers or only servers.
func TestAgentsSayWhatRunsOnThem(t *testing.T) {
	t.Parallel()
	a := newAgentJob(t)
	l := a.launch(t, "-n", "3", "-s", "2", "--agents", "3", "--", self(t))
	agents := []*launcher{a.join(t, "n1", "--runs", "servers"), a.join(t, "n2", "--slots", "2", "--runs", "workers"), a.join(t, "n10")}
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, want := range []string{"server     0     n1 ", "server     1     n10 ", "worker     0     n2 ", "worker     1     n2 ", "worker     2     n10 "} {
		if !strings.Contains(l.stderr.String(), want) {
			t.Errorf("the tables have no %q", want)
		}
	}
	for _, agent := range agents {
		if code := agent.exit(t); code != 0 {
			t.Errorf("exit code %d of an agent, want 0", code)
		}
	}
}

// A job that is started again runs on the same agents.
func TestJobIsStartedAgainOnItsAgents(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	a := newAgentJob(t)
	l := a.launch(t, "-n", "2", "-s", "1", "--agents", "2", "--restarts", "1", `[ "$PARAGON_RESUME" ] || exit 3; exec `+self(t))
	n1, n2 := a.join(t, "n1"), a.join(t, "n2")
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, agent := range []*launcher{n1, n2} {
		if code := agent.exit(t); code != 0 {
			t.Errorf("exit code %d of an agent, want 0", code)
		}
		if n := strings.Count(agent.stderr.String(), "joined the launcher"); n != 1 {
			t.Errorf("an agent joined %d times, want 1", n)
		}
	}
}

// An elastic job that is started again does not wait for a lost host, whose workers join when it
// comes back.
func TestElasticJobIsStartedAgainWithoutALostHost(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	needProc(t)
	s := agentSite(t, 2)
	j := s.elastic(t, 2, "--restarts", "1")
	s.lose(t, 0) // its server with it
	j.await(t, "starting the job again in 1s")
	j.await(t, "begins as 0 of 1, joined false")
	s.back(t, 0)
	j.await(t, "begins as 1 of 2, joined true")
	if err := os.WriteFile(j.stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := j.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	s.wantEnded(t, 0)
}

// In a job whose hosts are fixed a late agent waits, and one with the name of a lost host takes its
// place.
func TestLateAgentReplacesALostHost(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	needProc(t)
	s := agentSite(t, 3)
	stop := filepath.Join(t.TempDir(), "stop")
	l := startLauncher(t, s.dir, append(s.flags(2), "-n", "2", "-s", "1", "--on-worker-loss", "shrink", "--env", stopFile+"="+stop, "--", self(t))...)
	j := &elasticJob{launcher: l, dir: s.dir, stop: stop}
	j.await(t, "begins as 1 of 2, joined false")
	s.join(t, j, 2)
	j.await(t, "agent n3 has dialled in; the hosts of this job are fixed")
	s.lose(t, 1)
	j.await(t, "worker 0  | goes on as 0 of 1")
	s.back(t, 1)
	j.await(t, "| begins as 1 of 2, joined true")
	j.finish(t)
	s.wantEnded(t, 0)
	if strings.Contains(j.stderr.String(), "Launching new worker jobs: agent n3") {
		t.Error("a worker was started on n3")
	}
}

// An agent that was killed and is started anew takes the place of the dead one at once; the lease
// need not expire.
func TestAgentThatIsStartedAnewTakesItsPlace(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	needProc(t)
	s := agentSite(t, 2)
	j := s.elastic(t, 2, "--host-timeout", "1h")
	if err := syscall.Kill(parentOf(t, j.worker(t, 1)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.ended(t, 1)
	s.join(t, j, 1)
	j.await(t, "worker 0  | goes on as 0 of 1")
	j.await(t, "| begins as 1 of 2, joined true")
	j.finish(t)
	s.wantEnded(t, 0)
	j.wantLog(t, "0 REMOVED n2 #\n1 ADDED n2 #\n")
}

// A launcher that gets SIGTERM may be started again elsewhere, and a check comes before its job:
// agents with --rejoin look for the next launcher. With the job's end all agents end.
func TestAgentsGoOnWithTheNextLauncher(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	a := newAgentJob(t)
	l := a.launch(t, "-n", "2", "--agents", "2", "--check")
	stays, leaves := a.join(t, "n1", "--rejoin", "10m"), a.join(t, "n2")
	if code := l.exit(t); code != 0 {
		t.Errorf("check: exit code %d, want 0", code)
	}
	if code := leaves.exit(t); code != 0 {
		t.Errorf("exit code %d of the agent without --rejoin, want 0", code)
	}
	l = a.launch(t, "-n", "1", "-s", "1", "--agents", "1", "echo ready; exec sleep 1000")
	l.await(t, "worker 0  | ready")
	l.Process.Signal(syscall.SIGTERM)
	if code := l.exit(t); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}

	// The kernel does so when memory is short.
	l = a.launch(t, "-n", "1", "-s", "1", "--agents", "1", "kill -9 $$; true")
	if code := l.exit(t); code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	l = a.launch(t, "-n", "1", "-s", "1", "--agents", "1", self(t))
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if code := stays.exit(t); code != 0 {
		t.Errorf("exit code %d of the agent with --rejoin, want 0", code)
	}
}

// An agent may come back after the job gave its host up.
func TestAgentComesBackAfterItsHostWasGivenUp(t *testing.T) {
	sshtest.Cluster(t)
	t.Parallel()
	needProc(t)
	s := agentSite(t, 2)
	j := s.elastic(t, 2, "--rejoin", "1", "--join-timeout", "1s")
	s.lose(t, 1)
	j.await(t, "host n2: no agent of that name has joined: gave up after 1s (--join-timeout)")
	j.wantCtl(t, 0, `(?m)^n2 +FAILED `, "status")
	s.back(t, 1)
	j.await(t, "| begins as 1 of 2, joined true")
	j.finish(t)
}

func TestCheckOfAgents(t *testing.T) {
	t.Parallel()
	a := newAgentJob(t)
	for _, tc := range []struct {
		agents string
		code   int
		want   []string
	}{
		{"2", 0, []string{"n1    127.0.0.2  ", "n2    127.0.0.2  "}},
		{"3", 1, []string{"gave up after 2s (--start-timeout): 2 of 3 agents are there: n1, n2"}},
	} {
		l := a.launch(t, "-n", "2", "--check", "--agents", tc.agents, "--start-timeout", "2s")
		n1, n2 := a.join(t, "n1"), a.join(t, "n2")
		if code := l.exit(t); code != tc.code {
			t.Errorf("%s agents: exit code %d, want %d", tc.agents, code, tc.code)
		}
		text := l.stdout.String() + l.stderr.String()
		if n := strings.Count(text, " ok\n"); n != 2 {
			t.Errorf("%s agents: %d are ok, want 2", tc.agents, n)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s agents: the output has no %q", tc.agents, want)
			}
		}
		for _, agent := range []*launcher{n1, n2} {
			if code := agent.exit(t); code != 0 {
				t.Errorf("exit code %d of an agent, want 0", code)
			}
		}
	}
}
