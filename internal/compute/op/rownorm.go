package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// RowNorm normalises each row, the numbers along the last axis: layer normalisation (Ba, Kiros and
// Hinton, 2016, equation 3) or, with RMS, that by the root of the mean square (Zhang and Sennrich,
// 2019, equation 4):
//
//	m = mean of the row, 0 with RMS;  v = mean of (x−m)², biased
//	y = (x−m)·rstd·w + b,  rstd = 1/√(v+Eps)
//
// A row whose numbers are all the same has y = b.
//
// Arguments: x (...,C) of Dims dimensions, w (C) and, with Bias, b (C).
// Result: Tuple{y like x, m (Rows), rstd (Rows)}; y is Take 0.
// Gradients: dx, dw, db from one RowNormGrad node.
type RowNorm struct {
	traits

	// Dims is that of x, at least 2.
	Dims int

	Eps  float64
	RMS  bool
	Bias bool
}

func (o *RowNorm) Arity() int {
	if o.Bias {
		return 3
	}
	return 2
}

func (o *RowNorm) Type() hm.Type {
	if o.Bias {
		return fn(o.Dims, 1, 1, o.Dims)
	}
	return fn(o.Dims, 1, o.Dims)
}

func (o *RowNorm) String() string {
	return fmt.Sprintf("RowNorm{%d eps %g rms %t bias %t}", o.Dims, o.Eps, o.RMS, o.Bias)
}
func (o *RowNorm) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *RowNorm) Hashcode() uint32      { return hashcode(o) }
func (o *RowNorm) DiffWRT(n int) []bool  { return []bool{true, true, true}[:n] }

func (o *RowNorm) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, []int{o.Dims, 1, 1}[:o.Arity()]...)
	if err != nil {
		return nil, err
	}
	c := s[0][max(0, o.Dims-1)]
	if o.Dims < 2 || s[1][0] != c || o.Bias && s[2][0] != c {
		return nil, fmt.Errorf("op: %v: arguments are %v, want (...,C) of 2 dimensions or more, (C) and (C)", o, s)
	}
	return s[0].Clone(), nil
}

func (o *RowNorm) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, rowNorm[float32], rowNorm[float64])
}

func rowNorm[T float](o *RowNorm, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	c := shape[len(shape)-1]
	rows := shape.TotalSize() / c
	yt, y := dense[T](shape)
	mt, mean := dense[T](tensor.Shape{rows})
	rt, rstd := dense[T](tensor.Shape{rows})
	x, w := numbers[T](in[0]), numbers[T](in[1])
	for i := range rows {
		row := x[i*c : (i+1)*c]
		m := 0.0
		if !o.RMS {
			m = meanOf(row)
		}
		r := 1 / math.Sqrt(squareAround(row, m)/float64(c)+o.Eps)
		mean[i], rstd[i] = T(m), T(r)
		for k, v := range row {
			y[i*c+k] = T((float64(v)-m)*r) * w[k]
			if o.Bias {
				y[i*c+k] += numbers[T](in[2])[k]
			}
		}
	}
	return &Tuple{Values: []*tensor.Dense{yt, mt, rt}}, nil
}

// meanOf is the mean of x, in float64.
func meanOf[T float](x []T) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}

// squareAround is Σ (x−m)², in float64.
func squareAround[T float](x []T, m float64) (sum float64) {
	for _, v := range x {
		d := float64(v) - m
		sum += d * d
	}
	return sum
}

func (o *RowNorm) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&RowNormGrad{Dims: o.Dims, RMS: o.RMS, Bias: o.Bias}, in[0], in[1], out, grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// RowNormGrad is the backward pass of RowNorm, with x̂ = (x−m)·rstd, g = dy·w and means over the
// row:
//
//	dx = rstd·(g − mean g − x̂·mean(g·x̂)), without mean g with RMS
//	dw = Σ over rows of dy·x̂;  db = Σ over rows of dy
//
// Arguments: x (...,C), w (C), the RowNorm node's Tuple (m and rstd are read, y is not), dy like x.
// Result: Tuple{dx like x, dw (C)} and, with Bias, db (C) as the third.
type RowNormGrad struct {
	gradient
	Dims int
	RMS  bool
	Bias bool
}

func (o *RowNormGrad) Arity() int    { return 4 }
func (o *RowNormGrad) Type() hm.Type { return fn(o.Dims, 1, o.Dims, o.Dims, o.Dims) }
func (o *RowNormGrad) String() string {
	return fmt.Sprintf("RowNormGrad{%d rms %t bias %t}", o.Dims, o.RMS, o.Bias)
}
func (o *RowNormGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *RowNormGrad) Hashcode() uint32      { return hashcode(o) }

func (o *RowNormGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims, 1, o.Dims, o.Dims)
	if err != nil {
		return nil, err
	}
	if s[1][0] != s[0][o.Dims-1] || !s[2].Eq(s[0]) || !s[3].Eq(s[0]) {
		return nil, fmt.Errorf("op: %v: x is %v, w %v, y %v, dy %v", o, s[0], s[1], s[2], s[3])
	}
	return s[0].Clone(), nil
}

func (o *RowNormGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, rowNormGrad[float32], rowNormGrad[float64])
}

func rowNormGrad[T float](o *RowNormGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	saved, ok := in[2].(*Tuple)
	if !ok || len(saved.Values) != 3 {
		return nil, fmt.Errorf("op: do %v: argument 2 is %T, want the Tuple of a RowNorm", o, in[2])
	}
	c := shape[len(shape)-1]
	xt, dx := dense[T](shape)
	wt, dw := dense[T](tensor.Shape{c})
	bt, db := dense[T](tensor.Shape{c})
	x, w, dy := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[3])
	mean, rstd := numbers[T](saved.Values[1]), numbers[T](saved.Values[2])
	for i := range shape.TotalSize() / c {
		at := i * c
		var sumG, sumGX float64
		for k := range c {
			hat := (x[at+k] - mean[i]) * rstd[i]
			sumG += float64(dy[at+k] * w[k])
			sumGX += float64(dy[at+k] * w[k] * hat)
			dw[k] += dy[at+k] * hat
			db[k] += dy[at+k]
		}
		if o.RMS {
			sumG = 0
		}
		meanG, meanGX := T(sumG/float64(c)), T(sumGX/float64(c))
		for k := range c {
			hat := (x[at+k] - mean[i]) * rstd[i]
			dx[at+k] = rstd[i] * (dy[at+k]*w[k] - meanG - hat*meanGX)
		}
	}
	t := &Tuple{Values: []*tensor.Dense{xt, wt}}
	if o.Bias {
		t.Values = append(t.Values, bt)
	}
	return t, nil
}
