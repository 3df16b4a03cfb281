package worker

import (
	"context"
	"errors"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/nn"
)

// averages are the moving averages of a trainer's parameters.
//
// Invariant: between two steps they are the same on all workers, bit for bit, but on one that has
// joined and to which nobody has handed them yet.
type averages struct {
	cfg EMA
	// values are in the order of the parameters.
	values [][]float32
	// handover gives them to workers that join; nil: nobody joins.
	handover *arrayHandover
}

func newAverages(cfg EMA, params []nn.Param) *averages {
	a := &averages{cfg: cfg}
	for _, p := range params {
		a.values = append(a.values, slices.Clone(p.Value))
	}
	return a
}

// begin makes the key by which workers learn who has the averages. A worker that joins has it
// before it is ready.
func (a *averages) begin(ctx context.Context, store handoverStore) error {
	who, err := newTally(ctx, store, "averages", 1)
	if err != nil {
		return err
	}
	a.handover = &arrayHandover{
		store: store, tally: who, what: "averages of weights", prefix: "paragon/ema",
		has:    func(row []float64) bool { return row[0] == 1 },
		needed: func(row []float64) bool { return row[0] == 0 },
	}
	return nil
}

// update takes the value of parameter i after a step, from 0. Different parameters may be updated
// together.
func (a *averages) update(step uint64, i int, value []float32) {
	d := a.cfg.Decay
	if a.cfg.WarmUp {
		d = min(d, (1+float64(step))/(10+float64(step)))
	}
	average, share := a.values[i], float32(1-d)
	for k, v := range value {
		// The conversion rounds the product, so that no machine fuses it with the sum, and
		// all get the same bits.
		average[k] += float32(share * (v - average[k]))
	}
}

// swap exchanges the averages and the values of the programs. A second call undoes it.
func (a *averages) swap(programs []*nn.Program) {
	first := programs[0].Params()
	for i, p := range first {
		for k, v := range p.Value {
			p.Value[k], a.values[i][k] = a.values[i][k], v
		}
	}
	for _, program := range programs[1:] {
		for i, p := range program.Params() {
			copy(p.Value, first[i].Value)
		}
	}
}

// put gives the programs the averages.
func (a *averages) put(programs []*nn.Program) {
	for _, program := range programs {
		for i, p := range program.Params() {
			copy(p.Value, a.values[i])
		}
	}
}

// hand gives workers that have joined the averages of the others. All call it after a change of the
// membership; joined: this one has none.
func (a *averages) hand(ctx context.Context, at seat, joined bool) error {
	lost := errors.New("worker: averages of weights: all workers that had them were lost; resume from a checkpoint")
	if at.workers < 2 {
		if joined {
			return lost
		}
		return nil
	}
	row, own := []float64{1}, a.values
	if joined {
		row[0], own = 0, nil
	}
	values, found, err := a.handover.run(ctx, at, row, own, a.values)
	switch {
	case err != nil:
		return err
	case !found:
		return lost
	case joined && values != nil:
		a.values = values
	}
	return nil
}

// tensors lists the averages as a worker's file has them.
func (a *averages) tensors(params []nn.Param) (list []workerTensor) {
	for i, p := range params {
		list = append(list, workerTensor{checkpoint.OwnAverage + p.Name, p.Shape, a.values[i]})
	}
	return list
}
