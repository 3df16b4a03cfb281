package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// parameters of the model; each is a key of its own, so that servers share them.
const parameters = 3

// compileModel makes a model whose parameters w have as many elements as there are examples: the loss is Σ x·w, where x counts the
// examples of the batch divided by their number, and so the gradient of every w is what the batch is made of.
func compileModel(examples int) (*nn.Program, error) {
	g := gorgonia.NewGraph()
	x := nn.Input(g, "x", examples)
	var loss *gorgonia.Node
	for k := range parameters {
		w := gorgonia.NewVector(g, tensor.Float32, gorgonia.WithShape(examples), gorgonia.WithName(fmt.Sprint("w", k)),
			gorgonia.WithValue(tensor.New(tensor.WithShape(examples), tensor.Of(tensor.Float32))))
		product, err := gorgonia.HadamardProd(x, w)
		if err != nil {
			return nil, err
		}
		sum, err := gorgonia.Sum(product)
		if err != nil {
			return nil, err
		}
		if loss == nil {
			loss = sum
		} else if loss, err = gorgonia.Add(loss, sum); err != nil {
			return nil, err
		}
	}
	return nn.Compile(loss, nn.Config{Threads: 1})
}

// A feed gives a worker its examples, a few in each step, and takes its time over it.
type feed struct {
	plan  *Plan
	x     []float32
	split *sampler.Sampler
	steps int
	pace  *rand.Rand
	left  []int
}

func newFeed(p *Plan, program *nn.Program, rank, workers int, pace *rand.Rand) (*feed, error) {
	x, err := program.Input("x")
	if err != nil {
		return nil, err
	}
	f := &feed{plan: p, x: x, pace: pace}
	return f, f.divide(rank, workers)
}

func (f *feed) divide(rank, workers int) (err error) {
	if f.split, err = sampler.Split(f.plan.Examples, workers, rank, sampler.Seed(f.plan.Seed)); err != nil {
		return err
	}
	longest, err := sampler.Split(f.plan.Examples, workers, 0)
	if err == nil {
		f.steps = (longest.Len() + f.plan.Batch - 1) / f.plan.Batch
	}
	return err
}

func (f *feed) Steps() int { return f.steps }

func (f *feed) Begin(_ context.Context, epoch, step int) error {
	f.left = slices.Collect(f.split.From(epoch, step*f.plan.Batch))
	return nil
}

func (f *feed) Next(ctx context.Context) ([]int, error) {
	if err := sleep(ctx, time.Duration(f.pace.Int64N(int64(compute)))); err != nil {
		return nil, err
	}
	clear(f.x)
	n := min(f.plan.Batch, len(f.left))
	for _, i := range f.left[:n] {
		f.x[i] = 1 / float32(n)
	}
	f.left = f.left[n:]
	return []int{n}, nil
}

func (f *feed) Close() error { return nil }

// runFit is a worker that trains.
func (j *job) runFit(ctx context.Context, n *node, rank int) (err error) {
	p := &j.plan
	kv, err := j.join(ctx, n, rank)
	if err != nil {
		j.ready.Done()
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	program, trainer, err := j.newTrainer(ctx, kv)
	if j.begun(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trainer.Close(), program.Close()) }()
	feed, err := newFeed(p, program, kv.Rank(), kv.NumWorkers(), rand.New(rand.NewPCG(p.Seed, uint64(rank))))
	if err != nil {
		return err
	}
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: p.Epochs})
	return err
}

func (j *job) newTrainer(ctx context.Context, kv kvstore.Store) (*nn.Program, *worker.Trainer, error) {
	program, err := compileModel(j.plan.Examples)
	if err != nil {
		return nil, nil, err
	}
	optimizer := optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Sum}
	if j.plan.Program == Floats {
		optimizer = optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optimizer, Logger: j.logger("trainer")})
	if err != nil {
		return nil, nil, errors.Join(err, program.Close())
	}
	return program, trainer, nil
}
