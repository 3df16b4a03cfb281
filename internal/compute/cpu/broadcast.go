package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A broadcasts has the kernels of sums and products of tensors whose shapes differ, and of the sums
// that are their gradients.
type broadcasts struct {
	mem     *memory
	threads threads
}

func (b *broadcasts) builders() builders {
	return builders{plan.Broadcast: b.broadcast, plan.SumTo: b.sumTo}
}

// A spread is an axis of the common shape: how far apart neighbours are in both arguments, 0 where
// one is repeated.
type spread struct{ size, a, b int }

// spreads are the axes of the common shape, the last first; those of size 1 are left out, and
// neighbours that are alike are joined.
func spreads(shape, a, b tensor.Shape) []spread {
	var out []spread
	strideA, strideB := 1, 1
	for d := len(shape) - 1; d >= 0; d-- {
		s := spread{shape[d], stepOf(a, d-len(shape)+len(a), &strideA), stepOf(b, d-len(shape)+len(b), &strideB)}
		if s.size == 1 {
			continue
		}
		if n := len(out); n > 0 && s.a == out[n-1].a*out[n-1].size && s.b == out[n-1].b*out[n-1].size {
			out[n-1].size *= s.size
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		out = append(out, spread{1, 1, 1})
	}
	return out
}

// stepOf is how far apart neighbours on axis d are, and makes stride that of the axis before.
func stepOf(shape tensor.Shape, d int, stride *int) int {
	if d < 0 || shape[d] == 1 {
		return 0
	}
	step := *stride
	*stride *= shape[d]
	return step
}

// lies is where index i over some axes, the first of which runs fastest, lies in both arguments.
func lies(i int, axes []spread) (a, b int) {
	for _, s := range axes {
		k := i % s.size
		i /= s.size
		a, b = a+k*s.a, b+k*s.b
	}
	return a, b
}

// broadcast computes runs along the last axis, after those that are alike are joined: both arguments
// go along, or one of them is a number. Learned positions, added to each example, are one run each.
func (b *broadcasts) broadcast(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Broadcast)
	axes := spreads(o.Out[0].Shape, a.A, a.B)
	inner, outer := axes[0], axes[1:]

	// A long run is cut in chunks, so that all threads have some.
	chunks := pieces(inner.size, grain)
	return kernel{bind: func() func() error {
		y, p, q := b.mem.floats(o.Out[0]), b.mem.floats(o.In[0]), b.mem.floats(o.In[1])
		return then(b.threads.split(len(y)/inner.size*chunks, rowGrain(inner.size), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row, chunk := i/chunks, i%chunks
				from, to := chunk*inner.size/chunks, (chunk+1)*inner.size/chunks
				atA, atB := lies(row, outer)
				combine(y[row*inner.size+from:row*inner.size+to], p[atA+from*inner.a:], q[atB+from*inner.b:], inner, a.Mul)
			}
		}))
	}}, nil
}

// combine sets y to the sum or product of two runs, either of which may be one number.
func combine(y, a, b []float32, run spread, mul bool) {
	if run.a == 0 {
		a, b = b, a
		run.a, run.b = run.b, run.a
	}
	switch {
	case run.b != 0 && mul:
		f32.Mul(y, a[:len(y)], b[:len(y)])
	case run.b != 0:
		f32.Add(y, a[:len(y)], b[:len(y)])
	case mul:
		f32.Scale(y, b[0], a[:len(y)])
	default:
		addNumber(y, a[:len(y)], b[0])
	}
}

// addNumber sets y = x + v.
func addNumber(y, x []float32, v float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] = x[i] + v
	}
}

