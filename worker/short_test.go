package worker_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// losses of a line y = x·w + b, which fit (B,2) to (B,1).
var lineLosses = []struct {
	name  string
	short bool // it takes short batches
	loss  func(y, t *G.Node) *G.Node
}{
	{"MSE", true, nn.MSE},
	{"a sum of MSE and decay", true, func(y, t *G.Node) *G.Node {
		w := nn.Parameters(y.Graph())[0]
		decay := G.Must(G.Mul(G.Must(G.Sum(G.Must(G.Square(w)))), G.NewConstant(float32(0.01))))
		return G.Must(G.Add(nn.MSE(y, t), decay))
	}},
	{"cross-entropy with labels of an earlier batch", true, func(y, t *G.Node) *G.Node {
		return nn.SoftmaxCrossEntropy(nn.Linear(y, "classes", nn.LinearConfig{Out: 3}), nn.Labels(y.Graph(), "labels", y.Shape()[0]))
	}},
	{"cross-entropy with soft targets", true, func(y, t *G.Node) *G.Node {
		return nn.SoftCrossEntropy(nn.Linear(y, "classes", nn.LinearConfig{Out: 1}), G.Must(G.Square(t)))
	}},
	{"binary cross-entropy", true, func(y, t *G.Node) *G.Node {
		return nn.BinaryCrossEntropy(y, G.Must(G.Square(t)), nn.BinaryCrossEntropyConfig{}) // all are known
	}},
	{"a mean by example weights", true, func(y, t *G.Node) *G.Node {
		weights := nn.ExampleWeights(y.Graph(), y.Shape()[0])
		squares := G.Must(G.Sum(G.Must(G.Square(G.Must(G.Sub(y, t)))), 1))
		return G.Must(G.HadamardDiv(G.Must(G.Sum(G.Must(G.HadamardProd(squares, weights)))), G.Must(G.Sum(weights))))
	}},
	{"a mean of gorgonia's", false, func(y, t *G.Node) *G.Node {
		return G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(y, t))))))
	}},
	{"MSE of examples less their mean", false, func(y, t *G.Node) *G.Node {
		mean := G.Must(G.Mean(y, 0))
		return nn.MSE(G.Must(G.BroadcastSub(y, G.Must(G.Reshape(mean, tensor.Shape{1, 1})), nil, []byte{0})), t)
	}},
}

// line compiles one of the losses for a batch.
func line(t *testing.T, batch int, loss func(y, t *G.Node) *G.Node) *nn.Program {
	g := G.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 3})
	x, target := nn.Input(g, "x", batch, 2), nn.Input(g, "t", batch, 1)
	return compile(t, loss(nn.Linear(x, "fc", nn.LinearConfig{Out: 1}), target), nn.Config{})
}

// fillLine fills examples from first on; there counts, behind is padding.
func fillLine(t *testing.T, program *nn.Program, first, there int) {
	t.Helper()
	x, err := program.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	target, targetErr := program.Input("t")
	labels, labelsErr := program.Labels("labels")
	for b := range len(x) / 2 {
		k := float64(first + b)
		x[2*b], x[2*b+1] = float32(math.Sin(k)), float32(math.Cos(3*k))
		y := float32(2*math.Sin(k) - 1)
		if b >= there {
			x[2*b], y = 100, -700
		}
		if targetErr == nil {
			target[b] = y
		}
	}
	if labelsErr == nil {
		all := make([]int32, labels.Len())
		for b := range all {
			all[b] = int32((first + b) % 3)
		}
		labels.Set(all)
	}
}

