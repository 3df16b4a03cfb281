package kvstoretest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// adapting are the cases about steps that have their norms measured or a learning rate of their
// own.
func adapting() []Case {
	g, halving := "adapting", &optim.Config{Name: "sgd", LearningRate: 0.5, Reduction: optim.Mean, Schedule: optim.Schedule{Kind: "factor", Every: 2, Factor: 0.5}}
	return []Case{
		{Name: "norms are those of all workers' gradients", Group: g, Optimizer: halving, Run: normsOfGradients},
		{Name: "norms of micro-batches", Group: g, Optimizer: halving, Run: normsOfMicroBatches},
		{Name: "norms of compressed gradients", Group: g, Optimizer: halving, Run: normsUnderCompression},
		{Name: "a step has a learning rate of its own", Group: g, Optimizer: halving, Run: ratesOfSteps},
		{Name: "workers agree on a step's rate", Group: g, Optimizer: halving, Workers: []int{2, 3, 4, 7}, Run: ratesConflict},
		{Name: "the second moment stays at the initial batch", Optimizer: &optim.Config{Name: "adam", LearningRate: 0.5, Reduction: optim.Mean}, Run: gainsOfSteps},
		{Name: "preconditioned norms", Optimizer: &optim.Config{Name: "adam", Reduction: optim.Mean}, Run: preconditionedNorms},
	}
}

// normal returns n random numbers, the same for the same seed.
func normal(seed, n int) []float32 {
	random := rand.New(rand.NewPCG(uint64(seed), 9))
	// Drawing all would take longer than the round.
	few := make([]float32, min(n, 1000))
	for i := range few {
		few[i] = float32(random.NormFloat64())
	}
	x := make([]float32, n)
	for k := 0; k < n; k += len(few) {
		copy(x[k:], few)
	}
	return x
}

// squares returns the sum of the squares of x, which is the caller's own.
//
//go:norace
func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// cutSize is the size of an array that is cut over all servers, and not larger: the numbers that
// these cases compute take longer than their rounds.
func (w *Worker) cutSize() int { return min(w.edge, 300) * min(w.edge, 300) }

// weightOf is the weight of a rank's contributions: workers differ.
func weightOf(rank int) float64 { return float64(2 + rank) }

// expected returns the norms of a round of all workers.
func (w *Worker) expected(gradient func(rank int) []float32) kvstore.Norms {
	n := kvstore.Norms{Count: w.n}
	var sum []float32
	for rank := range w.n {
		g, weight := gradient(rank), weightOf(rank)
		n.Examples += weight
		n.MeanSqr += squares(g) / weight
		if sum == nil {
			sum = append(sum, g...)
			continue
		}
		add(sum, g)
	}
	n.MeanSqr /= n.Examples
	n.SqrMean = squares(sum) / (n.Examples * n.Examples)
	return n
}

// add is sum ← sum + x. Both are the caller's own.
//
//go:norace
func add(sum, x []float32) {
	for i, v := range x {
		sum[i] += v
	}
}

// normsAre ends the case unless the newest round of the key has these norms, to within a relative
// tolerance.
func (w *Worker) normsAre(key string, want kvstore.Norms, tolerance float64) {
	got, ok := w.Store.Norms(key)
	if ok != (want.Count > 0) {
		w.failf("norms of %s: got %+v, %v; want %+v", key, got, ok, want)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b) }
	if got.Count != want.Count || got.Biased != want.Biased || got.Examples != want.Examples || got.Rounds != want.Rounds ||
		!near(got.MeanSqr, want.MeanSqr) || !near(got.SqrMean, want.SqrMean) {
		w.failf("norms of %s: got %+v, want %+v", key, got, want)
	}
}

// roundWeightIs ends the case unless the contributions in the newest round of the key have these
// weights in all.
func (w *Worker) roundWeightIs(key string, want float64) {
	if got := w.Store.RoundWeight(key); got != want {
		w.failf("weight of the newest round of %s: got %v, want %v", key, got, want)
	}
}

// says ends the case unless err says so.
func (w *Worker) says(what string, err error, text string) {
	if err == nil || !strings.Contains(err.Error(), text) {
		w.failf("%s: got error %v, want %q", what, err, text)
	}
}

