package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// The tests of this file are the same for all start methods (see sites).

func TestJobRunsOnItsHosts(t *testing.T) {
	value := "it's $HOME, \"x\"\n`y` \\ é"
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l := s.start(t, 2, []string{"OMP_NUM_THREADS=3"}, "-n", "3", "-s", "2", "--env", "V="+value, "echo $OMP_NUM_THREADS threads; exec "+self(t))
		if code := l.exit(t); code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
		for rank, host := range []string{s.hosts[0], s.hosts[1], s.hosts[0]} {
			name, _, _ := strings.Cut(host, ":")
			for _, want := range []string{
				fmt.Sprintf("worker %d  | rank %[1]d of 3 has its sums at %s in %s, V=%q\n", rank, name, s.dir, value),
				fmt.Sprintf("worker %d  | 3 threads\n", rank),
			} {
				if !strings.Contains(l.stdout.String(), want) {
					t.Errorf("stdout has no line %q", want)
				}
			}
			if want := fmt.Sprintf("worker     %d     %s", rank, host); !strings.Contains(l.stderr.String(), want) {
				t.Errorf("the tables have no %q", want)
			}
		}
		wantNoProcess(t, l.job(t), time.Now())
		s.wantEnded(t, 0)
	})
}

// wantEnded wants what ran on the hosts beside the job to have ended with a code.
func (s *site) wantEnded(t *testing.T, code int) {
	t.Helper()
	for i, host := range s.hosts {
		if s.ended == nil {
			return
		}
		if got := s.ended(t, i); got != code {
			t.Errorf("what ran on %s ended with exit code %d, want %d", host, got, code)
		}
	}
}

// What goes over the network between hosts is encrypted, unless somebody asks for the opposite. The
// hosts of this test are one machine, so its processes are told to use the network all the same.
func TestJobEncryptsWhatHostsSay(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		for _, tc := range []struct {
			flags []string
			want  string
		}{
			{nil, "worker 0 with TLS"},
			{[]string{"--tls", "off"}, "worker 0 without TLS"},
		} {
			l := s.launch(t, append(tc.flags, "-n", "2", "-s", "2", "--env", "PARAGON_TRANSPORT=tcp",
				`if [ $PARAGON_RANK = 0 ]; then echo worker 0 $([ "$PARAGON_IDENTITY" ] && echo with || echo without) TLS; fi; exec `+self(t))...)
			if code := l.exit(t); code != 0 {
				t.Fatalf("exit code %d, want 0", code)
			}
			if !strings.Contains(l.stdout.String(), tc.want) {
				t.Errorf("stdout has no %q", tc.want)
			}
			if !strings.Contains(l.stdout.String(), "rank 1 of 2 has its sums") {
				t.Error("the job has not done its work")
			}
		}
	})
}

func TestFailureOnAHostDecidesTheExitCode(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l := s.launch(t, "-n", "2", "-s", "1", `if [ $PARAGON_RANK = 1 ]; then exit 3; fi; sleep 1000 & wait`)
		if code := l.exit(t); code != 3 {
			t.Errorf("exit code %d, want 3", code)
		}
		wantNoProcess(t, l.job(t), time.Now())
		s.wantEnded(t, 0)
	})
}

