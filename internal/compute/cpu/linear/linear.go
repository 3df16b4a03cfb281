package linear

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// maxSum is the longest part of a sum, in values of a row as the tile reads them.
	maxSum = 512
	// cacheValues is about half of a core's second-level cache.
	cacheValues = 128 << 10
	// smallWork is the number of multiply-adds below which a second thread brings less than
	// handing out costs.
	smallWork = 100_000
	// chunkTiles is the most tiles of rows in a task of the forward pass.
	chunkTiles = 8
	// unitPanels is the most panels of one call of a tile unit: their sums are 32 KB, which the
	// first-level cache holds.
	unitPanels = 8
)

// A Plan computes one layer's passes for one batch size. It allocates nothing after New. A Plan may
// not be used by two goroutines at once.
type Plan struct {
	batch, in, out int
	tile           *f32.Tile
	pool           *pool.Pool
	threads        int

	// Lengths of sums over inputs, outputs and examples, in values as the tile reads them.
	depthIn, depthOut, depthBatch int
	partsIn, partsOut, partsBatch [][]f32.Segment

	// strideBatch is that of rows of a value for each example. It is depthBatch, but for rows that
	// would fall on each other in the cache.
	strideBatch int

	batchPanels, inPanels int // panels of examples and of inputs

	forward  forward
	backward backward
}

// New plans a layer of in inputs and out outputs for batches of so many examples, to be computed
// with tile's products on p's threads.
func New(batch, in, out int, tile *f32.Tile, p *pool.Pool) (*Plan, error) {
	if batch < 1 || in < 1 || out < 1 {
		return nil, fmt.Errorf("linear: batch %d of %d inputs and %d outputs, want at least 1 of each", batch, in, out)
	}
	if u := tile.Unit(); u != nil {
		tile = u
	}
	l := &Plan{batch: batch, in: in, out: out, tile: tile, pool: p, threads: p.Threads()}
	l.depthIn, l.depthOut, l.depthBatch = l.depth(in), l.depth(out), l.depth(batch)
	if l.strideBatch = l.depthBatch; l.strideBatch%512 == 0 && !l.byUnit() {
		l.strideBatch += 16
	}
	l.partsIn, l.partsOut, l.partsBatch = l.parts(l.depthIn), l.parts(l.depthOut), l.parts(l.depthBatch)
	l.batchPanels = (batch + tile.Cols - 1) / tile.Cols
	l.inPanels = (in + tile.Cols - 1) / tile.Cols
	l.planForward()
	l.planBackward()
	return l, nil
}

// depth is the number of values of a row of n numbers as the tile reads it.
func (l *Plan) depth(n int) int {
	switch {
	case l.byUnit():
		// The unit takes whole steps, with zeros at the end.
		return (n + f32.UnitDepth - 1) / f32.UnitDepth * (f32.UnitDepth / 2)
	case l.tile.Pairs():
		return (n + 1) / 2
	}
	return n
}

// byUnit is true if products are those of a tile unit.
func (l *Plan) byUnit() bool { return l.tile.Unit() == l.tile }

// rowsRead is the number of rows that tiles over n rows read: the unit reads whole registers.
func (l *Plan) rowsRead(n int) int {
	if l.byUnit() {
		return (n + f32.UnitBlock - 1) / f32.UnitBlock * f32.UnitBlock
	}
	return n
}

// unitSums is what threads need for the sums of blocks on their way to the result.
func (l *Plan) unitSums() int {
	if l.byUnit() {
		return l.threads * unitPanels * f32.UnitBlock * f32.UnitBlock
	}
	return 0
}

// packPairs is Tile.PackPairs of n numbers, with zeros after them up to a row's depth.
func (l *Plan) packPairs(dst, x []float32) {
	n := (len(x) + 1) / 2
	l.tile.PackPairs(dst[:n], x)
	clear(dst[n:])
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

// A product is some tiles: rows of in, row0 and those after it, inStride values each, by packed
// panels that follow each other, to rows of out from out0 on. The columns of the next panel begin
// outPanel values after those of one.
type product struct {
	in, w, out       []float32
	row0, inStride   int
	out0, outStride  int
	panels, outPanel int

	// rows and cols are the result's. cols is that of all panels.
	rows, cols int

	// ahead says that out is not in the cache: the next panel's part of it is fetched.
	ahead bool

	// add says that the result is added to.
	add bool

	thread int
	parts  [][]f32.Segment

	// sums are those of all threads, for a tile unit.
	sums []float32
}

// multiply computes the tiles: the sums of all parts.
func (l *Plan) multiply(p *product) {
	if l.byUnit() {
		l.multiplyByUnit(p)
		return
	}
	a := f32.GatherArgs{In: p.in}
	for panel := range p.panels {
		cols := min(l.tile.Cols, p.cols-panel*l.tile.Cols)
		a.W, a.Out, a.Add = p.w[panel*len(p.w)/p.panels:], p.out[panel*p.outPanel:], 0
		if p.add {
			a.Add = 1
		}
		for r := range p.rows {
			a.InRow[r], a.OutRow[r] = (p.row0+r)*p.inStride, p.out0+r*p.outStride
		}
		if p.ahead && panel+1 < p.panels {
			l.tile.Fetch(p.out[min((panel+1)*p.outPanel+p.out0, len(p.out)):], p.outStride, p.rows, cols)
		}
		for _, part := range p.parts {
			a.Segments = part
			l.tile.Gather(&a, p.rows, cols)
			a.Add = 1
		}
	}
}

// multiplyByUnit is multiply by blocks of the tile unit, whose sums are added up step by step, not
// in parts: a step's 32 products are a part.
func (l *Plan) multiplyByUnit(p *product) {
	const block = f32.UnitBlock * f32.UnitBlock
	segment := [1]f32.Segment{{Len: p.inStride / (f32.UnitDepth / 2)}}
	rows := [1][2]int{{2 * p.row0 * p.inStride, 2 * (p.row0 + f32.UnitRows) * p.inStride}}
	sums := p.sums[p.thread*unitPanels*block:][:unitPanels*block]
	a := f32.BlockArgs{A: f32.HalvesOf(p.in), Sums: sums,
		Rows: rows[:], Segments: segment[:], Stride: 2 * p.inStride, Step: f32.UnitDepth, Panel: 2 * len(p.w) / p.panels}
	for first := 0; first < p.panels; first += unitPanels {
		a.B, a.Panels = f32.HalvesOf(p.w)[first*a.Panel:], min(unitPanels, p.panels-first)
		l.tile.Blocks(&a)
		for i := range a.Panels {
			n := min(f32.UnitBlock, p.cols-(first+i)*f32.UnitBlock)
			if p.add {
				for r := range p.rows {
					f32.AddTo(p.out[(first+i)*p.outPanel+p.out0+r*p.outStride:][:n], sums[i*block+r*f32.UnitBlock:][:n])
				}
				continue
			}
			l.tile.CopyRows(p.out[(first+i)*p.outPanel+p.out0:], p.outStride, a.Sums[i*block:], f32.UnitBlock, p.rows, n, n)
		}
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
