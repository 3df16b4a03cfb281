package tune_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/tune"
)

// A process of a trial is this test program again: kindVariable says what it does.
const kindVariable = "PARAGON_TEST_TRIAL"

func space() tune.Space { return tune.Space{tune.Grid("x", 1, 2, 3)} }

// trial is what a worker does.
func trial(ctx context.Context, p tune.Params, r *tune.Reporter) error {
	kind := os.Getenv(kindVariable)
	switch kind {
	case "elastic":
		return elasticTrial(ctx, p, r)
	case "adapting":
		return adaptingTrial(ctx, r)
	case "unshared":
		return unsharedTrial(r)
	case "stored":
		return storedTrial(ctx, p, r)
	}
	fmt.Printf("rank %s has x=%d\n", os.Getenv("PARAGON_RANK"), p.Int("x"))
	from := 0
	if dir, step, ok := r.Restore(); ok {
		b, err := os.ReadFile(filepath.Join(dir, "state"))
		if err != nil || string(b) != strconv.Itoa(step) {
			return fmt.Errorf("checkpoint of step %d holds %q, %v", step, b, err)
		}
		from = step
	}
	for step := from + 1; step <= 4; step++ {
		switch {
		case kind == "memory" && step == 2:
			return tune.Fail(tune.OutOfMemory, errors.New("no room"))
		case kind == "final" && step == 2:
			return kvstore.Final(errors.New("there is no such model"))
		case kind == "panic" && p.Int("x") == 2:
			panic("two is bad")
		case kind == "killed" && p.Int("x") == 2 && r.Attempt() == 1 && step == 3:
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		case (kind == "killed0" || kind == "exit0") && p.Int("x") == 2 && r.Attempt() == 1 && step == 3 && os.Getenv("PARAGON_RANK") == "0":
			endSlowly(kind)
		case kind == "hang" && p.Int("x") == 2, kind == "lost" && p.Int("x") == 2 && r.Attempt() == 1 && step == 3:
			<-time.After(time.Hour) // select {} is a deadlock, for which Go ends the process where there is no cgo
		}
		err := r.Checkpoint(step, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state"), []byte(strconv.Itoa(step)), 0o666)
		})
		if err != nil {
			return err
		}
		cpus := float64(runtime.GOMAXPROCS(0))
		if err := r.Report(step, map[string]float64{"value": float64(10*p.Int("x") + step), "cpus": cpus}); err != nil {
			return err
		}
	}
	return nil
}

// endSlowly ends this process, which does not tell its search. Its connections close before, as
// when the kernel frees much memory.
func endSlowly(kind string) {
	shutSockets()
	time.Sleep(time.Second)
	if kind == "killed0" {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	os.Exit(9)
}

// In a process of a trial Run does not search.
func init() {
	if kind := os.Getenv(kindVariable); kind == fitKind {
		os.Exit(runFit())
	} else if kind != "" {
		result, err := tune.Run(context.Background(), trial, tune.Config{Name: "jobs", Space: space(), Metric: "value"})
		var ended *tune.TrialEnded
		if result != nil || !errors.As(err, &ended) {
			fmt.Fprintf(os.Stderr, "Run returned %v and %v in a process of a trial\n", result, err)
			os.Exit(7)
		}
		if code := tune.ExitCode(err); code != 0 {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(code)
		}
		os.Exit(0)
	}
}

// built is launch, built once.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// launchProgram builds launch for the tests of this package.
func launchProgram(t *testing.T) string {
	t.Helper()
	testbuild.NeedsWorkspace(t)
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "tune-test"); built.err == nil {
			built.err = testbuild.Programs(built.folder, "launch")
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.folder, "launch")
}

