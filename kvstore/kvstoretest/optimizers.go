package kvstoretest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// others are the cases with a job of their own.
func others() []Case {
	adding := optim.Config{Name: "test", LearningRate: 1}
	weighing := optim.Config{Name: "sgd", LearningRate: 1, Momentum: 0.9, Reduction: optim.Mean}
	async := []string{"dist_async"}
	return append(clippedCases(), []Case{
		{Name: "many keys many pushes", Optimizer: &adding, Run: manyPushes},
		{Name: "sgd", Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.01}, Run: sgd},
		{Name: "sgd over groups and singles", Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.1}, Run: groups},
		{Name: "the learning rate changes at a named round", Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.05}, Run: learningRate},
		{Name: "old learning rates are dropped", Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.05}, Run: manyRates},
		{Name: "embedding", Optimizer: &optim.Config{Name: "sgd", LearningRate: 0.1, Reduction: optim.Mean}, Run: embedding},
		{Name: "adam", Optimizer: &optim.Config{Name: "adam", LearningRate: 0.1, Epsilon: 1e-8, Reduction: optim.Mean}, Run: adam},
		{Name: "the mean counts weights", Group: "weighing", Optimizer: &weighing, Run: weightedMean},
		{Name: "weights are apart from examples", Group: "weighing", Optimizer: &weighing, Run: apart},
		{Name: "lars with whole keys", Optimizer: &optim.Config{Name: "lars", LearningRate: 0.1}, Run: wholeKeys},
		{Name: "lars after a cut key", Run: lateWholeKeys},
		{Name: "devices compress by themselves", Group: "devices", Types: []string{"device"}, Optimizer: &doubling, Run: deviceCompression},
		{Name: "local refuses compression", Types: []string{"local"}, Run: localCompression},
		{Name: "async push", Group: "async", Types: async, Optimizer: &doubling, Run: asyncPush},
		{Name: "async push-pull of many keys", Types: async, Optimizer: &adding, Run: asyncManyKeys},
		{Name: "async rows", Group: "async", Types: async, Optimizer: &doubling, Run: asyncRows},
		{Name: "async save and load", Types: async, Optimizer: &optim.Config{Name: "adam"}, Run: asyncSave},
		{Name: "async steps", Group: "async", Types: async, Optimizer: &doubling, Run: asyncSteps},
		{Name: "async staleness", Types: async, Optimizer: &doubling, Options: []kvstore.Option{kvstore.WithStaleness(2)}, Run: staleness},
	}...)
}

// 10,000 keys of one value: after 50 pushes 50 times the value, after 50 push-pulls more 100 times.
// Where big arrays are small, so is this.
func manyPushes(w *Worker) {
	n, pushes := 10_000, 50
	if w.edge < 1200 {
		n, pushes = 1000, 10
	}
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, n, 1, nil))
	random := rand.New(rand.NewPCG(1, 2))
	rows, vals, out := make([]int64, n), make([]float32, n), make([]float32, n)
	for i := range rows {
		rows[i], vals[i] = int64(i), float32(random.IntN(1000))
	}
	check := func(pushes int) {
		sum := float64(0)
		for i := range out {
			d := float64(out[i]) - float64(pushes*w.n)*float64(vals[i])
			sum += max(d, -d)
		}
		if sum/50 >= 1e-5 {
			w.failf("%s after %d pushes: got a summed error of %v, want 0", key, pushes, sum)
		}
	}
	for range pushes {
		w.pushRows(key, rows, vals)
	}
	w.pullRows(key, rows, out)
	check(pushes)
	for range pushes {
		w.pushRows(key, rows, vals)
		w.pullRows(key, rows, out)
	}
	check(2 * pushes)
}

// Rate 0.01: weight 0, gradient 1 → −0.01 for each worker.
func sgd(w *Worker) {
	key := w.key("x")
	w.init(key, make([]float32, 4))
	w.push(key, fill(4, 1))
	w.near(key, w.pulled(key, 4), fill(4, -0.01*float32(w.n)), 1e-8)
}

