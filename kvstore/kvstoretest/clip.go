package kvstoretest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/exact"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// clipped is the optimizer of the cases about ClipGlobalNorm.
var clipped = optim.Config{Name: "adamw", LearningRate: 0.1, WeightDecay: 0.1, Reduction: optim.Mean, ClipGlobalNorm: 2}

func clippedCases() []Case {
	return []Case{
		{Name: "gradients are clipped by their norm over all keys", Group: "clipped", Optimizer: &clipped, Run: clipsAllKeys},
		{Name: "misuse of clipping is an error that names the key", Group: "clipped", Optimizer: &clipped, Run: clipMisuse},
		{Name: "clipping needs an optimizer that clips", Optimizer: &doubling, Run: clipWithoutLimit},
		{Name: "async refuses clipping", Types: []string{"dist_async"}, Run: asyncClip},
	}
}

// A clippedKey is a key of the case, and what it should be.
type clippedKey struct {
	name  string
	value []float32
	state *optim.State
	// rowLen is of a key of rows.
	rowLen int
	sum    []float32
}

// eighths returns n multiples of 1/8, whose sums and means over few workers have no rounding error,
// in whatever order they are added.
func eighths(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.IntN(17)-8) / 8
	}
	return x
}

// Steps over dense keys, one of them cut, and keys of rows, with weights: each is that of package
// optim on the whole keys, bit for bit, whatever the servers are. Keys that are not pushed are not
// waited for. A step with an infinity changes nothing, and the next one goes on.
func clipsAllKeys(w *Worker) {
	opt, err := optim.New(clipped)
	w.ok(err)
	random := rand.New(rand.NewPCG(5, 6))
	keys := []*clippedKey{{name: "small", value: eighths(random, 7)}, {name: "one", value: eighths(random, 1)},
		{name: "cut", value: eighths(random, w.cutSize())}, {name: "rows", value: eighths(random, 60), rowLen: 3}}
	var names []string
	for _, k := range keys {
		k.name = w.key("%s", k.name)
		k.state = opt.NewState(len(k.value))
		names = append(names, k.name)
		if k.rowLen > 0 {
			w.ok(w.Store.InitRows(w.Ctx, k.name, len(k.value)/k.rowLen, k.rowLen, slices.Clone(k.value)))
		} else {
			w.init(k.name, slices.Clone(k.value))
		}
	}
	w.init(w.key("frozen"), make([]float32, 5))
	w.ok(w.Store.InitAverage(w.Ctx, w.key("statistics"), make([]float32, 2)))
	total := float32(0)
	for rank := range w.n {
		total += float32(rank + 1)
	}
	by := w.Store.Weighted(float32(w.r+1), false)
	for step := range uint64(6) {
		mine := map[string][]float32{}
		for _, k := range keys {
			k.sum = make([]float32, len(k.value))
			for rank := range w.n {
				// Of two steps the norm is within the limit.
				g := eighths(random, len(k.value))
				if step == 2 || step == 5 {
					for i := range g {
						g[i] /= 1 << 12
					}
				}
				if rank == w.r {
					mine[k.name] = g
				}
				for i := range g {
					k.sum[i] += g[i]
				}
			}
		}
		skipped := step == 3
		if skipped && w.r == w.n-1 {
			mine[keys[0].name][2] = float32(math.Inf(1))
		}
		norm := w.clippedStep(by, keys, mine, names, step%2 == 0)
		want := expectClipped(opt, keys, step, total, skipped)
		if norm != want && !(math.IsNaN(norm) && math.IsNaN(want)) {
			w.failf("step %d: got norm %v, want %v", step, norm, want)
		}
		for _, k := range keys {
			if k.rowLen > 0 {
				got, rows := make([]float32, len(k.value)), allRows(k)
				w.pullRows(k.name, rows, got)
				w.same(k.name, got, k.value)
			} else {
				w.same(k.name, w.pulled(k.name, len(k.value)), k.value)
			}
		}
	}
	w.same("frozen", w.pulled(w.key("frozen"), 5), make([]float32, 5))
}

func allRows(k *clippedKey) []int64 {
	rows := make([]int64, len(k.value)/k.rowLen)
	for i := range rows {
		rows[i] = int64(i)
	}
	return rows
}

