package pacedmodel

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

const (
	features = 16
	hidden   = 32
	classes  = 4
	// wrong is the share of labels that are drawn at random. So the noise of the gradient stays
	// when the network has learnt the others.
	wrong = 0.2
)

// compile makes the network for a batch size; share: with its parameters.
func compile(batch int, share *nn.Program) (*nn.Program, error) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 1})
	x, labels := nn.Input(g, "x", batch, features), nn.Labels(g, "labels", batch)
	h := nn.ReLU(nn.Linear(x, "hidden", nn.LinearConfig{Out: hidden}))
	return nn.Compile(nn.SoftmaxCrossEntropy(nn.Linear(h, "out", nn.LinearConfig{Out: classes}), labels), nn.Config{Threads: 1, Share: share})
}

// examples are points around the centres of their classes.
type examples struct {
	x      [][features]float32
	labels []int32
}

func newExamples(n int, seed uint64) *examples {
	r := rand.New(rand.NewPCG(seed, 1))
	var centres [classes][features]float64
	for c := range centres {
		for k := range centres[c] {
			centres[c][k] = r.NormFloat64()
		}
	}
	d := &examples{make([][features]float32, n), make([]int32, n)}
	for i := range n {
		c := r.IntN(classes)
		for k := range features {
			d.x[i][k] = float32(centres[c][k] + 1.5*r.NormFloat64())
		}
		if d.labels[i] = int32(c); r.Float64() < wrong {
			d.labels[i] = int32(r.IntN(classes))
		}
	}
	return d
}

// A feed is a worker.BatchFeed that takes its time.
type feed struct {
	*worker.Partition
	data          *examples
	step, example time.Duration

	x      []float32
	labels nn.LabelInput
	// left has the runs to come.
	left [][]int
	rows []int32
}

func (f *feed) take(program *nn.Program) (err error) {
	if f.x, err = program.Input("x"); err != nil {
		return err
	}
	f.labels, err = program.Labels("labels")
	return err
}

func (f *feed) Use(programs []*nn.Program, perRun int) error {
	if err := f.take(programs[0]); err != nil {
		return err
	}
	return f.SetRun(perRun)
}

func (f *feed) Begin(_ context.Context, epoch, step int) error {
	f.left = f.left[:0]
	for run := range f.Batches(epoch, step) {
		f.left = append(f.left, slices.Clone(run))
	}
	return nil
}

func (f *feed) Next(ctx context.Context) ([]int, error) {
	run := f.left[0]
	f.left = f.left[1:]
	select {
	case <-time.After(f.step + time.Duration(len(run))*f.example):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.rows = f.rows[:0]
	for row, i := range run {
		copy(f.x[row*features:], f.data.x[i][:])
		f.rows = append(f.rows, f.data.labels[i])
	}
	f.labels.Set(f.rows)
	return []int{len(run)}, nil
}

func (f *feed) Close() error { return nil }
