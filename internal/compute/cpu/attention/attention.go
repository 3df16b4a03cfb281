package attention

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// forwardKeys is a block of keys of the forward pass: its scores are 24 KB for panels of 32,
	// half of a first-level cache.
	forwardKeys = 192
	// backwardKeys and backwardPanels are a block of keys and the panels that are multiplied with it
	// at a time: p and dS are 24 KB each.
	backwardKeys   = 96
	backwardPanels = 2

	// leastTasks is how many tasks the backward pass has at least, where there are keys enough, and
	// mostParts into how many parts dQ is cut for it.
	leastTasks = 16
	mostParts  = 8
)

// A Shape is what a Plan is for.
type Shape struct {
	op.AttentionSizes
	op.AttentionForm

	// BiasB and BiasH are the first sizes of the bias, 1 or B and 1 or H.
	BiasB, BiasH int

	// Threshold is that of dropout (see op.DropoutKeep), and Keep what is kept is multiplied by;
	// a threshold of 0 is no dropout.
	Threshold uint64
	Keep      float32
}

// Heads are the heads of q, k, v, o or a gradient in an array: the D numbers of head h of position t
// of example b begin at Data[b·Example + t·Position + h·D]. Data is nil for a gradient that is not
// wanted.
type Heads struct {
	Data              []float32
	Example, Position int
}

// Inputs are the arguments of a pass.
type Inputs struct {
	Q, K, V Heads

	// Lengths (B) and Documents (B,S) are nil if there are none.
	Lengths, Documents []int

	// Bias is nil if there is none.
	Bias []float32

	// Key is the start of dropout's mask.
	Key uint64

	// First, if it is not nil, is the position of each example's first query; else queries are the
	// last T of S positions.
	First []int
}

// A Plan computes the passes for one shape. It may not be used by two goroutines at once.
type Plan struct {
	Shape
	tile    *f32.Tile
	single  *f32.Tile
	pool    *pool.Pool
	threads int

	// cols is the width of a panel, and panels how many there are.
	cols, panels int

	// depthD is the number of values of a row of D numbers as the tile reads it, and panelsD of
	// panels of D.
	depthD, panelsD int

	// stride is that of rows of numbers for each key, transposed. It is an odd number of cache
	// lines, so that rows do not fall on each other in the cache.
	stride int

	// scale is that of scores, in units of log 2. hidden is a score that scale makes −∞.
	scale, hidden float32

	// affine says that a bias or ALiBi is added to scores, which are scaled before.
	affine bool
	slopes []float64

	group   int // heads of queries for each head of keys
	workers []worker
	in      Inputs

	forward  forward
	backward backward
	bias     biasGrad
}

// A worker is the memory of a thread.
type worker struct {
	// packed is the head of keys, of all examples, whose keys and values are packed; −1: none.
	packed int

	keys, values []float32 // rows

	// turned is V transposed, or K in the backward pass.
	turned []float32
	pairs  []float32 // rows on their way, of a tile of pairs

	panel []float32 // a panel of Q transposed
	s     []float32 // scores, and then P
	sum   []float32 // Oᵀ of a panel

	// more is what is added to scores, or the mask of dropout.
	more []float32

	// s16 is s as pairs, of a tile of pairs.
	s16 []float32

	most, total, shift, last, unused []float32

	queries queries
	block   block

	gather f32.GatherArgs
	// segment is the sum of a product over what lies side by side, and segments those over the
	// panels of a block.
	segment  [1]f32.Segment
	segments [backwardPanels]f32.Segment
	turn     f32.TransposeArgs
}

// New plans attention of a shape, to be computed with tile's products on p's threads.
func New(s Shape, tile *f32.Tile, p *pool.Pool) (*Plan, error) {
	if s.B < 1 || s.T < 1 || s.S < 1 || s.H < 1 || s.Hk < 1 || s.D < 1 || s.H%s.Hk != 0 {
		return nil, fmt.Errorf("attention: %+v, want sizes of at least 1 and heads that are a multiple of those of keys", s.AttentionSizes)
	}
	l := &Plan{Shape: s, tile: tile, single: tile.Single(), pool: p, threads: p.Threads(), cols: tile.Cols, group: s.H / s.Hk}
	l.panels = (s.T + l.cols - 1) / l.cols
	l.panelsD = (s.D + l.cols - 1) / l.cols
	l.depthD = l.depth(s.D)
	l.stride = (l.depth(s.S)+15)/16*16 | 16
	l.scale, l.hidden = float32(s.Scale*math.Log2E), float32(math.Inf(-1))
	if s.ALiBi {
		l.slopes = op.ALiBiSlopes(s.H)
	}
	if l.affine = s.ALiBi || s.Bias; !l.affine && s.Scale < 0 {
		l.hidden = -l.hidden
	}
	l.workers = make([]worker, l.threads)
	l.planForward()
	l.planBackward()
	l.planBiasGrad()
	return l, nil
}

// depth is the number of values of a row of n numbers as the tile reads it.
func (l *Plan) depth(n int) int {
	if l.tile.Pairs() {
		return (n + 1) / 2
	}
	return n
}

// at is where head h of position t of example b begins.
func (l *Plan) at(x *Heads, b, t, h int) int { return b*x.Example + t*x.Position + h*l.D }