// step makes one round of a key.
func (w *Worker) step(key string, st kvstore.PushOptions, grad []float32) []float32 {
	out := make([]float32, len(grad))
	w.ok(w.Store.Step(st).PushPull(w.Ctx, key, [][]float32{grad}, [][]float32{out}))
	return out
}

// A key of one shard, and one of several; by push-pull, and by a pull after a push. Alone, the
// second round is measured against the first.
func normsOfGradients(w *Worker) {
	measured := kvstore.PushOptions{Weight: float32(weightOf(w.r)), Measure: true}
	for _, size := range []int{smallSize, w.cutSize()} {
		key := w.key("%d", size)
		w.init(key, make([]float32, size))
		w.normsAre(key, kvstore.Norms{}, 0)
		w.roundWeightIs(key, 0)
		for round := range 3 {
			gradient := func(rank int) []float32 { return normal(100*round+rank, size) }
			want := w.expected(gradient)
			want.Rounds = uint64(round + 1)
			switch {
			case w.n == 1 && round == 1:
				want = normsOfTwoRounds(normal(0, size), gradient(0))
			case w.n == 1:
				want = kvstore.Norms{}
			}
			if round == 1 {
				w.ok(w.Store.Step(measured).Push(w.Ctx, key, gradient(w.r)))
				w.pulled(key, size)
			} else {
				w.step(key, measured, gradient(w.r))
			}
			w.normsAre(key, want, 1e-6)
			w.roundWeightIs(key, w.expected(gradient).Examples)
		}
		w.step(key, kvstore.PushOptions{Weight: 1}, normal(w.r, size))
		// That round was not measured.
		w.normsAre(key, kvstore.Norms{}, 0)
		w.roundWeightIs(key, float64(w.n))
		if w.n > 1 {
			plain := measured
			// One worker that does not ask is enough.
			plain.Measure = w.r > 0
			w.step(key, plain, normal(w.r, size))
			w.normsAre(key, kvstore.Norms{}, 0)
		}
	}
	// Averaged keys of the same step are not measured.
	average := w.key("average")
	w.ok(w.Store.InitAverage(w.Ctx, average, fill(2, 1)))
	w.ok(w.Store.Step(measured).Push(w.Ctx, average, fill(2, 1)))
	w.normsAre(average, kvstore.Norms{}, 0)
	rows := w.key("rows")
	w.ok(w.Store.InitRows(w.Ctx, rows, 4, 1, nil))
	w.is("measured push of rows", w.Store.Step(measured).PushRows(w.Ctx, rows, []int64{1}, fill(1, 1)), kvstore.ErrUnsupported)
	w.pushRows(rows, []int64{1}, fill(1, 1))
}

// normsOfTwoRounds are those of one worker's gradients of two rounds, each of weightOf(0) examples.
func normsOfTwoRounds(first, second []float32) kvstore.Norms {
	sum := slices.Clone(first)
	for i, v := range second {
		sum[i] += v
	}
	both := 2 * weightOf(0)
	return kvstore.Norms{Rounds: 2, Count: 2, Biased: true, Examples: both,
		MeanSqr: (squares(first) + squares(second)) / weightOf(0) / both, SqrMean: squares(sum) / both / both}
}

// Every worker has summed three micro-batches, and says what their norms were.
func normsOfMicroBatches(w *Worker) {
	for _, size := range []int{smallSize, w.cutSize()} {
		key := w.key("%d", size)
		w.init(key, make([]float32, size))
		want := w.expected(func(rank int) []float32 { return normal(rank, size) })
		want.Rounds, want.Count, want.MeanSqr = 1, 3*w.n, 0
		for rank := range w.n {
			want.MeanSqr += 1.5 * float64(rank+1) / want.Examples
		}
		// Micro and Factor may be called from several goroutines.
		asked := sync.Map{}
		w.step(key, kvstore.PushOptions{Weight: float32(weightOf(w.r)), Measure: true, Micro: func(k string) kvstore.Micro {
			asked.Store(k, true)
			return kvstore.Micro{Count: 3, Sqr: 1.5 * float64(w.r+1)}
		}}, normal(w.r, size))
		w.normsAre(key, want, 1e-6)
		if _, ok := asked.Load(key); !ok {
			w.failf("Micro was not asked about %s", key)
		}
		for _, bad := range []kvstore.Micro{{Count: 1 << 16, Sqr: 1}, {Count: 2, Sqr: -1}} {
			st := kvstore.PushOptions{Weight: 1, Measure: true, Micro: func(string) kvstore.Micro { return bad }}
			w.says("a bad Micro", w.Store.Step(st).Push(w.Ctx, key, normal(w.r, size)), "want at most 65535 and at least 0")
		}
	}
}

