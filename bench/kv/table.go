package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A table is what a work of rows trains: an embedding of rows × rowLen numbers, batchExamples
// examples of rowsEach rows a step.
type table struct {
	rows int
	// zipf is the exponent by which rows are drawn; 0: all alike.
	zipf float64
	// open says that the vocabulary is open: its IDs are any 64 bits.
	open      bool
	optimizer string
}

const (
	rowLen        = 16
	batchExamples = 1024
	rowsEach      = 26
	batchRows     = batchExamples * rowsEach
)

// draw returns the rows of some batches, as a model looks them up: neither sorted nor unique. What
// is drawn most is anywhere in the table.
func (t *table) draw(seed uint64, batches int) [][]int64 {
	random := rand.New(rand.NewPCG(1, seed))
	next := func() int64 { return random.Int64N(int64(t.rows)) }
	if t.zipf > 0 {
		order := rand.New(rand.NewPCG(2, 2)).Perm(t.rows)
		zipf := rand.NewZipf(random, t.zipf, 1, uint64(t.rows-1))
		next = func() int64 { return int64(order[zipf.Uint64()]) }
	}
	if t.open {
		number := next
		// The factor is 2⁶⁴ over the golden ratio, so that IDs lie all over.
		next = func() int64 { return (number() + 1) * -0x61c8864680b583eb }
	}
	all := make([][]int64, batches)
	for i := range all {
		all[i] = make([]int64, batchRows)
		for j := range all[i] {
			all[i][j] = next()
		}
	}
	return all
}

// playTable makes the player one that pulls the rows of a batch and pushes their gradients, one
// batch after the other.
func (p *player) playTable(ctx context.Context) error {
	key := p.name
	if err := p.kv.SetOptimizer(ctx, optim.Config{Name: p.table.optimizer, LearningRate: 0.01}); err != nil {
		return err
	}
	table := kvstore.Table{Rows: int64(p.table.rows), RowLen: rowLen}
	if p.table.open {
		table.Rows = 0
	}
	if err := p.kv.InitTable(ctx, key, table); err != nil {
		return err
	}
	batches := p.table.draw(uint64(p.kv.Rank()), 4*p.passes)
	grad, out := make([]float32, batchRows*rowLen), make([]float32, batchRows*rowLen)
	for i := range grad {
		grad[i] = float32(i%7) - 3
	}
	start := make(chan struct{}, 1)
	p.start = append(p.start, start)
	p.ended.Go(func() {
		step := 0
		for range start {
			for range p.passes {
				rows := batches[step%len(batches)]
				step++
				p.note(p.kv.PullRows(ctx, key, rows, out))
				p.first = time.Since(p.begun)
				p.note(p.kv.PushRows(ctx, key, rows, grad))
			}
			p.done.Done()
		}
	})
	return nil
}
