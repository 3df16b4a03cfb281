package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// logSumExp is log Σ exp(row), without overflow: of few classes in float64.
func logSumExp(row []float32) float64 {
	if len(row) > fewClasses {
		return f32.LogSumExp(row)
	}
	top := math.Inf(-1)
	for _, v := range row {
		top = math.Max(top, float64(v))
	}
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top
}

// softmaxOf appends exp(x) / Σ exp(x) to p, each exponential taken once.
func softmaxOf(p []float64, x []float32) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, float64(v))
	}
	for _, v := range x {
		e := math.Exp(float64(v) - top)
		p = append(p, e)
		sum += e
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// fewClasses is the number of classes whose exponentials have room on the stack.
const fewClasses = 64

// fewNumbers is the length of a softmax below which vectors do not pay.
const fewNumbers = 16

// softmaxRow sets y to exp(x) / Σ exp(x); y may be x.
func softmaxRow(y, x []float32) {
	if len(x) > fewNumbers {
		f32.Softmax(y, x)
		return
	}
	var room [fewNumbers]float64
	for k, p := range softmaxOf(room[:0], x) {
		y[k] = float32(p)
	}
}

// expGrain is grain in rows of c exponentials. Each costs as much as some values of a plain pass;
// in float64, as of few classes, as much as a hundred.
func expGrain(c int) int {
	if c <= fewClasses {
		return max(1, grain/100/c)
	}
	return max(1, grain/4/c)
}

// A softmaxes has the kernels of the softmax of each row and of its gradient.
type softmaxes struct {
	mem     *memory
	threads threads
}

func (s *softmaxes) builders() builders {
	return builders{plan.Softmax: s.softmax, plan.SoftmaxGrad: s.softmaxGrad}
}

// softmax is exp(x) / Σ exp(x) along an axis, or its logarithm.
func (s *softmaxes) softmax(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Softmax)
	outer, n, inner := op.Along(o.In[0].Shape, a.Axis)
	row, columns := softmaxRow, softmaxColumns
	if a.Log {
		row, columns = logSoftmaxRow, logSoftmaxColumns
	}
	return kernel{bind: func() func() error {
		y, x := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0])
		if inner == 1 {
			return then(s.threads.split(outer, expGrain(n), func(lo, hi int) {
				for i := lo * n; i < hi*n; i += n {
					row(y[i:i+n], x[i:i+n])
				}
			}))
		}
		return then(s.threads.split(blocksOf(outer, inner), expGrain(n*columnBlock), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				first, width := blockAt(b, n, inner)
				columns(y[first:], x[first:], n, inner, width)
			}
		}))
	}}, nil
}

// logSoftmaxRow sets y to x − log Σ exp(x); y may be x.
func logSoftmaxRow(y, x []float32) {
	lse := logSumExp(x)
	for k, v := range x {
		y[k] = float32(float64(v) - lse)
	}
}

// blocksOf is how many blocks of columns there are: vectors along an axis whose numbers are inner
// apart are taken columnBlock side by side.
func blocksOf(outer, inner int) int { return outer * ((inner + columnBlock - 1) / columnBlock) }

const columnBlock = 64

// blockAt is where block b begins, and its width.
func blockAt(b, n, inner int) (first, width int) {
	each := (inner + columnBlock - 1) / columnBlock
	column := b % each * columnBlock
	return b/each*n*inner + column, min(columnBlock, inner-column)
}

// expColumns sets y to exp(x−top) and returns top, the largest, and the sum of each of some columns
// of n numbers that are step apart; y may be x.
func expColumns(y, x []float32, n, step, width int) (top [columnBlock]float32, sum [columnBlock]float64) {
	copy(top[:], x[:width])
	for k := range n {
		for j, v := range x[k*step : k*step+width] {
			if v > top[j] || v != v {
				top[j] = v
			}
		}
	}
	for k := range n {
		to := y[k*step : k*step+width]
		for j, v := range x[k*step : k*step+width] {
			to[j] = v - top[j]
		}
		f32.ScaledExp(to, to, 0, 1, 0)
		for j, v := range to {
			sum[j] += float64(v)
		}
	}
	return top, sum
}