// An arena deals out scratch memory, or without memory counts it.
type arena struct {
	memory []float32
	used   int
}

// take gives n values, and leaves the rest of the last cache line.
func (a *arena) take(n int) []float32 {
	at := a.used
	a.used += (n + 15) / 16 * 16
	if a.memory == nil {
		return nil
	}
	return a.memory[at : at+n : at+n]
}

// multiply computes rows rows of a product, a tile at a time: those of left, stride values each,
// from offset at of a row on, by depth packed rows of right, to rows of out.
func (l *Plan) multiply(w *worker, out, left []float32, stride, rows, at, depth int, right []float32, add bool) {
	w.segment[0] = f32.Segment{Len: depth}
	w.gather.W, w.gather.Segments = right, w.segment[:]
	l.tiles(w, out, left[at:], stride, rows, add)
}

// tiles computes a product whose right operand and segments are set.
func (l *Plan) tiles(w *worker, out, left []float32, stride, rows int, add bool) {
	a := &w.gather
	if a.Add = 0; add {
		a.Add = 1
	}
	for r := range min(rows, l.tile.Rows) {
		a.InRow[r], a.OutRow[r] = r*stride, r*l.cols
	}
	for r0 := 0; r0 < rows; r0 += l.tile.Rows {
		a.In, a.Out = left[r0*stride:], out[r0*l.cols:]
		l.tile.Gather(a, min(l.tile.Rows, rows-r0), l.cols)
	}
}

// offset is the position of the first query of example b.
func (l *Plan) offset(b int) int {
	if l.in.First != nil {
		return l.in.First[b]
	}
	return l.S - l.T
}

// visible is the range of keys that queries i0 to i0+n−1 of example b see, as far as masks that
// are ranges say.
func (l *Plan) visible(b, i0, n int) (lo, hi int) {
	hi = l.S
	if l.Causal {
		hi = min(hi, l.offset(b)+i0+n)
	}
	if l.in.Lengths != nil {
		hi = min(hi, l.in.Lengths[b])
	}
	if l.in.Documents == nil {
		return 0, hi
	}
	documents := l.in.Documents[b*l.S : (b+1)*l.S]
	of := documents[l.offset(b)+i0:][:n]
	among := func(d int) bool {
		for _, x := range of {
			if x == d {
				return true
			}
		}
		return false
	}
	for lo < hi && !among(documents[lo]) {
		lo++
	}
	for lo < hi && !among(documents[hi-1]) {
		hi--
	}
	return lo, hi
}

// A tileOf names scores: of keys k0 to k0+n−1 and the panel of queries from i0 on, queries of them,
// of head h of example b.
type tileOf struct {
	b, h, i0, queries, k0, n int
}

// scores sets s to the scores of a tile and returns the scale by which they are still to be
// multiplied. keys are the packed rows of k0 and those after it, and panel is Q transposed.
func (l *Plan) scores(w *worker, s, keys, panel []float32, t *tileOf) (scale float32) {
	l.multiply(w, s, keys, l.depthD, t.n, 0, l.depthD, panel, false)
	s, scale = s[:t.n*l.cols], l.scale
	if l.affine {
		l.added(w, t)
		f32.Axpby(s, math.Log2E, w.more[:len(s)], l.scale)
		scale = 1
	}
	l.hide(s, t)
	return scale
}

// added sets more to what is added to scores.
func (l *Plan) added(w *worker, t *tileOf) {
	more := w.more[:t.n*l.cols]
	clear(more)
	if l.in.Bias != nil {
		at := l.biasRow(t.b%l.BiasB, t.h%l.BiasH, t.i0) + t.k0
		l.transpose(w, more, l.cols, l.in.Bias[at:], l.S, t.queries, t.n)
	}
	if l.slopes == nil {
		return
	}
	slope, from := l.slopes[t.h], t.k0-t.i0-l.offset(t.b)
	for r := range t.n {
		row := more[r*l.cols : (r+1)*l.cols]
		for c := range row {
			row[c] += float32(slope * float64(from+r-c))
		}
	}
}

func (l *Plan) biasRow(b, h, i int) int { return ((b*l.BiasH+h)*l.T + i) * l.S }

// hide sets the scores of keys that a query does not see.
func (l *Plan) hide(s []float32, t *tileOf) {
	at := t.i0 + l.offset(t.b)
	if l.Causal {
		for r := max(0, at+1-t.k0); r < t.n; r++ {
			row := s[r*l.cols:][:min(l.cols, t.k0+r-at)]
			for c := range row {
				row[c] = l.hidden
			}
		}
	}
	if l.in.Documents == nil {
		return
	}
	documents := l.in.Documents[t.b*l.S : (t.b+1)*l.S]
	of := documents[at:][:t.queries]
	for r := range t.n {
		d := documents[t.k0+r]
		for c, q := range of {
			if q != d {
				s[r*l.cols+c] = l.hidden
			}
		}
	}
}

// mask sets more to dropout's multipliers of a tile. Queries of a panel that are not there have some,
// too.
func (l *Plan) mask(w *worker, t *tileOf) {
	first := ((t.b*l.H+t.h)*l.T+t.i0)*l.S + t.k0
	for r := range t.n {
		f32.Keep(w.more[r*l.cols:(r+1)*l.cols], l.in.Key, uint64(first+r), uint64(l.S), l.Threshold, l.Keep)
	}
}
