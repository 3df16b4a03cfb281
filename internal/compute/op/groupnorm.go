package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// GroupNorm normalises each group of channels of each image (Wu and He, 2018, equation 7): for
// image n and group g, which has C/Groups channels,
//
//	m = mean over the group's channels, h and w of x;  v = mean of (x−m)², biased
//	y = (x−m)·rstd·w_c + b_c,  rstd = 1/√(v+Eps)
//
// Arguments: x (N,C,H,W), w (C), b (C).
// Result: Tuple{y like x, m (N·Groups), rstd (N·Groups)}; y is Take 0.
// Gradients: dx, dw, db from one GroupNormGrad node.
type GroupNorm struct {
	traits
	Groups int
	Eps    float64
}

func (o *GroupNorm) Arity() int            { return 3 }
func (o *GroupNorm) Type() hm.Type         { return fn(4, 1, 1, 4) }
func (o *GroupNorm) String() string        { return fmt.Sprintf("GroupNorm{%d eps %g}", o.Groups, o.Eps) }
func (o *GroupNorm) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *GroupNorm) Hashcode() uint32      { return hashcode(o) }
func (o *GroupNorm) DiffWRT(int) []bool    { return []bool{true, true, true} }

func (o *GroupNorm) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 1, 1)
	if err != nil {
		return nil, err
	}
	c := s[0][1]
	if o.Groups < 1 || c%o.Groups != 0 || s[1][0] != c || s[2][0] != c {
		return nil, fmt.Errorf("op: %v: x %v has %d channels, w is %v, b %v: want channels that %d groups divide", o, s[0], c, s[1], s[2], o.Groups)
	}
	return s[0].Clone(), nil
}

func (o *GroupNorm) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, groupNorm[float32], groupNorm[float64])
}

func groupNorm[T float](o *GroupNorm, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	c, hw := shape[1], shape[2]*shape[3]
	size := c / o.Groups * hw
	yt, y := dense[T](shape)
	mt, mean := dense[T](tensor.Shape{shape[0] * o.Groups})
	rt, rstd := dense[T](tensor.Shape{shape[0] * o.Groups})
	x, w, b := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[2])
	for i := range mean {
		group := x[i*size : (i+1)*size]
		m := meanOf(group)
		r := 1 / math.Sqrt(squareAround(group, m)/float64(size)+o.Eps)
		mean[i], rstd[i] = T(m), T(r)
		for j, v := range group {
			k := (i*size + j) / hw % c
			y[i*size+j] = T((float64(v)-m)*r)*w[k] + b[k]
		}
	}
	return &Tuple{Values: []*tensor.Dense{yt, mt, rt}}, nil
}

func (o *GroupNorm) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&GroupNormGrad{Groups: o.Groups}, in[0], in[1], out, grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// GroupNormGrad is the backward pass of GroupNorm, with x̂ = (x−m)·rstd, g = dy·w_c and means over
// the group:
//
//	dx = rstd·(g − mean g − x̂·mean(g·x̂));  dw = Σ_{n,h,w} dy·x̂;  db = Σ_{n,h,w} dy
//
// Arguments: x (N,C,H,W), w (C), the GroupNorm node's Tuple (m and rstd are read, y is not), dy
// like x. Result: Tuple{dx like x, dw (C), db (C)}.
type GroupNormGrad struct {
	gradient
	Groups int
}

func (o *GroupNormGrad) Arity() int            { return 4 }
func (o *GroupNormGrad) Type() hm.Type         { return fn(4, 1, 4, 4, 4) }
func (o *GroupNormGrad) String() string        { return fmt.Sprintf("GroupNormGrad{%d}", o.Groups) }
func (o *GroupNormGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *GroupNormGrad) Hashcode() uint32      { return hashcode(o) }

func (o *GroupNormGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 1, 4, 4)
	if err != nil {
		return nil, err
	}
	if o.Groups < 1 || s[0][1]%o.Groups != 0 || s[1][0] != s[0][1] || !s[2].Eq(s[0]) || !s[3].Eq(s[0]) {
		return nil, fmt.Errorf("op: %v: x is %v, w %v, y %v, dy %v", o, s[0], s[1], s[2], s[3])
	}
	return s[0].Clone(), nil
}

func (o *GroupNormGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, groupNormGrad[float32], groupNormGrad[float64])
}

func groupNormGrad[T float](o *GroupNormGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	saved, ok := in[2].(*Tuple)
	if !ok || len(saved.Values) != 3 {
		return nil, fmt.Errorf("op: do %v: argument 2 is %T, want the Tuple of a GroupNorm", o, in[2])
	}
	c, hw := shape[1], shape[2]*shape[3]
	size := c / o.Groups * hw
	xt, dx := dense[T](shape)
	wt, dw := dense[T](tensor.Shape{c})
	bt, db := dense[T](tensor.Shape{c})
	x, w, dy := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[3])
	mean, rstd := numbers[T](saved.Values[1]), numbers[T](saved.Values[2])
	for i := range mean {
		var sumG, sumGX float64
		for j := i * size; j < (i+1)*size; j++ {
			k, hat := j/hw%c, (x[j]-mean[i])*rstd[i]
			sumG += float64(dy[j] * w[k])
			sumGX += float64(dy[j] * w[k] * hat)
			dw[k] += dy[j] * hat
			db[k] += dy[j]
		}
		meanG, meanGX := T(sumG/float64(size)), T(sumGX/float64(size))
		for j := i * size; j < (i+1)*size; j++ {
			hat := (x[j] - mean[i]) * rstd[i]
			dx[j] = rstd[i] * (dy[j]*w[j/hw%c] - meanG - hat*meanGX)
		}
	}
	return &Tuple{Values: []*tensor.Dense{xt, wt, bt}}, nil
}
