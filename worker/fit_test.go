package worker_test

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// images is a set of n bright or dark 6×6 images in two classes.
func images(t *testing.T, n int) *data.ImageSet {
	t.Helper()
	shape := data.Shape{Channels: 1, Height: 6, Width: 6}
	random := rand.New(rand.NewPCG(1, 1))
	pixels, labels := make([]uint8, n*shape.Size()), make([]uint8, n)
	for i := range labels {
		labels[i] = uint8(random.IntN(2))
		for k := range shape.Size() {
			pixels[i*shape.Size()+k] = uint8(random.IntN(160)) + 60*labels[i]
		}
	}
	set, err := data.NewImageSet(shape, []string{"dark", "bright"}, pixels, labels)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// fitRig is one worker with a network that has all kinds of state: batch norm, dropout, an
// optimizer with moments.
type fitRig struct {
	store    *faultyStore
	programs []*nn.Program
	feed     *worker.ImageFeed
	cfg      worker.FitConfig
}

// A rigConfig says which worker it is. Its zero value is one of its own with one device.
type rigConfig struct {
	store    kvstore.Store // nil: a store within the process
	devices  int           // 0: 1
	examples int           // 0: 60, so 7 full batches of 8 and one of 4
	filters  int           // 0: rigFilters
	onWorker bool
	local    int // local steps; 0: none
	freeze   []string
	bound    *uint64
	order    sampler.Order
	sorted   bool // the images lie by class
	blocks   bool // they are inBlocks

	optimizer   optim.Config        // without a name: adam
	compression kvstore.Compression // with a store that compresses
	logger      *slog.Logger        // nil: none
}

func (c *rigConfig) options() (opts []kvstore.Option) {
	if c.local > 0 {
		opts = append(opts, kvstore.WithLocalSteps(c.local))
	}
	if c.bound != nil {
		opts = append(opts, kvstore.WithStaleness(*c.bound))
	}
	return opts
}

func newFitRig(t *testing.T, onWorker bool) *fitRig {
	t.Helper()
	return newRig(t, rigConfig{onWorker: onWorker})
}

// newFaultRig is a worker of several devices, whose feed has begun.
func newFaultRig(t *testing.T, devices int) *fitRig {
	t.Helper()
	r := newRig(t, rigConfig{devices: devices})
	if err := r.feed.Begin(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	return r
}

const rigBatch = 8 // of all devices together

func newRig(t *testing.T, cfg rigConfig) *fitRig {
	t.Helper()
	if cfg.store == nil {
		cfg.store = newStore(t, "local", cfg.options()...)
	}
	r := &fitRig{store: &faultyStore{Store: cfg.store}}
	set := images(t, cmp.Or(cfg.examples, 60))
	if cfg.sorted {
		set = byClass(t, set)
	}
	var dataset data.Dataset = set
	if cfg.blocks {
		dataset = inBlocks{set}
	}
	devices := cmp.Or(cfg.devices, 1)
	for d := range devices {
		loss, _ := networkOf(rigBatch/devices, cmp.Or(cfg.filters, rigFilters))
		r.programs = append(r.programs, compile(t, loss, nn.Config{Seed: uint64(d), Freeze: cfg.freeze}))
	}
	loss, logits := networkOf(rigBatch, cmp.Or(cfg.filters, rigFilters))
	evaluation := compile(t, loss, nn.Config{Inference: true, Share: r.programs[0], Outputs: G.Nodes{logits}})
	if cfg.optimizer.Name == "" {
		cfg.optimizer = optim.Config{Name: "adam", LearningRate: 0.01}
	}
	trainer := newTrainer(t, worker.Config{
		Store: r.store, Programs: r.programs, Optimizer: cfg.optimizer, UpdateOnWorker: cfg.onWorker, Compression: cfg.compression,
		Logger: cmp.Or(cfg.logger, slog.New(slog.DiscardHandler)),
	})
	var err error
	r.feed, err = worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: r.programs, Dataset: dataset, Workers: cfg.store.NumWorkers(), Rank: cfg.store.Rank(), Seed: 5, Order: cfg.order, Augment: data.Augment{Pad: 1, Flip: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.feed.Close() })
	r.cfg = worker.FitConfig{
		Trainer: trainer, Feed: r.feed, Epochs: 3,
		Evaluator: &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: set},
	}
	return r
}

