package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// damagedImages are images of which some are damaged, with a fingerprint and with as many labels as
// are asked for.
type damagedImages struct {
	*data.ImageSet
	bad         []int
	width       int
	fingerprint string
	classes     []string
	decoder     string
}

func (d *damagedImages) Fingerprint() string { return d.fingerprint }
func (d *damagedImages) Decoder() string     { return d.decoder }
func (d *damagedImages) Classes() []string   { return d.classes }
func (d *damagedImages) LabelWidth() int     { return d.width }

func (d *damagedImages) ReadExample(_ context.Context, i int, e *data.Example) (err error) {
	if slices.Contains(d.bad, i) {
		return &data.BadExampleError{Example: i, Name: fmt.Sprintf("%d.jpg", i), Err: errors.New("is cut short")}
	}
	e.Label, err = d.Read(i, e.Pixels)
	for k := range e.Labels {
		e.Labels[k] = float32(e.Label)
	}
	return err
}

// fitImages runs a job of some workers over a data set, and returns what each of them had, with its
// error.
func fitImages(t *testing.T, workers int, set data.Dataset, change func(rank int, feed *worker.ImageFeedConfig, fit *worker.FitConfig)) (epochs [][]worker.EpochInfo, errs []error, logs []string) {
	t.Helper()
	epochs, errs, logs = make([][]worker.EpochInfo, workers), make([]error, workers), make([]string, workers)
	texts := make([]strings.Builder, workers)
	programs := make([]*nn.Program, workers)
	for r := range programs {
		programs[r] = mlpOf(t, 4, 6)
	}
	stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 1}).Stores(t, "dist_sync")
	ctx, cancel := context.WithCancel(t.Context()) // the others wait for a worker that ends with an error
	defer cancel()
	onWorkers(t, stores, func(rank int, store kvstore.Store) error {
		trainer, err := worker.NewTrainer(t.Context(), worker.Config{
			Store: store, Programs: programs[rank : rank+1], Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}, Logger: slog.New(slog.NewTextHandler(&texts[rank], nil)),
		})
		if err != nil {
			return err
		}
		defer trainer.Close()
		cfg := worker.ImageFeedConfig{Programs: programs[rank : rank+1], Dataset: set, Workers: workers, Rank: rank, BadExamples: 5}
		fit := worker.FitConfig{Trainer: trainer, Epochs: 2}
		if change != nil {
			change(rank, &cfg, &fit)
		}
		feed, err := worker.NewImageFeed(cfg)
		if err != nil {
			return err
		}
		defer feed.Close()
		fit.Feed = feed
		epochs[rank], errs[rank] = worker.Fit(ctx, fit)
		var many *worker.BadBudgetError
		if errs[rank] != nil && !errors.As(errs[rank], &many) { // that one ends all
			cancel()
		}
		return nil
	})
	for rank := range texts {
		logs[rank] = texts[rank].String()
	}
	return epochs, errs, logs
}

// All workers know how many examples the whole job has left out, in each pass, and each is named
// once a pass.
func TestDamagedExamplesAreCountedOverTheJob(t *testing.T) {
	set := &damagedImages{ImageSet: images(t, 40), bad: []int{1, 17, 18, 33}}
	epochs, errs, logs := fitImages(t, 3, set, nil)
	all := strings.Join(logs, "")
	for rank := range epochs {
		if errs[rank] != nil || len(epochs[rank]) != 2 || epochs[rank][0].Bad != 4 || epochs[rank][1].Bad != 4 {
			t.Errorf("rank %d: got error %v and epochs %+v, want 4 left out in each of 2", rank, errs[rank], epochs[rank])
		}
	}
	for _, i := range set.bad {
		if n := strings.Count(all, fmt.Sprintf(`msg="a damaged example is left out" example=%d name=%d.jpg error="is cut short"`, i, i)); n != 2 {
			t.Errorf("example %d is named %d times, want once in each of 2 epochs:\n%s", i, n, all)
		}
	}
	var report strings.Builder
	if err := worker.WriteReport(&report, epochs[0]); err != nil || !strings.Contains(report.String(), "damaged") {
		t.Errorf("report, error %v: want a column of damaged ones:\n%s", err, &report)
	}
}

// The budget is that of the job: all workers end after the same step although none has read more
// than it alone.
func TestTheBudgetOfDamagedExamplesIsTheJobs(t *testing.T) {
	set := &damagedImages{ImageSet: images(t, 40), bad: []int{1, 2, 17, 18, 33, 34}}
	steps := make([]int, 3)
	_, errs, _ := fitImages(t, 3, set, func(rank int, _ *worker.ImageFeedConfig, fit *worker.FitConfig) {
		fit.Observers = []worker.Observer{stepsSeen{&steps[rank]}}
	})
	named := 0
	for rank, err := range errs {
		var many *worker.BadBudgetError
		if !errors.As(err, &many) || many.Count != 6 || many.Budget != 5 || !errors.Is(err, kvstore.ErrFinal) {
			t.Errorf("rank %d: got error %v, want 6 damaged ones of 5, which no restart mends", rank, err)
			continue
		}
		named += len(many.First)
		if steps[rank] != steps[0] {
			t.Errorf("rank %d ended after %d steps, rank 0 after %d", rank, steps[rank], steps[0])
		}
	}
	if named != 6 {
		t.Errorf("the errors of all workers name %d examples, want 6", named)
	}
}