// In 16 bits the norms are those of the rounded gradients; other compressions are refused.
func normsUnderCompression(w *Worker) {
	if w.Store.Type() == "local" {
		// Such a store compresses nothing.
		return
	}
	measured := kvstore.PushOptions{Weight: float32(weightOf(w.r)), Measure: true, Micro: func(string) kvstore.Micro { return kvstore.Micro{Count: 2, Sqr: 1} }}
	for _, c := range []struct {
		kind      string
		tolerance float64
	}{{"fp16", 1e-4}, {"bf16", 1e-2}} {
		w.compress(kvstore.Compression{Type: c.kind})
		key := w.key("%s", c.kind)
		w.init(key, make([]float32, w.cutSize()))
		want := w.expected(func(rank int) []float32 { return normal(rank, w.cutSize()) })
		want.Rounds, want.Count, want.MeanSqr = 1, 2*w.n, float64(w.n)/want.Examples
		w.step(key, measured, normal(w.r, w.cutSize()))
		w.normsAre(key, want, c.tolerance)
	}
	for _, kind := range []string{"2bit", "1bit", "topk"} {
		w.compress(kvstore.Compression{Type: kind})
		key := w.key("%s", kind)
		w.init(key, make([]float32, smallSize))
		w.is(kind, w.Store.Step(measured).Push(w.Ctx, key, normal(w.r, smallSize)), kvstore.ErrUnsupported)
		// Nothing of the refused push counts.
		w.push(key, normal(w.r, smallSize))
		w.pulled(key, smallSize)
	}
	w.compress(kvstore.Compression{})
}

// Rounds 0, 1: 0.5; 2, 3: 0.25. A factor and a progress are those of one round.
func ratesOfSteps(w *Worker) {
	key, rows := w.key("x"), w.key("rows")
	w.init(key, fill(3, 8))
	w.ok(w.Store.InitRows(w.Ctx, rows, 4, 1, nil))
	twice := func(k string) float64 {
		if k == key {
			return 2
		}
		return 4
	}
	value, row := float32(8), float32(0)
	for round, x := range []struct {
		step     kvstore.PushOptions
		of, rows float32
	}{
		{kvstore.PushOptions{}, 0.5, 0.5},
		{kvstore.PushOptions{Factor: twice}, 1, 2},
		{kvstore.PushOptions{}, 0.25, 0.25},
		{kvstore.PushOptions{ByProgress: true, Progress: 1.75}, 0.5, 0.5},
		{kvstore.PushOptions{ByProgress: true, Progress: 6.5, Factor: twice}, 0.125, 0.25},
		{kvstore.PushOptions{Factor: func(string) float64 { return 0 }}, 0, 0},
		{kvstore.PushOptions{}, 0.0625, 0.0625},
	} {
		x.step.Weight = 4
		value -= x.of
		row -= x.rows
		w.all(fmt.Sprintf("%s after round %d", key, round), w.step(key, x.step, fill(3, 4)), value)
		w.ok(w.Store.Step(x.step).PushRows(w.Ctx, rows, []int64{2}, fill(1, 4)))
		out := make([]float32, 1)
		w.pullRows(rows, []int64{2}, out)
		w.all(fmt.Sprintf("%s after round %d", rows, round), out, row)
	}
	for _, bad := range []kvstore.PushOptions{
		{Factor: func(string) float64 { return math.NaN() }}, {Factor: func(string) float64 { return -1 }}, {Factor: func(string) float64 { return 1 << 21 }},
		{ByProgress: true, Progress: math.Inf(1)}, {ByProgress: true, Progress: -1},
	} {
		w.says("a bad step", w.Store.Step(bad).Push(w.Ctx, key, fill(3, 1)), "want 0 to ")
	}
	w.barrier()
	// Rates that are set by hand go by rounds.
	if w.r == 0 {
		w.ok(w.Store.SetLearningRate(w.Ctx, 8, 0.125))
	}
	w.barrier()
	value -= 0.0625
	w.all(key+" before the change", w.step(key, kvstore.PushOptions{Weight: 4, ByProgress: true, Progress: 7}, fill(3, 4)), value)
	value -= 0.25
	w.all(key+" after the change", w.step(key, kvstore.PushOptions{Weight: 4, ByProgress: true, Factor: twice}, fill(3, 4)), value)
}

