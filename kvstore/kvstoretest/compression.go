package kvstoretest

import (
	"fmt"
	"math/rand/v2"

	"github.com/paragon-train/paragon/kvstore"
)

// 2bit with threshold 0.5 and rate 2, identical pushes on all workers. A quantum is 0.5, of n workers, twice: n.
func twoBit(w *Worker) {
	w.compress(kvstore.Compression{Type: "2bit", Threshold: 0.5})
	n := float32(w.n)
	for _, size := range []int{smallSize, oddSize, bigSize} {
		key, ones := w.key("%d", size), w.key("%d.ones", size)
		w.init(key, make([]float32, size))
		w.all(key+" before", w.pulled(key, size), 0)
		w.init(ones, fill(size, 1)) // a first value is never compressed
		w.all(ones, w.pulled(ones, size), 1)
		out := make([]float32, size)
		for _, x := range []struct{ push, want float32 }{{0, 0}, {0.4, 0}, {0.1, n}, {0.2, n}, {0.3, 2 * n}, {0.5, 3 * n}} {
			w.pushPull(key, [][]float32{fill(size, x.push)}, [][]float32{out})
			w.all(fmt.Sprintf("%s after %v", key, x.push), out, x.want)
		}
	}
	w.follows(kvstore.Compression{Type: "2bit", Threshold: 0.5})
	w.compress(kvstore.Compression{})
}

// 1bit with threshold 0: every push says +1 or -1.
func oneBit(w *Worker) {
	w.compress(kvstore.Compression{Type: "1bit"})
	n := float32(w.n)
	for _, size := range []int{smallSize, bigSize} {
		key := w.key("%d", size)
		w.init(key, make([]float32, size))
		out := make([]float32, size)
		for _, x := range []struct{ push, want float32 }{{1, 2 * n}, {-1, 0}, {2, 2 * n}, {0, 4 * n}, {-2, 2 * n}} {
			w.pushPull(key, [][]float32{fill(size, x.push)}, [][]float32{out})
			w.all(fmt.Sprintf("%s after %v", key, x.push), out, x.want)
		}
	}
	w.follows(kvstore.Compression{Type: "1bit"})
	w.compress(kvstore.Compression{})
}

// follows pushes random gradients, the same on all workers, and compares with the formula and its residual.
func (w *Worker) follows(c kvstore.Compression) {
	key, size := w.key("random"), 12345
	w.init(key, make([]float32, size))
	random := rand.New(rand.NewPCG(3, 4))
	residual, want, out := make([]float32, size), make([]float32, size), make([]float32, size)
	for i := range 5 {
		grad := uniform(random, size, 0, 1)
		for j, said := range quantise(c, residual, grad) {
			want[j] += 2 * float32(w.n) * said
		}
		w.pushPull(key, [][]float32{grad}, [][]float32{out})
		w.near(fmt.Sprintf("%s push %d", key, i), out, want, 1e-4)
	}
}

// quantise is the formula: what a code says of residual + grad; the rest stays in residual.
func quantise(c kvstore.Compression, residual, grad []float32) []float32 {
	said := make([]float32, len(grad))
	for i, g := range grad {
		residual[i] += g
		r := residual[i]
		switch {
		case c.Type == "1bit" && r > c.Threshold:
			said[i] = 1
		case c.Type == "1bit":
			said[i] = -1
		case r >= c.Threshold:
			said[i] = c.Threshold
		case r <= -c.Threshold:
			said[i] = -c.Threshold
		}
		residual[i] -= said[i]
	}
	return said
}

// Four local devices, each compressed by itself before the sum, rate 2.
func deviceCompression(w *Worker) {
	const devices = 4
	type step struct{ push, want float32 }
	ten := func(push, from, by float32) []step {
		var s []step
		for i := range 10 {
			s = append(s, step{push, from + by*float32(i)})
		}
		return s
	}
	run := func(c kvstore.Compression, steps ...step) {
		for _, size := range []int{4 * 4, 100 * 100, 2000 * 2000} {
			w.compress(c)
			key := w.key("%s.%v.%d", c.Type, c.Threshold, size)
			w.init(key, make([]float32, size))
			out := make([]float32, size)
			for i, s := range steps {
				if size > 1e6 && (i > 4 || c.Threshold < 0) {
					break // the small sizes go through the rest
				}
				grad := fill(size, s.push)
				w.pushPull(key, [][]float32{grad, grad, grad, grad}[:devices], [][]float32{out})
				w.all(fmt.Sprintf("%s step %d after %v", key, i, s.push), out, s.want)
			}
		}
	}
	run(kvstore.Compression{Type: "2bit", Threshold: 0.5}, append([]step{{0.4, 0}, {0.2, 4}, {0.2, 4}, {0.2, 8}}, ten(-0.5, 4, -4)...)...)
	for _, t := range []float32{-0.5, 0, 0.5} {
		steps := append(ten(1, 8, 8), ten(-1, 72, -8)...)
		run(kvstore.Compression{Type: "1bit", Threshold: t}, append(steps, step{2, 8}, step{0, 16}, step{-2, 8})...)
	}
}
