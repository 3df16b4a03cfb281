package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// resnetShapes are the convolutions of ResNet18, 34 and 50 on 32×32 images, each shape once.
func resnetShapes(n int) []Shape {
	var shapes []Shape
	seen := map[Shape]bool{}
	add := func(h, c, k, r, stride int) int {
		s := square(n, h, c, k, r, stride, r/2)
		if !seen[s] {
			seen[s] = true
			shapes = append(shapes, s)
		}
		return s.OutH()
	}
	for _, cifar := range []bool{false, true} {
		for _, bottleneck := range []bool{false, true} {
			h := 32
			if cifar {
				h = add(h, 3, 64, 3, 1)
			} else {
				h = (add(h, 3, 64, 7, 2) + 1) / 2 // max pooling
			}
			c := 64
			for stage := range 4 {
				width, out, stride := 64<<stage, 64<<stage, 1
				if stage > 0 {
					stride = 2
				}
				if bottleneck {
					out *= 4
				}
				for block := range 2 {
					if block > 0 {
						stride = 1
					} else if stride != 1 || c != out {
						add(h, c, out, 1, stride)
					}
					if bottleneck {
						add(h, c, width, 1, 1)
						h = add(h, width, width, 3, stride)
						add(h, width, out, 1, 1)
					} else {
						h = add(h, c, width, 3, stride)
						add(h, width, width, 3, 1)
					}
					c = out
				}
			}
		}
	}
	return shapes
}

// Positions drawn at random are compared with the formulas; the portable path leaves out the shapes
// that take it long.
func TestResNetShapes(t *testing.T) {
	shapes := resnetShapes(2)
	if len(shapes) < 40 {
		t.Fatalf("%d shapes, want at least 40", len(shapes))
	}
	all := runners(t, 2)

	// The values are drawn once: that takes longer than the convolutions.
	values := random(rand.New(rand.NewPCG(5, 5)), 3<<20)
	for i, s := range shapes {
		if (testing.Short() || slow) && i%4 != 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 5))
		x, w, dy := values[i:][:s.XLen()], values[2*i+100:][:s.WLen()], values[3*i+1000:][:s.YLen()]
		for _, run := range all {
			if run.path == f32.Portable && (slow || s.Flops() > 2e7) {
				continue
			}
			y, dx, dw := run.compute(t, s, x, w, dy)
			checkSome(t, fmt.Sprintf("%v, %v: ", s, run.path), s, r, x, w, dy, y, dx, dw)
		}
	}
}

// Batches whose images are packed in several parts, and a reduction that is cut.
func TestLargeBatches(t *testing.T) {
	if testing.Short() || slow {
		t.Skip("takes a second, and much longer with the race detector")
	}
	for i, s := range []Shape{square(70, 32, 3, 64, 3, 1, 1), square(29, 16, 64, 96, 3, 1, 1), square(21, 16, 40, 130, 3, 2, 1), square(3, 3, 600, 33, 3, 1, 1)} {
		r := rand.New(rand.NewPCG(uint64(i), 6))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		for _, run := range runners(t, 3) {
			if run.path == f32.Portable && s.Flops() > 1e8 {
				continue
			}
			y, dx, dw := run.compute(t, s, x, w, dy)
			checkSome(t, fmt.Sprintf("%v, %v: ", s, run.path), s, r, x, w, dy, y, dx, dw)
		}
	}
}

// checkSome compares 16 random positions of each result.
func checkSome(t *testing.T, name string, s Shape, rnd *rand.Rand, x, w, dy, y, dx, dw []float32) {
	t.Helper()
	outH, outW := s.OutH(), s.OutW()
	// Each result is a sum over products of x, w and dy whose indices are tied by (h, v) = (oh,
	// ow)·stride + (i, j) − pad.
	at := func(n, oh, ow, k, c, i, j int) (px, py, pw int, inside bool) {
		h, v := oh*s.StrideH+i-s.PadH, ow*s.StrideW+j-s.PadW
		return ((n*s.H+h)*s.W+v)*s.C + c, ((n*outH+oh)*outW+ow)*s.K + k, ((k*s.C+c)*s.R+i)*s.S + j, h >= 0 && h < s.H && v >= 0 && v < s.W
	}
	one := func(what string, got float32, sum, abs float64) {
		t.Helper()
		closeTo(t, name+what, []float32{got}, []float64{sum}, []float64{abs})
	}
	for range 16 {
		n, oh, ow, k, c, i, j := rnd.IntN(s.N), rnd.IntN(outH), rnd.IntN(outW), rnd.IntN(s.K), rnd.IntN(s.C), rnd.IntN(s.R), rnd.IntN(s.S)
		var sum, abs float64
		tally := func(a, b float32) {
			p := float64(a) * float64(b)
			sum += p
			abs += max(p, -p)
		}
		_, py, pw, _ := at(n, oh, ow, k, c, i, j)
		for c := range s.C {
			for i := range s.R {
				for j := range s.S {
					if px, _, pw, in := at(n, oh, ow, k, c, i, j); in {
						tally(x[px], w[pw])
					}
				}
			}
		}
		one(fmt.Sprintf("y[%d]", py), y[py], sum, abs)

		sum, abs = 0, 0
		for n := range s.N {
			for oh := range outH {
				for ow := range outW {
					if px, py, _, in := at(n, oh, ow, k, c, i, j); in {
						tally(x[px], dy[py])
					}
				}
			}
		}
		one(fmt.Sprintf("dw[%d]", pw), dw[pw], sum, abs)

		sum, abs = 0, 0
		px := rnd.IntN(len(dx))
		c, v, h, n := px%s.C, px/s.C%s.W, px/s.C/s.W%s.H, px/s.C/s.W/s.H
		for i := range s.R {
			for j := range s.S {
				oh, ow := h+s.PadH-i, v+s.PadW-j
				if oh < 0 || ow < 0 || oh%s.StrideH != 0 || ow%s.StrideW != 0 || oh/s.StrideH >= outH || ow/s.StrideW >= outW {
					continue
				}
				for k := range s.K {
					_, py, pw, _ := at(n, oh/s.StrideH, ow/s.StrideW, k, c, i, j)
					tally(dy[py], w[pw])
				}
			}
		}
		one(fmt.Sprintf("dx[%d]", px), dx[px], sum, abs)
	}
}