// A step with fewer examples than the batch has room for is the step of a batch of that size,
// whatever the padding is, with each loss of ours and with example weights. Where padding would
// count the step is refused, and nothing has changed.
func TestAShortBatchIsABatchOfItsExamples(t *testing.T) {
	for i, test := range lineLosses {
		for k, kind := range []string{"local", "dist_async", "on the worker", "local steps"} {
			if !slow() && (i+k)%2 != 0 { // each loss with two of them
				continue
			}
			t.Run(test.name+"/"+kind, func(t *testing.T) {
				trained := func(batch int, counts ...int) (values []float32, losses []float64, err error) {
					cfg := worker.Config{Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}}
					switch kind {
					case "on the worker":
						cfg.Store, cfg.UpdateOnWorker = newStore(t, "local"), true
					case "local steps":
						cfg.Store = newStore(t, "local", kvstore.WithLocalSteps(2))
					default:
						cfg.Store = newStore(t, kind)
					}
					for range counts {
						cfg.Programs = append(cfg.Programs, line(t, batch, test.loss))
					}
					trainer := newTrainer(t, cfg)
					for range 3 {
						first := 0
						for d, n := range counts {
							fillLine(t, cfg.Programs[d], first, n)
							first += n
						}
						if err := trainer.Step(t.Context(), counts); err != nil {
							return nil, nil, err
						}
						loss, all := 0.0, 0
						for d, n := range counts {
							if n > 0 { // the loss of nothing may be NaN
								loss += float64(n) * cfg.Programs[d].Loss()
							}
							all += n
						}
						losses = append(losses, loss/float64(all))
					}
					if err := trainer.Flush(t.Context()); err != nil {
						return nil, nil, err
					}
					for _, p := range cfg.Programs[0].Params() {
						values = append(values, p.Value...)
					}
					return values, losses, nil
				}
				want, wantLosses, err := trained(4, 4)
				if err != nil {
					t.Fatal(err)
				}
				for _, counts := range [][]int{{4}, {3, 1}, {4, 0}} {
					got, gotLosses, err := trained(8, counts...)
					if !test.short {
						if err == nil || !strings.Contains(err.Error(), "device 0") || !strings.Contains(err.Error(), "nn.ExampleWeights") {
							t.Errorf("counts %v: got error %v, want one that says what to do", counts, err)
						}
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					for i := range want {
						if !(math.Abs(float64(got[i]-want[i])) <= 1e-5*(1+math.Abs(float64(want[i])))) {
							t.Fatalf("counts %v of a batch of 8: values are %v, want %v as with a batch of 4", counts, got, want)
						}
					}
					for i := range wantLosses {
						if !(math.Abs(gotLosses[i]-wantLosses[i]) <= 1e-5*(1+wantLosses[i])) {
							t.Errorf("counts %v: losses are %v, want %v", counts, gotLosses, wantLosses)
						}
					}
				}
			})
		}
	}
}

// A step without examples leaves all values as they are, also where the loss of nothing is not a
// number or padding would count.
func TestAStepWithoutExamplesChangesNothing(t *testing.T) {
	for _, test := range lineLosses {
		program := line(t, 4, test.loss)
		trainer := newTrainer(t, worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
		var before []float32
		for _, p := range program.Params() {
			before = append(before, p.Value...)
		}
		fillLine(t, program, 0, 0)
		step(t, trainer, 0)
		if err := trainer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var after []float32
		for _, p := range program.Params() {
			after = append(after, p.Value...)
		}
		if i := firstDifference(before, after); i >= 0 {
			t.Errorf("%s: value %d went from %g to %g in a step without examples", test.name, i, before[i], after[i])
		}
	}
}

func TestStepRefusesCountsThatCannotBe(t *testing.T) {
	program := line(t, 4, nn.MSE)
	trainer := newTrainer(t, worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd"}})
	for count, want := range map[int]string{5: "got 5 examples, want at most 4", -1: "got -1 examples, want at least 0"} {
		if err := trainer.Step(t.Context(), []int{count}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("count %d: got error %v, want one with %q", count, err, want)
		}
	}
	fillLine(t, program, 0, 4)
	step(t, trainer, 4) // it was refused before anything was done
}

// lineFeed is a feed of a data set of some examples.
type lineFeed struct {
	*worker.Partition
	program *nn.Program
	t       *testing.T
	at      int
}

func (f *lineFeed) Begin(_ context.Context, _, step int) error { f.at = step * f.PerStep(); return nil }
func (f *lineFeed) Close() error                               { return nil }
func (f *lineFeed) Next(context.Context) ([]int, error) {
	n := min(f.PerStep(), f.Len()-f.at)
	fillLine(f.t, f.program, f.at, n)
	f.at += n
	return []int{n}, nil
}

// Where the last batch of an epoch would be refused, Fit says so before the first one.
func TestFitRefusesAnEpochWhoseLastBatchWouldCountPadding(t *testing.T) {
	for _, test := range lineLosses {
		for _, examples := range []int{22, 24} {
			t.Run(fmt.Sprintf("%s/%d", test.name, examples), func(t *testing.T) {
				program := line(t, 8, test.loss)
				trainer := newTrainer(t, worker.Config{Store: newStore(t, "local"), Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.01}})
				part, err := worker.NewPartition(examples, 8, 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				epochs, err := worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: &lineFeed{Partition: part, program: program, t: t}, Epochs: 1})
				switch refused := examples == 22 && !test.short; {
				case !refused && err != nil:
					t.Fatal(err)
				case !refused && epochs[0].Examples != examples:
					t.Errorf("the epoch used %d examples, want %d", epochs[0].Examples, examples)
				case refused && (err == nil || !strings.Contains(err.Error(), "last batch") || !strings.Contains(err.Error(), "6 examples")):
					t.Errorf("got error %v, want one that names the last batch and its 6 examples", err)
				case refused && trainer.Steps() != 0:
					t.Errorf("%d steps were done before it was refused, want none", trainer.Steps())
				}
			})
		}
	}
}
