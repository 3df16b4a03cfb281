package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/kvstore"
)

// An accumulator has the sums of the gradients of a step's runs before its last one. Step adds
// those of the last run and pushes the sums.
type accumulator struct {
	runs      int
	amount    amount            // of those that count
	gradients [][][]float32     // sums by unit and parameter, made when first needed; what they hold counts only if added
	added     []bool            // by unit: gradients has some of this step
	measure   bool              // take the norms of runs and units
	norming   bool              // in this run
	norms     [][]kvstore.Micro // by unit and parameter, of the step so far
}

// Accumulate runs forward and backward on a micro-batch, as Step does, and adds the gradients on
// this worker. Step follows with the last micro-batch of the step and pushes the sums. So a batch
// that the devices' memory does not hold is taken in several runs, and the update is that of one
// run over all their examples (but batch norm normalises over each micro-batch). counts is as for
// Step; the weight of the worker in the mean is the sum over the runs.
//
// It costs the memory of one more gradient on each device's host. After an error the Trainer can
// only be closed.
func (t *Trainer) Accumulate(ctx context.Context, counts []int) error {
	return t.run(ctx, counts, false)
}

// DropAccumulated forgets the runs since the last Step.
func (t *Trainer) DropAccumulated() { t.sums.drop() }

func (a *accumulator) drop() {
	a.runs, a.amount = 0, amount{}
	clear(a.added)
	for _, list := range a.norms {
		clear(list)
	}
}

// prepare makes room for what the next run needs.
func (a *accumulator) prepare(t *Trainer, last bool) {
	if a.added == nil {
		a.added = make([]bool, len(t.units))
	}
	a.norming = a.measure && (!last || a.runs > 0 || len(t.units) > 1) // the servers take the norm of what is one gradient
	if a.norming && a.norms == nil {
		for range t.units {
			a.norms = append(a.norms, make([]kvstore.Micro, len(t.keys)))
		}
	}
	if last && a.runs == 0 {
		return
	}
	if a.gradients == nil {
		a.gradients = make([][][]float32, len(t.units))
		for u := range t.units {
			for _, p := range t.units[u].program.Params() {
				a.gradients[u] = append(a.gradients[u], make([]float32, len(p.Gradient)))
			}
		}
	}
}

// take deals with the final gradient of parameter i on unit u, of such a weight: it adds it to the
// sums or, in the last run of a step, the sums to it.
func (t *Trainer) take(u, i int, weight float64, last bool) {
	a := &t.sums
	gradient := t.units[u].program.Params()[i].Gradient
	measure := a.norming && weight > 0
	var s f32.AddSquares
	squares := &s.Added // this run's gradient's
	switch {
	case last && a.added[u]:
		squares = &s.Before
		addTo(gradient, a.gradients[u][i], measure, &s)
	case !last && a.added[u] && weight > 0:
		addTo(a.gradients[u][i], gradient, measure, &s)
	default:
		if measure {
			squares.Add(gradient, f32.Precondition{})
		}
		if !last && weight > 0 {
			copy(a.gradients[u][i], gradient)
		}
	}
	if measure {
		a.norms[u][i].Count++
		a.norms[u][i].Sqr += squares.Total() / weight
	}
}

// addTo adds x to dst, and takes the squares of both as they were if it is to measure.
func addTo(dst, x []float32, measure bool, s *f32.AddSquares) {
	if measure {
		f32.AddToMeasured(dst, x, f32.Precondition{}, s, true, false)
	} else {
		f32.AddTo(dst, x)
	}
}

// micro is what the runs and units of the step say of parameter i together.
func (a *accumulator) micro(i int) (m kvstore.Micro) {
	for u := range a.norms {
		m.Count += a.norms[u][i].Count
		m.Sqr += a.norms[u][i].Sqr
	}
	return m
}

// microOf is that of a key of the newest step.
func (t *Trainer) microOf(key string) kvstore.Micro {
	if i, ok := t.index[key]; ok {
		return t.micro[i]
	}
	return kvstore.Micro{}
}

// unitTally is what of a run has a part in the gradients of a unit: nothing of a device whose
// gradients were not finite.
func (t *Trainer) unitTally(u int) (sum amount) {
	until := len(t.programs)
	if u+1 < len(t.units) {
		until = t.units[u+1].first
	}
	for d := t.units[u].first; d < until; d++ {
		if t.programs[d].Finite() {
			sum = sum.plus(amount{t.counts[d], t.weights[d]})
		}
	}
	return sum
}

// checkCounts is an error if a run cannot have so many examples on each device.
func (t *Trainer) checkCounts(counts []int) error {
	if len(counts) != len(t.programs) {
		return fmt.Errorf("worker: step %d: got counts for %d devices, want %d", t.steps, len(counts), len(t.programs))
	}
	for d, n := range counts {
		if err := t.programs[d].CheckExamples(n); err != nil {
			return fmt.Errorf("worker: step %d: device %d: %w", t.steps, d, err)
		}
	}
	return nil
}
