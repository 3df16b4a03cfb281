package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/digits"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/launch/internal/command/tune"
)

// counting is a search over a command that counts; wait is how long it sleeps at each step.
func counting(t *testing.T, wait, more string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text := `name: count
metric: value
mode: max
command: 'echo hello from {x}; for s in 1 2 3 4; do echo value=$(({x} * s)) step=$s; sleep ` + wait + `; done'
space: {x: {grid: [1, 2, 3, 4, 5, 6]}}
scheduler: {asha: {max_step: 4, eta: 2}}
parallel: 1
` + more
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantText(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !regexp.MustCompile("(?m)" + w).MatchString(got) {
			t.Errorf("%s has nothing like %s:\n%s", what, w, got)
		}
	}
}

// tuneIn runs launch tune to its end.
func tuneIn(t *testing.T, dir string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	l := startLauncher(t, dir, append([]string{"tune"}, args...)...)
	if got := l.exit(t); got != code {
		t.Errorf("launch tune %q: exit code %d, want %d", args, got, code)
	}
	return l.stdout.String(), l.stderr.String()
}

var hashLine = regexp.MustCompile(`(?m)^decisions: ([0-9a-f]{64})$`)

func hashOf(t *testing.T, out string) string {
	t.Helper()
	m := hashLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("there is no hash in:\n%s", out)
	}
	return m[1]
}

