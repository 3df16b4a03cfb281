package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A permutations has the kernel that puts axes in another order.
type permutations struct {
	mem     *memory
	threads threads
}

func (p *permutations) builders() builders { return builders{plan.Permute: p.permute} }

// An axis is one of a copy: its size, and the distances of neighbours in x and in y.
type axis struct{ size, x, y int }

// permutedAxes are the axes of y, those of size 1 left out, and neighbours in both tensors joined.
func permutedAxes(shape tensor.Shape, order []int) []axis {
	from, stride := make([]int, len(shape)), 1
	for d := len(shape) - 1; d >= 0; d-- {
		from[d] = stride
		stride *= shape[d]
	}
	var out []axis
	stride = 1
	for i := len(order) - 1; i >= 0; i-- {
		a := axis{shape[order[i]], from[order[i]], stride}
		stride *= a.size
		if a.size == 1 {
			continue
		}
		if n := len(out); n > 0 && a.x == out[n-1].x*out[n-1].size {
			out[n-1].size *= a.size
			continue
		}
		out = append(out, a)
	}
	return out
}

// permute copies runs where the last axis stays the last, and squares of 16 where another one takes
// its place.
func (p *permutations) permute(o *plan.Op) (kernel, error) {
	axes := permutedAxes(o.In[0].Shape, o.Attr.(*op.Permute).Axes)
	inner, axes := axes[0], axes[1:]
	if inner.x == 1 {
		return p.runs(o, inner.size, axes)
	}
	for i, a := range axes {
		if a.x == 1 {
			return p.squares(o, inner, a, append(append([]axis(nil), axes[:i]...), axes[i+1:]...))
		}
	}
	// A tensor of one number has no axis that moves; all others have one whose neighbours in x are
	// side by side.
	return p.runs(o, 1, append([]axis{inner}, axes...))
}

// place is where index i over some axes, the first of which runs fastest, lies.
func place(i int, axes []axis) (x, y int) {
	for _, a := range axes {
		k := i % a.size
		i /= a.size
		x, y = x+k*a.x, y+k*a.y
	}
	return x, y
}

func countOf(axes []axis) int {
	n := 1
	for _, a := range axes {
		n *= a.size
	}
	return n
}

// runs copies pieces of n numbers.
func (p *permutations) runs(o *plan.Op, n int, outer []axis) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := p.mem.floats(o.Out[0]), p.mem.floats(o.In[0])
		return then(p.threads.split(countOf(outer), rowGrain(n), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				from, to := place(i, outer)
				copy(y[to:to+n], x[from:from+n])
			}
		}))
	}}, nil
}

// side is that of the squares that are turned over at once.
const side = 16

// squares turns over the plane of the axes a, whose neighbours are side by side in y, and b, for
// which that is so in x, for each index of the others. A piece of work is a strip of side indices
// of b.
func (p *permutations) squares(o *plan.Op, a, b axis, outer []axis) (kernel, error) {
	tile := f32.Tiles(f32.Active())
	strips := (b.size + side - 1) / side
	return kernel{bind: func() func() error {
		y, x := p.mem.floats(o.Out[0]), p.mem.floats(o.In[0])
		return then(p.threads.split(countOf(outer)*strips, max(1, grain/(side*a.size)), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				from, to := place(i/strips, outer)
				first := i % strips * side
				turnStrip(tile, y[to:], x[from:], a, b, first, min(side, b.size-first))
			}
		}))
	}}, nil
}

// turnStrip does m indices of b from first on.
func turnStrip(tile *f32.Tile, y, x []float32, a, b axis, first, m int) {
	t := f32.TransposeArgs{Dst: y, Src: x}
	for i := 0; i < a.size; i += side {
		n := min(side, a.size-i)
		for k := range n {
			t.SrcRow[k] = (i+k)*a.x + first
		}
		for k := range m {
			t.DstRow[k] = (first+k)*b.y + i
		}
		tile.Transpose(&t, n, m)
	}
}