func processes(t *testing.T, kind string) *tune.Jobs {
	t.Helper()
	t.Setenv(kindVariable, kind)
	return &tune.Jobs{NoServers: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func jobsConfig(t *testing.T, j *tune.Jobs) tune.Config {
	return tune.Config{Name: "jobs", Space: space(), Metric: "value", Mode: tune.Max, Parallel: 2, Dir: t.TempDir(), Runner: j, Grace: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// patience bounds a search of a test.
const patience = 2 * time.Minute

func mustRun(t *testing.T, cfg tune.Config) *tune.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := tune.Run(ctx, nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestTrialsRunInProcessesOfTheirOwn(t *testing.T) {
	j := processes(t, "well")
	var out syncBuffer
	j.Output = &out
	cfg := jobsConfig(t, j)
	result := mustRun(t, cfg)
	if got := result.Value(result.BestTrial()); got != 34 || result.BestTrial().Params.Int("x") != 3 {
		t.Errorf("best is %v with %v, want 34 with x=3", got, result.BestTrial().Params)
	}
	for _, x := range result.Trials() {
		if x.State != tune.Completed || len(x.Reports) != 4 || x.Location != "local" || len(x.Checkpoints) == 0 {
			t.Errorf("trial %d is %s with %d reports at %s and %d checkpoints, want completed, 4, local, some", x.Number, x.State, len(x.Reports), x.Location, len(x.Checkpoints))
		}
		if cpus, _ := x.Reports[0].Metrics.Get("cpus"); runtime.GOOS == "linux" && cpus != 1 {
			t.Errorf("trial %d has %v processors, want the one of its slot", x.Number, cpus)
		}
		log, err := os.ReadFile(filepath.Join(cfg.Dir, "trials", x.Name(), "attempt-1", "worker_0.log"))
		if want := fmt.Sprintf("has x=%d\n", x.Params.Int("x")); err != nil || !strings.Contains(string(log), want) {
			t.Errorf("the log of trial %d holds %q, %v, want %q", x.Number, log, err, want)
		}
	}
	if got := out.String(); strings.Count(got, "[ worker local of trial ") != 3 {
		t.Errorf("the output is\n%s\nwant a line of each trial behind [ worker local of trial N ] :", got)
	}
}

func TestTrialsThatAreProcessesRunOnceMoreAfterTheSearch(t *testing.T) {
	cfg := jobsConfig(t, processes(t, "well"))
	result := mustRun(t, cfg)
	best, err := result.RunBest(t.Context())
	if err != nil || best.State != tune.Completed || best.Params.Int("x") != 3 {
		t.Errorf("the best trial run once more is %s with %v: %q, %v, want completed with x=3", best.State, best.Params, best.Error, err)
	}
	confirmed, err := result.Confirm(t.Context(), 1, 2)
	if err != nil || len(confirmed) != 1 || confirmed[0].Mean != 34 {
		t.Errorf("confirmed is %v, %v, want one contender of mean 34", confirmed, err)
	}
}

func TestAProcessThatIsToldToStopStops(t *testing.T) {
	cfg := jobsConfig(t, processes(t, "well"))
	cfg.Pruners = []tune.Pruner{haltAt{2}}
	for _, x := range mustRun(t, cfg).Trials() {
		if x.State != tune.Pruned || lastStep(&x) != 2 {
			t.Errorf("trial %d is %s at step %d, want pruned at 2", x.Number, x.State, lastStep(&x))
		}
	}
}

type haltAt struct{ step int }

func (s haltAt) Prune(v tune.View, trial int) tune.StopDecision {
	if lastStep(v.Trial(trial)) >= s.step {
		return tune.StopDecision{Trial: tune.Stop, Rule: "enough"}
	}
	return tune.StopDecision{}
}

func TestFailuresOfProcessesHaveTheirClass(t *testing.T) {
	for _, tc := range []struct {
		kind     string
		bad      tune.State // of trial 1, x=2
		class    tune.Failure
		attempts int
		want     string
	}{
		{"panic", tune.Failed, tune.UserCode, 1, "two is bad"},
		{"memory", tune.Failed, tune.OutOfMemory, 2, "no room"},
		{"killed", tune.Completed, tune.NodeLost, 2, "killed"},
		{"hang", tune.Failed, tune.Silent, 1, "no report for"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			cfg := jobsConfig(t, processes(t, tc.kind))
			cfg.Retries.OutOfMemory = 1
			cfg.Grace = 500 * time.Millisecond
			if tc.kind == "hang" {
				cfg.ReportTimeout = 2 * time.Second
			}
			x := mustRun(t, cfg).Trials()[1]
			if x.State != tc.bad || x.Failure != tc.class || x.Attempts != tc.attempts || !strings.Contains(x.Error, tc.want) {
				t.Errorf("trial 1 is %s (%s) after %d attempts: %q, want %s (%s) after %d: %q", x.State, x.Failure, x.Attempts, x.Error, tc.bad, tc.class, tc.attempts, tc.want)
			}
			if strings.HasPrefix(x.Error, string(tc.class)) {
				t.Errorf("its error says its class once more: %q", x.Error)
			}
			if tc.kind == "killed" && len(x.Reports) != 4 {
				t.Errorf("it has %d reports, want 4: each step once", len(x.Reports))
			}
		})
	}
}

func TestCommandsReportByLines(t *testing.T) {
	j := &tune.Jobs{NoServers: true, Command: []string{"sh", "-c"}, CommandFor: func(command []string, a tune.Attempt) ([]string, error) {
		return append(command, fmt.Sprintf(`echo begin; for s in 1 2 3 4 5; do echo "value=$((10*%d+s)) loss=-1e-3 step=$s"; done; echo "value= step=7"; sleep 0.1`, a.Params.Int("x"))), nil
	}}
	cfg := jobsConfig(t, j)
	result := mustRun(t, cfg)
	if result.Value(result.BestTrial()) != 35 || len(result.BestTrial().Reports) != 5 {
		t.Errorf("best is %v after %d reports, want 35 after 5", result.Value(result.BestTrial()), len(result.BestTrial().Reports))
	}
	j = &tune.Jobs{NoServers: true, Command: []string{"sh", "-c", `s=0; while true; do s=$((s+1)); echo "value=$s step=$s"; sleep 0.05; done`}}
	cfg = jobsConfig(t, j)
	cfg.Pruners = []tune.Pruner{haltAt{3}}
	for _, x := range mustRun(t, cfg).Trials() {
		if x.State != tune.Pruned {
			t.Errorf("trial %d that reports without end is %s: %s, want pruned", x.Number, x.State, x.Error)
		}
	}
	j = &tune.Jobs{NoServers: true, Command: []string{"sh", "-c", `echo "value=1 step=1"; echo nonsense >&2; exit 3`}}
	cfg = jobsConfig(t, j)
	for _, x := range mustRun(t, cfg).Trials() {
		if x.State != tune.Failed || x.Failure != tune.UserCode || !strings.Contains(x.Error, "exit 3: nonsense") {
			t.Errorf("a command that fails: %s (%s) %q", x.State, x.Failure, x.Error)
		}
	}
}

// Whoever looks at the nodes before the fields are set sees this machine, and the hosts afterwards.
func TestNodesAreShownAsATableAndFoundAgain(t *testing.T) {
	j := &tune.Jobs{}
	nodes, err := j.Nodes()
	if text := fmt.Sprint(nodes); err != nil || !strings.HasPrefix(text, "node ") || !strings.Contains(text, "\nlocal ") {
		t.Errorf("got %v and\n%s\nwant a table with this machine", err, text)
	}
	j.HostFile, j.Address = filepath.Join(t.TempDir(), "no-such-hosts"), "127.0.0.1"
	if _, err := j.Nodes(); err == nil || !strings.Contains(err.Error(), j.HostFile) {
		t.Errorf("after HostFile was set: got %v, want an error that names %s", err, j.HostFile)
	}
}

// A file that is not there is an error also where there is nothing to copy.
func TestAFileToUploadMustBeThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	if err := (&tune.Jobs{}).UploadFiles(t.Context(), file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names %s", err, file)
	}
}

func TestACommandWithoutStepsIsToldSo(t *testing.T) {
	for script, want := range map[string]string{
		`echo begin; echo accuracy=0.5; echo accuracy=0.6`: `it returned without a report: its line "accuracy=0.5" has no step: print the step beside the metrics, as in accuracy=0.5 step=1`,
		`echo lr=0.1; echo value=0.5`:                      `it returned without a report: its line "value=0.5" has no step: print the step beside the metrics, as in accuracy=0.5 step=1`,
		`echo accuracy=0.5 step=1 >&2`:                     `it returned without a report: its line "accuracy=0.5 step=1" is on the standard error: print metrics on the standard output`,
		`echo done`:                                        `it returned without a report: no line that it printed has metrics and a step, as in accuracy=0.5 step=1`,
		`echo starting >&2; printf 'flag provided but not defined: -x\nUsage of y:\n  -z int\n' >&2; exit 2`: `exit 2: flag provided but not defined: -x`,
	} {
		cfg := jobsConfig(t, &tune.Jobs{NoServers: true, Command: []string{"sh", "-c", script}})
		cfg.Space, cfg.Samples = tune.Space{tune.Grid("x", 1)}, 1
		result, _ := tune.Run(t.Context(), nil, cfg)
		if result == nil || len(result.Trials()) == 0 || result.Trials()[0].Error != want {
			t.Errorf("%s: got %+v, want %q", script, result, want)
		}
	}
}

// exploitOnce has trial 1 take over trial 0's state, and trial 0 pause once.
type exploitOnce struct{ tune.FIFO }

func (exploitOnce) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	d := tune.Go()
	switch x := v.Trial(trial); {
	case trial == 0 && lastStep(x) == 3 && x.Attempts == 1:
		d.Action = tune.Pause
	case trial == 1 && lastStep(x) == 1:
		d.Action, d.Donor, d.Params = tune.Exploit, 0, x.Params
	}
	return d
}

func (exploitOnce) Next(v tune.View) tune.TrialChoice {
	if x := v.Trial(0); x != nil && x.State == tune.Paused {
		return tune.TrialChoice{Kind: tune.ChoosePaused}
	}
	return tune.TrialChoice{}
}

// A command that keeps its state in a folder goes on from there when it is paused, tried again, or
// takes over another trial's.
func TestACommandGoesOnFromItsCheckpoint(t *testing.T) {
	script := `n=$(cat "$0/n" 2>/dev/null || echo 0); echo "from $n" >> "$1"
while [ $n -lt 6 ]; do
	n=$((n+1)); mkdir -p "$0/deep"; echo $n > "$0/n.new"; mv "$0/n.new" "$0/n"; echo x > "$0/deep/$n"; echo "value=$n step=$n"
	case $n$1 in 3*-0 | 1*-1) [ -e "$1.told" ] || { touch "$1.told"; sleep 30; } ;; esac # until the search stops it
	if [ $n = 5 -a ! -e "$1.failed" ]; then touch "$1.failed"; exit 1; fi
done`
	cfg := jobsConfig(t, &tune.Jobs{NoServers: true, Command: []string{"sh", "-c", script}, Checkpoints: true,
		CommandFor: func(command []string, a tune.Attempt) ([]string, error) {
			return append(command, a.Checkpoint, filepath.Join(a.Checkpoint, "..", "..", "..", fmt.Sprintf("begun-%d", a.Trial))), nil
		}})
	cfg.Space, cfg.Parallel, cfg.Scheduler, cfg.Retries = tune.Space{tune.Grid("x", 1, 2)}, 1, exploitOnce{}, tune.Retries{UserCode: 1}
	result := mustRun(t, cfg)
	for trial, want := range []string{"from 0\nfrom 3\nfrom 5\n", "from 0\nfrom 6\n"} {
		got, err := os.ReadFile(filepath.Join(cfg.Dir, "trials", fmt.Sprintf("begun-%d", trial)))
		if err != nil || string(got) != want {
			t.Errorf("trial %d: got %q (%v), want %q", trial, got, err, want)
		}
		if x := result.Trials()[trial]; x.State != tune.Completed || trial == 0 && lastStep(&x) != 6 {
			t.Errorf("trial %d is %s after step %d: %s", trial, x.State, lastStep(&x), x.Error)
		}
	}
}

func TestACommandThatCannotStartIsNamed(t *testing.T) {
	cfg := jobsConfig(t, &tune.Jobs{NoServers: true, Command: []string{"./no-such-program"}})
	cfg.Space = tune.Space{tune.Grid("x", 1)}
	_, err := tune.Run(t.Context(), nil, cfg)
	if want := "tune: on local: start trial 0: there is no program "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

func TestACommandLeavesNothingBehind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	for _, tc := range []struct {
		name, script string // $1 is a file for the number of a process that is to be gone
		report       time.Duration
		state        tune.State
	}{
		{"no newline at the end", `printf 'value=1 step=1'; echo $$ >$1`, 0, tune.Completed},
		{"a child that keeps the output open", `sleep 1000 & echo $! >$1; echo value=1 step=1`, 0, tune.Completed},
		{"a child that runs on", `echo value=1 step=1; sleep 1000 & echo $! >$1; wait`, 300 * time.Millisecond, tune.Failed},
		{"who does not obey", `trap '' TERM; echo $$ >$1; echo value=1 step=1; while :; do sleep 0.05; done`, 300 * time.Millisecond, tune.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			j := &tune.Jobs{NoServers: true, Command: []string{"sh", "-c", tc.script, "sh", file}, Logger: slog.New(slog.DiscardHandler)}
			cfg := jobsConfig(t, j)
			cfg.Space, cfg.Parallel, cfg.Grace, cfg.ReportTimeout = tune.Space{tune.Grid("x", 1)}, 1, 2*time.Second, tc.report
			begin := time.Now()
			x := mustRun(t, cfg).Trials()[0]
			if x.State != tc.state || len(x.Reports) != 1 {
				t.Errorf("the trial is %s with %d reports: %s %q, want %s with 1", x.State, len(x.Reports), x.Failure, x.Error, tc.state)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("the search took %v, want less than 5 s", d)
			}
			pid, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for killed := time.Now(); ; time.Sleep(time.Millisecond) { // a process that was killed may still be on its way out
				stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
				if _, state, _ := strings.Cut(string(stat), ") "); state == "" || state[0] == 'Z' {
					break
				}
				if time.Since(killed) > 5*time.Second {
					t.Fatalf("its process runs on: %s", stat)
				}
			}
		})
	}
}

func TestWhatNeverFitsIsAnErrorBeforeTheSearch(t *testing.T) {
	j := tune.Distributed(tune.Resources{Hosts: 2, Slots: 2, CPUsPerSlot: 1})
	_, err := tune.Run(t.Context(), nil, jobsConfig(t, j))
	if err == nil || !strings.Contains(err.Error(), "a trial can never run") || !strings.Contains(err.Error(), "on each of 2 nodes") {
		t.Errorf("got %v", err)
	}
	j = tune.Distributed(tune.Resources{Slots: 1 << 12})
	if _, err := tune.Run(t.Context(), nil, jobsConfig(t, j)); err == nil || !strings.Contains(err.Error(), "local has ") {
		t.Errorf("got %v, want an error that says what this machine has", err)
	}
}

func TestADistributedTrialIsAJobOfWorkersAndServers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds launch")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs two processors")
	}
	t.Setenv(kindVariable, "well")
	j := tune.Distributed(tune.Resources{Hosts: 1, Slots: 2, CPUsPerSlot: 1, Servers: 1})
	j.Launch = launchProgram(t)
	cfg := jobsConfig(t, j)
	cfg.Space = tune.Space{tune.Grid("x", 2)}
	result := mustRun(t, cfg)
	for _, x := range result.Trials() {
		if x.State != tune.Completed || len(x.Reports) != 4 {
			t.Errorf("trial %d is %s with %d reports: %s", x.Number, x.State, len(x.Reports), x.Error)
		}
		for rank := range 2 {
			log, err := os.ReadFile(filepath.Join(cfg.Dir, "trials", x.Name(), "attempt-1", fmt.Sprintf("worker_%d.log", rank)))
			if want := fmt.Sprintf("rank %d has x=%d\n", rank, x.Params.Int("x")); err != nil || !strings.Contains(string(log), want) {
				t.Errorf("the log of rank %d holds %q, %v, want %q", rank, log, err, want)
			}
		}
	}
}

