package worker_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
	G "gorgonia.org/gorgonia"
)

// ignoredLabels are labels of eight examples, in each step others: those of −1 are spread unevenly
// over their halves.
func ignoredLabels(step int) []int32 {
	return [][]int32{
		{2, -1, -1, -1, 1, 0, 2, 1},
		{-1, -1, -1, -1, 1, -1, 2, 0},
		{0, 1, 2, 1, -1, 2, -1, -1},
		{-1, -1, -1, -1, -1, -1, -1, -1},
		{1, 2, 0, 2, -1, -1, -1, -1},
	}[step%5]
}

func fillIgnored(t *testing.T, program *nn.Program, step, first int) {
	t.Helper()
	fill(t, program, step, first)
	labels, err := program.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	labels.Set(ignoredLabels(step)[first : first+labels.Len()])
}

func parametersOf(program *nn.Program) (all []float32) {
	for _, p := range program.Params() {
		all = append(all, p.Value...)
	}
	return all
}

func nearly(t *testing.T, what string, got, want []float32) {
	t.Helper()
	var off, size float64
	for i, w := range want {
		off += float64(got[i]-w) * float64(got[i]-w)
		size += float64(w) * float64(w)
	}
	if d := math.Sqrt(off / size); !(d <= 1e-5) {
		t.Errorf("%s: parameters are off by %.3g of their length", what, d)
	}
}

// One device of eight examples, two devices of four, two runs of four and two workers of four take
// the same steps with the same labels of −1, however these are spread: the mean is over the labels
// that count. A step of which none counts changes nothing, not even by momentum.
func TestIgnoredLabelsAreNoPartOfTheMeanWhereverTheyAre(t *testing.T) {
	wantOneMean(t, func(t *testing.T, batch int) *nn.Program { return weightedMLP(t, batch, nil) }, fillIgnored)
}

// So it is with weights of classes: the mean is over the weights of the labels.
func TestClassWeightsAreOneMeanWhereverTheLabelsAre(t *testing.T) {
	wantOneMean(t, func(t *testing.T, batch int) *nn.Program { return weightedMLP(t, batch, []float32{0.25, 7, 1.3}) }, fillIgnored)
}

// So it is with soft targets and with several labels an example: the mean is over the rows, or the
// targets, that count.
func TestTargetsAreOneMeanWhereverTheyAre(t *testing.T) {
	for name, loss := range map[string]func(logits, targets *G.Node) *G.Node{
		"soft": nn.SoftCrossEntropy,
		"binary": func(logits, targets *G.Node) *G.Node {
			return nn.BinaryCrossEntropy(logits, targets, nn.BinaryCrossEntropyConfig{PosWeights: []float32{0.25, 7, 1.3}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantOneMean(t, func(t *testing.T, batch int) *nn.Program {
				g := G.NewGraph()
				nn.Configure(g, nn.GraphConfig{Seed: 3})
				x, targets := nn.Input(g, "x", batch, 5), nn.Input(g, "targets", batch, 3)
				return compile(t, loss(nn.MLP(x, nn.MLPConfig{Hidden: []int{16}, Classes: 3}), targets), nn.Config{})
			}, fillTargets)
		})
	}
}

// fillTargets has targets where fillIgnored has labels. With several labels some are not known.
func fillTargets(t *testing.T, program *nn.Program, step, first int) {
	t.Helper()
	x, err := program.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	targets, err := program.Input("targets")
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		x[i] = float32(math.Sin(float64(100*step + 5*first + i)))
	}
	for b := range len(targets) / 3 {
		for k := range 3 {
			targets[3*b+k] = -1
			if label := ignoredLabels(step)[first+b]; label >= 0 && k != (first+b+step)%3 {
				targets[3*b+k] = float32(0.25 + 0.5*float64((int(label)+k)%2))
			}
		}
	}
}

