package kvstoretest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/paragon-train/paragon/kvstore"
)

// The numbers below are those that the predecessors' tests assert; n is the number of workers, r a
// rank from 0, i a repetition from 0.

// init 1; each worker pushes r+1 everywhere, pulls: n(n+1)(i+1) + 1.
func pushThenPull(w *Worker) { pushThenPullSizes(w, 7, 3) }

// The same with 16-bit values on the wire, in which all these numbers are exact.
func pushThenPullHalf(w *Worker) {
	for _, x := range []struct {
		push, pull          string
		repeats, bigRepeats int
	}{
		{"fp16", "", 7, 0}, {"fp16", "fp16", 7, 1}, {"none", "fp16", 7, 0},
		// Integers up to 256 are exact in bf16.
		{"bf16", "", 2, 0}, {"bf16", "bf16", 2, 0}, {"fp16", "bf16", 2, 0},
	} {
		w.compress(kvstore.Compression{Type: x.push, Pull: x.pull})
		pushThenPullSizes(w, x.repeats, x.bigRepeats)
	}
	w.compress(kvstore.Compression{})
}

func pushThenPullSizes(w *Worker, repeats, bigRepeats int) {
	w.name += "."
	for _, size := range []int{smallSize, w.bigSize()} {
		if size == w.bigSize() {
			repeats = min(repeats, bigRepeats)
		}
		if repeats == 0 {
			continue
		}
		key := w.key("%d", size)
		w.init(key, fill(size, 1))
		grad, out := fill(size, float32(w.r+1)), make([]float32, size)
		for i := range repeats {
			w.push(key, grad)
			w.pull(key, out)
			w.all(fmt.Sprintf("%s after push %d", key, i), out, float32(w.n*(w.n+1)*(i+1)+1))
		}
	}
}

// d devices: n(n+1)·d·(i+1) + 1, by push and pull and by push-pull, in every out.
func twoDevices(w *Worker) {
	const d = 2
	for _, size := range []int{smallSize, w.bigSize()} {
		key := w.key("%d", size)
		w.init(key, fill(size, 1))
		grads := [][]float32{fill(size, float32(w.r+1)), fill(size, float32(w.r+1))}
		outs := [][]float32{make([]float32, size), make([]float32, size)}
		for i := range 4 {
			if i > 1 && size == w.bigSize() {
				break
			}
			if i%2 == 0 {
				w.push(key, grads...)
				w.pull(key, outs...)
			} else {
				w.pushPull(key, grads, outs)
			}
			for j, out := range outs {
				w.all(fmt.Sprintf("%s out %d after push %d", key, j, i), out, float32(w.n*(w.n+1)*d*(i+1)+1))
			}
			clear(outs[0])
			clear(outs[1])
		}
	}
}

// Without an optimizer every repetition gives the same: n(n+1)/2·d, also in place.
func sumReplaces(w *Worker) {
	for _, size := range []int{smallSize, w.bigSize()} {
		for d := 1; d <= 2; d++ {
			key := w.key("%d.%d", size, d)
			w.init(key, fill(size, 5))
			want := float32(w.n * (w.n + 1) / 2 * d)
			for i := range 3 {
				grads := make([][]float32, d)
				for j := range grads {
					grads[j] = fill(size, float32(w.r+1))
				}
				outs := grads
				if i == 1 {
					outs = [][]float32{make([]float32, size), make([]float32, size)}
				}
				w.pushPull(key, grads, outs)
				for j := range outs {
					w.all(fmt.Sprintf("%s out %d, repetition %d", key, j, i), outs[j], want)
				}
			}
		}
	}
}

// 100 keys, or 20 where big arrays are small; the value of the i-th is i. Only rank 0's value
// counts.
func initGivesRankZerosValue(w *Worker) {
	keys := 100
	if w.edge < 1200 {
		keys = 20
	}
	for i := range keys {
		size := smallSize
		if i%40 == 7 {
			size = w.bigSize()
		}
		value := fill(size, float32(i))
		if w.r != 0 {
			value = fill(size, -1)
		}
		w.init(w.key("%d", i), value)
	}
	for i := range keys {
		size := smallSize
		if i%40 == 7 {
			size = w.bigSize()
		}
		w.all(w.key("%d", i), w.pulled(w.key("%d", i), size), float32(i))
	}
}

