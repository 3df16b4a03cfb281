package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// contents are the files below a folder, by name.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, path := range filesBelow(t, folder) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(b)
	}
	return files
}

// startFinal starts a job of workers that train with Fit, quickly, in a folder of checkpoints.
func startFinal(t *testing.T, folder string, env []string, args ...string) *launcher {
	t.Helper()
	fast := filepath.Join(t.TempDir(), "fast")
	if err := os.WriteFile(fast, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env = append(env, fitDir+"="+folder, fitFast+"="+fast)
	return startWith(t, launchProgram, t.TempDir(), env, append(args, "--", self(t))...)
}

// wantFinal wants a job to end with a code and a message, without any attempt to start something
// again.
func (l *launcher) wantFinal(t *testing.T, code int, message string) {
	t.Helper()
	if got := l.exit(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	text := l.stderr.String()
	for _, want := range []string{message, "no restart can mend this"} {
		if !strings.Contains(text, want) {
			t.Errorf("stderr has no %q", want)
		}
	}
	for _, no := range []string{"starting the job again", "starting it again", "starting a worker", "was lost", " lost:"} {
		if strings.Contains(text, no) {
			t.Errorf("stderr has %q", no)
		}
	}
}

// trained is a folder with checkpoints of a run that has ended.
func trained(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if code := startFinal(t, folder, []string{fitSave + "=700"}, "-n", "1", "-s", "1").exit(t); code != 0 {
		t.Fatalf("the first run: exit code %d, want 0", code)
	}
	return folder
}

// --restarts goes on from the checkpoints of its own run alone, however the program reads
// PARAGON_RESUME.
func TestRestartNeverResumesAnotherRun(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needProc(t)
	folder := trained(t)
	before := contents(t, folder)
	wantUnchanged := func(t *testing.T) {
		t.Helper()
		if !maps.Equal(before, contents(t, folder)) {
			t.Error("the folder has changed")
		}
	}
	const message = "has checkpoints of another run"

	result := filepath.Join(t.TempDir(), "result.json")
	l := startFinal(t, folder, nil, "-n", "1", "-s", "1", "--restarts", "3", "--result", result)
	l.wantFinal(t, 1, message)
	wantUnchanged(t)
	b, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := control.DecodeResult(b); err != nil || r.Failure == nil || r.Failure.Code != control.NodeFinal || r.Failure.Cause.Kind != control.CauseOtherRun || r.Restarts != 0 {
		t.Errorf("got result %s (%v), want code %s with cause %s and no restart", b, err, control.NodeFinal, control.CauseOtherRun)
	}

	t.Run("elastic", func(t *testing.T) {
		l := startFinal(t, folder, nil, "-n", "2", "-s", "1", "--on-worker-loss", "shrink", "--rejoin", "3", "--restarts", "3")
		l.wantFinal(t, 1, message)
		wantUnchanged(t)
	})
	t.Run("a worker dies before it has looked", func(t *testing.T) {
		l := startFinal(t, folder, []string{fitDies + "=" + filepath.Join(t.TempDir(), "mark")}, "-n", "1", "-s", "1", "--restarts", "3")
		if code := l.exit(t); code != 1 || !strings.Contains(l.stderr.String(), message) || strings.Count(l.stderr.String(), "starting the job again") != 1 {
			t.Errorf("exit code %d, want 1 after one restart, and the message", code)
		}
		wantUnchanged(t)
	})
	t.Run("a worker dies before it has resumed as it was asked to", func(t *testing.T) {
		l := startFinal(t, folder, []string{fitDies + "=" + filepath.Join(t.TempDir(), "mark"), "PARAGON_RESUME=1"}, "-n", "1", "-s", "1", "--restarts", "3")
		if code := l.exit(t); code != 0 || !strings.Contains(l.stdout.String()+l.stderr.String(), " resumed ") {
			t.Errorf("exit code %d, want 0 and a run that has resumed", code)
		}
	})
}

// A job that is started again goes on from its own checkpoints.
func TestRestartResumesItsOwnRun(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startFinal(t, t.TempDir(), []string{fitSave + "=40", fitDies + "=" + filepath.Join(t.TempDir(), "mark")}, "-n", "1", "-s", "1", "--restarts", "3")
	if code := l.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, want := range []string{"signal 9", "restart 1 of 3", " resumed ", "examples lost 0, doubled 0"} {
		if !strings.Contains(l.stdout.String()+l.stderr.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
}

func TestNothingIsStartedAgainAfterAnErrorThatNoRestartCanMend(t *testing.T) {
	t.Parallel()
	needProc(t)
	again := []string{"-n", "2", "-s", "1", "--on-worker-loss", "shrink", "--rejoin", "3", "--restarts", "3"}
	t.Run("flag", func(t *testing.T) {
		t.Parallel()
		l := startFinal(t, noFolder, []string{fitFinal + "=flag"}, again...)
		l.wantFinal(t, 1, " on localhost: --epochs is 0, want at least 1 (exit 1; ")
	})
	t.Run("missing file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "images")
		l := startFinal(t, noFolder, []string{fitFinal + "=" + path}, "-n", "1", "-s", "1", "--on-worker-loss", "wait", "--rejoin", "3", "--restarts", "3")
		l.wantFinal(t, 1, "open "+path+": no such file or directory")
	})
	t.Run("another model", func(t *testing.T) {
		t.Parallel()
		folder := trained(t)
		before := contents(t, folder)
		l := startFinal(t, folder, []string{fitExamples + "=300", "PARAGON_RESUME=1"}, again...)
		l.wantFinal(t, 1, "worker: resume from "+folder)
		if !maps.Equal(before, contents(t, folder)) {
			t.Error("the folder has changed")
		}
	})
}

// After Ctrl-C the last line is the command that goes on from the checkpoint, and nobody complains
// that workers ask to leave.
func TestInterruptEndsWithTheCommandThatResumes(t *testing.T) {
	t.Parallel()
	j := startFit(t)
	j.Process.Signal(os.Interrupt)
	if code := j.exit(t); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	text := strings.TrimSpace(j.stderr.String())
	last := text[strings.LastIndex(text, "\n")+1:]
	if want := launchProgram + " --env PARAGON_RESUME=1 -n 3 -s 1 --env "; !strings.HasPrefix(last, want) || !strings.Contains(text, "launch: stopped by interrupt, with a checkpoint after ") {
		t.Errorf("the last line is %q, want it to begin with %q, below how the job was stopped", last, want)
	}
	if strings.Contains(text, "asks to leave") {
		t.Error("the log says that workers ask to leave")
	}
}