func wantOneMean(t *testing.T, mlp func(t *testing.T, batch int) *nn.Program, fillIgnored func(t *testing.T, program *nn.Program, step, first int)) {
	t.Helper()
	for _, onWorker := range []bool{false, true} {
		t.Run(fmt.Sprintf("on worker=%v", onWorker), func(t *testing.T) {
			const steps = 10
			cfg := worker.Config{Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}, UpdateOnWorker: onWorker}
			one, two, runs := cfg, cfg, cfg
			one.Store, one.Programs = newStore(t, "local"), []*nn.Program{mlp(t, 8)}
			two.Store, two.Programs = newStore(t, "local"), []*nn.Program{mlp(t, 4), mlp(t, 4)}
			runs.Store, runs.Programs = newStore(t, "local"), []*nn.Program{mlp(t, 4)}
			a, b, c := newTrainer(t, one), newTrainer(t, two), newTrainer(t, runs)
			var after [][]float32
			for i := range steps {
				fillIgnored(t, one.Programs[0], i, 0)
				step(t, a, 8)
				fillIgnored(t, two.Programs[0], i, 0)
				fillIgnored(t, two.Programs[1], i, 4)
				step(t, b, 4, 4)
				fillIgnored(t, runs.Programs[0], i, 0)
				if err := c.Accumulate(t.Context(), []int{4}); err != nil {
					t.Fatal(err)
				}
				fillIgnored(t, runs.Programs[0], i, 4)
				step(t, c, 4)
				for _, trainer := range []*worker.Trainer{a, b, c} {
					if err := trainer.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				after = append(after, parametersOf(one.Programs[0]))
				nearly(t, fmt.Sprintf("step %d on two devices", i), parametersOf(two.Programs[0]), after[i])
				nearly(t, fmt.Sprintf("step %d in two runs", i), parametersOf(runs.Programs[0]), after[i])
				if i%5 == 3 && !slices.Equal(after[i], after[i-1]) {
					t.Errorf("step %d has no label that counts and changed the parameters", i)
				}
			}
			workers := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_sync")
			programs, trainers := []*nn.Program{mlp(t, 4), mlp(t, 4)}, make([]*worker.Trainer, 2)
			var building sync.WaitGroup
			for rank, store := range workers {
				cfg := cfg
				cfg.Store, cfg.Programs = store, programs[rank:rank+1]
				building.Go(func() { trainers[rank] = newTrainer(t, cfg) })
			}
			building.Wait()
			for i := range steps {
				onWorkers(t, workers, func(rank int, _ kvstore.Store) error {
					fillIgnored(t, programs[rank], i, 4*rank)
					if err := trainers[rank].Step(t.Context(), []int{4}); err != nil {
						return err
					}
					return trainers[rank].Flush(t.Context())
				})
				nearly(t, fmt.Sprintf("step %d on two workers", i), parametersOf(programs[0]), after[i])
			}
		})
	}
}

// The servers count the examples that were used, whether their labels count or not.
func TestExamplesAreCountedApartFromLabels(t *testing.T) {
	store := newStore(t, "local")
	program := mlp(t, 8)
	trainer := newTrainer(t, worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
	for i, want := range []float64{5, 3, 5, 0, 4} {
		fillIgnored(t, program, i, 0)
		step(t, trainer, 8)
		if err := trainer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range program.Params() {
			if weight, examples := store.RoundWeight(p.Name), store.RoundExamples(p.Name); weight != want || examples != 8 {
				t.Errorf("step %d: the round of %s has weight %v and %d examples, want %v and 8", i, p.Name, weight, examples, want)
			}
		}
	}
}

// The loss of an evaluation in batches is that of the whole set, weights of classes included, and
// so is its perplexity.
func TestAnEvaluationDividesByClassWeights(t *testing.T) {
	labels := []int32{2, 0, 1, 1, -1, 2, 0, 0}
	var scores []worker.Scores
	for _, batch := range []int{8, 2} {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		logits := nn.Linear(nn.Input(g, "x", batch, 4), "fc", nn.LinearConfig{Out: 3})
		loss := nn.CrossEntropy(logits, nn.Labels(g, "labels", batch), nn.CrossEntropyConfig{ClassWeights: []float32{0.25, 7, 0}})
		program := compile(t, loss, nn.Config{Inference: true, Outputs: []*G.Node{logits}})
		e := &worker.BatchEvaluator{Program: program, Outputs: logits, Examples: 8, Metrics: []metrics.Metric{metrics.Perplexity{}},
			Fill: func(_ context.Context, first, n int) ([]int32, error) {
				x, err := program.Input("x")
				if err != nil {
					return nil, err
				}
				for i := range x {
					x[i] = float32(math.Sin(float64(first*4 + i)))
				}
				into, err := program.Labels("labels")
				if err == nil {
					into.Set(labels[first : first+n])
				}
				return labels[first : first+n], err
			}}
		s, err := e.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		scores = append(scores, s)
	}
	if a, b := scores[0], scores[1]; math.Abs(a.Loss-b.Loss) > 1e-6 || a.Accuracy != b.Accuracy || math.Abs(b.Metrics[0].Value-math.Exp(b.Loss)) > 1e-9 {
		t.Errorf("in batches of 2: got %+v, want %+v", b, a)
	}
}