func TestTuneSearchesOverACommand(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "")
	out, _ := tuneIn(t, dir, 0, "--verbose", "study.yaml")
	wantText(t, "the output", out, `^node +CPUs`, `^local +\d+ `, `^trial-000005: started on local with \{x: 6\}$`, `^\[ worker local of trial 5 \] : hello from 6$`,
		`^trial-000005: completed after step 4, value 24`, `^== Status ==$`, `^trial-000005 +COMPLETED +local +6 +24 +4 `,
		`^best: trial-000005 with value 24$`, `^  x: 6$`, `^command: echo hello from 6; for s in`, `^results: runs/count/trials.csv runs/count/curves.png runs/count/report.html$`)
	if strings.Contains(out, "\x1b") {
		t.Error("the output has codes of a terminal, but goes to none")
	}
	for _, name := range []string{"log.jsonl", "study.yaml", "trials.csv", "curves.png", "report.html", "trials/trial-000003/attempt-1/worker_0.log", "trials/trial-000003/result.json"} {
		if info, err := os.Stat(filepath.Join(dir, "runs/count", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file with something in it", name, err)
		}
	}
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/count/log.jsonl")
	if hashOf(t, replayed) != hashOf(t, out) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", out, replayed)
	}
	why, _ := tuneIn(t, dir, 0, "why", "runs/count", "trial-000005")
	wantText(t, "why", why, `trial 5 started on local with \{x: 6\}`, `step 1: value 6: continue \(asha`)
	shown, _ := tuneIn(t, dir, 0, "show", "runs/count")
	wantText(t, "show", shown, `^trial-000005 +COMPLETED`, `^best: trial-000005 with value 24$`, `^command: echo hello from 6; for s in`)
	if err := os.Remove(filepath.Join(dir, "runs/count/study.yaml")); err != nil { // as if a Go program had searched
		t.Fatal(err)
	}
	alone, _ := tuneIn(t, dir, 0, "show", "runs/count")
	if want := regexp.MustCompile(`(?m)^command: .*\n`).ReplaceAllString(shown, ""); alone != want {
		t.Errorf("show without the file: got\n%s\nwant\n%s", alone, want)
	}
	_, errs := tuneIn(t, dir, 1, "replay", "runs/count")
	wantText(t, "a replay without the file", errs, `runs/count: it has no study.yaml: .* tune\.Replay`)
	_, errs = tuneIn(t, dir, 1, "study.yaml")
	wantText(t, "a second search", errs, `^launch: tune: runs/count already holds a search: resume it with --resume`)
	again, _ := tuneIn(t, dir, 0, "--resume", "study.yaml")
	if hashOf(t, again) != hashOf(t, out) {
		t.Error("resuming a search that is over has changed its decisions")
	}
	changed, err := os.ReadFile(filepath.Join(dir, "study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.yaml"), []byte(strings.Replace(string(changed), "eta: 2", "eta: 4", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	_, errs = tuneIn(t, dir, 1, "replay", "--study", "other.yaml", "runs/count")
	wantText(t, "a replay by other rules", errs, `made with another configuration`)
}

// A search that is resumed with a changed file replays with what decided when.
func TestTuneReplaysASearchThatWasResumedWithAnotherFile(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "samples: 2\nsuggester: sobol\npruners: [reached: 1000, max_step: 3]\n")
	file := filepath.Join(dir, "study.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	change := strings.NewReplacer("{grid: [1, 2, 3, 4, 5, 6]}", "{int: [1, 6]}")
	if err := os.WriteFile(file, []byte(change.Replace(string(text))), 0o666); err != nil {
		t.Fatal(err)
	}
	tuneIn(t, dir, 0, "study.yaml")
	change = strings.NewReplacer("{grid: [1, 2, 3, 4, 5, 6]}", "{int: [1, 6]}", "samples: 2", "samples: 5", "sobol", "{limit: {max: 1, suggester: {tpe: {startup: 2}}}}", "reached: 1000", "reached: 999")
	if err := os.WriteFile(file, []byte(change.Replace(string(text))), 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ := tuneIn(t, dir, 0, "--resume", "study.yaml")
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/count")
	wantText(t, "the replay", replayed, `: 5 proposals and`)
	if hashOf(t, replayed) != hashOf(t, out) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", out, replayed)
	}
}

// The file in the help text runs as it stands with the example that it names. Twenty trials take a
// while: else two are run.
func TestTheStudyOfTheHelpRuns(t *testing.T) {
	takesLong(t)
	t.Parallel()
	testbuild.NeedsWorkspace(t)
	_, text, found := strings.Cut(tune.Description, "  study.yaml\n")
	text, _, ended := strings.Cut(text, "\n\n")
	if !found || !ended {
		t.Fatalf("the help has no study.yaml:\n%s", tune.Description)
	}
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		text = strings.Replace(text, "samples: 20", "samples: 2", 1)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data", "mnist")
	if err := errors.Join(testbuild.Programs(dir, "examples/mnist"), os.MkdirAll(data, 0o777), digits.Draw(data, "train", 256), digits.Draw(data, "t10k", 64),
		os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
	out, errs := tuneIn(t, dir, 0, "study.yaml")
	wantText(t, "the output", out, `^best: trial-0000\d\d with accuracy `, `^command: ./mnist --data data/mnist --epochs 9 --out out/\d+ --optimizer (sgd|adam) --learning-rate 0\.`)
	if strings.Contains(out, "FAILED") {
		t.Errorf("trials have failed:\n%s%s", out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "out", "1", "tensorboard")); err != nil {
		t.Error(err)
	}
}

func TestTuneSaysWhatItWouldRun(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "")
	out, _ := tuneIn(t, dir, 0, "--dry-run", "study.yaml")
	wantText(t, "a dry run", out, `^trial-000000: echo hello from 1; for`, `^trial-000005: echo hello from 6;`, `^1 at once \(\d+ fit\), in runs/count; no trial was run$`)
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("a dry run has made a folder")
	}
}

func TestTuneRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	dir := counting(t, "0", "resources: {cpus: 5000}\n")
	for _, tc := range []struct {
		code int
		args []string
		want string
	}{
		{1, []string{"study.yaml"}, `a trial can never run: .*local has`},
		{1, []string{"no.yaml"}, `open no.yaml`},
		{2, nil, `want the file of the study`},
		{2, []string{"--failed", "again", "study.yaml"}, `--failed is "again", want keep, resume or restart`},
		{2, []string{"--parallel", "0", "study.yaml"}, `--parallel is 0`},
		{2, []string{"why", "runs/count", "x"}, `"x" is not a trial number`},
		{1, []string{"why", "runs/none", "1"}, `runs/none: no such file`},
		{1, []string{"show", "."}, `the folder \. has no log\.jsonl; want the folder of a study`},
	} {
		_, errs := tuneIn(t, dir, tc.code, tc.args...)
		wantText(t, strings.Join(tc.args, " "), errs, tc.want)
	}
}

