package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Rotary turns pairs of numbers of each head by angles that grow with the position (Su et al.,
// 2021, RoFormer): with φ = p·f_j, f_j = Base^(−2j/Size), j < Size/2, at position p,
//
//	(a, b) → (a·cos φ − b·sin φ, b·cos φ + a·sin φ)
//
// a and b are x[j] and x[j+Size/2] of a head (GPT-NeoX, Llama in Hugging Face's files), or with
// Interleaved x[2j] and x[2j+1] (GPT-J, Llama in Meta's files). Numbers from Size on are copied,
// and so are heads from Turned on. Position t of an example is First+t, or first[b]+t.
//
// Arguments: x (B,T,N,D) and, with Firsts, first (B), integers. Result: y like x.
// Gradient: dx is dy turned back, the same op with Backward set.
type Rotary struct {
	traits
	Rotation

	// Turned is how many heads are turned, the first ones.
	Turned int

	// Firsts says that the first position of each example is an argument.
	Firsts bool

	Backward bool
}

// A Rotation has the angles of a Rotary.
type Rotation struct {
	Base        float64
	Size        int
	Interleaved bool

	// First is the position of the first row.
	First int

	// Factor, if it is not 0, stretches positions: frequencies are divided by it, as Llama 3.1
	// does if Original is not 0: those with a wavelength below Original/High stay, those above
	// Original/Low are divided, and those between are mixed.
	Factor, Low, High float64
	Original          int
}

// Frequency is the angle of pair j from one position to the next.
func (r *Rotation) Frequency(j int) float64 {
	f := math.Pow(r.Base, -2*float64(j)/float64(r.Size))
	if r.Factor == 0 {
		return f
	}
	if r.Original == 0 {
		return f / r.Factor
	}
	old, wave := float64(r.Original), 2*math.Pi/f
	switch {
	case wave < old/r.High:
		return f
	case wave > old/r.Low:
		return f / r.Factor
	}
	w := (old/wave - r.Low) / (r.High - r.Low)
	return (1-w)*f/r.Factor + w*f
}

// Pair gives the places of a and b of pair j in a head.
func (r *Rotation) Pair(j int) (a, b int) {
	if r.Interleaved {
		return 2 * j, 2*j + 1
	}
	return j, j + r.Size/2
}

func (o *Rotary) Arity() int {
	if o.Firsts {
		return 2
	}
	return 1
}

func (o *Rotary) Type() hm.Type {
	if o.Firsts {
		return hm.NewFnType(tensorType(4, 'a'), tensorType(1, 'i'), tensorType(4, 'a'))
	}
	return fn(4, 4)
}

func (o *Rotary) String() string {
	return fmt.Sprintf("Rotary{base %g size %d interleaved %t first %d factor %g low %g high %g original %d turned %d firsts %t backward %t}",
		o.Base, o.Size, o.Interleaved, o.First, o.Factor, o.Low, o.High, o.Original, o.Turned, o.Firsts, o.Backward)
}

func (o *Rotary) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Rotary) Hashcode() uint32      { return hashcode(o) }
func (o *Rotary) DiffWRT(n int) []bool  { return []bool{true, false}[:n] }

func (o *Rotary) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, []int{4, 1}[:o.Arity()]...)
	if err != nil {
		return nil, err
	}
	switch x := s[0]; {
	case o.Size < 2 || o.Size%2 != 0 || o.Size > x[3]:
		return nil, fmt.Errorf("op: %v: rotary size is %d and the head size %d, want an even size from 2 to the head's", o, o.Size, x[3])
	case o.Turned < 1 || o.Turned > x[2]:
		return nil, fmt.Errorf("op: %v: %d heads are turned, want 1 to the %d of x %v", o, o.Turned, x[2], x)
	case !(o.Base > 0):
		return nil, fmt.Errorf("op: %v: base is %g, want above 0", o, o.Base)
	case o.First < 0:
		return nil, fmt.Errorf("op: %v: the first position is %d, want at least 0", o, o.First)
	case o.Factor < 0 || o.Original < 0 || o.Factor > 0 && o.Original > 0 && !(0 < o.Low && o.Low < o.High):
		return nil, fmt.Errorf("op: %v: want factor and original of at least 0, and 0 < low < high", o)
	case o.Firsts && s[1][0] != x[0]:
		return nil, fmt.Errorf("op: %v: first positions are %v, want (%d), one for each example", o, s[1], x[0])
	}
	return s[0].Clone(), nil
}

func (o *Rotary) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, rotary[float32], rotary[float64])
}

func rotary[T float](o *Rotary, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	copy(y, x)
	var firsts []int
	if o.Firsts {
		var err error
		if firsts, err = Indices(in[1]); err != nil {
			return nil, err
		}
	}
	n, d := shape[2], shape[3]
	for row := range shape[0] * shape[1] {
		p := o.First + row%shape[1]
		if firsts != nil {
			p = firsts[row/shape[1]] + row%shape[1]
		}
		for j := range o.Size / 2 {
			sin, cos := math.Sincos(float64(p) * o.Frequency(j))
			if o.Backward {
				sin = -sin
			}
			a, b := o.Pair(j)
			for h := range o.Turned {
				at := (row*n + h) * d
				xa, xb := x[at+a], x[at+b]
				y[at+a], y[at+b] = xa*T(cos)-xb*T(sin), xb*T(cos)+xa*T(sin)
			}
		}
	}
	return out, nil
}

func (o *Rotary) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Backward {
		return nil, fmt.Errorf("op: differentiate %v: gradient ops have no gradient of their own", o)
	}
	back := *o
	back.Backward = true
	children := append(gorgonia.Nodes{grad}, in[1:]...)
	dx, err := Apply(&back, children...)
	return append(gorgonia.Nodes{dx}, make(gorgonia.Nodes, len(in)-1)...), err
}
