package worker

import (
	"context"
	"fmt"
	"math"
)

// A DividedEvaluator is an Evaluator whose work Fit divides among the workers: the examples are in
// pieces, such as batches, each of which one worker evaluates. What they contribute are sums, which
// are added in the order of ranks in float64: counts are exact, and the same for any number of
// workers. With dist_async, whose workers have no step in common, each evaluates all pieces.
type DividedEvaluator interface {
	Evaluator
	// Pieces is how many there are: the same on all workers.
	Pieces() int
	// Sums is the number of sums: the same on all workers.
	Sums() int
	// EvaluatePieces measures the model on some of the pieces, in rising order; there may be
	// none.
	EvaluatePieces(ctx context.Context, pieces []int) (sums []float64, err error)
	// Scores makes scores of the sums over all pieces.
	Scores(sums []float64) Scores
}

// evaluateAll evaluates all pieces on this worker.
func evaluateAll(ctx context.Context, e DividedEvaluator) (Scores, error) {
	sums, err := e.EvaluatePieces(ctx, upTo(e.Pieces()))
	if err != nil {
		return Scores{}, err
	}
	return e.Scores(sums), nil
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// tally lets all workers of a step see a row of numbers of each of them, to the last bit, in a
// round of a key of the runtime. The round closes once, over the workers that are alive, so all see
// the same rows; of one that was lost there is none.
//
// A row has a place for each rank of a round, so no two numbers are ever added: a number travels as
// four parts of 16 bits, each of which is exact in a float32, also when the server has divided it
// by the sum of weights and the reader has multiplied again.
type tally struct {
	store interface {
		InitAverage(ctx context.Context, key string, value []float32) error
		PushPull(ctx context.Context, key string, grads, outs [][]float32) error
	}
	key      string
	width    int // numbers in a row
	perRound int // rows in a round
	value    []float32
}

// tallyFloats is about how many float32 a round has: more cost more than another round does.
const tallyFloats = 1 << 14

// newTally makes the tally of one purpose: its name is part of the key, so tallies of the same
// width have keys of their own.
func newTally(ctx context.Context, t *Trainer, purpose string, width int) (*tally, error) {
	a := &tally{store: t.cfg.Store, width: width, key: fmt.Sprintf("paragon/%s/%d", purpose, width)}
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
func (a *tally) exchange(ctx context.Context, rank, workers int, own []float64) ([][]float64, error) {
	rows := make([][]float64, workers)
	for first := 0; first < workers; first += a.perRound {
		clear(a.value)
		if first <= rank && rank < first+a.perRound {
			at := a.value[(rank-first)*a.place():]
			at[0] = 1
			for i, v := range own {
				bits := math.Float64bits(v)
				for k := range 4 {
					at[1+4*i+k] = float32(bits >> (16 * k) & 0xffff)
				}
			}
		}
		value := [][]float32{a.value}
		if err := a.store.PushPull(ctx, a.key, value, value); err != nil {
			return nil, fmt.Errorf("worker: exchange rows of %s: %w", a.key, err)
		}
		for r := first; r < min(first+a.perRound, workers); r++ {
			at := a.value[(r-first)*a.place():]
			if !(at[0] > 0) {
				continue
			}
			rows[r] = make([]float64, a.width)
			for i := range rows[r] {
				var bits uint64
				for k := range 4 { // at[0] is 1 over the sum of weights
					bits |= uint64(math.Round(float64(at[1+4*i+k])/float64(at[0]))) << (16 * k)
				}
				rows[r][i] = math.Float64frombits(bits)
			}
		}
	}
	if rows[rank] == nil {
		return nil, fmt.Errorf("worker: exchange rows of %s: the row of this worker, rank %d, did not count", a.key, rank)
	}
	return rows, nil
}

// evaluateDivided lets each worker evaluate its part. What a worker had that was lost meanwhile is
// divided among the others, until all is done.
func (r *run) evaluateDivided(ctx context.Context, e DividedEvaluator) (Scores, error) {
	total := make([]float64, e.Sums())
	members := upTo(r.workers)
	for todo := upTo(e.Pieces()); ; {
		var own []int
		for i, piece := range todo {
			if members[i%len(members)] == r.rank {
				own = append(own, piece)
			}
		}
		sums, err := e.EvaluatePieces(ctx, own)
		if err != nil {
			return Scores{}, err
		}
		if len(sums) != len(total) {
			return Scores{}, fmt.Errorf("worker: evaluate: %T gave %d sums, want the %d of its Sums", e, len(sums), len(total))
		}
		rows, err := r.tally.exchange(ctx, r.rank, r.workers, sums)
		if err != nil {
			return Scores{}, err
		}
		var left, there []int
		for i, piece := range todo {
			if rows[members[i%len(members)]] == nil {
				left = append(left, piece)
			}
		}
		for rank, row := range rows {
			if row == nil {
				continue
			}
			there = append(there, rank)
			for i, v := range row {
				total[i] += v
			}
		}
		if todo, members = left, there; len(todo) == 0 {
			return e.Scores(total), nil
		}
	}
}
