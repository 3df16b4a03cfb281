package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/launch/internal/spot"
	"github.com/paragon-train/paragon/launch/internal/spot/spottest"
)

// A spotJob is a job of workers that train with Fit on hosts whose agents watch a provider's
// metadata service, each its own.
type spotJob struct {
	*fitJob
	agents   []*launcher
	services []*spottest.Service
	fast     string
}

// startSpot starts a job on so many hosts of AWS, n1, n2 and so on, with a worker on each.
func startSpot(t *testing.T, hosts int, flags ...string) *spotJob {
	t.Helper()
	needProc(t)
	files := t.TempDir()
	secret, addresses := filepath.Join(files, "secret"), filepath.Join(files, "addresses")
	if err := os.WriteFile(secret, []byte(dialin.NewSecret().Encode()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &spotJob{fitJob: &fitJob{&elasticJob{dir: t.TempDir()}, t.TempDir()}, fast: filepath.Join(files, "fast")}
	for i := range hosts {
		s := spottest.New(spot.AWS)
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		j.services = append(j.services, s)
		cmd := exec.Command(launchProgram, "agent", "--join", "@"+addresses, "--secret-file", secret, "--name", fmt.Sprintf("n%d", i+1), "--host-ip", fmt.Sprintf("127.0.0.%d", i+2),
			"--spot", "aws")
		j.agents = append(j.agents, startCommand(t, nil, cmd, t.TempDir(), []string{spot.URLVariable + "=" + server.URL}))
	}
	j.launch(t, append([]string{"--launcher", "agents", "--agents", fmt.Sprint(hosts), "--listen", "127.0.0.1:0", "--secret-file", secret, "--address-file", addresses, "-n", fmt.Sprint(hosts)}, flags...)...)
	j.await(t, "step 2 of epoch 0")
	return j
}

func (j *spotJob) launch(t *testing.T, flags ...string) {
	t.Helper()
	flags = append(flags, "--env", fitDir+"="+j.checkpoints, "--env", fitFast+"="+j.fast)
	j.launcher = startLauncher(t, j.dir, append(flags, "--", self(t))...)
}

// takeBack lets AWS announce that it takes hosts back.
func (j *spotJob) takeBack(hosts ...int) {
	for _, i := range hosts {
		j.services[i].Announce(spottest.Preempt, time.Now().Add(100*time.Second).UTC().Format(time.RFC3339))
	}
}

// Spot machines with workers and servers are taken back, or an agent gets SIGTERM as on a shutdown:
// the workers leave at the next step, the servers' shards are at the others, or at one that is
// added, and no step is lost.
func TestAHostThatIsTakenBackLeavesInOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		gone []int // hosts
		code int   // of their agents
		take func(j *spotJob)
		want string
	}{
		{"notice of the provider", []int{1}, 0, func(j *spotJob) { j.takeBack(1) }, "server 1 on n2 was removed from the job; its shards are at other servers"},
		{"SIGTERM to the agent", []int{1}, 143, func(j *spotJob) { j.agents[1].Process.Signal(syscall.SIGTERM) }, "server 1 on n2 was removed from the job; its shards are at other servers"},
		{"notices of all hosts with servers", []int{0, 1}, 0, func(j *spotJob) { j.takeBack(0, 1) }, " on n3 joined the job; shards move to it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.gone) == 1 {
				takesLong(t)
			}
			t.Parallel()
			j := startSpot(t, 3, "-s", "2", "--backups", "1", "--elastic-training-enabled")
			at := time.Now()
			tc.take(j)
			j.awaitTimes(t, "| left the job", len(tc.gone))
			left := time.Since(at)
			for _, i := range tc.gone {
				if code := j.agents[i].exit(t); code != tc.code {
					t.Errorf("agent %d ended with exit code %d, want %d", i, code, tc.code)
				}
				j.wantOutput(t, fmt.Sprintf("host n%d is being taken away", i+1), fmt.Sprintf("the job no longer needs host n%d", i+1))
			}
			t.Logf("workers had left after %s, all processes after %s", left, time.Since(at))
			j.goFast(t, j.fast)
			j.end(t, 0, 3-len(tc.gone))
			j.wantOutput(t, tc.want)
			if strings.Contains(j.stderr.String(), "was lost") {
				t.Error("the launcher says that a process was lost")
			}
		})
	}
}

// Where the shards cannot move, or too few workers would be left, the job stops with a checkpoint
// in time, and goes on from there elsewhere.
func TestAJobThatNeedsAHostThatIsTakenBackStopsWithACheckpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		flags []string
		take  []int // the hosts
		why   string
	}{
		{"no backups", []string{"-s", "1", "--elastic-training-enabled"}, []int{0}, "the shards of its servers have no backups"},
		{"all hosts", []string{"-s", "2", "--elastic-training-enabled", "--backups", "1"}, []int{0, 1}, "is being taken away"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.take) > 1 {
				takesLong(t)
			}
			t.Parallel()
			j := startSpot(t, 2, tc.flags...)
			j.takeBack(tc.take...)
			if code := j.exit(t); code != 85 {
				t.Fatalf("exit code %d, want 85", code)
			}
			wantNoProcess(t, j.job(t), time.Now())
			j.wantOutput(t, tc.why, "stopping the job with a checkpoint")
			for i, a := range j.agents {
				if code := a.exit(t); code != 0 {
					t.Errorf("agent %d ended with exit code %d, want 0", i, code)
				}
			}
			if len(tc.take) > 1 { // it goes on all the same
				return
			}
			j.goFast(t, j.fast)
			j.launch(t, "-n", "2", "-s", "1", "--env", "PARAGON_RESUME=1")
			j.end(t, 0, 2)
			j.wantOutput(t, "INFO resumed ")
		})
	}
}

// The launching machine itself is taken back: all stops with a checkpoint.
func TestALauncherThatIsTakenBackStopsWithACheckpoint(t *testing.T) {
	t.Parallel()
	needProc(t)
	s := spottest.New(spot.AWS)
	server := httptest.NewServer(s)
	defer server.Close()
	j := &fitJob{&elasticJob{dir: t.TempDir()}, t.TempDir()}
	j.launcher = startWith(t, launchProgram, j.dir, []string{spot.URLVariable + "=" + server.URL}, "-n", "2", "-s", "1", "--elastic-training-enabled", "--spot", "auto",
		"--env", fitDir+"="+j.checkpoints, "--env", fitFast+"="+filepath.Join(j.dir, "never"), "--", self(t))
	j.await(t, "step 2 of epoch 0")
	s.Announce(spottest.Preempt, time.Now().Add(100*time.Second).UTC().Format(time.RFC3339))
	j.end(t, 85, 0)
	j.wantCheckpoint(t, 2)
	j.wantOutput(t, "host localhost is being taken away: AWS: ", "and the scheduler runs there: stopping the job with a checkpoint")
}
