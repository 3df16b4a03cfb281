package tune_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/worker"
)

// fitKind is the kind of trials that run fitProgram.
const fitKind = "fit"

const (
	fitBatch  = 4
	fitSteps  = 8 // of an epoch
	fitEpochs = 6
	// fitSave is after how many steps checkpoints are saved, besides the ends of epochs: in the
	// middle of them.
	fitSave = 3
)

// fitProgram is a program that knows nothing of a search: it trains with worker.Fit, with its
// checkpoints in a folder, and prints metrics. Each worker has state of its own: the residuals of
// its compressed gradients, running statistics and the numbers of its dropout. So the sum of the
// model's bits after each epoch is that of an undisturbed run only if each worker goes on from its
// own file.
func fitProgram(dir, reported string, trial int) (err error) {
	ctx := context.Background()
	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(store, err) }()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 3})
	images, labels := nn.Input(g, "images", fitBatch, 1, 6, 6), nn.Labels(g, "labels", fitBatch)
	h := nn.ReLU(nn.BatchNorm2D(nn.Conv2D(images, "conv", nn.Conv2DConfig{Filters: 4, Kernel: nn.Square(3)}), "bn", nn.BatchNormConfig{}))
	logits := nn.Linear(nn.Dropout(nn.Flatten(h), "drop", 0.2), "fc", nn.LinearConfig{Out: 2})
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, labels), nn.Config{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: []*nn.Program{program}, Compression: kvstore.Compression{Type: "2bit", Threshold: 0.01},
		Optimizer: optim.Config{Name: "sgd", LearningRate: 0.05, Momentum: 0.9}})
	if err != nil {
		return err
	}
	defer trainer.Close()
	feed := &fitFeed{rank: store.Rank()}
	if feed.images, err = program.Input("images"); err != nil {
		return err
	}
	if feed.labels, err = program.Labels("labels"); err != nil {
		return err
	}
	o := &fitPrinter{rank: store.Rank(), reported: reported, trial: trial}
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: fitEpochs, Evaluator: modelSum{program}, Observers: []worker.Observer{o},
		Checkpoint: worker.CheckpointConfig{Dir: dir, EverySteps: fitSave, Resume: true}})
	return err
}

// fitFeed draws the examples of a worker's step by the numbers of epoch, step and rank.
type fitFeed struct {
	rank, epoch, step int
	images            []float32
	labels            nn.LabelInput
}

func (f *fitFeed) Steps() int   { return fitSteps }
func (f *fitFeed) Close() error { return nil }

func (f *fitFeed) Begin(_ context.Context, epoch, step int) error {
	f.epoch, f.step = epoch, step
	return nil
}

func (f *fitFeed) Next(context.Context) ([]int, error) {
	r := rand.New(rand.NewPCG(uint64(f.epoch*fitSteps+f.step), uint64(f.rank)))
	classes := make([]int32, fitBatch)
	for i := range classes {
		classes[i] = int32(r.IntN(2))
		for k := range 36 {
			f.images[36*i+k] = float32(classes[i]) + float32(r.NormFloat64())
		}
	}
	f.labels.Set(classes)
	f.step++
	return []int{fitBatch}, nil
}

// modelSum is a worker.Evaluator whose loss is a sum of the bits of all parameters and running
// statistics.
type modelSum struct{ program *nn.Program }

func (m modelSum) Evaluate(context.Context) (worker.Scores, error) {
	h := crc32.NewIEEE()
	for _, all := range [][]nn.Param{m.program.Params(), m.program.State()} {
		for _, p := range all {
			if err := binary.Write(h, binary.LittleEndian, p.Value); err != nil {
				return worker.Scores{}, err
			}
		}
	}
	return worker.Scores{Loss: float64(h.Sum32()), Examples: 1}, nil
}

// fitPrinter prints a line of metrics after each epoch, and waits until the search has it.
type fitPrinter struct {
	rank, trial int
	reported    string
	from        uint64
}