// However a search ends, going on with it ends in the decisions of a search that nobody disturbed.
func TestTuneGoesOnAfterCtrlCAndAfterKill(t *testing.T) {
	t.Parallel()
	whole, _ := tuneIn(t, counting(t, "0", ""), 0, "study.yaml")
	for name, signal := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "kill": syscall.SIGKILL, "SIGUSR1": syscall.SIGUSR1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := counting(t, "0.2", "")
			l := startLauncher(t, dir, "tune", "study.yaml")
			l.await(t, "trial-000002: started")
			if err := l.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			want := map[syscall.Signal]int{syscall.SIGINT: tune.ExitInterrupted, syscall.SIGUSR1: 85}[signal]
			if code := l.exit(t); signal != syscall.SIGKILL && code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if signal != syscall.SIGKILL {
				wantText(t, "the output", l.stdout.String(), `^interrupted; all reports are in runs/count$`, `^to resume: launch tune --resume study.yaml$`)
			}
			if said := strings.Contains(l.stderr.String(), "Ctrl-C again ends them at once"); said != (signal == syscall.SIGINT) {
				t.Errorf("it says that Ctrl-C again ends the trials: %t\n%s", said, l.stderr.String())
			}
			// The shell of the trial ends with launch, however launch ends.
			deadline := time.Now().Add(patience)
			for trialRuns(dir) {
				if time.Now().After(deadline) {
					t.Fatal("a process of a trial is left")
				}
				time.Sleep(10 * time.Millisecond)
			}
			again, _ := tuneIn(t, dir, 0, "--resume", "study.yaml")
			if hashOf(t, again) != hashOf(t, whole) {
				t.Errorf("it has decided otherwise than a search without a break:\n%s\nand without:\n%s", again, whole)
			}
			wantText(t, "the output", again, `^count: resumed, 3 trials$`)
		})
	}
}

// trialRuns says whether a shell runs in dir.
func trialRuns(dir string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range all {
		if at, err := os.Readlink(cwd); err == nil && at == dir {
			return true
		}
	}
	return false
}

