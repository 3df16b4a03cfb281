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

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// A site is some hosts that one start method reaches, all of them this machine, and a folder to
// launch from.
type site struct {
	dir string

	// hosts are as host_worker names them.
	hosts []string

	// homes are folders in which nothing of a job may stay, besides the agent's program.
	homes []string

	// secrets are those that the start method itself has, beside those of the job.
	secrets []string

	// flags are launch's for a job that begins with the first hosts.
	flags func(first int) []string
	// env are more variables for launch, after flags was called.
	env func() []string
	// join makes host i take part in a running elastic job.
	join func(t *testing.T, j *elasticJob, i int)
	// lose cuts host i off: its connections break, and none comes about until back.
	lose, back func(t *testing.T, i int)
	// blink breaks the connections of host i once.
	blink func(i int)
	// hush keeps back all that host i and launch send to each other, until one of them dials
	// again.
	hush func(t *testing.T, i int)
	// silence keeps back all that they send, and no connection closes.
	silence func(i int)
	// evict tells host i that it must go, as a cluster's manager does; nil: this start method
	// hears of no such thing.
	evict func(t *testing.T, i int)
	// ended waits for the end of what runs on host i beside the job, and returns its exit code;
	// nil: nothing does.
	ended func(t *testing.T, i int) int
}

// sites are the start methods that pass the tests of suite_test.go. Each makes so many hosts.
var sites = []struct {
	name string
	make func(t *testing.T, hosts int) *site
	// relayed says that blink, hush and silence are there. Elsewhere a host is lost with its
	// connection, or the test cannot reach it.
	relayed bool
}{
	{"ssh", sshSite, false},
	{"agents", agentSite, true},
	{"slurm", slurmSite, false},
}

// onEachSite runs a test with each start method.
func onEachSite(t *testing.T, hosts int, test func(t *testing.T, s *site)) {
	t.Helper()
	needProc(t)
	t.Parallel()
	for _, s := range sites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s.make(t, hosts))
		})
	}
}

// onEachRelayedSite runs a test with each start method whose connections the test can break.
func onEachRelayedSite(t *testing.T, hosts int, test func(t *testing.T, s *site)) {
	t.Helper()
	needProc(t)
	t.Parallel()
	for _, s := range sites {
		if s.relayed {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				test(t, s.make(t, hosts))
			})
		}
	}
}

// launch starts a job on all hosts.
func (s *site) launch(t *testing.T, args ...string) *launcher {
	t.Helper()
	return s.start(t, len(s.hosts), nil, args...)
}

// start starts a job on the first hosts, with more variables for launch.
func (s *site) start(t *testing.T, first int, env []string, args ...string) *launcher {
	t.Helper()
	flags := s.flags(first)
	if s.env != nil {
		env = append(s.env(), env...)
	}
	return startWith(t, launchProgram, s.dir, env, append(flags, args...)...)
}

// elastic starts an elastic job with a worker on each of the first hosts.
func (s *site) elastic(t *testing.T, first int, flags ...string) *elasticJob {
	t.Helper()
	j := &elasticJob{dir: s.dir, stop: filepath.Join(t.TempDir(), "stop")}
	args := append([]string{"-n", fmt.Sprint(first), "-s", "1", "--elastic-training-enabled", "--env", stopFile + "=" + j.stop}, flags...)
	j.launcher = s.start(t, first, nil, append(args, "--", self(t))...)
	for i := range first {
		j.await(t, fmt.Sprintf("begins as %d of %d, joined false", i, first))
	}
	return j
}

// sshSite has hosts that ssh reaches.
func sshSite(t *testing.T, hosts int) *site {
	// The agents run in make test, where other tests use ssh.
	sshtest.Cluster(t)
	c := newHosts(t, hosts)
	s := &site{dir: c.dir, homes: []string{c.Home}}
	for _, a := range c.Addresses {
		s.hosts = append(s.hosts, fmt.Sprintf("%s:%d", a, c.Port))
	}
	s.flags = func(first int) []string {
		return []string{"-H", c.file(t, "hosts", strings.Join(s.hosts[:first], "\n")+"\n"), "--ssh-command", strings.Join(c.Client, " ")}
	}
	s.join = func(t *testing.T, j *elasticJob, i int) {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			b, err := os.ReadFile(filepath.Join(j.dir, "host_worker"))
			if err != nil {
				t.Fatal(err)
			}

			// Otherwise launch is about to take a host out that has just left.
			if !strings.Contains(string(b), s.hosts[i]) {
				j.edit(t, string(b)+s.hosts[i]+"\n")
				return
			}
			if time.Now().After(end) {
				t.Fatalf("host_worker still names %s after %v", s.hosts[i], patience)
			}
		}
	}
	s.lose = func(t *testing.T, i int) { c.Lose(t, c.Addresses[i]) }
	s.back = func(t *testing.T, i int) { c.Return(t, c.Addresses[i]) }
	return s
}

// agentSite has hosts whose agents dial in, each through a relay of its own.
func agentSite(t *testing.T, hosts int) *site {
	s := &site{dir: t.TempDir()}
	home, files := t.TempDir(), t.TempDir()
	secret, addresses := filepath.Join(files, "secret"), filepath.Join(files, "addresses")
	text := dialin.NewSecret().Encode()
	if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.homes, s.secrets = []string{home}, []string{text}
	agents, relays := make([]*launcher, hosts), make([]*relay, hosts)
	start := func(i int) {
		cmd := exec.Command(launchProgram, "agent", "--join", relays[i].address(), "--secret-file", secret, "--name", s.hosts[i], "--host-ip", fmt.Sprintf("127.0.0.%d", i+2))
		agents[i] = startCommand(t, nil, cmd, t.TempDir(), []string{"HOME=" + home})
	}
	for i := range hosts {
		s.hosts = append(s.hosts, fmt.Sprintf("n%d", i+1))
		relays[i] = newRelay(t, "127.0.0.1", func() string { return firstLine(addresses) })
	}
	s.flags = func(first int) []string {
		for i := range first {
			start(i)
		}
		return []string{"--launcher", "agents", "--agents", fmt.Sprint(first), "--listen", "127.0.0.1:0", "--secret-file", secret, "--address-file", addresses}
	}
	s.join = func(t *testing.T, _ *elasticJob, i int) { start(i) }
	s.lose = func(_ *testing.T, i int) { relays[i].cut(true) }
	s.back = func(t *testing.T, i int) {
		if code := agents[i].exit(t); code != 1 {
			t.Errorf("agent %s: exit code %d, want 1", s.hosts[i], code)
		}
		relays[i].resume()
		start(i)
	}
	s.blink = func(i int) { relays[i].cut(false) }
	s.hush = func(t *testing.T, i int) { relays[i].hush(t) }
	s.silence = func(i int) { relays[i].silence() }
	s.evict = func(t *testing.T, i int) {
		if err := agents[i].Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	s.ended = func(t *testing.T, i int) int { return agents[i].exit(t) }
	return s
}

// firstLine is the first line of a file; empty: there is none.
func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
