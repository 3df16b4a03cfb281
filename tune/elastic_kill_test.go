package tune_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/observe/procs"
	"github.com/paragon-train/paragon/internal/testing/pacedmodel"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/worker"
)

// storedTrial trains for as many epochs as the parameter says, with checkpoints in the trial's
// folder, and reports with how many steps its attempt began.
func storedTrial(ctx context.Context, p tune.Params, r *tune.Reporter) error {
	folder, err := r.Folder()
	if err != nil {
		return err
	}
	begin := -1
	return pacedmodel.Train(ctx, pacedmodel.Config{
		Examples: 256, Epochs: p.Int("x"), InitialBatch: 16, MaxBatch: 64, Seed: 1, Step: 3 * time.Millisecond, Example: time.Millisecond, Checkpoint: filepath.Join(folder, "state"),
		Epoch: func(e worker.EpochInfo, _, workers int) error {
			if begin < 0 {
				begin = int(e.Done) - len(e.Losses)
			}
			// What the trial goes on from is in its folder.
			if err := r.Checkpoint(e.Epoch+1, func(string) error { return nil }); err != nil {
				return err
			}
			return r.Report(e.Epoch+1, map[string]float64{"value": float64(workers), "begin": float64(begin)})
		},
	})
}

// killedElastic names the variable that makes this program a search of elastic trials that is
// killed; its value is the folder.
const killedElastic = "TUNE_TEST_ELASTIC_SEARCH"

// killedElasticConfig is a search of two trials that share two slots of this machine.
func killedElasticConfig(dir, launch string, logger *slog.Logger) tune.Config {
	jobs := &tune.Jobs{Launch: launch, LaunchFlags: []string{"--env", kindVariable + "=stored"}, Logger: logger,
		Resources: tune.Resources{CPUsPerSlot: max(len(affinity.Own())/2, 1)}}
	return tune.Config{Name: "jobs", Space: tune.Space{tune.Grid("x", 6, 10)}, Metric: "value", Mode: tune.Max, Parallel: 2, Dir: dir, Resume: tune.ResumeAuto, Runner: jobs,
		Scheduler: &schedule.Goodput{Interval: time.Second, ReportsPerDecision: 4, ChangeCost: 50 * time.Millisecond}, Logger: logger}
}

func searchElastic(dir string) {
	_, err := tune.Run(context.Background(), nil, killedElasticConfig(dir, os.Getenv("TUNE_TEST_LAUNCH"), slog.New(slog.NewTextHandler(os.Stderr, nil))))
	fmt.Println("done:", err)
}

// A search whose adapting trials share slots is killed (-9): its trials end with it. Resumed, it
// makes the same decisions from its log, and the trials go on from their checkpoints.
func TestAKilledSearchOfElasticTrialsGoesOn(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	if cpus := len(affinity.Own()); cpus/max(cpus/2, 1) != 2 {
		t.Skipf("%d processors do not make two slots", cpus)
	}
	dir, running := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", running)
	var log syncBuffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killedElastic+"="+dir, "TUNE_TEST_LAUNCH="+launchProgram(t))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reached := func() bool { // both have saved some epochs
		return bytes.Count(logOf(dir), []byte(`"kind":"report","trial":0`)) >= 3 && bytes.Count(logOf(dir), []byte(`"kind":"report","trial":1`)) >= 3
	}
	until(t, "both trials have reported", &log, reached)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	before, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		all, err := procs.Find(kindVariable, "stored")
		return err == nil && len(all) == 0
	}
	until(t, "the trials' processes are gone", &log, gone)

	result := mustRun(t, killedElasticConfig(dir, launchProgram(t), slog.New(slog.NewTextHandler(&log, nil))))
	for i, x := range result.Trials() {
		if x.State != tune.Completed || x.Attempts != 2 || x.Failure != "" || len(x.Reports) != 6+4*i {
			t.Errorf("trial %d is %s after %d attempts with %d reports: %s %s; want completed after 2 with %d", i, x.State, x.Attempts, len(x.Reports), x.Failure, x.Error, 6+4*i)
		}
		for n, r := range x.Reports {
			if begin, _ := r.Metrics.Get("begin"); r.Step != n+1 || (begin > 0) != (r.Attempt == 2) {
				t.Errorf("trial %d report %d: step %d, of attempt %d, which began after %v steps; want step %d, and steps before the second attempt", i, n, r.Step, r.Attempt, begin, n+1)
			}
		}
	}
	whole := before[:bytes.LastIndexByte(before, '\n')+1]
	if after, err := os.ReadFile(filepath.Join(dir, "log.jsonl")); err != nil || !bytes.HasPrefix(after, whole) {
		t.Errorf("%v; the resumed search has changed the log", err)
	}
	replayed, err := tune.Replay(dir, killedElasticConfig(dir, "", slog.New(slog.DiscardHandler)))
	if err != nil || replayed.DecisionHash != result.DecisionHash() {
		t.Errorf("replayed to hash %s (%v), want %s", replayed.DecisionHash, err, result.DecisionHash())
	}
	if !gone() {
		t.Error("processes of trials are left")
	}
	if err := filepath.WalkDir(running, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("%s\n%s", log.String(), logOf(dir))
	}
}

// With the least mean completion time as the objective the longer trial gives up all of its slots
// to the shorter one: it is paused, and goes on from its checkpoint when slots are free.
func TestATrialThatGivesUpItsSlotsGoesOnFromItsCheckpoint(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	if cpus := len(affinity.Own()); cpus/max(cpus/2, 1) != 2 {
		t.Skipf("%d processors do not make two slots", cpus)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var log syncBuffer
	cfg := killedElasticConfig(t.TempDir(), launchProgram(t), slog.New(slog.NewTextHandler(&log, nil)))
	goodput := func() tune.Scheduler {
		return &schedule.Goodput{Completion: true, MaxStep: 20, Interval: time.Second, ReportsPerDecision: 4, ChangeCost: 50 * time.Millisecond}
	}
	cfg.Space, cfg.Scheduler = tune.Space{tune.Grid("x", 20, 10)}, goodput()
	result := mustRun(t, cfg)
	for i, x := range result.Trials() {
		if x.State != tune.Completed || x.Failure != "" || i == 0 && x.Attempts < 2 || len(x.Reports) != 20/(i+1) {
			t.Errorf("trial %d is %s after %d attempts with %d reports: %s %s; want completed with %d, trial 0 after a pause", i, x.State, x.Attempts, len(x.Reports), x.Failure, x.Error, 20/(i+1))
		}
		for n, r := range x.Reports {
			if begin, _ := r.Metrics.Get("begin"); r.Step != n+1 || (begin > 0) != (r.Attempt > 1) {
				t.Errorf("trial %d report %d: step %d, of attempt %d, which began after %v steps; want step %d, and steps before all attempts but the first", i, n, r.Step, r.Attempt, begin, n+1)
			}
		}
	}
	cfg.Scheduler = goodput()
	replayed, err := tune.Replay(cfg.Dir, cfg)
	if err != nil || replayed.DecisionHash != result.DecisionHash() {
		t.Errorf("replayed to hash %s (%v), want %s", replayed.DecisionHash, err, result.DecisionHash())
	}
	if t.Failed() {
		t.Logf("%s\n%s", log.String(), logOf(cfg.Dir))
	}
}

// until polls for something that other processes do.
func until(t *testing.T, what string, log *syncBuffer, done func() bool) {
	t.Helper()
	every, limit := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer every.Stop()
	for !done() {
		select {
		case <-every.C:
		case <-limit:
			t.Fatalf("a minute has passed, and it is not so that %s\n%s", what, log.String())
		}
	}
}
