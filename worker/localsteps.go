package worker

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// Local steps (Stich 2019; DiLoCo, Douillard et al. 2023, algorithm 1). A round begins at the
// global value θ. In it worker i takes H steps by the inner optimizer on its own copy θᵢ, with the
// mean gradient of its own examples, and then pushes
//
//	Δᵢ = θ − θᵢ
//
// as if it were a gradient, with nᵢ, its labels that count or else its examples in the round, as
// the weight. The servers run the outer optimizer on Σ nᵢ·Δᵢ / Σ nᵢ, and their new θ begins the
// next round. Inner state stays on the worker from round to round.
type localSteps struct {
	inner *localUpdate
	// length is H, and done the number of steps taken since θ.
	length, done int
	// anchors are θ, by parameter.
	anchors [][]float32
	// amount is that of the round so far; its weight is nᵢ.
	amount amount
	// numbers are done and amount.examples as a checkpoint holds them.
	numbers []float32
}

// defaultOuter is DiLoCo's outer optimizer, Nesterov's momentum with the paper's numbers.
func defaultOuter() optim.Config {
	return optim.Config{Name: "nag", LearningRate: 0.7, Momentum: 0.9, Reduction: optim.Mean}
}

func newLocalSteps(inner optim.Config, length int, programs []*nn.Program) (*localSteps, error) {
	update, err := newLocalUpdate(inner, programs)
	if err != nil {
		return nil, err
	}
	l := &localSteps{inner: update, length: length, numbers: make([]float32, 2*pieces)}
	for _, p := range programs[0].Params() {
		l.anchors = append(l.anchors, make([]float32, len(p.Value)))
	}
	return l, nil
}

// localStepsKey is the key by which workers find out that they count their local steps alike.
const localStepsKey = "paragon/local-steps"

// An agreeingStore tells all workers rank 0's first value of a key. A kvstore.Store is one.
type agreeingStore interface {
	InitAverage(ctx context.Context, key string, value []float32) error
	Pull(ctx context.Context, key string, outs ...[]float32) error
}

// agree compares the number of local steps with rank 0's: rounds of different lengths would average
// what does not belong together.
func (l *localSteps) agree(ctx context.Context, store agreeingStore) error {
	value := make([]float32, pieces)
	splitNumber(value, uint64(l.length))
	if err := store.InitAverage(ctx, localStepsKey, value); err != nil {
		return fmt.Errorf("worker: init %s: %w", localStepsKey, err)
	}
	if err := store.Pull(ctx, localStepsKey, value); err != nil {
		return fmt.Errorf("worker: pull %s: %w", localStepsKey, err)
	}
	if got := joinNumber(value); got != uint64(l.length) {
		return fmt.Errorf("worker: local steps: %w: this worker takes %d in a round, rank 0 %d; give all workers the same kvstore.WithLocalSteps", kvstore.ErrConflict, l.length, got)
	}
	return nil
}

// last reports whether the step to come is the round's last one.
func (l *localSteps) last() bool { return l.done+1 >= l.length }

// update takes the inner step of parameter i, of whose gradient each device holds a part. A step of
// weight 0 changes nothing: there is nothing to learn from, and momentum alone would carry this
// worker's copy off.
func (l *localSteps) update(step uint64, i int, weight float64) error {
	if weight == 0 {
		return nil
	}
	programs := l.inner.programs
	gradient := programs[0].Params()[i].Gradient
	for _, program := range programs[1:] {
		f32.AddTo(gradient, program.Params()[i].Gradient)
	}
	return l.inner.apply(step, i, l.inner.optimizer.Config().ScaleFor(weight))
}

// difference puts n·(θ − θᵢ) of parameter i where its gradient was: the servers divide by the sum
// of the n.
func (l *localSteps) difference(i int, n float64) {
	p, anchor, weight := l.inner.programs[0].Params()[i], l.anchors[i], float32(n)
	for k := range anchor {
		p.Gradient[k] = weight * (anchor[k] - p.Value[k])
	}
}

// stepped counts a step.
func (l *localSteps) stepped(counted amount) {
	if l.last() {
		l.begin()
		return
	}
	l.done++
	l.amount = l.amount.plus(counted)
}

// begin begins a round.
func (l *localSteps) begin() { l.done, l.amount = 0, amount{} }

// A number in float32 values: 16 bits in each, which a float32 holds exactly.
const pieces = 4

func splitNumber(value []float32, n uint64) {
	for p := range pieces {
		value[p] = float32(n >> (16 * p) & 0xffff)
	}
}

func joinNumber(value []float32) (n uint64) {
	for p := range pieces {
		n |= uint64(value[p]) << (16 * p)
	}
	return n
}

// tensors lists what a checkpoint holds of a round under way, beside what it holds of every update
// on the worker.
func (l *localSteps) tensors() []workerTensor {
	splitNumber(l.numbers, uint64(l.done))
	splitNumber(l.numbers[pieces:], uint64(l.amount.examples))
	return []workerTensor{{checkpoint.OwnRound, []int{len(l.numbers)}, l.numbers}}
}

// loaded takes over what a checkpoint brought into tensors, and the weight from its metadata. The
// anchors are the servers' values.
func (l *localSteps) loaded(weight string) error {
	examples := int(joinNumber(l.numbers[pieces:]))
	l.done, l.amount = int(joinNumber(l.numbers)), amount{examples, float64(examples)}
	if weight == "" {
		return nil
	}
	n, err := strconv.ParseFloat(weight, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%s in the metadata: got %s, want a finite number of at least 0", metaRoundWeight, shown.Name(weight))
	}
	l.amount.weight = n
	return nil
}
