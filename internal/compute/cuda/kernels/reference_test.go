//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// dense is a float64 tensor over v.
func dense(v []float64, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
}

// do is an op's own loop in float64: the reference. The result's tensors are those of a Tuple, or
// the one.
func do(t testing.TB, o gorgonia.Op, in ...gorgonia.Value) []*tensor.Dense {
	t.Helper()
	v, err := o.Do(in...)
	if err != nil {
		t.Fatal(err)
	}
	if tuple, ok := v.(*op.Tuple); ok {
		return tuple.Values
	}
	return []*tensor.Dense{v.(*tensor.Dense)}
}

func numbersOf(t *tensor.Dense) []float64 { return t.Data().([]float64) }

// A shape is (N,C,H,W) of images.
type shape [4]int

func (s shape) all() int { return s[0] * s[1] * s[2] * s[3] }

// last is v, of this shape, with channels last; first is its inverse.
func (s shape) last(v []float64) []float64 {
	out := make([]float64, len(v))
	s.each(func(first, last int) { out[last] = v[first] })
	return out
}

func (s shape) first(v []float64) []float64 {
	out := make([]float64, len(v))
	s.each(func(first, last int) { out[first] = v[last] })
	return out
}

func (s shape) each(f func(first, last int)) {
	hw := s[2] * s[3]
	for n := range s[0] {
		for c := range s[1] {
			for p := range hw {
				f((n*s[1]+c)*hw+p, (n*hw+p)*s[1]+c)
			}
		}
	}
}

// images are shapes of images: channels beside the multiples of 8, one pixel, one image, rows that
// fill tiles and do not, more channels than a block is wide.
var images = []shape{{1, 1, 1, 1}, {1, 3, 1, 1}, {2, 7, 3, 2}, {3, 8, 4, 5}, {2, 10, 1, 3}, {1, 64, 3, 3}, {2, 65, 2, 2}, {5, 16, 1, 1},
	{7, 8, 40, 9}, {40, 64, 4, 2}, {50, 3, 12, 10}, {2, 2056, 1, 2}}