// An error that its program calls final is never retried, and the search has the program's words:
// in a function of the search, in a process, and in a command that knows nothing of a search.
func TestATrialThatNoRetryCanMendIsNotRetried(t *testing.T) {
	command := func(script string) func(*testing.T, *tune.Config) {
		return func(t *testing.T, cfg *tune.Config) {
			cfg.Runner = &tune.Jobs{NoServers: true, Logger: slog.New(slog.DiscardHandler), Command: []string{"/bin/sh", "-c", script}}
		}
	}
	for _, tc := range []struct {
		name, want string
		runner     func(t *testing.T, cfg *tune.Config)
		class      tune.Failure
		attempts   int
	}{
		{"a function", "there is no such model", func(_ *testing.T, cfg *tune.Config) {
			cfg.Runner = tune.InProcess(func(context.Context, tune.Params, *tune.Reporter) error {
				return fmt.Errorf("train: %w", kvstore.Final(errors.New("there is no such model")))
			})
		}, tune.Final, 1},
		{"a process", "there is no such model", func(t *testing.T, cfg *tune.Config) { cfg.Runner = processes(t, "final") }, tune.Final, 1},
		{"a command", "--rate is -1 (exit 2; no restart can mend this: change the command line or the setting)",
			command(`echo value=1 step=1; echo '{"version":1,"cause":"usage","text":"--rate is -1"}' > "$PARAGON_EXIT_REPORT"; exit 2`), tune.Final, 1},
		{"another error", "exit 2", command(`echo value=1 step=1; exit 2`), tune.UserCode, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := tune.Config{Name: "jobs", Space: tune.Space{tune.Grid("x", 1)}, Metric: "value", Mode: tune.Max, Logger: slog.New(slog.DiscardHandler),
				Retries: tune.Retries{UserCode: 2, OutOfMemory: 2, NodeLost: 2, Silent: 2}}
			tc.runner(t, &cfg)
			result, _ := tune.Run(t.Context(), nil, cfg)
			if result == nil {
				t.Fatal("there is no result")
			}
			x := result.Trials()[0]
			if x.State != tune.Failed || x.Failure != tc.class || x.Attempts != tc.attempts || !strings.Contains(x.Error, tc.want) {
				t.Errorf("the trial is %s (%s) after %d attempts: %q, want failed (%s) after %d: %q", x.State, x.Failure, x.Attempts, x.Error, tc.class, tc.attempts, tc.want)
			}
		})
	}
}