func (o *fitPrinter) Begin(r worker.Run)   { o.from = r.Done }
func (o *fitPrinter) Step(worker.StepInfo) {}
func (o *fitPrinter) End()                 {}

func (o *fitPrinter) Epoch(e worker.EpochInfo) {
	if o.rank != 0 {
		return
	}
	step := e.Epoch + 1
	fmt.Printf("value=%d from=%d sum=%.0f loss=%v step=%d\n", step-10*o.trial, o.from, e.Test.Loss, e.Loss, step)
	for {
		if _, err := os.Stat(fmt.Sprintf("%s-%d", o.reported, step)); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// runFit runs fitProgram with the words of the command.
func runFit() int {
	trial, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = fitProgram(os.Args[1], os.Args[2], trial)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A fitSearch is a search of trials that run fitProgram on two hosts each, with a server. Another
// process can run it.
type fitSearch struct {
	HostFile, SSH, Launch, Folder string
	Reported                      string // folder with a file for each report that has come
	Dir                           string
	Trials                        int
}

func (f fitSearch) config(scheduler tune.Scheduler, logger *slog.Logger, observers ...tune.Observer) tune.Config {
	j := &tune.Jobs{HostFile: f.HostFile, Address: "127.0.0.1", SSH: f.SSH, Launch: f.Launch, Folder: f.Folder, LaunchFlags: []string{"--env", kindVariable + "=" + fitKind}, Logger: logger,
		Checkpoints: true, Resources: tune.Resources{Hosts: 2, Slots: 1, Servers: 1}, Command: []string{os.Args[0]}}
	j.CommandFor = func(command []string, a tune.Attempt) ([]string, error) {
		return append(command, a.Checkpoint, filepath.Join(f.Reported, strconv.Itoa(a.Trial)), strconv.Itoa(a.Trial)), nil
	}
	return tune.Config{Name: "jobs", Space: tune.Space{tune.Grid("x", []any{1, 2}[:f.Trials]...)}, Metric: "value", Mode: tune.Max, Parallel: f.Trials, Dir: f.Dir, Resume: tune.ResumeAuto,
		Runner: j, Grace: 5 * time.Second, Scheduler: scheduler, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Observers: append(observers, acknowledge(f.Reported))}
}

// killedFit names the variable that makes this program a search that is killed; its value is a
// fitSearch.
const killedFit = "TUNE_TEST_FIT_SEARCH"

func searchFit(text string) {
	var f fitSearch
	err := json.Unmarshal([]byte(text), &f)
	if err == nil {
		_, err = tune.Run(context.Background(), nil, f.config(tune.FIFO{}, slog.New(slog.NewTextHandler(os.Stderr, nil))))
	}
	fmt.Println("done:", err)
}

// A begun is a start of an attempt that goes on from a checkpoint.
type begun struct {
	trial, attempt int
	location       string
	step           int    // of the search
	steps          uint64 // of the newest complete checkpoint of the job in it
	err            error
}

// starts looks into the checkpoints from which attempts go on.
type starts struct {
	dir string
	mu  sync.Mutex
	all []begun
}

func (s *starts) Observe(_ tune.View, e tune.Event) {
	if e.Kind != tune.EventStart {
		return
	}
	b := begun{trial: e.Trial, attempt: e.Attempt, location: e.Location, step: e.Restore}
	if !e.New && e.Restore >= 0 {
		b.steps, b.err = newestIn(filepath.Join(s.dir, "trials", fmt.Sprintf("trial-%06d", e.Donor), fmt.Sprintf("step-%d.%d", e.Restore, e.RestoreOf)))
	}
	s.mu.Lock()
	s.all = append(s.all, b)
	s.mu.Unlock()
}

// newestIn is after how many steps the newest complete checkpoint of a job in a folder was made. It
// has the files of both workers.
func newestIn(dir string) (steps uint64, err error) {
	place := checkpoint.Folder(dir)
	defer place.Close()
	all, err := checkpoint.ListSaved(context.Background(), place)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if !s.Complete() {
			continue
		}
		steps = s.Steps
		for rank := range 2 {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(s.Name(checkpoint.WorkerFile(rank))))); err != nil {
				return 0, err
			}
		}
	}
	return steps, nil
}

