package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A KVCache holds the keys and values of the positions that a model has seen, for sampling. Programs
// that share one, such as one for a prompt and one for a token, go on where the other stopped. It is
// no part of a checkpoint.
type KVCache struct {
	// Name is for messages.
	Name string

	// Positions is how many positions there is room for.
	Positions int

	// K and V are (B,Positions,Hk,D); nil before the first CachedAttention is made.
	K, V *tensor.Dense
}

// CachedAttention is a causal Attention over the positions that a cache holds and T new ones. It
// writes k and v of the new positions into the cache and then computes o. Example b's new positions
// are first[b] to first[b]+T−1; query t sees keys 0 to first[b]+t. The caller counts positions.
//
// Arguments: q, k, v or one array as Attention's, with S = T; first (B) ≥ 0, integers; lengths,
// documents and bias have no place here.
// Result: o as Attention's. It has no gradient and is for evaluation.
type CachedAttention struct {
	gradient
	AttentionForm
	Cache *KVCache
}

func (o *CachedAttention) Arity() int { return o.arrays() + 1 }

func (o *CachedAttention) Type() hm.Type {
	ts := o.argTypes()
	return hm.NewFnType(append(ts, tensorType(1, 'i'), ts[0])...)
}

func (o *CachedAttention) String() string {
	return fmt.Sprintf("CachedAttention{%q %v positions %d}", o.Cache.Name, &o.AttentionForm, o.Cache.Positions)
}

func (o *CachedAttention) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *CachedAttention) Hashcode() uint32      { return hashcode(o) }

// StateName is the cache's name.
func (o *CachedAttention) StateName() string { return o.Cache.Name }

func (o *CachedAttention) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	z, s, y, err := o.infer(o, ds, 1)
	if err != nil {
		return nil, err
	}
	switch want := (tensor.Shape{z.B, o.Cache.Positions, z.Hk, z.D}); {
	case !o.Causal || o.Lengths || o.Documents || o.Bias:
		return nil, fmt.Errorf("op: %v: want causal attention without lengths, documents and bias", o)
	case z.S != z.T:
		return nil, fmt.Errorf("op: %v: %d queries and %d keys, want as many", o, z.T, z.S)
	case z.T > o.Cache.Positions:
		return nil, fmt.Errorf("op: %v: %d positions, and the cache has room for %d", o, z.T, o.Cache.Positions)
	case s[len(s)-1][0] != z.B:
		return nil, fmt.Errorf("op: %v: first positions are %v, want (%d), one for each example", o, s[len(s)-1], z.B)
	case o.Cache.K != nil && !o.Cache.K.Shape().Eq(want):
		return nil, fmt.Errorf("op: %v: the cache is %v, want %v", o, o.Cache.K.Shape(), want)
	}
	return y, nil
}

// FirstPosition checks that T new positions from first on have room.
func (c *KVCache) FirstPosition(b, first, t int) error {
	if first < 0 || first+t > c.Positions {
		return fmt.Errorf("example %d begins at position %d and has %d, and the cache %q has room for %d", b, first, t, c.Name, c.Positions)
	}
	return nil
}

func (o *CachedAttention) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, cachedAttention[float32], cachedAttention[float64])
}

func cachedAttention[T float](o *CachedAttention, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	n := len(in) - 1
	first, err := Indices(in[n])
	if err != nil {
		return nil, err
	}
	if o.Cache.K == nil || o.Cache.K.Dtype() != in[0].Dtype() {
		return nil, fmt.Errorf("op: do %v: the cache has no memory for %v", o, in[0].Dtype())
	}
	a, err := newAttending[T](o, &o.AttentionForm, in[:n])
	if err != nil {
		return nil, err
	}
	positions, row := o.Cache.Positions, a.Hk*a.D
	cached := func(t *tensor.Dense) heads[T] {
		return heads[T]{data: numbers[T](t), example: positions * row, position: row, d: a.D}
	}
	k, v := cached(o.Cache.K), cached(o.Cache.V)
	for b := range a.B {
		if err := o.Cache.FirstPosition(b, first[b], a.T); err != nil {
			return nil, fmt.Errorf("op: do %v: %w", o, err)
		}
		for t := range a.T {
			for h := range a.Hk {
				copy(k.at(b, first[b]+t, h), a.k.at(b, t, h))
				copy(v.at(b, first[b]+t, h), a.v.at(b, t, h))
			}
		}
	}
	out, y := dense[T](shape)
	a.k, a.v = k, v
	for b := range a.B {
		a.S = first[b] + a.T
		a.scores = make([]T, a.S)
		for h := range a.H {
			for i := range a.T {
				a.forward(y, b, h, i)
			}
		}
	}
	return out, nil
}