// A rate for every round does not make the optimizer, and with it checkpoints, grow: rates that no
// round to come needs are dropped. A key that is averaged needs none, and may never be pushed to.
func manyRates(w *Worker) {
	const rounds = 40
	key := w.key("x")
	w.init(key, make([]float32, 1))
	w.ok(w.Store.InitAverage(w.Ctx, w.key("statistics"), make([]float32, 1)))
	want := float32(0)
	for round := range uint64(rounds) {
		if w.r == 0 {
			w.ok(w.Store.SetLearningRate(w.Ctx, round, float64(round)))
		}
		w.pushPull(key, [][]float32{{-1}}, [][]float32{make([]float32, 1)})
		want += float32(round) * float32(w.n)
	}
	w.near(key, w.pulled(key, 1), []float32{want}, 1e-2)
	if w.r == 0 {
		dir, err := os.MkdirTemp("", "kvstoretest")
		w.ok(err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "state.safetensors")
		w.ok(w.Store.Save(w.Ctx, path))
		file, err := checkpoint.Open(path)
		w.ok(err)
		defer file.Close()
		cfg, err := optim.Decode([]byte(file.Metadata()["paragon.optimizer"]))
		w.ok(err)
		if n := len(cfg.Changes); n < 1 || n > 2 {
			w.failf("the optimizer after %d rates, one for each round: got %d in the file, want the last one or two", rounds, n)
		}
	}
}

// Keys pushed together and one by one go the same way: relative L1 error below 1e-6 against the
// formula.
func groups(w *Worker) {
	const keys, size = 4, 16
	random := rand.New(rand.NewPCG(7, 7))
	value := make([][]float32, keys)
	for i := range keys {
		value[i] = uniform(random, size, -1, 1)
		w.init(w.key("%d", i), value[i])
	}
	for range 10 {
		sum := make([][]float32, keys)
		mine := make([][]float32, keys)
		for i := range keys {
			sum[i] = make([]float32, size)
			for r := range w.n {
				g := uniform(random, size, -1, 1)
				for j := range g {
					sum[i][j] += g[j]
				}
				if r == w.r {
					mine[i] = g
				}
			}
		}
		for i := range keys {
			w.push(w.key("%d", i), mine[i])
		}
		for i := range keys {
			var off, all float64
			for j, got := range w.pulled(w.key("%d", i), size) {
				value[i][j] -= 0.1 * sum[i][j]
				off += max(float64(got-value[i][j]), float64(value[i][j]-got))
				all += max(float64(value[i][j]), -float64(value[i][j]))
			}
			if off/all >= 1e-6 {
				w.failf("%s: got a relative error of %v, want below 1e-6", w.key("%d", i), off/all)
			}
		}
	}
}

// 1 → 0.95 at rate 0.05, → 0.85 at rate 0.1 from round 1 on, for one worker.
func learningRate(w *Worker) {
	keys := []string{w.key("a"), w.key("b"), w.key("c")}
	for _, key := range keys {
		w.init(key, fill(3, 1))
	}
	if w.r == w.n-1 {
		w.ok(w.Store.SetLearningRate(w.Ctx, 1, 0.1))
	}
	w.barrier()
	n := float32(w.n)
	for round, want := range []float32{1 - 0.05*n, 1 - 0.15*n, 1 - 0.25*n} {
		for _, key := range keys {
			out := make([]float32, 3)
			w.pushPull(key, [][]float32{fill(3, 1)}, [][]float32{out})
			w.near(fmt.Sprintf("%s round %d", key, round), out, fill(3, want), 1e-6)
		}
	}
	w.is("the rate of a round that has closed", w.Store.SetLearningRate(w.Ctx, 2, 0.2), kvstore.ErrConflict)
	if w.Store.SetLearningRate(w.Ctx, 9, -1) == nil {
		w.failf("learning rate -1: got no error")
	}
}

// Rows 1 and 3 of zeros at rate 0.1: −0.1; then 1, 3, 3, 5: −0.2, −0.3, −0.1.
func embedding(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, 6, 1, nil))
	w.pushRows(key, []int64{1, 3}, fill(2, 1))
	out := make([]float32, 6)
	all := []int64{0, 1, 2, 3, 4, 5}
	w.pullRows(key, all, out)
	w.near(key, out, []float32{0, -0.1, 0, -0.1, 0, 0}, 1e-7)
	w.pushRows(key, []int64{1, 3, 3, 5}, fill(4, 1))
	w.pullRows(key, all, out)
	w.near(key, out, []float32{0, -0.2, 0, -0.3, 0, -0.1}, 1e-7)
}

