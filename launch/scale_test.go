package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/internal/member/control"
)

// Workers come and go on this machine alone: the highest ranks leave, nothing is restarted, and the
// limits are kept.
func TestTheNumberOfWorkersIsScaled(t *testing.T) {
	t.Parallel()
	result := filepath.Join(t.TempDir(), "result.json")
	j := startElastic(t, "--max-workers", "4", "--result", result)
	j.wantCtl(t, 1, `cannot scale to 5 workers: want at most 4 \(--max-workers\)`, "scale", "5")
	j.wantCtl(t, 1, `host 127\.0\.0\.9 is not one of the job's hosts`, "scale", "localhost=1,127.0.0.9=1")
	j.wantCtl(t, 0, `^the job has 4 workers\n$`, "scale", "--wait", "4")

	// Of two that join at once, either may get the higher rank, and its line's name may be older.
	j.await(t, "begins as 3 of 4, joined true")
	j.wantCtl(t, 0, `(?m)^scale: 4 wanted, 4 present, reached$`, "status")
	j.awaitHosts(t, "localhost slots=4\n")
	j.wantCtl(t, 0, `^the job has 4 workers\n$`, "scale", "--wait", "4") // again
	j.wantCtl(t, 0, `^the job has 1 worker \(localhost=1\)\n$`, "scale", "--wait", "localhost=1")
	j.await(t, "worker 0  | goes on as 0 of 1")
	j.awaitTimes(t, "| removed from the job", 3)
	j.awaitHosts(t, "localhost\n")
	j.wantCtl(t, 0, `^the job has 2 workers\n$`, "scale", "--wait", "2")
	j.finish(t)
	r := j.result(t, result)
	if r.Scales != 3 || r.Restarts != 0 || r.ExitCode != 0 {
		t.Errorf("the result has %d scales, %d restarts, exit code %d, want 3, 0 and 0", r.Scales, r.Restarts, r.ExitCode)
	}
	for _, p := range r.Processes {
		if p.Role == control.Worker && (p.Cause.Exit != 0 || p.Cause.Kind != control.CauseExit) {
			t.Errorf("worker process %d ended by %v, want exit 0", p.Process, p.Cause)
		}
	}
}

// A worker that is killed while others join is started again, and the number is reached.
func TestScaleSurvivesAKilledWorker(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--restarts", "1")
	j.wantCtl(t, 0, `^the job scales to 4 workers\. See launch ctl status\.\n$`, "scale", "4")
	kill(t, j.worker(t, 1))
	j.wantCtl(t, 0, `^the job has 4 workers\n$`, "scale", "--wait", "4")
	j.await(t, "worker 1 on localhost was lost")
	kill(t, j.process(t, "server", 0)) // a restarted job has as many
	j.await(t, "(restart 1 of 1)")
	j.await(t, "begins as 3 of 4, joined false")
	j.finish(t)
}

// One that is not started again is missed, and that is told.
func TestALostWorkerLowersNothingSilently(t *testing.T) {
	t.Parallel()
	j := startElastic(t, "--rejoin", "0")
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	kill(t, j.worker(t, 1))
	j.await(t, "goes on as 0 of 2")
	j.wantCtl(t, 0, `(?m)^scale: 3 wanted, 2 present, too few \(worker 1 on localhost lost: signal 9`, "status")
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	j.finish(t)
}

// The number is reached although the scheduler is killed in the middle.
func TestScaleSurvivesAKilledScheduler(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	j.wantCtl(t, 0, "the job scales to 4 workers", "scale", "4")
	kill(t, j.process(t, "scheduler", 0))
	j.await(t, "scheduler on localhost listens again at ")
	j.wantCtl(t, 0, `^the job has 4 workers\n$`, "scale", "--wait", "4")
	j.wantCtl(t, 0, "the job scales to 1 worker", "scale", "1")
	kill(t, j.process(t, "scheduler", 0))
	j.awaitTimes(t, "scheduler on localhost listens again at ", 2)
	j.wantCtl(t, 0, `^the job has 1 worker\n$`, "scale", "--wait", "1")
	j.finish(t)
}

// A job that trains with worker.Fit is scaled: each example of an epoch is used exactly once,
// nothing is restarted.
func TestScaledWorkersUseEachExampleOnce(t *testing.T) {
	t.Parallel()
	fast, result := filepath.Join(t.TempDir(), "fast"), filepath.Join(t.TempDir(), "result.json")
	j := startFit(t, "-n", "1", "--elastic-training-enabled", "--env", fitFast+"="+fast, "--result", result)
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	j.wantCtl(t, 0, `^the job has 2 workers\n$`, "scale", "--wait", "2")
	j.await(t, "left the job")
	j.goFast(t, fast)
	j.end(t, 0, 2)
	if r := j.result(t, result); r.Scales != 2 || r.Restarts != 0 {
		t.Errorf("%d scales, %d restarts, want 2 and 0", r.Scales, r.Restarts)
	}
}

// So it is where a worker and the scheduler are killed in the middle.
func TestScaledWorkersUseEachExampleOnceDespiteKills(t *testing.T) {
	takesLong(t)
	t.Parallel()
	fast := filepath.Join(t.TempDir(), "fast")
	j := startFit(t, "-n", "2", "--elastic-training-enabled", "--env", fitFast+"="+fast)
	j.wantCtl(t, 0, "the job scales to 3 workers", "scale", "3")
	kill(t, j.worker(t, 1))
	kill(t, j.process(t, "scheduler", 0))
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	j.goFast(t, fast)
	j.end(t, 0, 3)
}