// What became of rank 0 decides, though other ranks see first that it is gone.
func TestTheEndOfRank0SaysWhatBecameOfItsTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("builds launch")
	}
	for _, tc := range []struct {
		kind, want string
		state      tune.State
		class      tune.Failure
		attempts   int
	}{
		{"killed0", "worker 0 on localhost failed: signal 9", tune.Completed, tune.NodeLost, 2},
		{"exit0", "worker 0 on localhost failed: exit 9", tune.Failed, tune.UserCode, 1},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Setenv(kindVariable, tc.kind)
			j := tune.Distributed(tune.Resources{Hosts: 1, Slots: 2, CPUsPerSlot: 1, Servers: 1})
			j.Launch = launchProgram(t)
			cfg := jobsConfig(t, j)
			cfg.Space = tune.Space{tune.Grid("x", 2)}
			result := mustRun(t, cfg)
			x := result.Trials()[0]
			if x.State != tc.state || x.Failure != tc.class || x.Attempts != tc.attempts || !strings.Contains(x.Error, tc.want) {
				t.Errorf("the trial is %s (%q) after %d attempts: %q, want %s (%s) after %d: %q", x.State, x.Failure, x.Attempts, x.Error, tc.state, tc.class, tc.attempts, tc.want)
			}
		})
	}
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// atBegin is called when a study has begun, before its trials.
type atBegin func()