// stepsSeen counts the steps of a run.
type stepsSeen struct{ n *int }

func (stepsSeen) Begin(worker.Run)       {}
func (s stepsSeen) Step(worker.StepInfo) { *s.n++ }
func (stepsSeen) Epoch(worker.EpochInfo) {}
func (stepsSeen) End()                   {}

// A step with damaged examples, wherever in the batch they are, is a step over the others alone.
func TestDamagedExamplesWeighNothing(t *testing.T) {
	whole := images(t, 8)
	train := func(set data.Dataset, batch int) ([]float32, float64) {
		store := newStore(t, "local")
		program := mlpOf(t, batch, 6)
		trainer := newTrainer(t, worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
		feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: []*nn.Program{program}, Dataset: set, Workers: 1, BadExamples: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close()
		epochs, err := worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 1})
		if err != nil {
			t.Fatal(err)
		}
		return program.Params()[0].Value, epochs[0].Loss
	}
	got, gotLoss := train(&damagedImages{ImageSet: whole, bad: []int{2, 5}}, 8)
	good := &without{whole, []int{0, 1, 3, 4, 6, 7}}
	want, wantLoss := train(good, 6)
	if math.Abs(gotLoss-wantLoss) > 1e-6 {
		t.Errorf("the loss is %v, without them %v", gotLoss, wantLoss)
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6 {
			t.Fatalf("weight %d is %v, without them %v", i, got[i], want[i])
		}
	}
}

// without is a data set of some examples of another.
type without struct {
	*data.ImageSet
	list []int
}

func (w *without) Len() int                             { return len(w.list) }
func (w *without) Read(i int, dst []uint8) (int, error) { return w.ImageSet.Read(w.list[i], dst) }

func TestAnEvaluationLeavesDamagedExamplesOut(t *testing.T) {
	whole := images(t, 30)
	loss, logits := networkOf(8, 3)
	program := compile(t, loss, nn.Config{Inference: true, Outputs: G.Nodes{logits}})
	bad := &damagedImages{ImageSet: whole, bad: []int{0, 9, 29}}
	var rest []int
	for i := range 30 {
		if !slices.Contains(bad.bad, i) {
			rest = append(rest, i)
		}
	}
	want, err := (&worker.ImageEvaluator{Program: program, Logits: logits, Dataset: &without{whole, rest}}).Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&worker.ImageEvaluator{Program: program, Logits: logits, Dataset: bad, BadExamples: 3}).Evaluate(t.Context())
	if err != nil || got.Examples != 27 || got.Bad != 3 || got.Accuracy != want.Accuracy || math.Abs(got.Loss-want.Loss) > 1e-6 {
		t.Errorf("got %+v, error %v, want that of the others, %+v", got, err, want)
	}
	var many *data.BadExamplesError
	if _, err := (&worker.ImageEvaluator{Program: program, Logits: logits, Dataset: bad, BadExamples: 2}).Evaluate(t.Context()); !errors.As(err, &many) {
		t.Errorf("a budget of 2: got error %v, want %T", err, many)
	} else if !errors.Is(err, kvstore.ErrFinal) {
		t.Errorf("a budget of 2: got error %v, want one that no restart mends", err)
	}
}

// The budget of an evaluation is that of all workers together, and all end with it.
func TestTheBudgetOfAnEvaluationIsTheJobs(t *testing.T) {
	whole := images(t, 24)
	for _, c := range []struct {
		budget int
		fails  bool
	}{{3, false}, {2, true}} {
		loss, logits := networkOf(4, 3)
		programs := make([]*nn.Program, 2)
		for r := range programs {
			programs[r] = compile(t, loss, nn.Config{Inference: true, Outputs: G.Nodes{logits}})
		}
		_, errs, logs := fitImages(t, 2, whole, func(rank int, _ *worker.ImageFeedConfig, fit *worker.FitConfig) {
			fit.Epochs = 1
			fit.Evaluator = &worker.ImageEvaluator{Program: programs[rank], Logits: logits, Dataset: &damagedImages{ImageSet: whole, bad: []int{1, 5, 9}}, BadExamples: c.budget}
		})
		for rank, err := range errs {
			var many *worker.BadBudgetError
			if errors.As(err, &many) != c.fails || !c.fails && err != nil {
				t.Errorf("budget %d, rank %d: got error %v, want one: %v; log %s", c.budget, rank, err, c.fails, logs[rank])
			}
		}
	}
}

