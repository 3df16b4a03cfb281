package worker_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A worker on GPUs (stand-ins) takes the steps of one on CPUs: the feed hands over bytes where the
// CPU gets numbers, gradients leave from and values arrive in the memory that the device copies
// from and to, and the evaluation shares the parameters.
func TestAWorkerOnGPUsTakesTheStepsOfOneOnCPUs(t *testing.T) {
	machine := fake.New(t)
	for name, path := range machine.Paths() {
		t.Setenv(name.Variable(), path)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	machine.Set("seed", 2)
	set := data.Synthetic(26, 1) // the last batch is not whole
	augment := data.Augment{Pad: 2, Flip: true, Mean: data.CIFAR10Mean, Std: data.CIFAR10Std}
	const batch = 4
	build := func() (loss, logits *G.Node) {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		x := nn.Input(g, "images", batch, 3, 32, 32)
		x = nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: 8, Kernel: nn.Square(4), Stride: nn.Square(4)})
		x = nn.ReLU(nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{}))
		logits = nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
		return nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", batch)), logits
	}
	run := func(devices ...string) (losses []float64, params []nn.Param) {
		stores := jobtest.New(t, jobtest.Config{Workers: 1, Servers: 2}).Stores(t, "dist_sync")
		var programs []*nn.Program
		for _, device := range devices {
			loss, _ := build()
			programs = append(programs, compile(t, loss, nn.Config{Device: device, DType: nn.Float32, Threads: 1}))
		}
		loss, logits := build()
		evaluation := compile(t, loss, nn.Config{Device: devices[0], DType: nn.Float32, Threads: 1, Inference: true, Share: programs[0], Outputs: G.Nodes{logits}})
		onWorkers(t, stores, func(rank int, store kvstore.Store) error {
			trainer, err := worker.NewTrainer(t.Context(), worker.Config{
				Store: store, Programs: programs, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9},
			})
			if err != nil {
				return err
			}
			defer trainer.Close()
			feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs, Dataset: set, Workers: 1, Seed: 5, Augment: augment})
			if err != nil {
				return err
			}
			defer feed.Close()
			for epoch := range 2 {
				if err := feed.Begin(t.Context(), epoch, 0); err != nil {
					return err
				}
				for range feed.Steps() {
					counts, err := feed.Next(t.Context())
					if err != nil {
						return err
					}
					if err := trainer.Step(t.Context(), counts); err != nil {
						return err
					}
					for _, program := range programs {
						losses = append(losses, program.Loss())
					}
				}
				if err := trainer.Flush(t.Context()); err != nil {
					return err
				}
				evaluator := worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: set, Augment: data.Augment{Mean: augment.Mean, Std: augment.Std}}
				scores, err := evaluator.Evaluate(t.Context())
				if err != nil {
					return err
				}
				losses = append(losses, scores.Loss, scores.Accuracy)
				if scores.Examples != set.Len() {
					t.Errorf("%v: %d images were evaluated, want %d", devices, scores.Examples, set.Len())
				}
			}
			pixels, err := evaluation.Pixels("images", nn.PixelsConfig{Channels: 3, Height: 32, Width: 32, Mean: augment.Mean, Std: augment.Std})
			if devices[0] == "cpu:0" {
				if !errors.Is(err, nn.ErrNoPixels) {
					t.Errorf("%v: pixels of the evaluation: got error %v, want ErrNoPixels", devices, err)
				}
				return nil
			}
			if err != nil {
				return err
			}
			if size := set.Shape().Size(); !bytes.Equal(pixels.Images[:2*size], slices.Concat(set.Pixels(24), set.Pixels(25))) {
				t.Errorf("%v: the evaluation's last batch did not come as bytes", devices)
			}
			return nil
		})
		return losses, programs[0].Params()
	}
	for i, devices := range [][2][]string{{{"cpu:0"}, {"cuda:0"}}, {{"cpu:0", "cpu:1"}, {"cuda:0", "cuda:1"}}} {
		if i == 0 && !slow() {
			continue // two devices do all that one does
		}
		want, wantParams := run(devices[0]...)
		got, gotParams := run(devices[1]...)
		if len(got) != len(want) {
			t.Fatalf("%v: got %d losses and scores, want %d", devices, len(got), len(want))
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-4 {
				t.Errorf("%v: loss or score %d is %g, want %g", devices, i, got[i], want[i])
			}
		}
		for i, q := range wantParams {
			for k, v := range q.Value {
				if d := math.Abs(float64(gotParams[i].Value[k] - v)); d > 1e-4 {
					t.Fatalf("%v: %s at %d is %g, want %g", devices, q.Name, k, gotParams[i].Value[k], v)
				}
			}
		}
	}
}

// The scale of a loss in float16 is in the worker's own file of a checkpoint, and the run that
// resumes goes on with it.
func TestTheLossScaleIsResumed(t *testing.T) {
	machine := fake.New(t)
	for name, path := range machine.Paths() {
		t.Setenv(name.Variable(), path)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	set, dir := data.Synthetic(16, 1), t.TempDir()
	run := func(resume bool, steps uint64, begin *nn.LossScale) (end nn.LossScale) {
		stores := jobtest.New(t, jobtest.Config{Workers: 1, Servers: 1}).Stores(t, "dist_sync")
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		x := nn.Input(g, "images", 4, 3, 32, 32)
		x = nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: 8, Kernel: nn.Square(8), Stride: nn.Square(8)})
		loss := nn.SoftmaxCrossEntropy(nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10}), nn.Labels(g, "labels", 4))
		program := compile(t, loss, nn.Config{Device: "cuda:0", DType: nn.Float16})
		onWorkers(t, stores, func(rank int, store kvstore.Store) error {
			trainer, err := worker.NewTrainer(t.Context(), worker.Config{Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd"}})
			if err != nil {
				return err
			}
			defer trainer.Close()
			if begin != nil {
				if err := program.SetLossScale(*begin); err != nil {
					return err
				}
			}
			feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: []*nn.Program{program}, Dataset: set, Workers: 1})
			if err != nil {
				return err
			}
			defer feed.Close()
			_, err = worker.Fit(t.Context(), worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: 2, MaxSteps: steps, Checkpoint: worker.CheckpointConfig{Dir: dir, Resume: resume}})
			return err
		})
		end, scales := program.LossScale()
		if !scales {
			t.Error("a program of float16 says that it does not scale its loss")
		}
		return end
	}
	if got, want := run(false, 4, &nn.LossScale{Scale: 1024, Good: 100}), (nn.LossScale{Scale: 1024, Good: 104}); got != want {
		t.Fatalf("after 4 steps the scale is %v, want %v", got, want)
	}
	if got, want := run(true, 6, nil), (nn.LossScale{Scale: 1024, Good: 106}); got != want {
		t.Errorf("resumed, after 6 steps in all, the scale is %v, want %v", got, want)
	}
}
