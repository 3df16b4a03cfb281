package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// result is the file that a launcher wrote.
func (l *launcher) result(t *testing.T, path string) *control.Result {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := control.DecodeResult(b)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("%q are left beside the result", left)
	}
	return r
}

// However a job ends, --result tells how.
func TestTheResultTellsHowTheJobEnded(t *testing.T) {
	t.Parallel()
	needProc(t)
	wait := "sleep 1000 & wait"
	for _, tc := range []struct {
		name   string
		flags  []string
		script string

		// signal is sent to launch once a worker says that it is ready.
		signal syscall.Signal

		code    int
		phase   string
		failure control.Code
		culprit *control.Cause

		// fates are those of scheduler, server and two workers.
		fates []control.Fate
	}{
		{"well", nil, "if [ $PARAGON_RANK = 0 ]; then echo loss=0.5 acc=nan step=3; else echo loss=0.9 step=4; fi", 0, 0, control.Forming, "", nil, []control.Fate{control.FateStopped, control.FateStopped, control.FateEnded, control.FateEnded}},
		{"a worker fails", nil, "if [ $PARAGON_RANK = 1 ]; then echo no data >&2; exit 3; fi; " + wait, 0, 3, control.Forming, control.ProcessFailed,
			&control.Cause{Kind: control.CauseExit, Exit: 3}, []control.Fate{control.FateStopped, control.FateStopped, control.FateStopped, control.FateEnded}},
		{"a worker is killed", nil, "if [ $PARAGON_RANK = 1 ]; then kill -9 $$; fi; " + wait, 0, 137, control.Forming, control.ProcessFailed,
			&control.Cause{Kind: control.CauseSignal, Signal: 9}, []control.Fate{control.FateStopped, control.FateStopped, control.FateStopped, control.FateEnded}},
		{"interrupted", nil, "echo ready; " + wait, syscall.SIGINT, 130, control.Forming, control.Interrupted, nil,
			[]control.Fate{control.FateStopped, control.FateStopped, control.FateStopped, control.FateStopped}},
		{"cannot be started", nil, "", 0, 1, control.Starting, control.NotStarted, nil, []control.Fate{control.FateStopped, control.FateStopped, control.FateNotStarted, control.FateNotStarted}},
		{"no host answers", []string{"--ssh-command", "false"}, "x", 0, 1, control.Starting, control.NotStarted, nil,
			[]control.Fate{control.FateNotStarted, control.FateNotStarted, control.FateNotStarted, control.FateNotStarted}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "result.json")
			if err := os.WriteFile(path, []byte("of an earlier job"), 0o644); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"-n", "2", "-s", "1", "--result", path}, tc.flags...)
			if tc.flags != nil {
				hosts := filepath.Join(dir, "hosts")
				if err := os.WriteFile(hosts, []byte("d1\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "-H", hosts)
			}
			if args = append(args, tc.script+" "); tc.script == "" {
				args = append(args[:len(args)-1], filepath.Join(dir, "no-such-program"))
			}
			l := startLauncher(t, dir, args...)
			if tc.signal != 0 {
				l.await(t, "worker 1  | ready")
				if _, err := os.Stat(path); err == nil {
					t.Error("there is a result while the job runs")
				}
				l.Process.Signal(tc.signal)
			}
			code := l.exit(t)
			r := l.result(t, path)
			if code != tc.code || r.ExitCode != tc.code || r.Phase != tc.phase || r.Signal != int(tc.signal) {
				t.Errorf("exit code %d; the result has %d, phase %s, signal %d; want %d, %s, %d", code, r.ExitCode, r.Phase, r.Signal, tc.code, tc.phase, tc.signal)
			}
			if (r.Failure == nil) != (tc.failure == "") || r.Failure != nil && r.Failure.Code != tc.failure {
				t.Errorf("failure %+v, want %q", r.Failure, tc.failure)
			}
			if (r.Culprit == nil) != (tc.culprit == nil) || r.Culprit != nil && (r.Culprit.Cause != *tc.culprit || r.Culprit.Role != "worker" || r.Culprit.Rank != 1 || r.Culprit.Process != 4) {
				t.Errorf("culprit %+v, want worker 1 with %+v", r.Culprit, tc.culprit)
			}
			var fates []control.Fate
			for _, p := range r.Processes {
				fates = append(fates, p.Fate)
			}
			if !slices.Equal(fates, tc.fates) {
				t.Errorf("fates %q, want %q", fates, tc.fates)
			}
			if well := tc.name == "well"; well != (r.Metrics != nil) || well && (r.Metrics.Step != 3 || len(r.Metrics.Values) != 1 || r.Metrics.Values["loss"] != 0.5) {
				t.Errorf("metrics %+v, want loss 0.5 of step 3: %t", r.Metrics, well)
			}
			if lost := tc.flags != nil; lost != (len(r.LostHosts) == 1) || lost && r.LostHosts[0].Host != "d1" {
				t.Errorf("lost hosts %+v, want d1: %t", r.LostHosts, lost)
			}
		})
	}
}

// A result that could not be written at the end is refused before anything starts.
func TestAResultThatCannotBeWrittenIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "r.json"): "no such file or directory",
		dir:                                  "is not a regular file",
		os.DevNull:                           "is not a regular file",
	} {
		l := startLauncher(t, "", "-n", "1", "-s", "1", "--result", path, "true")
		if code := l.exit(t); code != 1 || !strings.Contains(l.stderr.String(), "launch: --result") || !strings.Contains(l.stderr.String(), want) || strings.Contains(l.stderr.String(), "job ") {
			t.Errorf("%s: exit code %d, want 1, an error with %q, and no job", path, code, want)
		}
	}
}

// A job that is interrupted before it is started again has the signal's code, which is no
// process's.
func TestAResultOfAJobThatWaitsForItsRestart(t *testing.T) {
	t.Parallel()
	needProc(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	l := startLauncher(t, dir, "-n", "1", "-s", "1", "--result", path, "--restarts", "1000", "exit 3")
	l.await(t, "(restart 1 of 1000)")
	l.Process.Signal(syscall.SIGINT)
	code := l.exit(t)
	if r := l.result(t, path); code != 130 || r.ExitCode != 130 || r.Signal != 2 || r.Culprit != nil || r.Failure == nil || r.Failure.Code != control.Interrupted {
		t.Errorf("exit code %d; the result is %+v with culprit %+v, want 130, interrupted, and no culprit", code, r, r.Culprit)
	}
}
