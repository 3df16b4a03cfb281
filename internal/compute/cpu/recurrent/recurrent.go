package recurrent

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// mostRows and fewestRows bound the examples of a task.
	mostRows, fewestRows = 48, 4

	// maxSum is the longest part of a sum: a panel of so many rows fits in the first-level cache.
	maxSum = 256
)

// A Shape is a layer and direction, and its sizes.
type Shape struct {
	op.RecurrentForm
	op.RecurrentSizes
}

// A States is an array of states: that of example b and step t, H numbers, begins at b·Example + t·H.
type States struct {
	Data    []float32
	Example int
}

// Inputs are the arguments of a layer. Bias, H0, C0 and Lengths are nil where there are none.
type Inputs struct {
	Z, W, Bias, H0, C0 []float32
	Lengths            []int
}

// Results are those of a layer. Each may be nil, or have no data, but for Y with Last. Gates may be the
// memory of Z.
type Results struct {
	Y                   States
	Last                [2]States
	Gates, Kept, Before []float32
}

// Grads are what Backward reads and writes: the gradients of results, which may have no data, and
// those of arguments. DZ may be the memory of the gates. DA is what a GRU's W and bias have gradients
// by, like DZ; an LSTM has none, as it is DZ.
type Grads struct {
	Y                   States
	Last                [2]States
	Gates, Kept, Before []float32

	DZ, DA, DH0, DC0 []float32
}

// A Plan computes one layer and direction. A Plan may not be used by two goroutines at once.
type Plan struct {
	Shape
	tile *f32.Tile
	pool *pool.Pool

	// width is G·H, rows the examples of a task and tasks their number.
	width, rows, tasks int

	// over and back are the products of the two passes.
	over, back product

	in      Inputs
	out     Results
	grads   Grads
	workers []worker

	packOver, packBack func(i int)
	forward, backward  func(thread, i int)
}

// A product is that of some rows of depth numbers with packed panels of cols columns.
type product struct {
	depth, cols, panels int
	parts               [][]f32.Segment
	packed              []float32
}

// A worker is a thread's memory.
type worker struct {
	// a, rows of G·H numbers, are sums of the gates or their gradients; h, c and more are rows of H.
	a, h, c, more []float32

	// active are the rows of the task that have the step.
	active []int

	gather f32.GatherArgs
}

// New plans a layer to be computed with tile's products on p's threads.
func New(s Shape, tile *f32.Tile, p *pool.Pool) (*Plan, error) {
	if s.B < 1 || s.T < 1 || s.H < 1 {
		return nil, fmt.Errorf("recurrent: %d examples of %d steps and a state of %d numbers, want at least 1 of each", s.B, s.T, s.H)
	}
	l := &Plan{Shape: s, tile: tile, pool: p, width: s.Gates() * s.H}
	l.rows = min(max((s.B+p.Threads()-1)/p.Threads(), fewestRows), mostRows, s.B)
	l.tasks = (s.B + l.rows - 1) / l.rows
	l.over, l.back = l.product(s.H, l.width), l.product(l.width, s.H)
	l.workers = make([]worker, p.Threads())
	for i := range l.workers {
		l.workers[i].active = make([]int, 0, l.rows)
	}
	l.packOver, l.packBack, l.forward, l.backward = l.packOverTask, l.packBackTask, l.forwardTask, l.backwardTask
	return l, nil
}

func (l *Plan) product(depth, cols int) product {
	p := product{depth: depth, cols: cols, panels: (cols + l.tile.Cols - 1) / l.tile.Cols}
	n := (depth + maxSum - 1) / maxSum
	for i := range n {
		lo, hi := depth*i/n, depth*(i+1)/n
		p.parts = append(p.parts, []f32.Segment{{In: lo, Len: hi - lo, W: lo * l.tile.Cols}})
	}
	return p
}

func (l *Plan) packedLen(p *product) int { return p.panels * p.depth * l.tile.Cols }

// ForwardScratchLen and BackwardScratchLen are the numbers of values of scratch memory of a pass.
func (l *Plan) ForwardScratchLen() int { return l.packedLen(&l.over) + l.workersLen() }

// BackwardScratchLen is the number of values of scratch memory for Backward.
func (l *Plan) BackwardScratchLen() int { return l.packedLen(&l.back) + l.workersLen() }

func (l *Plan) workersLen() int { return len(l.workers) * l.rows * (l.width + 3*l.H) }

