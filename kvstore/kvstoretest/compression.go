package kvstoretest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/kvstore"
)

// 2bit with threshold 0.5 and rate 2, identical pushes on all workers. A quantum is 0.5, of n
// workers, twice: n.
func twoBit(w *Worker) {
	w.compress(kvstore.Compression{Type: "2bit", Threshold: 0.5})
	n := float32(w.n)
	for _, size := range []int{smallSize, w.oddSize(), w.bigSize()} {
		key, ones := w.key("%d", size), w.key("%d.ones", size)
		w.init(key, make([]float32, size))
		w.all(key+" before", w.pulled(key, size), 0)
		// A first value is never compressed.
		w.init(ones, fill(size, 1))
		w.all(ones, w.pulled(ones, size), 1)
		out := make([]float32, size)
		for _, x := range []struct{ push, want float32 }{{0, 0}, {0.4, 0}, {0.1, n}, {0.2, n}, {0.3, 2 * n}, {0.5, 3 * n}} {
			w.pushPull(key, [][]float32{fill(size, x.push)}, [][]float32{out})
			w.all(fmt.Sprintf("%s after %v", key, x.push), out, x.want)
		}
	}
	w.follows(kvstore.Compression{Type: "2bit", Threshold: 0.5})
	w.compress(kvstore.Compression{Type: "2bit", Scale: 1.5})
	w.follows(kvstore.Compression{Type: "2bit", Scale: 1.5})
	w.compress(kvstore.Compression{})
}

