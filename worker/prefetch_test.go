package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// An aheadFeed watches over a feed, and may hide that it can be asked ahead.
type aheadFeed struct {
	*worker.ImageFeed
	ahead bool
	calls chan int // of Next, by number; nil: nobody looks
	n     int
	fails int // the number of the call that fails; 0: none
}

var errBroken = errors.New("the disk is broken")

func (f *aheadFeed) Ahead() bool { return f.ahead && f.ImageFeed.Ahead() }

func (f *aheadFeed) Next(ctx context.Context) ([]int, error) {
	f.n++
	if f.calls != nil {
		f.calls <- f.n
	}
	if f.n == f.fails {
		return nil, errBroken
	}
	return f.ImageFeed.Next(ctx)
}

// An aheadObserver does something after each step.
type aheadObserver func(s worker.StepInfo)

func (aheadObserver) Begin(worker.Run)         {}
func (o aheadObserver) Step(s worker.StepInfo) { o(s) }
func (aheadObserver) Epoch(worker.EpochInfo)   {}
func (aheadObserver) End()                     {}

// fitOnGPU trains 3 epochs of 7 steps, of which the last is not whole, on a GPU (a stand-in).
func fitOnGPU(t *testing.T, feed *aheadFeed, change func(c *worker.FitConfig)) ([]worker.EpochInfo, []float32, error) {
	t.Helper()
	g := G.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 3})
	x := nn.Input(g, "images", 4, 3, 32, 32)
	x = nn.ReLU(nn.BatchNorm2D(nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: 8, Kernel: nn.Square(4), Stride: nn.Square(4)}), "bn", nn.BatchNormConfig{}))
	loss := nn.SoftmaxCrossEntropy(nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10}), nn.Labels(g, "labels", 4))
	programs := []*nn.Program{compile(t, loss, nn.Config{Device: "cuda:0", DType: nn.Float32})}
	trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: newStore(t, "local"), Programs: programs, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	feed.ImageFeed, err = worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs, Dataset: data.Synthetic(26, 1), Workers: 1, Seed: 5, Augment: data.Augment{Pad: 2, Flip: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	cfg := worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 3}
	if change != nil {
		change(&cfg)
	}
	epochs, err := worker.Fit(t.Context(), cfg)
	if err != nil { // an exchange may still be under way
		return epochs, nil, err
	}
	var values []float32
	for _, p := range append(slices.Clone(programs[0].Params()), programs[0].State()...) {
		values = append(values, p.Value...)
	}
	return epochs, values, err
}

func useFakeGPUs(t *testing.T) *fake.Machine {
	t.Helper()
	machine := fake.New(t)
	for name, path := range machine.Paths() {
		t.Setenv(name.Variable(), path)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return machine
}

// A GPU does the same, bit for bit, whether the next batch comes while it computes or after it,
// however late it does its work.
func TestBatchesThatComeAheadChangeNothing(t *testing.T) {
	machine := useFakeGPUs(t)
	for seed := range int64(2) {
		machine.Set("seed", seed)
		want, wantValues, err := fitOnGPU(t, &aheadFeed{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, values, err := fitOnGPU(t, &aheadFeed{ahead: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for e := range want {
			if !slices.Equal(got[e].Losses, want[e].Losses) || got[e].Examples != want[e].Examples {
				t.Errorf("seed %d, epoch %d: losses are %v of %d examples, want %v of %d", seed, e, got[e].Losses, got[e].Examples, want[e].Losses, want[e].Examples)
			}
		}
		if !slices.Equal(values, wantValues) {
			t.Errorf("seed %d: parameters and running statistics differ", seed)
		}
	}
}

// The next batch is asked for before a step is over, but not one that no step will have.
func TestTheNextBatchComesWhileAStepComputes(t *testing.T) {
	useFakeGPUs(t)
	feed := &aheadFeed{ahead: true, calls: make(chan int, 100)}
	seen := 0
	_, _, err := fitOnGPU(t, feed, func(c *worker.FitConfig) {
		c.MaxSteps = 7 + 7 + 3
		c.Observers = []worker.Observer{aheadObserver(func(s worker.StepInfo) {
			step := 7*s.Epoch + s.Step
			want := step + 2 // calls by the end of this step
			if s.Step == 6 || step == 16 {
				want = step + 1
			}
			for seen < want {
				select {
				case seen = <-feed.calls:
				case <-time.After(10 * time.Second):
					t.Fatalf("epoch %d step %d is over and Next was called %d times, want %d", s.Epoch, s.Step, seen, want)
				}
			}
		})}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(feed.calls) > 0 || feed.n != 17 {
		t.Errorf("Next was called %d times, want 17: one for each step", feed.n)
	}
}

// An error of the source is that of the step which would have had the batch.
func TestAnErrorOfABatchAheadIsThatOfItsStep(t *testing.T) {
	useFakeGPUs(t)
	for call := 1; call <= 9; call += 2 {
		steps := 0
		_, _, err := fitOnGPU(t, &aheadFeed{ahead: true, fails: call}, func(c *worker.FitConfig) {
			c.Observers = []worker.Observer{aheadObserver(func(worker.StepInfo) { steps++ })}
		})
		want := fmt.Sprintf("epoch %d step %d: next batch", (call-1)/7, (call-1)%7)
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), want) || steps != call-1 {
			t.Errorf("batch %d fails: got error %v after %d steps, want one of %q after %d", call, err, steps, want, call-1)
		}
	}
}
