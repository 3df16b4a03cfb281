package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// stopped wants the result of a job that was stopped with a checkpoint, or was to be.
func (j *fitJob) stopped(t *testing.T, path string, code int, failure control.Code) *control.Result {
	t.Helper()
	r := j.result(t, path)
	if r.ExitCode != code || r.Failure == nil || r.Failure.Code != failure || failure == control.Checkpointed && r.Failure.Step == 0 {
		t.Errorf("the result has code %d, failure %+v, want %d, %s", r.ExitCode, r.Failure, code, failure)
	}
	return r
}

// awaitRecords waits until the scheduler has what a worker's heartbeat says of it.
func (j *fitJob) awaitRecords(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; {
		code, out := j.ctl(t, "status", "--json")
		var s control.Status
		if code == 0 && json.Unmarshal([]byte(out), &s) == nil && slices.ContainsFunc(s.Nodes, func(n control.Node) bool { return n.Role == control.Worker && n.Step > 0 }) {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("no heartbeat of a worker came: code %d: %s", code, out)
		}
	}
}

// SIGUSR1, and launch ctl stop, end a job in the middle of an epoch with a checkpoint of all
// workers and exit code 85. The next start goes on from there, also with another number of workers:
// each example is used once an epoch over both runs.
func TestAJobStopsWithACheckpointAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		flags []string
		by    string

		// workers is that of the second run; 0: there is none.
		workers int
	}{
		{"SIGUSR1", nil, "SIGUSR1", 3},
		{"elastic, with backups", []string{"--elastic-training-enabled", "--backups", "1", "-s", "2"}, "SIGUSR1", 2},
		{"launch ctl stop", nil, "launch ctl stop", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.workers == 3 {
				takesLong(t)
			}
			t.Parallel()
			path := filepath.Join(t.TempDir(), "result.json")
			fast := filepath.Join(t.TempDir(), "fast")
			j := startFit(t, append([]string{"--result", path, "--env", fitFast + "=" + fast}, tc.flags...)...)
			if tc.by == "SIGUSR1" {
				j.Process.Signal(syscall.SIGUSR1)
				j.Process.Signal(syscall.SIGUSR1)
			} else if code, out := j.ctl(t, "stop"); code != 0 || !strings.Contains(out, "was asked to stop with a checkpoint; launch prints how it ended") {
				t.Errorf("launch ctl stop: code %d: %s", code, out)
			}
			j.end(t, 85, 0)
			j.wantCheckpoint(t, 3)
			j.wantOutput(t, "launch: stopped with a checkpoint after ", ", ready to resume: "+tc.by)
			if n := strings.Count(j.stdout.String(), "| stopped with a checkpoint\n"); n != 3 {
				t.Errorf("%d workers stopped with a checkpoint, want 3", n)
			}
			r := j.stopped(t, path, 85, control.Checkpointed)
			for _, p := range r.Processes {
				if p.Cause.Kind != control.CauseExit || p.Cause.Exit != 0 {
					t.Errorf("process %d, %s %d, ended with %v, want code 0", p.Process, p.Role, p.Rank, p.Cause)
				}
			}
			if tc.workers == 0 {
				return
			}
			if err := os.WriteFile(fast, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			next := &fitJob{&elasticJob{dir: t.TempDir()}, j.checkpoints}
			next.launcher = startWith(t, launchProgram, next.dir, []string{"PARAGON_RESUME=1"}, "-n", fmt.Sprint(tc.workers), "-s", "1", "--env", fitDir+"="+j.checkpoints, "--env", fitFast+"="+fast, "--", self(t))
			next.end(t, 0, tc.workers)
			next.wantOutput(t, "INFO resumed ")
		})
	}
}

// Without a complete checkpoint the exit code is never 85.
func TestAJobThatCannotStopWithACheckpointFails(t *testing.T) {
	takesLong(t)
	t.Parallel()
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "result.json")
		j := startFit(t, "--result", path, "--env", fitDir+"="+noFolder)
		at := time.Now()
		j.Process.Signal(syscall.SIGUSR1)
		j.end(t, 1, 0)
		if took := time.Since(at); took > 20*time.Second {
			t.Errorf("the job ended %s after the signal, though its workers said at once that they have no folder", took)
		}
		j.wantOutput(t, "no folder for checkpoints")
		j.stopped(t, path, 1, control.NoCheckpoint)
	})
	t.Run("launch ctl stop without a folder", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "result.json")
		j := startFit(t, "--result", path, "--env", fitDir+"="+noFolder, "--env", "PARAGON_HEARTBEAT=50ms")
		j.awaitRecords(t)
		if code, out := j.ctl(t, "stop"); code != 1 || !strings.Contains(out, "its workers have no folder for checkpoints") || !strings.Contains(out, "launch ctl stop --force") {
			t.Errorf("launch ctl stop: code %d, want 1 and what to do: %s", code, out)
		}
		if code, out := j.ctl(t, "status"); code != 0 || !strings.Contains(out, ": running, 3 workers") {
			t.Errorf("the job does not go on after the refusal: code %d: %s", code, out)
		}
		if code, out := j.ctl(t, "stop", "--force"); code != 0 || strings.Contains(out, "was asked to stop with a checkpoint") {
			t.Errorf("launch ctl stop --force: code %d: %s", code, out)
		}
		j.end(t, 1, 0)
		j.stopped(t, path, 1, control.NoCheckpoint)
	})
	t.Run("it cannot be written", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "result.json")
		j := startFit(t, "--result", path)
		if err := os.RemoveAll(j.checkpoints); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(j.checkpoints, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		j.Process.Signal(syscall.SIGUSR1)
		j.end(t, 1, 0)
		// All workers give up after the same step. Launch blames the first that it hears
		// of: by its process's end, or by what the scheduler was told.
		r := j.result(t, path)
		if r.ExitCode != 1 || r.Failure == nil || r.Failure.Code != control.NodeError && r.Failure.Code != control.ProcessFailed {
			t.Errorf("the result has code %d, failure %+v, want 1, %s or %s", r.ExitCode, r.Failure, control.NodeError, control.ProcessFailed)
		}
		j.wantOutput(t, "checkpoints failed 3 times in a row")
		if r.Culprit == nil || r.Culprit.Role != control.Worker {
			t.Errorf("%+v is to blame, want a worker", r.Culprit)
		}
	})
	const deaf = `echo ready; trap 'exit 0' TERM; while :; do sleep 0.01; done`
	for name, flags := range map[string][]string{"no worker reacts": nil, "in an elastic job": {"--elastic-training-enabled"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needProc(t)
			dir := t.TempDir()
			path := filepath.Join(dir, "result.json")
			j := &fitJob{&elasticJob{dir: dir}, dir}
			j.launcher = startLauncher(t, dir, slices.Concat(flags, []string{"-n", "2", "-s", "1", "--checkpoint-timeout", "300ms", "--result", path, deaf})...)
			j.await(t, "worker 0  | ready")
			j.await(t, "worker 1  | ready")
			j.Process.Signal(syscall.SIGUSR1)
			j.end(t, 1, 0)
			j.wantOutput(t, "no checkpoint is complete after 300ms (--checkpoint-timeout)")
			j.stopped(t, path, 1, control.NoCheckpoint)
		})
	}
}
