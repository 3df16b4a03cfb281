//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

var pools = []struct {
	s                   shape
	kernel, stride, pad [2]int
}{
	{shape{1, 1, 1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{0, 0}},
	{shape{2, 8, 5, 7}, [2]int{2, 2}, [2]int{2, 2}, [2]int{0, 0}},
	{shape{2, 3, 6, 5}, [2]int{3, 3}, [2]int{2, 2}, [2]int{1, 1}},
	{shape{1, 10, 7, 4}, [2]int{3, 2}, [2]int{1, 3}, [2]int{1, 0}},
	{shape{1, 65, 4, 4}, [2]int{4, 4}, [2]int{4, 4}, [2]int{2, 2}},
	{shape{3, 16, 9, 9}, [2]int{3, 3}, [2]int{1, 1}, [2]int{1, 1}},
}

func TestPools(t *testing.T) {
	for _, c := range pools {
		for _, exclude := range []bool{false, true} {
			t.Run(fmt.Sprintf("x=%v/kernel=%v/stride=%v/pad=%v/exclude=%t", c.s, c.kernel, c.stride, c.pad, exclude), func(t *testing.T) {
				everyWay(t, func(b *box, typ Type) {
					p := Pool{Type: typ, N: c.s[0], C: c.s[1], H: c.s[2], W: c.s[3], Kernel: c.kernel, Stride: c.stride, Pad: c.pad, ExcludePad: exclude}
					oh, ow := p.Out()
					ys := shape{c.s[0], c.s[1], oh, ow}
					xv, dyv := random(21, c.s.all()), random(22, ys.all())
					for i := range xv {
						xv[i] = math.Round(2 * xv[i]) // many equals
					}
					x, dy := b.put(typ, xv), b.put(typ, dyv)
					images := func(s shape, v []float64) *tensor.Dense { return dense(s.first(v), s[:]...) }
					y, dx := b.empty(typ, ys.all()), b.empty(typ, c.s.all())
					b.must(b.AvgPool(0, p, y, x))
					want := do(b.t, &op.AvgPool2D{Kernel: c.kernel, Stride: c.stride, Pad: c.pad, ExcludePad: exclude}, images(c.s, xv))
					near(b.t, "mean", typ, b.get(typ, y, ys.all()), ys.last(numbersOf(want[0])), 8)
					b.must(b.AvgPoolGrad(0, p, dx, dy))
					want = do(b.t, &op.AvgPool2DGrad{Kernel: c.kernel, Stride: c.stride, Pad: c.pad, ExcludePad: exclude, XShape: tensor.Shape(c.s[:])}, images(ys, dyv))
					near(b.t, "gradient of the mean", typ, b.get(typ, dx, c.s.all()), c.s.last(numbersOf(want[0])), 8)
					if exclude {
						return
					}
					choice := b.room(ys.all())
					y, dx = b.empty(typ, ys.all()), b.empty(typ, c.s.all())
					b.must(b.MaxPool(0, p, y, choice, x))
					want = do(b.t, &op.MaxPool2D{Kernel: c.kernel, Stride: c.stride, Pad: c.pad}, images(c.s, xv))
					same(b.t, "maximum", b.get(typ, y, ys.all()), ys.last(numbersOf(want[0])))
					firstChoices(b.t, p, xv, b.get(typ, y, ys.all()), b.get(Uint8, choice, ys.all()))
					b.must(b.MaxPoolGrad(0, p, dx, choice, dy))
					want = do(b.t, &op.MaxPool2DGrad{Kernel: c.kernel, Stride: c.stride, Pad: c.pad}, images(c.s, xv), images(ys, dyv))
					near(b.t, "gradient of the maximum", typ, b.get(typ, dx, c.s.all()), c.s.last(numbersOf(want[0])), 8)
					xv[len(xv)/2] = math.NaN()
					x, y = b.put(typ, xv), b.empty(typ, ys.all())
					b.must(b.MaxPool(0, p, y, 0, x))
					want = do(b.t, &op.MaxPool2D{Kernel: c.kernel, Stride: c.stride, Pad: c.pad}, images(c.s, xv))
					same(b.t, "maximum with NaN", b.get(typ, y, ys.all()), ys.last(numbersOf(want[0])))
				})
			})
		}
	}
}

// firstChoices fails the test unless each choice is the first element of its window that is the
// maximum.
func firstChoices(t testing.TB, p Pool, x, y, choices []float64) {
	t.Helper()
	oh, ow := p.Out()
	for i, got := range choices {
		n, h, w, c := i/(oh*ow*p.C), i/(ow*p.C)%oh, i/p.C%ow, i%p.C
		for k := range p.Kernel[0] * p.Kernel[1] {
			r, s := h*p.Stride[0]-p.Pad[0]+k/p.Kernel[1], w*p.Stride[1]-p.Pad[1]+k%p.Kernel[1]
			if r < 0 || r >= p.H || s < 0 || s >= p.W || x[((n*p.H+r)*p.W+s)*p.C+c] != y[i] {
				continue
			}
			if got != float64(k) {
				t.Fatalf("choice %d of %d is %v, want %d", i, len(choices), got, k)
			}
			break
		}
	}
}

func TestGlobalAvgPool(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range images {
			if few(b, typ, s) {
				continue
			}
			pixels, small := s[2]*s[3], s[0]*s[1]
			xv, dyv := random(23, s.all()), random(24, small)
			x, dy, dy32 := b.put(typ, xv), b.put(typ, dyv), b.put(Float32, append([]float64{}, dyv...))
			want := numbersOf(do(b.t, &op.GlobalAvgPool2D{}, dense(s.first(xv), s[:]...))[0])
			grad := s.last(numbersOf(do(b.t, &op.GlobalAvgPool2DGrad{Height: s[2], Width: s[3]}, dense(dyv, s[0], s[1]))[0]))
			for _, side := range []Type{typ, Float32} {
				y, dx := b.empty(side, small), b.empty(typ, s.all())
				b.must(b.GlobalAvgPool(0, typ, side, s[0], pixels, s[1], y, x))
				near(b.t, fmt.Sprint(s), side, b.get(side, y, small), want, 20)
				from := dy
				if side == Float32 {
					from = dy32
				}
				b.must(b.GlobalAvgPoolGrad(0, typ, side, s[0], pixels, s[1], dx, from))
				near(b.t, fmt.Sprint(s, " gradient"), typ, b.get(typ, dx, s.all()), grad, 4)
			}
			b.reset()
		}
	})
}
