package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Positions adds a learned row to each position of a sequence: y[b,t,:] = x[b,t,:] + P[First+t,:].
// With Firsts the first position is that of each example, first[b], and First is 0: for sampling.
//
// Arguments: x (B,T,C), P (Rows,C) with First+T ≤ Rows, and with Firsts first (B), integers with
// 0 ≤ first[b] ≤ Rows−T. Result: y like x.
// Gradients: dx = dy, the very same node; dP by PositionsGrad; with Firsts there are none.
type Positions struct {
	traits
	First  int // at least 0
	Firsts bool
}

func (o *Positions) Arity() int {
	if o.Firsts {
		return 3
	}
	return 2
}

func (o *Positions) Type() hm.Type {
	if o.Firsts {
		return hm.NewFnType(tensorType(3, 'a'), tensorType(2, 'a'), tensorType(1, 'i'), tensorType(3, 'a'))
	}
	return fn(3, 2, 3)
}

func (o *Positions) String() string {
	return fmt.Sprintf("Positions{first %d, of each example %t}", o.First, o.Firsts)
}
func (o *Positions) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Positions) Hashcode() uint32      { return hashcode(o) }
func (o *Positions) DiffWRT(n int) []bool  { return []bool{true, true, false}[:n] }

func (o *Positions) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, []int{3, 2, 1}[:o.Arity()]...)
	if err != nil {
		return nil, err
	}
	if o.Firsts && s[2][0] != s[0][0] {
		return nil, fmt.Errorf("op: %v: x is %v and the first positions are %v, want one for each example", o, s[0], s[2])
	}
	if o.First < 0 || s[0][2] != s[1][1] || o.First+s[0][1] > s[1][0] {
		return nil, fmt.Errorf("op: %v: x is %v and P %v, want (B,T,C) and (Rows,C) with T of at most Rows from the first on", o, s[0], s[1])
	}
	return s[0].Clone(), nil
}

func (o *Positions) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, positions[float32], positions[float64])
}

func positions[T float](o *Positions, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, p, size := numbers[T](in[0]), numbers[T](in[1]), shape[1]*shape[2]
	firsts := make([]int, shape[0])
	for b := range firsts {
		firsts[b] = o.First
	}
	if o.Firsts {
		var err error
		if firsts, err = rowIDs(o, in[2], in[1].Shape()[0]-shape[1]+1); err != nil {
			return nil, err
		}
	}
	for i := range y {
		y[i] = x[i] + p[firsts[i/size]*shape[2]+i%size]
	}
	return out, nil
}

func (o *Positions) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Firsts {
		return nil, fmt.Errorf("op: differentiate %v: positions of each example are for evaluations", o)
	}
	dp, err := Apply(&PositionsGrad{First: o.First, Rows: in[1].Shape()[0]}, grad)
	return gorgonia.Nodes{grad, dp}, err
}

// PositionsGrad is dP[First+t,:] = Σ_b dy[b,t,:], zero in the rows of positions that are not there.
//
// Argument: dy (B,T,C). Result: dP (Rows,C).
type PositionsGrad struct {
	gradient
	First, Rows int
}

func (o *PositionsGrad) Arity() int    { return 1 }
func (o *PositionsGrad) Type() hm.Type { return fn(3, 2) }
func (o *PositionsGrad) String() string {
	return fmt.Sprintf("PositionsGrad{first %d of %d}", o.First, o.Rows)
}
func (o *PositionsGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *PositionsGrad) Hashcode() uint32      { return hashcode(o) }

func (o *PositionsGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 3)
	if err != nil {
		return nil, err
	}
	if o.First < 0 || o.First+s[0][1] > o.Rows {
		return nil, fmt.Errorf("op: %v: dy is %v, want (B,T,C) with T of at most %d", o, s[0], o.Rows-o.First)
	}
	return tensor.Shape{o.Rows, s[0][2]}, nil
}

func (o *PositionsGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, positionsGrad[float32], positionsGrad[float64])
}

func positionsGrad[T float](o *PositionsGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dp := dense[T](shape)
	dy, size := numbers[T](in[0]), in[0].Shape()[1]*shape[1]
	for i, d := range dy {
		dp[o.First*shape[1]+i%size] += d
	}
	return out, nil
}