// A trial that calls worker.Fit in a job over several hosts that share no files goes on from the
// step of its checkpoint, on whatever hosts, with the bits of a run that nothing disturbed: after a
// pause, with the state of another trial, after its host was lost, and when the search was
// interrupted or killed.
func TestFitOfSeveralHostsGoesOnWithTheSameBits(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	s, hosts, log := unsharedHosts(t, 4)
	name := func(i int) string { return fmt.Sprintf("%s:%d", s.Addresses[i], s.Port) }
	logger := slog.New(slog.NewTextHandler(log, nil))
	prepare := func(t *testing.T, trials int) (fitSearch, *starts) {
		f := fitSearch{HostFile: hosts.HostFile, SSH: hosts.SSH, Launch: hosts.Launch, Folder: hosts.Folder, Reported: t.TempDir(),
			Dir: filepath.Join("runs", strings.ReplaceAll(t.Name(), "/", "-")), Trials: trials}
		return f, &starts{dir: f.Dir}
	}
	metric := func(r tune.Report, name string) float64 {
		if v, ok := r.Metrics.Get(name); ok {
			return v
		}
		return math.NaN()
	}
	var undisturbed []tune.Report
	check := func(t *testing.T, result *tune.Result, begun *starts) {
		t.Helper()
		for _, x := range result.Trials() {
			wantUnbroken(t, x)
			if x.State != tune.Completed || lastStep(&x) != fitEpochs || x.Failures[tune.UserCode] > 0 {
				t.Errorf("trial %d is %s at step %d after failures %v: %s, want it completed at step %d", x.Number, x.State, lastStep(&x), x.Failures, x.Error, fitEpochs)
			}
			for i, r := range x.Reports {
				if i >= len(undisturbed) {
					continue
				}
				for _, name := range []string{"sum", "loss"} {
					if got, want := metric(r, name), metric(undisturbed[i], name); got != want {
						t.Errorf("trial %d step %d, of attempt %d, which began after %v steps: %s is %v, want %v as in an undisturbed run", x.Number, r.Step, r.Attempt, metric(r, "from"), name, got, want)
					}
				}
			}
		}
		for _, b := range begun.all {
			t.Logf("trial %d attempt %d on %s: from step %d, which has %d steps of the job", b.trial, b.attempt, b.location, b.step, b.steps)
			if b.err != nil {
				t.Errorf("trial %d attempt %d: its checkpoint cannot be read: %v", b.trial, b.attempt, b.err)
			}
			for _, r := range result.Trials()[b.trial].Reports {
				if got := metric(r, "from"); r.Attempt == b.attempt && got != float64(b.steps) {
					t.Errorf("trial %d attempt %d began after %v steps, want %d as its checkpoint of step %d has", b.trial, b.attempt, got, b.steps, b.step)
				}
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
	}
	// resumed is the last attempt of a trial, which went on from a checkpoint.
	resumed := func(t *testing.T, trial int, all *starts) (first, last begun) {
		t.Helper()
		for _, b := range all.all {
			if b.trial != trial {
				continue
			}
			if last = b; first.attempt == 0 {
				first = b
			}
		}
		if last.attempt < 2 || last.steps == 0 {
			t.Errorf("trial %d ended in attempt %d, which began after %d steps, want one that went on from a checkpoint", trial, last.attempt, last.steps)
		}
		return first, last
	}
	elsewhere := func(t *testing.T, first, last begun) {
		t.Helper()
		for _, host := range strings.Split(first.location, ",") {
			if strings.Contains(last.location, host) {
				t.Errorf("it went on on %s, want other hosts than %s", last.location, first.location)
			}
		}
	}
	t.Run("undisturbed", func(t *testing.T) {
		f, begun := prepare(t, 1)
		result := mustRun(t, f.config(tune.FIFO{}, logger, begun))
		check(t, result, begun)
		undisturbed = result.Trials()[0].Reports
	})
	if len(undisturbed) != fitEpochs {
		t.Fatalf("the undisturbed run has %d reports, want %d", len(undisturbed), fitEpochs)
	}
	t.Run("pbt", func(t *testing.T) {
		f, begun := prepare(t, 2)
		result := mustRun(t, f.config(&schedule.PBT{Population: 2, Interval: 2, Quantile: 0.5, Synchronous: true}, logger, begun))
		check(t, result, begun)
		resumed(t, 1, begun)
		if len(result.Trials()[1].Changes) == 0 {
			t.Error("trial 1 has not taken over the state of trial 0")
		}
	})
	t.Run("pause", func(t *testing.T) {
		f, begun := prepare(t, 1)
		cfg := f.config(pauseTrial0{}, logger, begun)
		j := cfg.Runner.(*tune.Jobs)
		cfg.Observers = append(cfg.Observers, &atEvents{call: map[string]func(){"report 0": func() {
			for i := range 2 {
				if err := j.Remove(name(i)); err != nil {
					t.Error(err)
				}
			}
		}}})
		check(t, mustRun(t, cfg), begun)
		first, last := resumed(t, 0, begun)
		elsewhere(t, first, last)
	})
	t.Run("interrupted search", func(t *testing.T) {
		f, begun := prepare(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cfg := f.config(tune.FIFO{}, logger, begun)
		cfg.Observers = append(cfg.Observers, atStep{3, cancel})
		if _, err := tune.Run(ctx, nil, cfg); err == nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("the search ended with %v, want that it was interrupted", err)
		}
		f.HostFile = without(t, hosts.HostFile, name(0), name(1))
		check(t, mustRun(t, f.config(tune.FIFO{}, logger, begun)), begun)
		first, last := resumed(t, 0, begun)
		elsewhere(t, first, last)
	})
	t.Run("killed search", func(t *testing.T) {
		f, begun := prepare(t, 1)
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var out syncBuffer
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), killedFit+"="+string(text), kindVariable+"=")
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "the trial has reported step 3", &out, func() bool {
			_, err := os.Stat(filepath.Join(f.Reported, "0-3"))
			return err == nil
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		f.HostFile = without(t, hosts.HostFile, name(0), name(1))
		result := mustRun(t, f.config(tune.FIFO{}, logger, begun))
		check(t, result, begun)
		resumed(t, 0, begun)
		replayed, err := tune.Replay(f.Dir, f.config(tune.FIFO{}, logger))
		if err != nil || replayed.DecisionHash != result.DecisionHash() {
			t.Errorf("replayed to hash %s (%v), want %s", replayed.DecisionHash, err, result.DecisionHash())
		}
	})
	t.Run("lost host", func(t *testing.T) { // the last one: the host stays away
		f, begun := prepare(t, 1)
		cfg := f.config(tune.FIFO{}, logger, begun)
		cfg.Observers = append(cfg.Observers, atStep{3, sync.OnceFunc(func() { s.Lose(t, s.Addresses[1]) })})
		result := mustRun(t, cfg)
		check(t, result, begun)
		resumed(t, 0, begun)
		if x := result.Trials()[0]; x.Failures[tune.NodeLost] != 1 {
			t.Errorf("the trial had failures %v, want one lost node", x.Failures)
		}
	})
}

// atStep calls a function at the report of a step.
type atStep struct {
	step int
	call func()
}

func (a atStep) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventReport && e.Step == a.step {
		a.call()
	}
}

// without is a hosts file without some hosts.
func without(t *testing.T, file string, hosts ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	left := ""
	for line := range strings.Lines(string(text)) {
		gone := false
		for _, h := range hosts {
			gone = gone || strings.HasPrefix(line, h+" ")
		}
		if !gone {
			left += line
		}
	}
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(left), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
