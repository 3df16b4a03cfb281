package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

// fewChannels is the number of channels below which a max pool goes by rows of pixels: a call for
// each pixel would cost more than its comparisons.
const fewChannels = 16

// poolRows is a max pool of images of few channels. For each element of the window the pixels of a
// row of y are put side by side and compared together, in the order of the window's elements, so
// that of equal ones the first is chosen.
type poolRows struct {
	op *op.MaxPool2D

	// tile copies pixels.
	tile *f32.Tile

	// h, w and c are x's.
	h, w, c int

	outH, outW int

	// from and to have, for each column of the window, the pixels of a row of y whose element there
	// is no padding.
	from, to []int

	// first has the first element that is no padding, for each number of rows of a window that are
	// padding, and for each number of a row of y.
	first [][]uint8

	// rooms has roomLen values for each thread.
	rooms []f32.Array
}

// roomLen is the number of values of pixels that are put side by side at a time.
const roomLen = 512

func newPoolRows(a *op.MaxPool2D, xs, ys tensor.Shape, half bool, threads int) *poolRows {
	r := &poolRows{op: a, tile: f32.Tiles(f32.Active()), h: xs[2], w: xs[3], c: xs[1], outH: ys[2], outW: ys[3]}
	for v := range a.Kernel[1] {
		from, to := 0, 0
		for j := range r.outW {
			if at := j*a.Stride[1] - a.Pad[1] + v; at < 0 {
				from = j + 1
			} else if at < r.w {
				to = j + 1
			}
		}
		r.from, r.to = append(r.from, from), append(r.to, max(from, to))
	}
	for top := range a.Pad[0] + 1 {
		var row []uint8
		for j := range r.outW {
			for range r.c {
				row = append(row, uint8(top*a.Kernel[1]+max(0, a.Pad[1]-j*a.Stride[1])))
			}
		}
		r.first = append(r.first, row)
	}
	for range threads {
		if half {
			r.rooms = append(r.rooms, f32.Array{BF16: make([]uint16, roomLen)})
		} else {
			r.rooms = append(r.rooms, f32.Array{F32: make([]float32, roomLen)})
		}
	}
	return r
}

// maxOf sets y and chosen for one image.
func (r *poolRows) maxOf(thread int, y f32.Array, chosen []uint8, x f32.Array) {
	kernel, stride, pad := r.op.Kernel, r.op.Stride, r.op.Pad
	rowLen := r.outW * r.c
	for i := range r.outH {
		h0 := i*stride[0] - pad[0]
		top, bottom := max(h0, 0), min(h0+kernel[0], r.h)
		out, which := y.Part(i*rowLen, (i+1)*rowLen), chosen[i*rowLen:(i+1)*rowLen]
		lowest(out)
		copy(which, r.first[top-h0])
		for h := top; h < bottom; h++ {
			row := x.Part(h*r.w*r.c, (h+1)*r.w*r.c)
			for v := range kernel[1] {
				r.compare(r.rooms[thread], out, which, row, h-h0, v)
			}
		}
	}
}

// compare puts into a row of y, and into which, what element (h, v) of the windows has in a row of
// x, where that is larger.
func (r *poolRows) compare(room, y f32.Array, which []uint8, x f32.Array, h, v int) {
	stride, pad := r.op.Stride[1], r.op.Pad[1]
	element := uint8(h*r.op.Kernel[1] + v)

	// atOnce is the number of pixels that have room side by side.
	atOnce := room.Len() / r.c
	for j := r.from[v]; j < r.to[v]; j += atOnce {
		n := min(atOnce, r.to[v]-j)
		pixels := x.Part((j*stride-pad+v)*r.c, x.Len())
		if stride == 1 {
			pixels = pixels.Part(0, n*r.c)
		} else {
			pixels = r.sideBySide(room, pixels, n, stride)
		}
		maxWhich(y.Part(j*r.c, (j+n)*r.c), which[j*r.c:(j+n)*r.c], pixels, element)
	}
}

// lowest fills y with the number that is below all others.
func lowest(y f32.Array) {
	low := float32(math.Inf(-1))
	for i := range y.F32 {
		y.F32[i] = low
	}
	half := f32.BFloat16Bits(low)
	for i := range y.BF16 {
		y.BF16[i] = half
	}
}

// sideBySide copies n pixels, stride pixels apart, to room. Pixels of bfloat16 with an even number
// of channels are copied two numbers at a time.
func (r *poolRows) sideBySide(room, x f32.Array, n, stride int) f32.Array {
	c := r.c
	switch {
	case x.BF16 == nil:
		r.tile.CopyRows(room.F32, c, x.F32, stride*c, n, c, c)
	case c%2 == 0:
		r.tile.CopyRows(f32.PairsOf(room.BF16), c/2, f32.PairsOf(x.BF16), stride*c/2, n, c/2, c/2)
	default:
		for i := range n {
			copy(room.BF16[i*c:][:c], x.BF16[i*stride*c:])
		}
	}
	return room.Part(0, n*c)
}