const rigFilters = 4

func rigNetwork(batch int) (loss, logits *G.Node) { return networkOf(batch, rigFilters) }

func networkOf(batch, filters int) (loss, logits *G.Node) {
	g := G.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 3})
	x, labels := nn.Input(g, "images", batch, 1, 6, 6), nn.Labels(g, "labels", batch)
	h := nn.ReLU(nn.BatchNorm2D(nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(3)}), "bn", nn.BatchNormConfig{}))
	logits = nn.Linear(nn.Dropout(nn.Flatten(h), "drop", 0.2), "fc", nn.LinearConfig{Out: 2})
	return nn.SoftmaxCrossEntropy(logits, labels), logits
}

// values are all parameters and running statistics, one behind the other.
func (r *fitRig) values() []float32 {
	var all []float32
	for _, program := range r.programs {
		for _, p := range append(slices.Clone(program.Params()), program.State()...) {
			all = append(all, p.Value...)
		}
	}
	return all
}

func TestFitLearns(t *testing.T) {
	r := newFitRig(t, false)
	r.cfg.Epochs = 10
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(epochs) != 10 || epochs[0].Examples != 60 || len(epochs[0].Losses) != 8 {
		t.Fatalf("got %d epochs, the first of %d examples in %d steps; want 10 of 60 in 8", len(epochs), epochs[0].Examples, len(epochs[0].Losses))
	}
	last := epochs[9]
	if last.Test.Accuracy < 0.9 || last.Test.Examples != 60 || last.Loss > epochs[0].Loss/2 {
		t.Errorf("after 10 epochs: accuracy %v of %d examples and loss %v, want above 0.9 of 60 and below half of %v", last.Test.Accuracy, last.Test.Examples, last.Loss, epochs[0].Loss)
	}
	if sum := last.Times.Compute + last.Times.Wait + last.Times.Data + last.Times.Save; sum > last.Train {
		t.Errorf("times %+v add up to more than the %v of the epoch", last.Times, last.Train)
	}
}

// A run whose loss becomes NaN says so, and what to do, once.
func TestFitSaysThatTheLossIsNotFinite(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, rigConfig{logger: slog.New(slog.NewTextHandler(&log, nil)), optimizer: optim.Config{Name: "sgd", LearningRate: 1e30}})
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "the loss is not finite"); n != 1 {
		t.Errorf("got %d lines about it, want 1, in the log %s", n, log.String())
	}
	log.Reset()
	if _, err := worker.Fit(t.Context(), newLoggedRig(t, &log).cfg); err != nil || strings.Contains(log.String(), "not finite") {
		t.Errorf("a run that learns: got error %v and the log %s", err, log.String())
	}
}

// A run that is cut off after any step and resumed ends with the bits of one that was not.
func TestResumedRunIsTheVerySame(t *testing.T) {
	for _, onWorker := range []bool{false, true} {
		whole := newFitRig(t, onWorker)
		if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
			t.Fatal(err)
		}
		want := whole.values()
		for _, cut := range map[bool][]uint64{false: {5, 8, 9}, true: {7, 17}}[onWorker] {
			dir := t.TempDir()
			first := newFitRig(t, onWorker)
			first.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 5}
			first.cfg.MaxSteps = cut
			if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
				t.Fatal(err)
			}
			// A cut in the middle of an epoch averages and saves; the run must be able
			// to forget that.
			if cut%8 != 0 {
				removeNewest(t, dir)
			}
			second := newFitRig(t, onWorker)
			second.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 5, Resume: true}
			if _, err := worker.Fit(t.Context(), second.cfg); err != nil {
				t.Fatal(err)
			}
			got := second.values()
			if i := firstDifference(got, want); i >= 0 {
				t.Errorf("on worker=%v, cut after step %d: value %d is %v, in the uncut run %v", onWorker, cut, i, got[i], want[i])
			}
		}
	}
}

// removeNewest takes the newest checkpoint away, as if the process had died before it.
func removeNewest(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("checkpoints in %s: %v, %v", dir, found, err)
	}
	if err := os.RemoveAll(slices.Max(found)); err != nil {
		t.Fatal(err)
	}
}

// params are the parameters of the first device.
func (r *fitRig) params() []float32 {
	var all []float32
	for _, p := range r.programs[0].Params() {
		all = append(all, p.Value...)
	}
	return all
}