// sumTo adds up what was repeated. Where a long run is kept, rows of it are added in order, a piece
// of their columns at a time: so positions get the sum over all examples in one pass. A shorter run
// that rows end with, such as a bias, is summed in pieces of the rows. Else each result is a sum of
// its own.
func (b *broadcasts) sumTo(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.SumTo)
	axes := spreads(a.From, a.From, a.To)
	inner := axes[0]
	columns := len(axes) == 2 && inner.b != 0
	switch {
	case len(axes) == 1 && inner.b != 0:
		return kernel{bind: func() func() error {
			y, x := b.mem.floats(o.Out[0]), b.mem.floats(o.In[0])
			return then(func() { copy(y, x) })
		}}, nil
	case columns && inner.size < manyColumns && inner.size >= fewColumns:
		return b.rowSums(o, axes[1].size, inner.size), nil
	case columns && inner.size < fewColumns:
		doubles := sumDoubles(axes[1].size, inner.size)
		return kernel{doubles: doubles, bind: func() func() error {
			y, x := b.mem.floats(o.Out[0]), f32.Array{F32: b.mem.floats(o.In[0])}
			return then((&biases{mem: b.mem, threads: b.threads}).columnSums(y, x))
		}}, nil
	case columns:
		return kernel{bind: func() func() error {
			y, x := b.mem.floats(o.Out[0]), b.mem.floats(o.In[0])
			return then(b.threads.split(len(y), columnsGrain, func(lo, hi int) {
				copy(y[lo:hi], x[lo:hi])
				for at := len(y); at < len(x); at += len(y) {
					f32.AddTo(y[lo:hi], x[at+lo:at+hi])
				}
			}))
		}}, nil
	}
	return b.sums(o, axes), nil
}

// rowSums adds rows of c numbers: in float32 within a piece, and the pieces, in their order, in
// float64.
func (b *broadcasts) rowSums(o *plan.Op, rows, c int) kernel {
	n := pieces(rows, min(maxFloatSum, gradGrain*rowGrain(c)))
	return kernel{scratch: 4 * int64(c*n), bind: func() func() error {
		y, x, parts := b.mem.floats(o.Out[0]), b.mem.floats(o.In[0]), b.mem.scratch(o)
		piece := func(k int) {
			part := rowAt(parts, k, c)
			clear(part)
			for i := k * rows / n; i < (k+1)*rows/n; i++ {
				f32.AddTo(part, rowAt(x, i, c))
			}
		}
		total := b.threads.split(c, columnGrain, func(lo, hi int) { addParts(y, parts, lo, hi, c, n) })
		return then(func() { b.threads.pool.Run(n, piece) }, total)
	}}
}

const (
	// fewColumns is how many columns make a row too short to be added by itself.
	fewColumns = 64

	// maxFloatSum is the most numbers that are added in float32.
	maxFloatSum = 256

	// manyColumns is how many columns there are where threads share them rather than the rows.
	manyColumns = 16384

	// columnsGrain is the number of columns that one thread adds at a time: their sums stay in the
	// first-level cache.
	columnsGrain = 4096
)

// sums is the general case: for each result, in its place, the sum over the axes that To has not.
func (b *broadcasts) sums(o *plan.Op, axes []spread) kernel {
	var kept, gone []spread
	for _, s := range axes[1:] {
		if s.b == 0 {
			gone = append(gone, s)
		} else {
			kept = append(kept, s)
		}
	}
	inner, rows := axes[0], 1
	for _, s := range gone {
		rows *= s.size
	}
	width := 1
	if inner.b != 0 {
		width = inner.size
	}
	return kernel{bind: func() func() error {
		y, x := b.mem.floats(o.Out[0]), b.mem.floats(o.In[0])
		return then(b.threads.split(len(y)/width, max(1, grain/(rows*inner.size)), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				from, to := lies(i, kept)
				if inner.b == 0 {
					sum := 0.0
					for k := range rows {
						at, _ := lies(k, gone)
						sum += float64(f32.Sum(x[from+at:][:inner.size]))
					}
					y[to] = float32(sum)
					continue
				}
				out := y[to : to+width]
				clear(out)
				for k := range rows {
					at, _ := lies(k, gone)
					f32.AddTo(out, x[from+at:][:width])
				}
			}
		}))
	}}
}