// ones give n; four of them 4n; four devices twice 8n.
func listsAddUp(w *Worker) {
	const size = 4 * 4
	one, n := fill(size, 1), float32(w.n)
	for i, keys := range [][]string{{"3"}, {"5", "7", "11"}, {"a", "b", "c", "d"}} {
		for _, k := range keys {
			key := w.key("%d.%s", i, k)
			w.init(key, make([]float32, size))
			w.push(key, one)
			w.all(key+" after ones", w.pulled(key, size), n)
			w.push(key, one, one, one, one)
			w.all(key+" after four ones", w.pulled(key, size), 4*n)
		}
	}
	key := w.key("tutorial")
	w.init(key, fill(3*3, 2))
	w.all(key, w.pulled(key, 3*3), 2)
	w.push(key, fill(3*3, 8))
	w.all(key+" after 8", w.pulled(key, 3*3), 8*n)
	w.push(key, fill(3*3, 1), fill(3*3, 1), fill(3*3, 1), fill(3*3, 1))
	w.all(key+" after four ones", w.pulled(key, 3*3), 4*n)
}

// Every worker goes through the keys in an order of its own, and sees the same values.
func anyOrder(w *Worker) {
	order := rand.New(rand.NewPCG(11, uint64(w.r))).Perm(20)
	for _, i := range order {
		w.init(w.key("%d", i), fill(i+1, float32(i-w.r*100)))
	}
	for _, i := range order {
		w.all(w.key("%d", i), w.pulled(w.key("%d", i), i+1), float32(i))
	}
}

// Contributions are added in rank order, those of a host first where workers add up within their
// hosts: the sum of numbers that do not fit each other is the same to the last bit.
func rankOrder(w *Worker) {
	const size = 1000
	key := w.key("x")
	w.init(key, make([]float32, size))
	for round := range uint64(3) {
		want := make([]float32, size)
		var mine, host []float32
		for r := range w.n {
			g := uniform(rand.New(rand.NewPCG(round, uint64(r))), size, -1e6, 1e6)
			if r%w.perHost == 0 {
				host = make([]float32, size)
			}
			for i := range host {
				host[i] += g[i]
			}
			if r%w.perHost == w.perHost-1 || r == w.n-1 {
				for i := range want {
					want[i] += host[i]
				}
			}
			if r == w.r {
				mine = g
			}
		}
		// Others come first in every other round.
		if (int(round)+w.r)%2 == 1 {
			w.pulled(key, size)
		}
		out := make([]float32, size)
		w.pushPull(key, [][]float32{mine}, [][]float32{out})
		w.same(fmt.Sprintf("%s round %d", key, round), out, want)
	}
}

// A worker pushes before the others do: its pushes count in rounds of their own, never as another
// worker's.
func pushAhead(w *Worker) {
	key := w.key("x")
	w.init(key, fill(smallSize, 0))
	const pushes = 5
	if w.r == w.n-1 {
		// The pull lets the others go ahead.
		w.pulled(key, smallSize)
	}
	want := float32(0)
	for i := range pushes {
		w.push(key, fill(smallSize, float32((w.r+1)*(i+1))))
		want += 2 * float32(w.n*(w.n+1)/2*(i+1))
	}
	w.all(key, w.pulled(key, smallSize), want)
}

// Σ g·... over the sum of weights replaces the value of an averaged key.
func averages(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitAverage(w.Ctx, key, fill(smallSize, 7)))
	w.all(key, w.pulled(key, smallSize), 7)
	out := make([]float32, smallSize)
	w.pushPull(key, [][]float32{fill(smallSize, float32(2*w.r))}, [][]float32{out})
	w.all(key+" with equal weights", out, float32(w.n-1))
	// sums over 1, 2, ... examples of the value 3 each
	w.ok(w.Store.Weighted(float32(w.r+1), false).PushPull(w.Ctx, key, [][]float32{fill(smallSize, 3*float32(w.r+1))}, [][]float32{out}))
	w.all(key+" with weights", out, 3)
	w.pushPull(key, [][]float32{fill(smallSize, float32(2*w.r))}, [][]float32{out})
	// A weight is of its own push alone.
	w.all(key+" with equal weights again", out, float32(w.n-1))
}

