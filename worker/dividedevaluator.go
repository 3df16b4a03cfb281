package worker

import (
	"context"
	"fmt"
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

// evaluateDivided lets each worker evaluate its part. What a worker had that was lost meanwhile is
// divided among the others, until all is done.
func evaluateDivided(ctx context.Context, e DividedEvaluator, by *tally, at seat) (Scores, error) {
	total := make([]float64, e.Sums())
	members := upTo(at.workers)
	for todo := upTo(e.Pieces()); ; {
		var own []int
		for i, piece := range todo {
			if members[i%len(members)] == at.rank {
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
		rows, err := by.exchange(ctx, at, sums)
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