// 1bit with threshold 0: every push says +1 or -1.
func oneBit(w *Worker) {
	w.compress(kvstore.Compression{Type: "1bit"})
	n := float32(w.n)
	for _, size := range []int{smallSize, w.bigSize()} {
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

// topk: every push says the values largest in magnitude, whole; with a ratio of 1 all of them, of
// each shard of a big key.
func topK(w *Worker) {
	n := float32(w.n)
	w.compress(kvstore.Compression{Type: "topk", Ratio: 0.34})
	key, out := w.key("few"), make([]float32, smallSize)
	w.init(key, out)
	// Of 6 values 2 are sent, of equal ones the first.
	for i, x := range []struct{ push, want []float32 }{
		{[]float32{3, -1, 2, 0, -2, 1}, []float32{6, 0, 4, 0, 0, 0}},
		{[]float32{0, -1, 0, 1, 0, 0}, []float32{6, -4, 4, 0, -4, 0}},
		{[]float32{0, 0, 0, 0, 0, 0}, []float32{6, -4, 4, 2, -4, 2}},
		{[]float32{0, 0, 0, 0, 0, 0}, []float32{6, -4, 4, 2, -4, 2}},
		{[]float32{0, 0, 0, 0, 0, -8}, []float32{6, -4, 4, 2, -4, -14}},
	} {
		want := make([]float32, len(x.want))
		for j, v := range x.want {
			want[j] = n * v
		}
		w.pushPull(key, [][]float32{x.push}, [][]float32{out})
		w.near(fmt.Sprintf("%s push %d", key, i), out, want, 0)
	}
	w.compress(kvstore.Compression{Type: "topk", Ratio: 1})
	for _, size := range []int{1, smallSize, w.bigSize()} {
		key, out := w.key("all.%d", size), make([]float32, size)
		w.init(key, out)
		for i := range 2 {
			w.pushPull(key, [][]float32{fill(size, 1)}, [][]float32{out})
			w.all(fmt.Sprintf("%s after %d", key, i), out, 2*n*float32(i+1))
		}
	}
	w.compress(kvstore.Compression{Type: "topk"})
	w.follows(kvstore.Compression{Type: "topk", Ratio: 0.01})
	w.compress(kvstore.Compression{})
}

// A worker's residuals can be copied and put back, also those of a big key with several shards: the
// same push then leaves the same behind.
func residuals(w *Worker) {
	random := rand.New(rand.NewPCG(uint64(w.r), 5))
	for _, c := range []kvstore.Compression{{Type: "2bit", Threshold: 0.75}, {Type: "2bit", Scale: 2}, {Type: "1bit", Threshold: 0.25}, {Type: "topk", Ratio: 0.003, Pull: "bf16"}} {
		w.compress(c)
		now := func() map[string][][]float32 {
			r, err := w.Store.Residuals(w.Ctx)
			w.ok(err)
			return r.Values
		}
		if left := now(); len(left) > 0 {
			w.failf("%s: residuals before the first push: got those of %d keys, want none", c, len(left))
		}
		keys, grads := map[string]int{w.key("small.%v", c): 10, w.key("big.%v", c): w.bigSize()}, map[string][]float32{}
		push := func() {
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				w.push(key, grads[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			w.init(key, make([]float32, keys[key]))
			grads[key] = uniform(random, keys[key], -1, 1)
		}
		push()
		before, err := w.Store.Residuals(w.Ctx)
		w.ok(err)
		push()
		after := now()
		w.ok(w.Store.SetResiduals(w.Ctx, before))
		push()
		again := now()
		for key := range keys {
			if len(after[key]) != 1 || !slices.Equal(after[key][0], again[key][0]) {
				w.failf("%s: residuals of %s differ after they were put back", c, key)
			}
			if slices.Equal(before.Values[key][0], after[key][0]) {
				w.failf("%s: residuals of %s: a push changed nothing", c, key)
			}
		}
		put := func(key string, values ...[]float32) error {
			return w.Store.SetResiduals(w.Ctx, kvstore.Residuals{Compression: before.Compression, Values: map[string][][]float32{key: values}})
		}
		w.is("residuals of no key", put("none", []float32{1}), kvstore.ErrUnknownKey)
		w.is("short residuals", put(w.key("small.%v", c), make([]float32, 9)), kvstore.ErrSize)
		w.is("residuals of two devices", put(w.key("small.%v", c), make([]float32, 10), make([]float32, 10)), kvstore.ErrConflict)
		w.compress(kvstore.Compression{Type: "2bit", Threshold: 0.125})
		w.is("residuals of another compression", w.Store.SetResiduals(w.Ctx, before), kvstore.ErrConflict)
		w.compress(kvstore.Compression{})
		w.is("residuals without compression", w.Store.SetResiduals(w.Ctx, before), kvstore.ErrConflict)
	}
}

// follows pushes random gradients, the same on all workers, and compares with the formula and its
// residual.
func (w *Worker) follows(c kvstore.Compression) {
	key, size := w.key("random.%v", c), 12345
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

// quantise is the formula: what a code says of residual + grad; the rest stays in residual. All
// three are the caller's own.
//
//go:norace
func quantise(c kvstore.Compression, residual, grad []float32) []float32 {
	said := make([]float32, len(grad))
	if c.Type == "topk" {
		// The largest first, of equal ones the first: as integers, which sort fast under
		// the race detector, too.
		order := make([]uint64, len(grad))
		for i, g := range grad {
			residual[i] += g
			order[i] = uint64(^math.Float32bits(residual[i])&math.MaxInt32)<<32 | uint64(i)
		}
		slices.Sort(order)
		for _, o := range order[:int(math.Round(c.Ratio*float64(len(grad))))] {
			i := uint32(o)
			said[i], residual[i] = residual[i], 0
		}
		return said
	}
	if c.Scale > 0 {
		squares := 0.0
		for _, g := range grad {
			squares += float64(g) * float64(g)
		}
		c.Threshold = float32(c.Scale * math.Sqrt(squares/float64(len(grad))))
	}
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
		big := 2000 * 2000
		if w.edge < 1200 {
			big = w.bigSize()
		}
		for _, size := range []int{4 * 4, 100 * 100, big} {
			w.compress(c)
			key := w.key("%s.%v.%d", c.Type, c.Threshold, size)
			w.init(key, make([]float32, size))
			out := make([]float32, size)
			for i, s := range steps {
				if size == big && (i > 4 || c.Threshold < 0) {
					// The small sizes go through the rest.
					break
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
