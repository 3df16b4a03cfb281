package linear

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/pool"
)

const (
	// maxSum is the longest part of a sum, in values of a row as the tile reads them.
	maxSum = 512
	// cacheValues is about half of a core's second-level cache.
	cacheValues = 128 << 10
	// smallWork is the number of multiply-adds below which a second thread brings less than handing out costs.
	smallWork = 100_000
	// chunkTiles is the most tiles of rows in a task of the forward pass.
	chunkTiles = 8
)

// A Plan computes one layer's passes for one batch size. It allocates nothing after New. A Plan may not be used by two goroutines at once.
type Plan struct {
	batch, in, out int
	tile           *f32.Tile
	pool           *pool.Pool
	threads        int

	// Lengths of sums over inputs, outputs and examples, in values as the tile reads them.
	depthIn, depthOut, depthBatch int
	partsIn, partsOut, partsBatch [][]f32.Segment

	batchPanels, inPanels int // panels of examples and of inputs

	forward  forward
	backward backward
}

// New plans a layer of in inputs and out outputs for batches of so many examples, to be computed with tile's products on p's threads.
func New(batch, in, out int, tile *f32.Tile, p *pool.Pool) (*Plan, error) {
	if batch < 1 || in < 1 || out < 1 {
		return nil, fmt.Errorf("linear: batch %d of %d inputs and %d outputs, want at least 1 of each", batch, in, out)
	}
	l := &Plan{batch: batch, in: in, out: out, tile: tile, pool: p, threads: p.Threads()}
	l.depthIn, l.depthOut, l.depthBatch = l.depth(in), l.depth(out), l.depth(batch)
	l.partsIn, l.partsOut, l.partsBatch = l.parts(l.depthIn), l.parts(l.depthOut), l.parts(l.depthBatch)
	l.batchPanels = (batch + tile.Cols - 1) / tile.Cols
	l.inPanels = (in + tile.Cols - 1) / tile.Cols
	l.planForward()
	l.planBackward()
	return l, nil
}

// depth is the number of values of a row of n numbers as the tile reads it.
func (l *Plan) depth(n int) int {
	if l.tile.Pairs() {
		return (n + 1) / 2
	}
	return n
}

// parts cuts a sum over depth values into parts.
func (l *Plan) parts(depth int) [][]f32.Segment {
	n := (depth + maxSum - 1) / maxSum
	parts := make([][]f32.Segment, n)
	for i := range parts {
		lo, hi := depth*i/n, depth*(i+1)/n
		parts[i] = []f32.Segment{{In: lo, Len: hi - lo, W: lo * l.tile.Cols}}
	}
	return parts
}

// gather computes one tile: the sums of all parts.
func (l *Plan) gather(a *f32.GatherArgs, parts [][]f32.Segment, rows, cols int) {
	a.Add = 0
	for _, part := range parts {
		a.Segments = part
		l.tile.Gather(a, rows, cols)
		a.Add = 1
	}
}

// tasks is in how many tasks work of so many multiply-adds and pieces is handed out.
func (l *Plan) tasks(work, pieces int) int {
	if l.threads == 1 || work < smallWork {
		return 1
	}
	return min(pieces, 4*l.threads)
}

func (l *Plan) check(op string, lens ...[2]int) {
	for _, n := range lens {
		if n[0] != n[1] {
			panic(fmt.Sprintf("linear: %s of %d examples, %d inputs and %d outputs: an array of %d values, want %d", op, l.batch, l.in, l.out, n[0], n[1]))
		}
	}
}

// room takes n values off scratch.
func room(scratch *[]float32, n int) []float32 {
	s := (*scratch)[:n:n]
	*scratch = (*scratch)[n:]
	return s
}