func (f atBegin) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventStudy {
		f()
	}
}

// A result that was in the folder before the attempt is not the attempt's: launch removes it, but
// may be killed, or refuse its flags, before.
func TestAnEarlierResultIsNotThatOfAnAttempt(t *testing.T) {
	j := processes(t, "well")
	j.NoServers, j.Launch = false, filepath.Join(t.TempDir(), "launch")
	if err := os.WriteFile(j.Launch, []byte("#!/bin/sh\necho launch: there is no flag -x >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := jobsConfig(t, j)
	old := `{"version":1,"exit_code":1,"phase":"starting","failure":{"code":"not_started","rank":-1,"text":"of an earlier attempt"},"processes":[]}`
	cfg.Observers = []tune.Observer{atBegin(func() {
		for i := range 3 {
			folder := filepath.Join(cfg.Dir, "trials", fmt.Sprintf("trial-%06d", i), "attempt-1")
			if err := os.MkdirAll(folder, 0o777); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "result.json"), []byte(old), 0o666); err != nil {
				t.Error(err)
			}
		}
	})}
	result, err := tune.Run(t.Context(), nil, cfg)
	if result == nil {
		t.Fatal(err)
	}
	for _, x := range result.Trials() {
		if want := "there is no flag -x"; x.State != tune.Failed || !strings.Contains(x.Error, want) {
			t.Errorf("trial %d is %s: %q, want failed with %q", x.Number, x.State, x.Error, want)
		}
	}
	if len(result.Trials()) == 0 {
		t.Error("no trial ran")
	}
}

// lastStep is the step of a trial's newest report, or -1.
func lastStep(t *tune.Trial) int {
	if step, ok := t.LastStep(); ok {
		return step
	}
	return -1
}
