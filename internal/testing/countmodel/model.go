// Package countmodel is a training program for tests of whole jobs: its parameters count how often
// each example was used.
//
// The model has a few parameters, each a key of its own so that servers share them, with an element
// for every example. The loss is the sum of x·w over the parameters w, where x is one for the
// examples of the batch and zero for others, divided by the number of examples. So the gradient,
// summed over the batch, is what the batch is made of; and with the optimizer "test", which adds
// gradients to values, a value is the number of times that each example was used, by whatever
// workers and in whatever order. The last parameter weighs each example with a number that no
// float32 holds: its bits depend on the order of all sums.
package countmodel

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// Counting is the number of parameters that count; one more rounds.
const Counting = 3

// Optimizer adds up gradients.
var Optimizer = optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Sum}

// Compile makes the model for a number of examples.
func Compile(examples int) (*nn.Program, error) {
	g := gorgonia.NewGraph()
	x := nn.Input(g, "x", examples)
	var loss *gorgonia.Node
	for k := range Counting + 1 {
		name := fmt.Sprint("count", k)
		if k == Counting {
			name = "float"
		}
		w := gorgonia.NewVector(g, tensor.Float32, gorgonia.WithShape(examples), gorgonia.WithName(name),
			gorgonia.WithValue(tensor.New(tensor.WithShape(examples), tensor.Of(tensor.Float32))))
		product, err := gorgonia.HadamardProd(x, w)
		if err == nil && k == Counting {
			odd := make([]float32, examples)
			for i := range odd {
				odd[i] = factor(i)
			}
			factors := gorgonia.NewConstant(tensor.New(tensor.WithShape(examples), tensor.WithBacking(odd)))
			product, err = gorgonia.HadamardProd(product, factors)
		}
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
	return nn.Compile(loss, nn.Config{Threads: 1, OwnMask: true})
}

// factor is what the last parameter weighs an example with.
func factor(i int) float32 { return 0.1 + float32(i)/7 }

// Counts returns how often each example was used in steps that were acknowledged: as often as all
// parameters say. What reached some of them alone was handed out again.
func Counts(program *nn.Program) []int {
	params := program.Params()
	counts := make([]int, len(params[0].Value))
	for i := range counts {
		counts[i] = int(math.Round(float64(params[Counting].Value[i] / factor(i))))
		for _, p := range params[:Counting] {
			counts[i] = min(counts[i], int(math.Round(float64(p.Value[i]))))
		}
	}
	return counts
}

// A Feed gives one worker its examples, a few in each step. It is a worker.DividedFeed.
type Feed struct {
	*worker.Partition
	// Before, if set, is called before each step: to take time.
	Before func(ctx context.Context) error

	x    []float32
	left []int
}

// NewFeed returns the feed of one worker of a number of workers, for a program of Compile.
func NewFeed(program *nn.Program, batch, workers, rank int, seed uint64, opts ...sampler.Option) (*Feed, error) {
	x, err := program.Input("x")
	if err != nil {
		return nil, err
	}
	part, err := worker.NewPartition(len(x), batch, workers, rank, append(opts, sampler.Seed(seed))...)
	return &Feed{Partition: part, x: x}, err
}

// Begin implements worker.Feed.
func (f *Feed) Begin(_ context.Context, epoch, step int) error {
	f.left = slices.Collect(f.From(epoch, step))
	return nil
}

// Next implements worker.Feed.
func (f *Feed) Next(ctx context.Context) ([]int, error) {
	if f.Before != nil {
		if err := f.Before(ctx); err != nil {
			return nil, err
		}
	}
	clear(f.x)
	n := min(f.PerStep(), len(f.left))
	for _, i := range f.left[:n] {
		f.x[i] = 1 / float32(n)
	}
	f.left = f.left[n:]
	return []int{n}, nil
}

// Close implements worker.Feed.
func (f *Feed) Close() error { return nil }
