package worker

import (
	"context"
	"fmt"
	"math"
)

// tally lets all workers of a step see a row of numbers of each of them, to the last bit, in a
// round of a key of the runtime. The round closes once, over the workers that are alive, so all see
// the same rows; of one that was lost there is none.
//
// A row has a place for each rank of a round, so no two numbers are ever added: a number travels as
// four parts of 16 bits, each of which is exact in a float32, also when the server has divided it
// by the sum of weights and the reader has multiplied again.
type tally struct {
	store averager
	key   string
	// width is the number of numbers in a row, and perRound that of rows in a round.
	width, perRound int
	value           []float32
}

// An averager is a store with keys of which a round's value is the mean. A kvstore.Store is one.
type averager interface {
	InitAverage(ctx context.Context, key string, value []float32) error
	PushPull(ctx context.Context, key string, grads, outs [][]float32) error
}

// tallyFloats is about how many float32 a round has: more cost more than another round does.
const tallyFloats = 1 << 14

// newTally makes the tally of one purpose: its name is part of the key, so tallies of the same
// width have keys of their own.
func newTally(ctx context.Context, store averager, purpose string, width int) (*tally, error) {
	a := &tally{store: store, width: width, key: fmt.Sprintf("paragon/%s/%d", purpose, width)}
	a.perRound = min(max(tallyFloats/a.place(), 1), 64)
	a.value = make([]float32, a.perRound*a.place())
	if err := a.store.InitAverage(ctx, a.key, a.value); err != nil {
		return nil, fmt.Errorf("worker: init %s: %w", a.key, err)
	}
	return a, nil
}

// place is the room of a row: whether it is there, and its numbers.
func (a *tally) place() int { return 1 + 4*a.width }

// exchange gives this worker's row to all, and returns those of all ranks; nil: of one that was
// lost. All workers call it after the same step.
func (a *tally) exchange(ctx context.Context, at seat, own []float64) ([][]float64, error) {
	rows := make([][]float64, at.workers)
	for first := 0; first < at.workers; first += a.perRound {
		clear(a.value)
		if first <= at.rank && at.rank < first+a.perRound {
			a.put(at.rank-first, own)
		}
		value := [][]float32{a.value}
		if err := a.store.PushPull(ctx, a.key, value, value); err != nil {
			return nil, fmt.Errorf("worker: exchange rows of %s: %w", a.key, err)
		}
		for r := first; r < min(first+a.perRound, at.workers); r++ {
			rows[r] = a.get(r - first)
		}
	}
	if rows[at.rank] == nil {
		return nil, fmt.Errorf("worker: exchange rows of %s: the row of this worker, rank %d, did not count", a.key, at.rank)
	}
	return rows, nil
}

// put writes a row into its place in the round.
func (a *tally) put(place int, row []float64) {
	at := a.value[place*a.place():]
	at[0] = 1
	for i, v := range row {
		bits := math.Float64bits(v)
		for k := range 4 {
			at[1+4*i+k] = float32(bits >> (16 * k) & 0xffff)
		}
	}
}

// get reads the row in a place of the round; nil: nobody put one there. The first number of a place
// has become 1 over the sum of weights.
func (a *tally) get(place int) []float64 {
	at := a.value[place*a.place():]
	if !(at[0] > 0) {
		return nil
	}
	row := make([]float64, a.width)
	for i := range row {
		var bits uint64
		for k := range 4 {
			bits |= uint64(math.Round(float64(at[1+4*i+k])/float64(at[0]))) << (16 * k)
		}
		row[i] = math.Float64frombits(bits)
	}
	return row
}
