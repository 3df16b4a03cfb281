package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

// Rows of pixels give what each window gives by itself: the largest number, of equal ones the
// first, and a NaN where there is one.
func TestPoolsByRowsChooseWhatEachWindowHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		a := &op.MaxPool2D{Kernel: [2]int{1 + r.IntN(4), 1 + r.IntN(4)}, Stride: [2]int{1 + r.IntN(3), 1 + r.IntN(3)}}
		a.Pad = [2]int{r.IntN(a.Kernel[0]/2 + 1), r.IntN(a.Kernel[1]/2 + 1)}
		c := 1 + r.IntN(fewChannels-1)
		xs := tensor.Shape{1, c, a.Kernel[0] + r.IntN(9), a.Kernel[1] + r.IntN(200)}
		ys := tensor.Shape{1, c, (xs[2]+2*a.Pad[0]-a.Kernel[0])/a.Stride[0] + 1, (xs[3]+2*a.Pad[1]-a.Kernel[1])/a.Stride[1] + 1}
		x := make([]float32, xs.TotalSize())
		for i := range x {
			x[i] = float32(r.IntN(3)) // many are equal
			switch r.IntN(40) {
			case 0:
				x[i] = float32(math.NaN())
			case 1, 2, 3:
				x[i] = float32(math.Inf(-1))
			}
		}
		y := f32.Array{F32: make([]float32, ys.TotalSize())}
		in := f32.Array{F32: x}
		half := r.IntN(2) == 0
		if half {
			y, in = f32.Array{BF16: make([]uint16, ys.TotalSize())}, f32.Array{BF16: make([]uint16, len(x))}
			f32.Move(in, f32.Array{F32: x})
		}
		chosen := make([]uint8, ys.TotalSize())
		newPoolRows(a, xs, ys, half, 2).maxOf(1, y, chosen, in)
		got := f32.Array{F32: make([]float32, y.Len())}
		f32.Move(got, y)
		windows(xs, ys, a.Kernel, a.Stride, a.Pad, func(pixel int, w window) {
			for k := range c {
				best, which, first := float32(0), 0, true
				for h := w.top; h < w.bottom; h++ {
					for v := w.left; v < w.right; v++ {
						if n := x[(h*xs[3]+v)*c+k]; first || n > best || n != n {
							best, which, first = n, (h-w.h0)*a.Kernel[1]+v-w.v0, false
						}
					}
				}
				at := pixel*c + k
				if g := got.F32[at]; g != best && (g == g || best == best) {
					t.Fatalf("%+v of %v, pixel %d, channel %d: got %g, want %g", a, xs, pixel, k, g, best)
				}
				if best == best && int(chosen[at]) != which {
					t.Fatalf("%+v of %v, pixel %d, channel %d: chose element %d, want %d", a, xs, pixel, k, chosen[at], which)
				}
			}
		})
	}
}