// A row's two gradients of 1 come as steps 2 and 4 of its table; in the steps between it is not
// touched, so that its moments do not fade.
func adam(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, 2, 2, fill(4, 1)))
	out := make([]float32, 2)
	for i, want := range []float32{1, .9255863187, .9255863187, .8474920307} {
		if i%2 == 0 {
			w.pushRows(key, nil, nil)
		} else {
			w.pushRows(key, []int64{1}, fill(2, 1))
		}
		w.pullRows(key, []int64{1}, out)
		w.near(fmt.Sprintf("%s step %d", key, i+1), out, fill(2, want), 1e-6)
	}
}

// Sums over 1, 2, ... examples of gradient 5 each: the mean is 5.
func weightedMean(w *Worker) {
	key := w.key("x")
	w.init(key, fill(3, 1))
	w.ok(w.Store.Weighted(float32(w.r+1), false).Push(w.Ctx, key, fill(3, 5*float32(w.r+1))))
	w.near(key, w.pulled(key, 3), fill(3, -4), 1e-6)
}

// Sums over so many tokens of gradient 5 each, of few examples: the mean is 5, and the examples are
// those. A round of weight 0 changes nothing, not even by momentum, but has its examples.
func apart(w *Worker) {
	for _, size := range []int{3, w.cutSize()} {
		key := w.key("x%d", size)
		w.init(key, fill(size, 1))
		examples := uint64(0)
		for rank := range w.n {
			examples += uint64(rank + 2)
		}
		tokens := float32(int(1e8) * (w.r + 1))
		by := func(weight float32) kvstore.Pusher {
			return w.Store.Step(kvstore.PushOptions{Weight: weight, Examples: w.r + 2, Counted: true})
		}
		w.ok(by(tokens).Push(w.Ctx, key, fill(size, 5*tokens)))
		w.near(key, w.pulled(key, size), fill(size, -4), 1e-6)
		w.ok(by(0).Push(w.Ctx, key, fill(size, 0)))
		w.all(key+" after a round of weight 0", w.pulled(key, size), -4)
		w.roundWeightIs(key, 0)
		if got := w.Store.RoundExamples(key); got != examples {
			w.failf("examples of the newest round of %s: got %d, want %d", key, got, examples)
		}
		w.ok(by(tokens).Push(w.Ctx, key, fill(size, 5*tokens)))
		w.near(key, w.pulled(key, size), fill(size, -13.5), 1e-5)
		if got := w.Store.RoundExamples(key); got != examples {
			w.failf("examples of the newest round of %s: got %d, want %d", key, got, examples)
		}
		w.says("too many examples", w.Store.Step(kvstore.PushOptions{Weight: 1, Examples: 1 << 32}).Push(w.Ctx, key, fill(size, 1)), "want 0 to 2³²−1")
		w.says("half an example", w.Store.Weighted(0.5, true).Push(w.Ctx, key, fill(size, 1)), "or the number as Examples")
	}
}

// The same optimizer again keeps everything; another one is refused.
func conflict(w *Worker) {
	key := w.key("x")
	w.init(key, fill(2, 1))
	w.ok(w.Store.SetOptimizer(w.Ctx, doubling))
	w.is("another optimizer", w.Store.SetOptimizer(w.Ctx, optim.Config{Name: "sgd", LearningRate: 3}), kvstore.ErrConflict)
	if w.Store.SetOptimizer(w.Ctx, optim.Config{Name: "no such rule"}) == nil {
		w.failf("an unknown optimizer: got no error")
	}
	w.push(key, fill(2, 1))
	w.all(key, w.pulled(key, 2), 1+2*float32(w.n))
}

// Keys declared after an optimizer that needs norms are not cut, and go as one server would have
// them go.
func wholeKeys(w *Worker) {
	key := w.key("x")
	size := w.bigSize()
	value, grad := fill(size, 2), fill(size, 1)
	w.init(key, value)
	opt, err := optim.New(optim.Config{Name: "lars", LearningRate: 0.1})
	w.ok(err)
	want := fill(size, 2)
	w.ok(opt.At(0, 1, opt.Factors(key)).Update(want, fill(size, float32(w.n)), opt.NewState(size)))
	w.push(key, grad)
	w.near(key, w.pulled(key, size), want, 1e-6)
}