// Workers are asked to stop, and their last output and exit codes arrive.
func TestInterruptedWorkersSaveTheirState(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l := s.launch(t, "-n", "2", "-s", "1", `trap 'echo saved $PARAGON_RANK; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
		l.await(t, "worker 0  | ready")
		l.await(t, "worker 1  | ready")
		l.Process.Signal(syscall.SIGTERM)
		if code := l.exit(t); code != 143 {
			t.Errorf("exit code %d, want 143", code)
		}
		for rank := range 2 {
			if want := fmt.Sprintf("worker %d  | saved %[1]d\n", rank); !strings.Contains(l.stdout.String(), want) {
				t.Errorf("stdout has no %q", want)
			}
		}
	})
}

const stubborn = `trap '' TERM HUP; sleep 1000 & setsid sh -c 'trap "" TERM HUP; while :; do sleep 0.2; done' & echo ready; while :; do sleep 0.2; done`

// stubbornJob starts a job that nobody can stop politely.
func (s *site) stubbornJob(t *testing.T, flags ...string) (*launcher, string) {
	t.Helper()
	l := s.launch(t, append(flags, "-n", "2", "-s", "2", "--stop-timeout", "500ms", stubborn)...)
	job := l.job(t)
	l.await(t, "worker 0  | ready")
	l.await(t, "worker 1  | ready")
	return l, job
}

func TestKilledLauncherLeavesNoProcessAndNoSecretOnAnyHost(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l, job := s.stubbornJob(t, "--on-worker-loss", "shrink")
		secrets := secretsOf(job)

		// There is one for all, and a key for each of five.
		if len(secrets) < 6 {
			t.Fatalf("the job's processes have %d secrets, want 6", len(secrets))
		}
		secrets = append(secrets, s.secrets...)
		wantNoSecretInArguments(t, secrets)
		at := time.Now()
		l.Process.Kill()
		<-l.done
		folders := append([]string{s.dir, l.records}, s.homes...)
		wantNoSecret(t, secrets, folders...)
		wantNoProcess(t, job, at)
		wantNoSecret(t, secrets, folders...)
		s.wantEnded(t, 1)
	})
}

// wantNoSecretInArguments wants no process of this machine to have a secret on its command line.
func wantNoSecretInArguments(t *testing.T, secrets []string) {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, _ := os.ReadFile(path)
		for _, secret := range secrets {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s has a secret: %q", path, b)
			}
		}
	}
}

func TestInterruptLeavesNoProcessOnAnyHost(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l, job := s.stubbornJob(t)
		at := time.Now()
		l.Process.Signal(syscall.SIGINT)
		if code := l.exit(t); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		wantNoProcess(t, job, at)
		s.wantEnded(t, 0)
	})
}

// processesOn are a job's processes on a host.
func processesOn(job, host string) []int {
	name, _, _ := strings.Cut(host, ":")
	return slices.DeleteFunc(processesOf(job, "scheduler"), func(pid int) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return !strings.Contains("\x00"+string(b), "\x00DMLC_NODE_HOST="+name+"\x00")
	})
}

// A host that is cut off for good is lost, and its processes end.
func TestCutConnectionLeavesNoProcessOnAnyHost(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l, job := s.stubbornJob(t)
		at := time.Now()
		s.lose(t, 0)
		wantNone(t, at, func() []int { return processesOn(job, s.hosts[0]) })
		if code := l.exit(t); code != 255 {
			t.Errorf("exit code %d, want 255", code)
		}
		wantNoProcess(t, job, time.Now())
		if want := "connection to " + s.hosts[0]; !strings.Contains(l.stderr.String(), want) {
			t.Errorf("stderr has no %q", want)
		}
	})
}

// A host that hears nothing more, and is not told why: a cable is out.
func TestSilentLauncherLeavesNoProcessOnAnyHost(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l, job := s.stubbornJob(t)
		at := time.Now()

		// There are no more pings, and no connection closes.
		l.Process.Signal(syscall.SIGSTOP)
		defer l.Process.Signal(syscall.SIGCONT)
		// The last ping came up to half a second ago. The scheduler is here, where a
		// launcher may be stopped.
		wantNone(t, at.Add(agent.PingInterval), func() []int { return processesOf(job, "scheduler") })
	})
}

func TestSilentHostLeavesNoProcess(t *testing.T) {
	onEachRelayedSite(t, 2, func(t *testing.T, s *site) {
		l, job := s.stubbornJob(t)
		at := time.Now()
		s.silence(1)
		wantNone(t, at.Add(agent.PingInterval), func() []int { return processesOn(job, s.hosts[1]) })
		if code := l.exit(t); code != 255 {
			t.Errorf("exit code %d, want 255", code)
		}
		wantNoProcess(t, job, time.Now())
	})
}

// A connection that breaks or is silent for less than the lease costs nothing: no line is lost or
// doubled.
func TestJobOutlivesABrokenConnection(t *testing.T) {
	onEachRelayedSite(t, 2, func(t *testing.T, s *site) {
		const lines = 2000
		l := s.launch(t, "-n", "2", "-s", "1", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); if [ $((i %% 100)) = 0 ]; then sleep 0.05; fi; done; exec %s", lines, self(t)))
		for n := range 3 {
			l.await(t, fmt.Sprintf("worker 1  | line %d\n", 300+n*400))
			s.blink(n % 2)
			if n == 1 {
				s.hush(t, 0)
			}
		}
		if code := l.exit(t); code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
		for rank := range 2 {
			var got []string
			prefix := fmt.Sprintf("worker %d  | line ", rank)
			for line := range strings.Lines(l.stdout.String()) {
				if number, ok := strings.CutPrefix(line, prefix); ok {
					got = append(got, strings.TrimSpace(number))
				}
			}
			for i := range lines {
				if i >= len(got) || got[i] != strconv.Itoa(i) {
					t.Fatalf("worker %d: %d lines arrived, and line %d is missing or not in its place", rank, len(got), i)
				}
			}
			if len(got) != lines {
				t.Errorf("worker %d: %d lines arrived, want %d", rank, len(got), lines)
			}
		}
	})
}

// The kernel ends the processes of an agent that is killed.
func TestKilledAgentIsALostHost(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		l := s.launch(t, "-n", "2", "-s", "1", "echo ready; exec sleep 1000")
		l.await(t, "worker 0  | ready")
		l.await(t, "worker 1  | ready")
		job := l.job(t)
		j := &elasticJob{launcher: l}
		at := time.Now()
		if err := syscall.Kill(parentOf(t, j.worker(t, 1)), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := l.exit(t); code != 255 {
			t.Errorf("exit code %d, want 255", code)
		}
		wantNoProcess(t, job, at)
		if want := "connection to " + s.hosts[1]; !strings.Contains(l.stderr.String(), want) {
			t.Errorf("stderr has no %q", want)
		}
	})
}

// parentOf is the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatalf("/proc/%d/stat is %q: %v", pid, b, err)
	}
	return parent
}

// A host that comes while the job runs is prepared, and only then has a worker; one that is removed
// leaves at a step.
func TestHostJoinsAndLeaves(t *testing.T) {
	onEachSite(t, 2, func(t *testing.T, s *site) {
		j := s.elastic(t, 1, "--prepare-data", "echo prepared in $PWD")
		s.join(t, j, 1)
		j.await(t, "goes on as 0 of 2")
		j.wantCtl(t, 0, ` REMOVED\n$`, "remove", "--wait", s.hosts[1])
		if s.ended != nil {
			if code := s.ended(t, 1); code != 0 {
				t.Errorf("the agent of the removed host ended with exit code %d, want 0", code)
			}
		}
		s.join(t, j, 1) // it comes again
		j.await(t, s.hosts[1]+" has left the job")
		j.awaitTimes(t, s.hosts[1]+" joined the job", 2)
		j.finish(t)
		j.wantOutput(t, "| prepared in "+s.dir+"\n", "| removed from the job\n")
		j.wantLog(t, strings.ReplaceAll("0 ADDED <1> #\n1 REMOVED <1> #\n2 ADDED <1> #\n", "<1>", s.hosts[1]))
	})
}

// A host that is cut off is lost with all that ran there, and its worker comes again when the host
// does.
func TestHostThatIsCutOffIsLostAndComesAgain(t *testing.T) {
	takesLong(t)
	onEachSite(t, 2, func(t *testing.T, s *site) {
		j := s.elastic(t, 2)
		s.lose(t, 1)
		j.await(t, "worker 0  | goes on as 0 of 1")
		s.back(t, 1)
		j.await(t, "| begins as 1 of 2, joined true")
		j.finish(t)
		j.wantOutput(t, "connection to "+s.hosts[1]+" lost, lost, the job went on")
		j.wantLog(t, strings.ReplaceAll("0 REMOVED <1> #\n1 ADDED <1> #\n", "<1>", s.hosts[1]))
	})
}