func misuse(w *Worker) {
	key := w.key("x")
	ctx, kv := w.Ctx, w.Store
	small := make([]float32, 2)
	w.is("pull before init", kv.Pull(ctx, key, small), kvstore.ErrUnknownKey)
	w.is("push before init", kv.Push(ctx, key, small), kvstore.ErrUnknownKey)
	w.is("init of nothing", kv.Init(ctx, key, nil), kvstore.ErrSize)
	w.init(key, fill(2, 2))
	w.is("second init", kv.Init(ctx, key, fill(2, 3)), kvstore.ErrDuplicateInit)
	w.is("push of another size", kv.Push(ctx, key, make([]float32, 3)), kvstore.ErrSize)
	w.is("push of nothing", kv.Push(ctx, key), kvstore.ErrSize)
	w.is("devices of two sizes", kv.Push(ctx, key, small, make([]float32, 1)), kvstore.ErrSize)
	w.is("pull of another size", kv.Pull(ctx, key, make([]float32, 1)), kvstore.ErrSize)
	w.is("push-pull into another size", kv.PushPull(ctx, key, [][]float32{small}, [][]float32{nil}), kvstore.ErrSize)
	w.is("rows of a dense key", kv.PullRows(ctx, key, []int64{0}, small[:1]), kvstore.ErrUnsupported)
	w.is("push of rows of a dense key", kv.PushRows(ctx, key, []int64{0}, small[:1]), kvstore.ErrUnsupported)
	rows := w.key("rows")
	w.ok(kv.InitRows(ctx, rows, 2, 1, fill(2, 2)))
	w.is("pull of a key of rows", kv.Pull(ctx, rows, small), kvstore.ErrUnsupported)
	w.is("push of a key of rows", kv.Push(ctx, rows, small), kvstore.ErrUnsupported)
	w.is("a row beyond", kv.PullRows(ctx, rows, []int64{2}, small[:1]), kvstore.ErrSize)
	w.says("a row beyond", kv.PullRows(ctx, rows, []int64{2}, small[:1]), "rows[0]: got row 2, want 0 to 1")
	w.is("a row before", kv.PushRows(ctx, rows, []int64{-1}, small[:1]), kvstore.ErrSize)
	w.is("too few values for the rows", kv.PushRows(ctx, rows, []int64{0, 1}, small[:1]), kvstore.ErrSize)
	w.is("init of no rows", kv.InitRows(ctx, w.key("none"), 0, 1, nil), kvstore.ErrSize)
	w.badNames()
	w.is("shape of no key", kv.SetShape("nobody", 1), kvstore.ErrUnknownKey)
	w.is("shape of rows", kv.SetShape(rows, 2, 1), kvstore.ErrUnsupported)
	for _, shape := range [][]int{{3}, {2, 2}, {}, {-1, -2}, {0}, {1 << 62, 1 << 62, 2}} {
		w.is("shape of another size", kv.SetShape(key, shape...), kvstore.ErrSize)
	}
	w.ok(kv.SetShape(key, 2, 1))
	w.ok(kv.SetShape(key, 2, 1))
	w.is("another shape", kv.SetShape(key, 1, 2), kvstore.ErrSize)
	for _, c := range []kvstore.Compression{{Type: "3bit"}, {Type: "2bit", Threshold: -1}, {Type: "fp16", Threshold: 1}, {Type: "2bit", Pull: "2bit"}, {Type: "topk", Ratio: 2}} {
		if kv.SetCompression(ctx, c) == nil {
			w.failf("compression %+v: got no error", c)
		}
	}
	// What was refused has changed nothing.
	w.all(key, w.pulled(key, 2), 2)
	w.otherSize()
}

// badNames makes keys that could not be saved: safetensors files have names in JSON, one of which is
// theirs.
func (w *Worker) badNames() {
	ctx, kv, small := w.Ctx, w.Store, make([]float32, 2)
	for name, text := range map[string]string{"": "empty name", "__metadata__": "__metadata__", "a\xff": "UTF-8", strings.Repeat("x", 1025): "1025 bytes"} {
		for kind, err := range map[string]error{
			"init": kv.Init(ctx, name, small), "init average": kv.InitAverage(ctx, name, small), "init rows": kv.InitRows(ctx, name, 2, 1, nil),
			"init table": kv.InitTable(ctx, name, kvstore.Table{RowLen: 1}),
		} {
			if err == nil || !strings.Contains(err.Error(), text) {
				w.failf("%s of %.20q: got error %v, want one with %q", kind, name, err, text)
			}
		}
	}
}

// otherSize makes a key of another size on another worker: the one that comes second is told.
func (w *Worker) otherSize() {
	bad := w.key("of two sizes")
	if w.r == 0 {
		w.init(bad, make([]float32, 2))
	}
	w.barrier()
	if w.r != 0 {
		err := w.Store.Init(w.Ctx, bad, make([]float32, 3))
		w.is("init with another size", err, kvstore.ErrSize)
		if !strings.Contains(err.Error(), bad) {
			w.failf("init with another size: got %q, want the key named", err)
		}
		w.init(bad, make([]float32, 2))
	}
}

func barriers(w *Worker) {
	for range 100 {
		w.barrier()
	}
}