// clippedStep makes one step: pushes, then the clipping, or push-pulls with the clipping under way.
func (w *Worker) clippedStep(by kvstore.Pusher, keys []*clippedKey, mine map[string][]float32, names []string, apart bool) (norm float64) {
	var errs [4]error
	var trips sync.WaitGroup
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	go1 := func(i int, f func() error) {
		run := func() {
			if errs[i] = f(); errs[i] != nil {
				cancel()
			}
		}
		if apart {
			run()
		} else {
			trips.Go(run)
		}
	}
	for i, k := range keys {
		g := mine[k.name]
		switch {
		case k.rowLen > 0:
			// Its rows come twice, each with a half.
			half := make([]float32, len(g))
			for i := range g {
				half[i] = g[i] / 2
			}
			rows := allRows(k)
			go1(i, func() error {
				return by.PushRows(ctx, k.name, append(rows, rows...), append(half, half...))
			})
		case apart:
			go1(i, func() error { return by.Push(ctx, k.name, g) })
		case i == 0:
			entries := []kvstore.Entry{{Key: k.name, Grads: [][]float32{g}, Outs: [][]float32{make([]float32, len(g))}},
				{Key: keys[1].name, Grads: [][]float32{mine[keys[1].name]}, Outs: [][]float32{make([]float32, 1)}}}
			go1(i, func() error { return by.PushPullMany(ctx, entries) })
		case i == 1:
		default:
			go1(i, func() error {
				return by.PushPull(ctx, k.name, [][]float32{g}, [][]float32{make([]float32, len(g))})
			})
		}
	}
	norm, err := w.Store.ClipGlobalNorm(ctx, names...)
	trips.Wait()
	for _, err := range errs {
		w.ok(err)
	}
	w.ok(err)
	return norm
}

// expectClipped makes the step on the whole keys, and returns the norm.
func expectClipped(opt *optim.Optimizer, keys []*clippedKey, step uint64, weight float32, skipped bool) float64 {
	if skipped {
		return math.NaN()
	}
	var squares exact.Sum
	var passes []optim.Pass
	for _, k := range keys {
		pass := opt.At(step, opt.Config().ScaleFor(float64(weight)), opt.Factors(k.name))
		passes = append(passes, pass)
		if k.rowLen > 0 {
			for i := 0; i < len(k.sum); i += k.rowLen {
				squares.Add(pass.GradientSquares(k.sum[i : i+k.rowLen]))
			}
			continue
		}
		for i := 0; i < len(k.sum); i += 1024 {
			squares.Add(pass.GradientSquares(k.sum[i:min(i+1024, len(k.sum))]))
		}
	}
	norm := math.Sqrt(squares.Total())
	for i, k := range keys {
		pass := passes[i].WithClip(opt.Config().ClipFactor(norm))
		var err error
		if k.rowLen > 0 {
			err = pass.UpdateRows(allRows(k), k.rowLen, k.value, k.sum, k.state)
		} else {
			err = pass.Update(k.value, k.sum, k.state)
		}
		if err != nil {
			panic(err)
		}
	}
	return norm
}

func clipMisuse(w *Worker) {
	key, mean := w.key("x"), w.key("mean")
	w.init(key, make([]float32, 2))
	w.ok(w.Store.InitAverage(w.Ctx, mean, make([]float32, 2)))
	clip := func(keys ...string) error {
		_, err := w.Store.ClipGlobalNorm(w.Ctx, keys...)
		return err
	}
	w.is("an unknown key", clip(key, "no such key"), kvstore.ErrUnknownKey)
	w.is("an averaged key", clip(key, mean), kvstore.ErrUnsupported)
	w.is("a key twice", clip(key, key), kvstore.ErrConflict)
	// None of them has spoilt the step that comes.
	w.push(key, fill(2, 1))
	w.ok(clip(key))
	w.pulled(key, 2)
}

func clipWithoutLimit(w *Worker) {
	key := w.key("x")
	w.init(key, make([]float32, 2))
	_, err := w.Store.ClipGlobalNorm(w.Ctx, key)
	w.is("an optimizer without a limit", err, kvstore.ErrUnsupported)
}

func asyncClip(w *Worker) {
	w.is("an optimizer that clips", w.Store.SetOptimizer(w.Ctx, clipped), kvstore.ErrUnsupported)
}