func firstDifference(a, b []float32) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// A closed Stop ends the run with a checkpoint, from which the same run goes on.
func TestStopSavesAndResumeGoesOn(t *testing.T) {
	whole := newFitRig(t, false)
	if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stopped := newFitRig(t, false)
	stop := make(chan struct{})
	stopped.cfg.Stop = stop
	stopped.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir}
	stopped.cfg.Observers = []worker.Observer{&stopAfter{step: 11, stop: stop}}
	if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
		t.Fatalf("got error %v, want ErrStopped", err)
	}
	resumed := newFitRig(t, false)
	resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	seen := &stopAfter{step: -1}
	resumed.cfg.Observers = []worker.Observer{seen}
	if _, err := worker.Fit(t.Context(), resumed.cfg); err != nil {
		t.Fatal(err)
	}
	if seen.run.FirstEpoch != 1 || seen.run.FirstStep != 4 {
		t.Errorf("resumed at epoch %d step %d, want epoch 1 step 4: the step after the one that was asked to stop", seen.run.FirstEpoch, seen.run.FirstStep)
	}
	if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
		t.Errorf("value %d differs from the uncut run", i)
	}
}

// stopAfter closes stop when so many steps have been seen.
type stopAfter struct {
	run  worker.Run
	step int
	stop chan struct{}
}

func (s *stopAfter) Begin(run worker.Run)   { s.run = run }
func (s *stopAfter) Epoch(worker.EpochInfo) {}
func (s *stopAfter) End()                   {}
func (s *stopAfter) Step(worker.StepInfo) {
	if s.step--; s.step == 0 {
		close(s.stop)
	}
}

func TestOnlyTheNewestCheckpointsStay(t *testing.T) {
	dir := t.TempDir()
	r := newFitRig(t, false)
	r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 3, Keep: 2}
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "step-*", "complete.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "step-00000021", "complete.json"), filepath.Join(dir, "step-00000024", "complete.json")}
	if !slices.Equal(found, want) {
		t.Errorf("complete checkpoints: got %v, want %v", found, want)
	}
}

func TestFitNamesWhatItRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*worker.FitConfig)
		want   string
	}{
		{"no epochs", func(c *worker.FitConfig) { c.Epochs = 0 }, "FitConfig.Epochs is 0"},
		{"no trainer", func(c *worker.FitConfig) { c.Trainer = nil }, "FitConfig.Trainer is nil"},
		{"resume from nowhere", func(c *worker.FitConfig) { c.Checkpoint.Resume = true }, "Dir is empty"},
		{"a folder that cannot be", func(c *worker.FitConfig) { c.Checkpoint.Dir = "/dev/null/checkpoints" }, "/dev/null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := newFitRig(t, false).cfg
			test.change(&cfg)
			if _, err := worker.Fit(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Fit: got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A worker that has run out of examples while another has not keeps taking part, with no example.
func TestFeedsOfAllWorkersHaveTheSameSteps(t *testing.T) {
	set := images(t, 17)
	const workers, batch = 4, 2
	seen := make(map[int]int)
	for rank := range workers {
		program := mlpOf(t, batch, 6)
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: []*nn.Program{program}, Dataset: set, Workers: workers, Rank: rank})
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close()
		if feed.Steps() != 3 { // 5 examples in batches of 2
			t.Errorf("rank %d has %d steps, want 3", rank, feed.Steps())
		}
		if err := feed.Begin(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		for s := range feed.Steps() {
			counts, err := feed.Next(t.Context())
			if err != nil {
				t.Fatalf("rank %d step %d: %v", rank, s, err)
			}
			seen[rank] += counts[0]
		}
	}
	if want := map[int]int{0: 5, 1: 4, 2: 4, 3: 4}; len(seen) != 4 || seen[0] != want[0] || seen[1]+seen[2]+seen[3] != 12 {
		t.Errorf("examples by rank: got %v, want %v", seen, want)
	}
}

func mlpOf(t *testing.T, batch, side int) *nn.Program {
	g := G.NewGraph()
	x, labels := nn.Input(g, "images", batch, 1, side, side), nn.Labels(g, "labels", batch)
	return compile(t, nn.SoftmaxCrossEntropy(nn.MLP(x, nn.MLPConfig{Classes: 2}), labels), nn.Config{})
}
