package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MatMul is the matrix product of the last two axes, for each index of the axes in front of them:
// y[..., i, j] = Σ_k a[..., i, k]·b[..., k, j]. With TransA, a is (...,K,M) and transposed; with
// TransB, b is (...,N,K).
//
// Arguments: a (...,M,K), b (...,K,N) of Dims dimensions each and of the same sizes in front.
// Result: y (...,M,N). Gradients: MatMuls of dy with the other argument.
type MatMul struct {
	traits

	// Dims is that of both arguments, at least 2.
	Dims int

	TransA, TransB bool
}

func (o *MatMul) Arity() int    { return 2 }
func (o *MatMul) Type() hm.Type { return fn(o.Dims, o.Dims, o.Dims) }
func (o *MatMul) String() string {
	return fmt.Sprintf("MatMul{%d transposed %t %t}", o.Dims, o.TransA, o.TransB)
}
func (o *MatMul) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *MatMul) Hashcode() uint32      { return hashcode(o) }
func (o *MatMul) DiffWRT(int) []bool    { return []bool{true, true} }

// Sizes are those of the product, m×k by k×n, for the shapes of a and b.
func (o *MatMul) Sizes(a, b tensor.Shape) (m, k, n int) {
	d := len(a)
	m, k, n = a[d-2], a[d-1], b[d-1]
	if o.TransA {
		m, k = k, m
	}
	if o.TransB {
		n = b[d-2]
	}
	return m, k, n
}

func (o *MatMul) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims, o.Dims)
	if err != nil {
		return nil, err
	}
	d := o.Dims
	inner := d - 2
	if o.TransB {
		inner = d - 1
	}
	if d < 2 || !s[0][:d-2].Eq(s[1][:d-2]) {
		return nil, fmt.Errorf("op: %v: arguments are %v, want two dimensions or more, and the same sizes before the last two", o, s)
	}
	m, k, n := o.Sizes(s[0], s[1])
	if s[1][inner] != k {
		return nil, fmt.Errorf("op: %v: arguments are %v, and a row of the first has %d numbers, a column of the second %d", o, s, k, s[1][inner])
	}
	return append(s[0][:d-2].Clone(), m, n), nil
}

func (o *MatMul) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, matMul[float32], matMul[float64])
}

func matMul[T float](o *MatMul, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	a, b := numbers[T](in[0]), numbers[T](in[1])
	m, k, n := o.Sizes(in[0].Shape(), in[1].Shape())
	for at := range y {
		batch, i, j := at/(m*n), at/n%m, at%n
		var sum T
		for l := range k {
			p, q := batch*m*k+i*k+l, batch*k*n+l*n+j
			if o.TransA {
				p = batch*m*k + l*m + i
			}
			if o.TransB {
				q = batch*k*n + j*k + l
			}
			sum += a[p] * b[q]
		}
		y[at] = sum
	}
	return out, nil
}

func (o *MatMul) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	product := func(x, y *gorgonia.Node, transX, transY bool) (*gorgonia.Node, error) {
		return Apply(&MatMul{Dims: o.Dims, TransA: transX, TransB: transY}, x, y)
	}
	// With A and B as they are multiplied, dA = dY·Bᵀ and dB = Aᵀ·dY.
	var da, db *gorgonia.Node
	var err error
	if o.TransA {
		da, err = product(in[1], grad, o.TransB, true)
	} else {
		da, err = product(grad, in[1], false, !o.TransB)
	}
	if err != nil {
		return nil, err
	}
	if o.TransB {
		db, err = product(grad, in[0], true, o.TransA)
	} else {
		db, err = product(in[0], grad, !o.TransA, false)
	}
	return gorgonia.Nodes{da, db}, err
}