// room gives a pass its memory.
func (l *Plan) room(p *product, scratch []float32) {
	take := func(n int) []float32 {
		s := scratch[:n:n]
		scratch = scratch[n:]
		return s
	}
	p.packed = take(l.packedLen(p))
	for i := range l.workers {
		w := &l.workers[i]
		w.a, w.h, w.c, w.more = take(l.rows*l.width), take(l.rows*l.H), take(l.rows*l.H), take(l.rows*l.H)
	}
}

// release forgets the memory of a pass.
func (l *Plan) release(p *product) {
	p.packed = nil
	for i := range l.workers {
		w := &l.workers[i]
		w.a, w.h, w.c, w.more, w.gather = nil, nil, nil, nil, f32.GatherArgs{}
	}
	l.in, l.out, l.grads = Inputs{}, Results{}, Grads{}
}

// packOverTask packs panel i of Wᵀ.
func (l *Plan) packOverTask(i int) {
	cols := l.tile.Cols
	dst := l.over.packed[i*l.H*cols:][:l.H*cols]
	n := min(cols, l.width-i*cols)
	if n < cols {
		clear(dst)
	}
	a := f32.TransposeArgs{}
	for lo := 0; lo < n; lo += 16 {
		rows := min(16, n-lo)
		for k := 0; k < l.H; k += 16 {
			a.Dst, a.Src = dst[k*cols+lo:], l.in.W[(i*cols+lo)*l.H+k:]
			width := min(16, l.H-k)
			for r := range rows {
				a.SrcRow[r] = r * l.H
			}
			for q := range width {
				a.DstRow[q] = q * cols
			}
			l.tile.Transpose(&a, rows, width)
		}
	}
}

// packBackTask packs panel i of W.
func (l *Plan) packBackTask(i int) {
	cols := l.tile.Cols
	n := min(cols, l.H-i*cols)
	l.tile.CopyRows(l.back.packed[i*l.width*cols:][:l.width*cols], cols, l.in.W[i*cols:], l.H, l.width, n, cols)
}

// multiply sets rows of out, p.cols numbers each, to those of in, p.depth numbers each, by the panels;
// with add it adds. The rows are those of the task that are active.
func (l *Plan) multiply(w *worker, p *product, out, in []float32, add bool) {
	a := &w.gather
	a.In = in
	groups := (len(w.active) + l.tile.Rows - 1) / l.tile.Rows
	for i := range p.panels {
		at := i * l.tile.Cols
		cols := min(l.tile.Cols, p.cols-at)
		a.Out, a.W = out[at:], p.packed[i*p.depth*l.tile.Cols:]
		for k, part := range p.parts {
			a.Segments, a.Add = part, 0
			if add || k > 0 {
				a.Add = 1
			}
			for g := range groups {
				rows := w.active[g*len(w.active)/groups : (g+1)*len(w.active)/groups]
				for j, r := range rows {
					a.InRow[j], a.OutRow[j] = r*p.depth, r*p.cols
				}
				l.tile.Gather(a, len(rows), cols)
			}
		}
	}
}

// task is the examples of task i.
func (l *Plan) task(i int) (first, n int) {
	first = i * l.rows
	return first, min(l.rows, l.B-first)
}

// steps is how many steps example b has.
func (l *Plan) steps(b int) int {
	if l.in.Lengths == nil {
		return l.T
	}
	return l.in.Lengths[b]
}

// most is the most steps of n examples.
func (l *Plan) most(first, n int) int {
	most := 0
	for b := first; b < first+n; b++ {
		most = max(most, l.steps(b))
	}
	return most
}

// activate lists the rows of a task whose examples have step k.
func (l *Plan) activate(w *worker, first, n, k int) {
	w.active = w.active[:0]
	for r := range n {
		if k < l.steps(first+r) {
			w.active = append(w.active, r)
		}
	}
}

// place is where step k of example b lies.
func (l *Plan) place(b, k int) int {
	if l.Reverse {
		return l.steps(b) - 1 - k
	}
	return k
}

// row is row i of rows of n numbers; nil where there are none.
func row(x []float32, i, n int) []float32 {
	if x == nil {
		return nil
	}
	return x[i*n : (i+1)*n : (i+1)*n]
}

// at is the state of example b and step t; nil where there is none.
func (s *States) at(b, t, h int) []float32 {
	if s.Data == nil {
		return nil
	}
	return s.Data[b*s.Example+t*h:][:h:h]
}

// set copies src, or sets zeros where it is nil, to dst, unless that is nil.
func set(dst, src []float32) {
	if src == nil {
		clear(dst)
		return
	}
	if dst != nil {
		copy(dst, src)
	}
}