func softmaxColumns(y, x []float32, n, step, width int) {
	_, sum := expColumns(y, x, n, step, width)
	var by [columnBlock]float32
	for j := range by {
		by[j] = float32(1 / sum[j])
	}
	for k := range n {
		to := y[k*step : k*step+width]
		for j := range to {
			to[j] *= by[j]
		}
	}
}

// logSoftmaxColumns is logSoftmaxRow of columns, in float64: x may be y, which cannot hold the
// exponentials then.
func logSoftmaxColumns(y, x []float32, n, step, width int) {
	for j := range width {
		top, sum := math.Inf(-1), 0.0
		for k := range n {
			top = math.Max(top, float64(x[k*step+j]))
		}
		for k := range n {
			sum += math.Exp(float64(x[k*step+j]) - top)
		}
		lse := math.Log(sum) + top
		for k := range n {
			y[k*step+j] = float32(float64(x[k*step+j]) - lse)
		}
	}
}

// softmaxGrad is dx = y·(dy − Σ dy·y) along an axis, or that of the logarithm, dy − exp(y)·Σ dy.
func (s *softmaxes) softmaxGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.SoftmaxGrad)
	outer, n, inner := op.Along(o.In[0].Shape, a.Axis)
	row, columns := softmaxGradRow, softmaxGradColumns
	if a.Log {
		row, columns = logSoftmaxGradRow, logSoftmaxGradColumns
	}
	return kernel{bind: func() func() error {
		dx, y, dy := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0]), s.mem.floats(o.In[1])
		if inner == 1 {
			return then(s.threads.split(outer, rowGrain(n), func(lo, hi int) {
				for i := lo * n; i < hi*n; i += n {
					row(dx[i:i+n], y[i:i+n], dy[i:i+n])
				}
			}))
		}
		return then(s.threads.split(blocksOf(outer, inner), rowGrain(n*columnBlock), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				first, width := blockAt(b, n, inner)
				columns(dx[first:], y[first:], dy[first:], n, inner, width)
			}
		}))
	}}, nil
}

func softmaxGradRow(dx, y, dy []float32) {
	dot := f32.Dot(dy, y)
	for k, v := range y {
		dx[k] = v * (dy[k] - dot)
	}
}

func logSoftmaxGradRow(dx, y, dy []float32) {
	f32.ScaledExp(dx, y, 0, -float32(totalOf(dy)), 0)
	f32.AddTo(dx, dy)
}

// totalOf is Σ x, of many numbers by parts.
func totalOf(x []float32) float64 {
	total := 0.0
	for len(x) > 0 {
		n := min(2048, len(x))
		total += float64(f32.Sum(x[:n]))
		x = x[n:]
	}
	return total
}

func softmaxGradColumns(dx, y, dy []float32, n, step, width int) {
	var dot [columnBlock]float64
	for k := range n {
		d := dy[k*step : k*step+width]
		for j, v := range y[k*step : k*step+width] {
			dot[j] += float64(v) * float64(d[j])
		}
	}
	for k := range n {
		d, to := dy[k*step:k*step+width], dx[k*step:k*step+width]
		for j, v := range y[k*step : k*step+width] {
			to[j] = v * (d[j] - float32(dot[j]))
		}
	}
}

func logSoftmaxGradColumns(dx, y, dy []float32, n, step, width int) {
	var sum [columnBlock]float64
	for k := range n {
		for j, v := range dy[k*step : k*step+width] {
			sum[j] += float64(v)
		}
	}
	for k := range n {
		d, to := dy[k*step:k*step+width], dx[k*step:k*step+width]
		f32.ScaledExp(to, y[k*step:k*step+width], 0, 1, 0)
		for j, v := range d {
			to[j] = v - to[j]*float32(sum[j])
		}
	}
}