// An optimizer that needs whole keys is refused once a key is cut, or works if none is.
func lateWholeKeys(w *Worker) {
	w.init(w.key("x"), fill(4*w.bigSize(), 1))
	err := w.Store.SetOptimizer(w.Ctx, optim.Config{Name: "lamb", LearningRate: 0.1})
	if err != nil {
		w.is("lamb after a cut key", err, kvstore.ErrUnsupported)
	}
}

func localCompression(w *Worker) {
	w.is("2bit", w.Store.SetCompression(w.Ctx, kvstore.Compression{Type: "2bit"}), kvstore.ErrUnsupported)
	w.compress(kvstore.Compression{Type: "none"})
}

// Each push is applied at once; when all have pushed, all pushes are in the value.
func asyncPush(w *Worker) {
	const pushes = 5
	for _, size := range []int{smallSize, w.bigSize()} {
		key := w.key("%d", size)
		w.init(key, fill(size, 1))
		mine := float32(1)
		for i := range pushes {
			w.push(key, fill(size, float32(w.r+1)))
			mine += 2 * float32(w.r+1)
			if got := w.pulled(key, size)[size-1]; got < mine {
				w.failf("%s after own push %d: got %v, want at least %v", key, i, got, mine)
			}
		}
		w.barrier()
		w.all(key, w.pulled(key, size), float32(w.n*(w.n+1)*pushes+1))
		out := make([]float32, size)
		w.barrier()
		w.pushPull(key, [][]float32{make([]float32, size)}, [][]float32{out})
		w.all(key+" by push-pull", out, float32(w.n*(w.n+1)*pushes+1))
	}
}

func asyncRows(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, 5, 2, fill(10, 1)))
	for range 3 {
		w.pushRows(key, []int64{4, int64(w.r % 2), 4}, fill(6, 1))
	}
	w.barrier()
	out := make([]float32, 4)
	w.pullRows(key, []int64{4, 3}, out)
	w.same(key, out, []float32{1 + 12*float32(w.n), 1 + 12*float32(w.n), 1, 1})
}

// What is saved once all have pushed is there again after a load, and pushes go on from it.
func asyncSave(w *Worker) {
	key := w.key("x")
	w.init(key, fill(100, 1))
	w.push(key, fill(100, 1))
	w.barrier()
	saved := w.pulled(key, 100)
	dir, err := os.MkdirTemp("", "kvstoretest")
	w.ok(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "x.safetensors")
	if w.r == 0 {
		w.ok(w.Store.Save(w.Ctx, file))
	}
	w.barrier()
	w.push(key, fill(100, 1))
	w.barrier()
	w.ok(w.Store.Load(w.Ctx, file))
	w.same(key, w.pulled(key, 100), saved)
	w.barrier()
	w.push(key, fill(100, 1))
	if got := w.pulled(key, 100)[0]; got >= saved[0] {
		w.failf("%s after a load and a push: got %v, want less than %v", key, got, saved[0])
	}
}

// A pull, and the pull of a push-pull, waits until the slowest worker is at most 2 pushes behind.
func staleness(w *Worker) {
	key := w.key("x")
	w.init(key, fill(2, 1))
	const pushes = 8
	for i := range pushes {
		out := fill(2, 0)
		if i%2 == 0 {
			w.push(key, fill(2, 1))
			out = w.pulled(key, 2)
		} else {
			w.pushPull(key, [][]float32{fill(2, 1)}, [][]float32{out})
		}
		got := out[0]
		least := 1 + 2*float32(i+1) + 2*float32(w.n-1)*float32(max(0, i+1-2))
		if got < least {
			w.failf("%s after own push %d: got %v, want at least %v", key, i+1, got, least)
		}
		if lead := w.Store.Staleness(key).Lead; lead > 2 {
			w.failf("%s after own push %d: got a lead of %d, want at most 2", key, i+1, lead)
		}
	}
	w.barrier()
	w.all(key, w.pulled(key, 2), 1+2*float32(w.n*pushes))
}
