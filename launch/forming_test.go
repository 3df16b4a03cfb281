package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// startForming starts an elastic job of two workers that is not complete before open is called:
// worker 0 waits for that. It returns when worker 1 and the server have registered. How is how the
// shell that is started runs the program.
func startForming(t *testing.T, how string, flags ...string) (j *elasticJob, open func()) {
	t.Helper()
	needProc(t)
	j = &elasticJob{dir: t.TempDir(), stop: filepath.Join(t.TempDir(), "stop")}
	gate := filepath.Join(t.TempDir(), "gate")
	args := append([]string{"-n", "2", "-s", "1", "--env", stopFile + "=" + j.stop, "--elastic-training-enabled"}, flags...)
	script := fmt.Sprintf("if [ $PARAGON_RANK = 0 ]; then until [ -e %s ]; do sleep 0.02; done; fi; %s %s; exit $?", gate, how, self(t))
	j.launcher = startLauncher(t, j.dir, append(args, script)...)
	j.await(t, "registered: worker 1 on ")
	j.await(t, "registered: server 0 on ")
	return j, func() {
		if err := os.WriteFile(gate, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is killed before the job is complete is started again, also where a shell stands before
// the worker, whose number the scheduler does not know.
func TestProcessesKilledBeforeTheJobIsCompleteAreStartedAgain(t *testing.T) {
	takesLong(t)
	for _, how := range []string{"exec", ""} {
		t.Run("with a shell: "+fmt.Sprint(how == ""), func(t *testing.T) {
			t.Parallel()
			j, open := startForming(t, how)
			kill(t, j.process(t, "server", 0))
			kill(t, j.worker(t, 1))
			j.awaitTimes(t, "registered: worker 1 on ", 2)
			j.awaitTimes(t, "registered: server 0 on ", 2)

			// It goes on with those who had registered.
			kill(t, j.process(t, "scheduler", 0))
			kill(t, j.worker(t, 1))
			j.await(t, "scheduler on localhost listens again at ")
			j.awaitTimes(t, "registered: worker 1 on ", 3)
			kill(t, j.worker(t, 0)) // has not registered
			open()
			j.await(t, "begins as 0 of 2, joined false")
			j.await(t, "begins as 1 of 2, joined false")
			j.finish(t)
			j.wantOutput(t, "(killed), started again", "starting it again in 2s (attempt 2 of 3)")
			j.wantLog(t, "")
		})
	}
}

// Where nothing is started again the error names who was killed, and what would.
func TestAWorkerKilledBeforeTheJobIsCompleteEndsItWithoutRejoin(t *testing.T) {
	t.Parallel()
	j, _ := startForming(t, "exec", "--rejoin", "0")
	kill(t, j.worker(t, 1))
	if code := j.exit(t); code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	if want := "launch: worker 1 on localhost failed: signal 9 (killed), before the job was complete; with --rejoin 1 or more it is started again; "; !strings.Contains(j.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
	wantNoProcess(t, j.job(t), time.Now())
}

// A host that is cut off before the job is complete is reached again, with all that ran there.
func TestHostCutOffBeforeTheJobIsCompleteComesAgain(t *testing.T) {
	takesLong(t)
	t.Parallel()
	s := sshtest.Start(t, 2)
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(s.Hosts()), 0o644); err != nil {
		t.Fatal(err)
	}
	j, open := startForming(t, "exec", "-H", hosts, "--ssh-command", strings.Join(s.Client, " "))
	s.CutHost(s.Addresses[1])
	j.awaitTimes(t, "registered: worker 1 on ", 2)
	open()
	j.await(t, "begins as 0 of 2, joined false")
	j.await(t, "begins as 1 of 2, joined false")
	j.finish(t)
	j.wantOutput(t, "connection to "+j.host(s, 1)+" lost, started again")
}

// launch warns of workers that use no store, and the job ends with code 0.
func TestWorkersWithoutAStoreEndInOrder(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startLauncher(t, "", "-n", "2", "-s", "1", "echo trains by itself")
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if want := "WARNING all workers are done, and none has joined the job; workers join with kvstore.Create"; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
	for _, bad := range []string{"failed", "ERROR"} {
		if strings.Contains(l.stderr.String(), bad) {
			t.Errorf("stderr has %q", bad)
		}
	}
	wantNoProcess(t, l.job(t), time.Now())
}