// The last rank's contribution with another factor or progress is refused and does not count; with
// the same one it does.
func ratesConflict(w *Worker) {
	key := w.key("x")
	w.init(key, fill(2, 8))
	agreed := kvstore.PushOptions{Weight: 1, Factor: onlyOf(key, 2), ByProgress: true, Progress: 1}
	if w.r < w.n-1 {
		w.ok(w.Store.Step(agreed).Push(w.Ctx, key, fill(2, 1)))
	}
	w.barrier()
	if w.r == w.n-1 {
		for _, other := range []kvstore.PushOptions{{Weight: 1}, {Weight: 1, ByProgress: true, Progress: 1}, {Weight: 1, Factor: agreed.Factor, ByProgress: true, Progress: 1.5}} {
			w.is("another rate", w.Store.Step(other).Push(w.Ctx, key, fill(2, 100)), kvstore.ErrConflict)
		}
		w.ok(w.Store.Step(agreed).Push(w.Ctx, key, fill(2, 1)))
	}
	w.all(key, w.pulled(key, 2), 7)
}

// onlyOf is a factor or gain of one key. That of another key is refused.
func onlyOf(key string, x float64) func(string) float64 {
	return func(of string) float64 {
		if of != key {
			return math.NaN()
		}
		return x
	}
}

// Gradients whose mean square is 1/gain of what it was, and that say so, leave the second moment as
// it is: with equal gradients each step before is η, and one with a gradient of 1/√gain is of a
// velocity that is as much shorter, times √gain.
func gainsOfSteps(w *Worker) {
	key := w.key("x")
	w.init(key, make([]float32, smallSize))
	value, mean := 0.0, 0.0
	for round, gain := range []float64{1, 4, 16, 1, 0.25} {
		g := 2 / math.Sqrt(gain)
		mean = 0.9*mean + 0.1*g
		value -= 0.5 * mean / (1 - math.Pow(0.9, float64(round+1))) * math.Sqrt(gain) / 2
		out := w.step(key, kvstore.PushOptions{Weight: 3, Gain: onlyOf(key, gain)}, fill(smallSize, float32(3*g)))
		if d := math.Abs(float64(out[0]) - value); !(d < 1e-5) {
			w.failf("value after round %d with gain %v: got %v, want %v", round, gain, out[0], value)
		}
	}
	for _, bad := range []float64{0, -1, math.NaN(), 1 << 21} {
		w.says("a bad gain", w.Store.Step(kvstore.PushOptions{Weight: 1, Gain: func(string) float64 { return bad }}).Push(w.Ctx, key, fill(smallSize, 1)), "want above 0 and at most")
	}
}

// From the sixth round on gradients are divided by the root of their second moment. It is that of
// equal gradients: all norms are their number.
func preconditionedNorms(w *Worker) {
	key := w.key("x")
	w.init(key, make([]float32, w.cutSize()))
	for round := range 8 {
		w.step(key, kvstore.PushOptions{Weight: float32(weightOf(w.r)), Measure: true}, fill(w.cutSize(), 3*float32(weightOf(w.r))))
		n, ok := w.Store.Norms(key)
		want := round >= 5 && w.n > 1
		if ok != want {
			w.failf("norms of round %d: got %+v, %v", round, n, ok)
		}
		if size := float64(w.cutSize()); ok && !(math.Abs(n.MeanSqr/size-1) < 1e-5 && math.Abs(n.SqrMean/size-1) < 1e-5) {
			w.failf("norms of round %d: got %+v, want %v", round, n, size)
		}
	}
}

// Each push is a round, and may have a learning rate of its own.
func asyncSteps(w *Worker) {
	key := w.key("x")
	w.init(key, fill(2, 0))
	w.ok(w.Store.Step(kvstore.PushOptions{Weight: 1, Factor: func(string) float64 { return float64(w.r + 1) }}).Push(w.Ctx, key, fill(2, 1)))
	w.is("measured", w.Store.Step(kvstore.PushOptions{Weight: 1, Measure: true}).Push(w.Ctx, key, fill(2, 1)), kvstore.ErrUnsupported)
	w.barrier()
	w.all(key, w.pulled(key, 2), float32(w.n*(w.n+1)))
}