// A run goes on with the data that it had, and says what differs otherwise.
func TestARunGoesOnWithItsDataAlone(t *testing.T) {
	dir := t.TempDir()
	set := func(change func(*damagedImages)) *damagedImages {
		d := &damagedImages{ImageSet: images(t, 40), fingerprint: "folder:1", classes: []string{"dark", "bright"}, decoder: "decode 1"}
		if change != nil {
			change(d)
		}
		return d
	}
	run := func(d *damagedImages, epochs int) (log string, err error) {
		_, errs, logs := fitImages(t, 1, d, func(_ int, _ *worker.ImageFeedConfig, fit *worker.FitConfig) {
			fit.Epochs, fit.Checkpoint = epochs, worker.CheckpointConfig{Dir: dir, Resume: true}
		})
		return logs[0], errs[0]
	}
	if _, err := run(set(nil), 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*damagedImages)
		want   string
	}{
		{func(d *damagedImages) { d.fingerprint = "folder:2" }, "the names, sizes or order of its files (fingerprint folder:2 here, folder:1 there)"},
		{func(d *damagedImages) { d.fingerprint, d.classes = "folder:2", []string{"dark", "light"} }, `class 1 is "light" here and "bright" there`},
		{func(d *damagedImages) { d.fingerprint, d.ImageSet = "folder:2", images(t, 44) }, "44 examples here and 40 there"},
		{func(d *damagedImages) { d.fingerprint, d.classes = "folder:2", []string{"dark"} }, "1 classes here and 2 there"},
	} {
		if _, err := run(set(c.change), 2); err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, kvstore.ErrFinal) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
	log, err := run(set(func(d *damagedImages) { d.decoder = "decode 2" }), 2)
	if err != nil || !strings.Contains(log, `then="decode 1" now="decode 2"`) {
		t.Errorf("another decoder: got error %v and log %q, want a warning", err, log)
	}
}

func TestWorkersWithDifferentDataAreTold(t *testing.T) {
	sets := []*damagedImages{{ImageSet: images(t, 40), fingerprint: "folder:1"}, {ImageSet: images(t, 40), fingerprint: "folder:2"}}
	_, errs, _ := fitImages(t, 2, sets[0], func(rank int, feed *worker.ImageFeedConfig, fit *worker.FitConfig) {
		feed.Dataset, fit.Epochs = sets[rank], 1
		if rank == 0 {
			fit.MaxSteps = 1
		}
	})
	if err := errs[1]; err == nil || !strings.Contains(err.Error(), "rank 1, and rank 0 read different data") {
		t.Errorf("got errors %v, want one of rank 1 that its data is other", errs)
	}
}

// Mixed images train a loss of soft targets, and images with several labels one of binary targets,
// which an evaluation reads, too.
func TestTargetsReachTheLoss(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   *damagedImages
		mix   data.Mix
		width int
		loss  func(logits, targets *G.Node) *G.Node
	}{
		{"mixed", &damagedImages{ImageSet: images(t, 64)}, data.Mix{Mixup: 0.2, CutMix: 1, Classes: 2}, 2, nn.SoftCrossEntropy},
		{"several labels", &damagedImages{ImageSet: images(t, 64), width: 3}, data.Mix{}, 3, func(logits, targets *G.Node) *G.Node {
			return nn.BinaryCrossEntropy(logits, targets, nn.BinaryCrossEntropyConfig{})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			build := func() (loss, logits *G.Node) {
				g := G.NewGraph()
				x, targets := nn.Input(g, "images", 8, 1, 6, 6), nn.Input(g, "targets", 8, c.width)
				logits = nn.MLP(x, nn.MLPConfig{Classes: c.width})
				return c.loss(logits, targets), logits
			}
			loss, _ := build()
			program := compile(t, loss, nn.Config{})
			trainer := newTrainer(t, worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "adam", LearningRate: 0.01}})
			feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: []*nn.Program{program}, Dataset: c.set, Workers: 1, Mix: c.mix})
			if err != nil {
				t.Fatal(err)
			}
			defer feed.Close()
			cfg := worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 20}
			if c.set.width > 0 {
				loss, logits := build()
				evaluation := compile(t, loss, nn.Config{Inference: true, Share: program, Outputs: G.Nodes{logits}})
				cfg.Evaluator = &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: c.set}
			}
			epochs, err := worker.Fit(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			first, last := epochs[0], epochs[len(epochs)-1]
			if !(last.Loss < 0.8*first.Loss) {
				t.Errorf("the loss went from %v to %v, want far less", first.Loss, last.Loss)
			}
			if c.set.width > 0 && (!math.IsNaN(last.Test.Accuracy) || !(last.Test.Loss < 0.8*first.Loss)) {
				t.Errorf("the evaluation has %+v, want a small loss and no accuracy", last.Test)
			}
		})
	}
}

func TestImageFeedSaysWhichInputIsMissing(t *testing.T) {
	_, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: []*nn.Program{mlpOf(t, 4, 6)}, Dataset: images(t, 8), Workers: 1, Mix: data.Mix{Mixup: 1, Classes: 2}})
	if err == nil || !strings.Contains(err.Error(), `no input "targets"`) || !strings.Contains(err.Error(), "nn.SoftCrossEntropy") {
		t.Errorf("got error %v, want one that asks for targets", err)
	}
}