// awaitHosts waits until host_worker has a text: the launcher writes it a moment after the
// scheduler has decided.
func (j *elasticJob) awaitHosts(t *testing.T, want string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(j.dir, "host_worker"))
		if string(b) == want {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("host_worker has %q, %v, want %q", b, err, want)
		}
	}
}

// goFast lets a job that was slow end soon.
func (j *fitJob) goFast(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// With --adapt-workers the number follows what rank 0 wishes, which the status and the result show.
func TestTheNumberOfWorkersFollowsAWish(t *testing.T) {
	t.Parallel()
	result := filepath.Join(t.TempDir(), "result.json")
	j := startElastic(t, "--adapt-workers", "--max-workers", "3", "--env", wishOf+"=5", "--result", result)
	j.await(t, "rank 0 asks for 5 workers instead of 2, limited to 3: 1 to 3 may be")
	j.await(t, "begins as 2 of 3, joined true")
	j.wantCtl(t, 0, `(?m)^adapts: \d examples a step \(\d workers × 1; initially 2\); wants 5 workers: 1 to 3 may be$`, "status")
	j.wantCtl(t, 0, `"wished_workers": 5`, "status", "--json")
	j.finish(t)
	if r := j.result(t, result); r.Scales != 1 || r.Adaptation == nil || r.Adaptation.WishedWorkers != 5 {
		t.Errorf("the result has %d scales and the adaptation %+v, want 1, and 5 wished workers", r.Scales, r.Adaptation)
	}
}

func TestOnlyElasticJobsScale(t *testing.T) {
	t.Parallel()
	needProc(t)
	j := &elasticJob{dir: t.TempDir(), stop: filepath.Join(t.TempDir(), "stop")}
	j.launcher = startLauncher(t, j.dir, "-n", "1", "-s", "1", "--env", stopFile+"="+j.stop, "--", self(t))
	j.await(t, "begins as 0 of 1, joined false")
	j.wantCtl(t, 1, "it was not started with --elastic-training-enabled", "scale", "2")
	j.finish(t)
}

func TestScaleArgumentsAreChecked(t *testing.T) {
	for arg, want := range map[string]string{
		"": "want a number", "0": "want a number of workers from 1 to 5000", "-1": "flag", "5001": "from 1 to 5000", "many": "want a number", "d1=x": `d1=x: got "x", want a number`,
		"d1=1,d2": "d2: has no number of workers", "d1=1,D1=2": "D1=2: the host is named twice", "d1=0": "leaves no worker", "=2": "is not a host name", "d1=1,": "is not a host name",
	} {
		if code, _, stderr := runCtl("scale", arg); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("scale %q: exit code %d, want 2, and %q, want it with %q", arg, code, stderr, want)
		}
	}
	if code, _, stderr := runCtl("scale", "2", "3"); code != 2 || !strings.Contains(stderr, "want one number") {
		t.Errorf("scale 2 3: exit code %d, want 2: %s", code, stderr)
	}
}

// Workers go to hosts with free slots, over one that cannot be reached; a host that was left is
// used again, one that was removed by name is not.
func TestWorkersAreScaledOverSSH(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needProc(t)
	s := sshtest.Start(t, 3)
	d := func(i int) string { return (*elasticJob)(nil).host(s, i) }
	j := startElasticHosts(t, s, d(0)+" slots=1\n"+d(1)+" slots=1\nno-such-host.invalid slots=1\n"+d(2)+" slots=2\n", 1)
	j.wantCtl(t, 1, `no free slot for 1 of 6 workers: `+d(0)+` has 1 of 1 slots taken, `, "scale", "6")
	j.wantCtl(t, 1, `host `+d(1)+` has no free slot: 2 workers are wanted, and it has slots=1`, "scale", d(1)+"=2")

	// It goes one at a time, since hosts are logged as they become ready.
	j.wantCtl(t, 0, `^the job has 2 workers\n$`, "scale", "--wait", "2")
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	j.wantCtl(t, 0, `^the job has 2 workers `, "scale", "--wait", d(2)+"=2") // it moves, and trains meanwhile
	j.await(t, d(0)+" has left the job")
	j.await(t, d(1)+" has left the job")
	j.awaitHosts(t, d(2)+" slots=2\n")
	j.wantCtl(t, 0, `^the job has 3 workers\n$`, "scale", "--wait", "3")
	j.awaitHosts(t, d(2)+" slots=2\n"+d(0)+"\n")

	// The host is removed by name, so that no worker is started there again.
	j.wantCtl(t, 0, ` REMOVED\n$`, "remove", "--wait", d(2))
	j.wantCtl(t, 1, `no free slot for 1 of 4 workers: .*`+d(2)+" was removed", "scale", "4")
	j.wantCtl(t, 1, `\d of 3 workers: host no-such-host\.invalid: .*; no other host has a free slot`, "scale", "--wait", "3")
	j.wantCtl(t, 0, `(?m)^scale: 3 wanted, \d present, too few \(host no-such-host`, "status")
	j.wantCtl(t, 0, `^the job has 2 workers\n$`, "scale", "--wait", "2")
	j.finish(t)
	b, err := os.ReadFile(filepath.Join(j.dir, "host_worker_log"))
	if err != nil {
		t.Fatal(err)
	}

	// Hosts that come or go together do so in any order.
	var got []string
	for line := range strings.Lines(string(b)) {
		got = append(got, strings.Join(strings.Fields(line)[1:3], " "))
	}
	want := []string{"ADDED " + d(0), "ADDED " + d(1), "ADDED " + d(1), "ADDED " + d(2), "REMOVED " + d(0), "REMOVED " + d(1), "REMOVED " + d(2)}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("host_worker_log has %q, want %q", got, want)
	}
}