func TestTuneRunsTrialsAsJobs(t *testing.T) {
	t.Parallel()
	needProc(t)
	dir := counting(t, "0", "resources: {slots: 2, servers: 1}\nsamples: 1\n")
	text, err := os.ReadFile(filepath.Join(dir, "study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	job := strings.Replace(string(text), "[1, 2, 3, 4, 5, 6]", "[1, 2]", 1)
	job = regexp.MustCompile("(?m)^command:.*$").ReplaceAllString(job, `command: 'echo rank $$PARAGON_RANK; echo value={x} step=1'`)
	job = strings.ReplaceAll(job, "$$", "$")
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(job), 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ := tuneIn(t, dir, 0, "study.yaml")
	wantText(t, "the output", out, `^trial-000001 +COMPLETED +local +2 +2 +1 `)
	for _, rank := range []string{"0", "1"} {
		log, err := os.ReadFile(filepath.Join(dir, "runs/count/trials/trial-000001/attempt-1/worker_"+rank+".log"))
		if err != nil || !strings.Contains(string(log), "rank "+rank+"\n") {
			t.Errorf("the log of rank %s holds %q, %v", rank, log, err)
		}
	}
}

// One trial of three goes wrong; the others go on, and no process is left.
func TestTuneGoesOnPastATrialThatGoesWrong(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needProc(t)
	const script = `i=0; while [ $i -lt 3 ]; do i=$((i+1)); if [ {x} = 2 ] && [ $i = 2 ]; then BAD; fi; echo value=$((10*{x}+i)) step=$i; sleep 0.02; done`
	for name, tc := range map[string]struct{ bad, more, want string }{
		"fails":           {`echo no such file >&2; exit 3`, "", `^trial-000001: attempt 1 failed \(user code\): .*exit 3: no such file$`},
		"deaf":            {`trap "" TERM; sleep 600; sleep 600`, "report_timeout: 500ms\ngrace: 200ms", `^trial-000001: attempt 1 failed \(silent\): .*no report for 500ms, after step 1`},
		"NaN":             {`echo value=NaN step=2; sleep 0.1; exit 0`, "", `^trial-000001: pruned after step 2, value NaN`},
		"memory":          {`echo cannot allocate memory >&2; exit 1`, "", `^trial-000001: attempt 1 failed \(out of memory\)`},
		"killed":          {`[ -e once ] || { touch once; kill -9 $$; }`, "", `^trial-000001: completed after step 3`},
		"killed in a job": {`[ -e once ] || { touch once; kill -9 $$; }`, "resources: {servers: 1}", `^trial-000001: attempt 1 failed \(node lost\): .*; tried again$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := "metric: value\nmode: max\nspace: {x: {grid: [1, 2, 3]}}\nparallel: 1\ncommand: |\n  " + strings.Replace(script, "BAD", strings.NewReplacer("{", "{{", "}", "}}").Replace(tc.bad), 1) + "\n" + tc.more + "\n"
			if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			out, _ := tuneIn(t, dir, 0, "study.yaml")
			wantText(t, "the output", out, tc.want, `^best: trial-000002 with value 33$`)
			if name == "fails" {
				wantText(t, "the end", out, `^1 trial failed; see runs/study/trials$`, `^to try again: launch tune --resume --failed restart study.yaml$`)
			} else if strings.Contains(name, "killed") && strings.Contains(out, "to try again") {
				t.Errorf("no trial failed for good:\n%s", out)
			}
			if trialRuns(dir) {
				t.Error("a process of a trial is left")
			}
		})
	}
}

// A search for two objectives over a command, its front, and its way to Optuna's file and back into
// a search that goes on.
func TestTuneSearchesForSeveralObjectivesAndMovesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `name: trade
objectives: {value: max, cost: min}
constraints: [cost <= 40]
command: 'echo value={x} cost=$(({x} * {x})) step=1'
space: {x: {int: [1, 8]}}
samples: 6
parallel: 1
suggester: {motpe: {startup: 3}}
`
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ := tuneIn(t, dir, 0, "study.yaml")
	wantText(t, "the output", out, `value, larger is better; cost, smaller is better; with cost <= 40; suggest.MOTPE`, `^Pareto front: \d trials?$`, `^Pareto front, by value first:$`,
		`^  trial-00000\d: value \d cost \d+$`, `^    echo value=\d cost=`, `^results: runs/trade/trials.csv`)
	exported, _ := tuneIn(t, dir, 0, "export", "--optuna", "study.json", "runs/trade")
	wantText(t, "export", exported, `^6 trials of 6 written to study.json$`)
	more := strings.NewReplacer("samples: 6", "samples: 8", "name: trade", "name: more")
	for name, text := range map[string]string{"narrow.yaml": more.Replace(strings.Replace(text, "[1, 8]", "[9, 10]", 1)), "more.yaml": more.Replace(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	_, refused := tuneIn(t, dir, 1, "import", "--optuna", "study.json", "narrow.yaml") // and the next import finds no search begun
	wantText(t, "an import into another space", refused, `trials\[0\], number 0: .*parameter "x": value \d is not in \[9, 10\]$`)
	imported, _ := tuneIn(t, dir, 0, "import", "--optuna", "study.json", "more.yaml")
	wantText(t, "import", imported, `^6 trials added to runs/more; to go on: launch tune --resume more.yaml$`)
	elsewhere, _ := tuneIn(t, dir, 0, "import", "--optuna", "study.json", "--dir", "other runs", "more.yaml")
	wantText(t, "an import with --dir", elsewhere, `^6 trials added to other runs; to go on: launch tune --resume 'other runs'$`)
	tuneIn(t, dir, 0, "--resume", "other runs")
	_, errs := tuneIn(t, dir, 1, "import", "--optuna", "study.json", "more.yaml")
	wantText(t, "a second import", errs, `already holds a search`)
	resumed, _ := tuneIn(t, dir, 0, "--resume", "more.yaml")
	wantText(t, "the resumed search", resumed, `^trial-000006: started`, `^trial-000007: completed`, `^Pareto front, by value first:$`)
	replayed, _ := tuneIn(t, dir, 0, "replay", "runs/more")
	if hashOf(t, replayed) != hashOf(t, resumed) {
		t.Errorf("the hash of the search and of its replay differ:\n%s%s", resumed, replayed)
	}
	for _, tc := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"export", "--optuna", "x"}, `want the folder of a study`},
		{1, []string{"import", "--optuna", "none.json", "--dir", "other", "study.yaml"}, `open none.json`},
	} {
		_, errs := tuneIn(t, dir, tc.code, tc.args...)
		wantText(t, strings.Join(tc.args, " "), errs, tc.want)
	}
}
