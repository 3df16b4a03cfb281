package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ClassToken puts one learned row in front of each sequence: y[b,0,:] = token, y[b,1+t,:] = x[b,t,:].
//
// Arguments: x (B,T,C), token (1,1,C). Result: y (B,1+T,C).
// Gradients: dx and dtoken by ClassTokenGrad.
type ClassToken struct{ traits }

func (o *ClassToken) Arity() int            { return 2 }
func (o *ClassToken) Type() hm.Type         { return fn(3, 3, 3) }
func (o *ClassToken) String() string        { return "ClassToken{}" }
func (o *ClassToken) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ClassToken) Hashcode() uint32      { return hashcode(o) }
func (o *ClassToken) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *ClassToken) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 3, 3)
	if err != nil {
		return nil, err
	}
	if s[1][0] != 1 || s[1][1] != 1 || s[1][2] != s[0][2] {
		return nil, fmt.Errorf("op: %v: x is %v and the token %v, want (B,T,C) and (1,1,C)", o, s[0], s[1])
	}
	return tensor.Shape{s[0][0], 1 + s[0][1], s[0][2]}, nil
}

func (o *ClassToken) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, classToken[float32], classToken[float64])
}

func classToken[T float](_ *ClassToken, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, token := numbers[T](in[0]), numbers[T](in[1])
	size, c := shape[1]*shape[2], shape[2]
	for b := range shape[0] {
		copy(y[b*size:], token)
		copy(y[b*size+c:(b+1)*size], x[b*(size-c):])
	}
	return out, nil
}

func (o *ClassToken) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&ClassTokenGrad{}, grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// ClassTokenGrad is dx[b,t,:] = dy[b,1+t,:] and dtoken = Σ_b dy[b,0,:].
//
// Argument: dy (B,1+T,C). Result: Tuple{dx (B,T,C), dtoken (1,1,C)}.
type ClassTokenGrad struct{ gradient }

func (o *ClassTokenGrad) Arity() int            { return 1 }
func (o *ClassTokenGrad) Type() hm.Type         { return fn(3, 3) }
func (o *ClassTokenGrad) String() string        { return "ClassTokenGrad{}" }
func (o *ClassTokenGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ClassTokenGrad) Hashcode() uint32      { return hashcode(o) }

func (o *ClassTokenGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 3)
	if err != nil {
		return nil, err
	}
	if s[0][1] < 2 {
		return nil, fmt.Errorf("op: %v: dy is %v, want (B,1+T,C)", o, s[0])
	}
	return tensor.Shape{s[0][0], s[0][1] - 1, s[0][2]}, nil
}

func (o *ClassTokenGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, classTokenGrad[float32], classTokenGrad[float64])
}

func classTokenGrad[T float](_ *ClassTokenGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	xt, dx := dense[T](shape)
	tt, token := dense[T](tensor.Shape{1, 1, shape[2]})
	dy, size, c := numbers[T](in[0]), shape[1]*shape[2], shape[2]
	for b := range shape[0] {
		row := dy[b*(size+c):]
		copy(dx[b*size:(b+1)*size], row[c:])
		for k := range token {
			token[k] += row[k]
		}
	}
	return &Tuple{Values: []*tensor.Dense{xt, tt}}, nil
}
