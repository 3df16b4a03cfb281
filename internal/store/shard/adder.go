package shard

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An Adder adds up dense gradients as a Shard does, in the order in which they are given to Add. A
// worker that adds up those of its host before it pushes gets the sum that the shard would have got
// from single pushes, bit for bit.
type Adder struct {
	pool *Pool
	n    int
	data *Buffer
	// The squares of the first gradient, which is the sum so far, are taken when the next one
	// is added.
	first   *float64
	squares *f32.AddSquares
}

// NewAdder returns an Adder of gradients of n values.
func NewAdder(pool *Pool, n int) *Adder { return &Adder{pool: pool, n: n} }

// Add adds a gradient in wire.CodecFloat32, CodecFloat16 or CodecBFloat16 and takes its memory.
// Unless sqr is nil its squared norm is put there, at the latest by the next Add. Either all
// gradients have a sqr or none.
func (t *Adder) Add(codec uint8, data *Buffer, sqr *float64) {
	p := payload{data: data, codec: codec}
	switch {
	case t.data == nil:
		into := partialSum{}
		into.take(t.pool, t.n, &p)
		t.data, t.first = into.data, sqr
		return
	case sqr == nil:
		p.addTo(t.data.Float32s(t.n), t.pool)
	default:
		p.addToMeasured(t.data.Float32s(t.n), t.pool, f32.Precondition{}, t.noSquares(), t.first != nil, false)
		t.take(sqr)
	}
	data.Release()
}

// AddValues is Add of a gradient that stays the caller's.
func (t *Adder) AddValues(values []float32, sqr *float64) {
	switch {
	case t.data == nil:
		t.data, t.first = t.pool.Get(4*t.n), sqr
		copy(t.data.Float32s(t.n), values)
	case sqr == nil:
		f32.AddTo(t.data.Float32s(t.n), values)
	default:
		f32.AddToMeasured(t.data.Float32s(t.n), values, f32.Precondition{}, t.noSquares(), t.first != nil, false)
		t.take(sqr)
	}
}

func (t *Adder) noSquares() *f32.AddSquares {
	if t.squares == nil {
		t.squares = &f32.AddSquares{}
	}
	*t.squares = f32.AddSquares{}
	return t.squares
}

// take takes the squares of an addition.
func (t *Adder) take(sqr *float64) {
	*sqr = t.squares.Added.Total()
	if t.first != nil {
		*t.first, t.first = t.squares.Before.Total(), nil
	}
}

// Take returns the sum in one of these codecs, its memory and its bytes, and empties the Adder. A
// sum that float16 cannot hold is returned as float32.
func (t *Adder) Take(codec uint8) (data *Buffer, used uint8, bytes []byte) {
	data, t.data = t.data, nil
	values := data.Float32s(t.n)
	if codec == wire.CodecFloat16 && !fitsFloat16(values) {
		codec = wire.CodecFloat32
	}
	if codec != wire.CodecFloat32 {
		if code, err := Encode(t.pool, codec, values); err == nil {
			data.Release()
			return code, codec, code.Bytes(2 * t.n)
		}
	}
	return data, wire.CodecFloat32, data.Bytes(4 * t.n)
}

// Drop releases the memory.
func (t *Adder) Drop() {
	t.data.Release()
	t.data = nil
}

// fitsFloat16 reports whether no finite value becomes infinite as a float16.
func fitsFloat16(values []float32) bool {
	const overflow = 65520
	if math.Sqrt(f32.Squares(values)) < overflow {
		return true
	}
	for _, v := range values {
		if (v >= overflow || v <= -overflow) && v-v == 0 {
			return false
		}
	}
	return true
}
