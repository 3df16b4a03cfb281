package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A rowNorms has the kernels of a normalisation of each row and of its gradient. A row is read from
// memory once; all passes but the first find it in the first-level cache.
type rowNorms struct {
	mem     *memory
	threads threads
}

func (r *rowNorms) builders() builders {
	return builders{plan.RowNorm: r.norm, plan.RowNormGrad: r.normGrad}
}

// rowAt is row i of c numbers; nil where there are no rows.
func rowAt(x []float32, i, c int) []float32 {
	if x == nil {
		return nil
	}
	return x[i*c : (i+1)*c : (i+1)*c]
}

// rowMoments are the mean, 0 with rms, and the scale 1/√(variance+eps) of a row. The mean of a first
// pass is the center of the second, which corrects it, so that the variance is right also where it
// is small against the mean.
func rowMoments(x []float32, eps float64, rms bool) (mean, rstd float32) {
	n := float64(len(x))
	if rms {
		_, squares := f32.RowMoments(x, 0)
		return 0, float32(1 / math.Sqrt(float64(squares)/n+eps))
	}
	center := float32(float64(f32.Sum(x)) / n)
	sum, squares := f32.RowMoments(x, center)
	d := float64(sum) / n
	return float32(float64(center) + d), float32(1 / math.Sqrt(max(float64(squares)/n-d*d, 0)+eps))
}

// norm is op.RowNorm, of a sum where the plan says so.
func (r *rowNorms) norm(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.RowNorm)
	c := o.In[1].Len()
	return kernel{bind: func() func() error {
		y, x, w, b := r.mem.floats(o.Out[0]), r.mem.floats(o.In[0]), r.mem.floats(o.In[1]), r.mem.floats(o.In[2])
		var means, rstds, sums, adds []float32
		if len(o.Out) > 2 {
			means, rstds = r.mem.floats(o.Out[1]), r.mem.floats(o.Out[2])
		}
		if len(o.In) > 3 {
			adds, sums = r.mem.floats(o.In[3]), r.mem.floats(o.Out[3])
		}
		return then(r.threads.split(len(x)/c, rowGrain(c), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row, out := rowAt(x, i, c), rowAt(y, i, c)
				if adds != nil {
					to := out
					if sums != nil {
						to = rowAt(sums, i, c)
					}
					f32.Add(to, row, rowAt(adds, i, c))
					row = to
				}
				mean, rstd := rowMoments(row, a.Eps, a.RMS)
				f32.NormRow(out, row, w, b, mean, rstd)
				if means != nil {
					means[i] = mean
				}
				if rstds != nil {
					rstds[i] = rstd
				}
			}
		}))
	}}, nil
}

// gradGrain is how many pieces of a pass make one of normGrad: each has sums of its own for the
// gradients of the weights.
const gradGrain = 4

// normGrad is op.RowNormGrad, and what the plan adds to dx. Gradients of the weights are summed in
// float32 over the rows of a piece, and in float64 over the pieces, in their order.
func (r *rowNorms) normGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.RowNormGrad)
	c := o.In[1].Len()
	rows := o.In[0].Len() / c
	n := pieces(rows, min(maxFloatSum, gradGrain*rowGrain(c)))
	return kernel{scratch: 4 * int64(2*c*n), bind: func() func() error {
		x, w, means, rstds, dy := r.mem.floats(o.In[0]), r.mem.floats(o.In[1]), r.mem.floats(o.In[2]), r.mem.floats(o.In[3]), r.mem.floats(o.In[4])
		dx, dw := r.mem.floats(o.Out[0]), r.mem.floats(o.Out[1])
		var add, db []float32
		if len(o.In) > 5 {
			add = r.mem.floats(o.In[5])
		}
		if len(o.Out) > 2 {
			db = r.mem.floats(o.Out[2])
		}
		parts := r.mem.scratch(o)
		piece := func(k int) {
			partW := rowAt(parts, 2*k, c)
			var partB []float32
			clear(partW)
			if db != nil {
				partB = rowAt(parts, 2*k+1, c)
				clear(partB)
			}
			for i := k * rows / n; i < (k+1)*rows/n; i++ {
				row, grad, mean := rowAt(x, i, c), rowAt(dy, i, c), float32(0)
				if means != nil {
					mean = means[i]
				}
				g, gx := f32.NormRowSums(partW, partB, grad, row, w, mean, rstds[i])
				if a.RMS {
					g = 0
				}
				if dx != nil {
					f32.NormRowGrad(rowAt(dx, i, c), grad, row, w, rowAt(add, i, c), mean, rstds[i], g/float32(c), gx/float32(c))
				}
			}
		}
		total := r.threads.split(c, columnGrain, func(lo, hi int) {
			addParts(dw, parts, lo, hi, 2*c, n)
			if db != nil {
				addParts(db, parts[c:], lo, hi, 2*c, n)
			}
		})
		return then(func() { r.threads.pool.Run(n, piece) }, total)
	}}, nil
}

// columnGrain is how many columns of some parts are added in one piece.
const columnGrain = 128

// addParts sets columns lo to hi of sum to those of n parts, stride numbers apart, added in
// their order. A nil sum is not wanted.
func addParts(sum, parts []float32, lo, hi, stride, n int) {
	if sum == nil {
		return
	}
	var total [columnGrain]float64
	for ; lo < hi; lo += columnGrain {
		t := total[:min(columnGrain, hi-lo)]
		clear(t)
		for k := range n {
			for j, v := range parts[k*stride+lo:][:len(t)] {
				t[j] += float64(v)
			}
		}
		for j, v := range t {
			sum[lo+j] = float32(v)
		}
	}
}
