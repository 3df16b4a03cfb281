package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
)

// A loopJob is a job whose workers train with the store alone: two keys count how often each
// example was used.
type loopJob struct {
	t       *testing.T
	job     *jobtest.Job
	cfg     kvstore.SamplerConfig
	joiners sampler.Order                        // of those who join
	byNext  bool                                 // the sampler is driven by Next
	at      func(w *loopWorker, epoch, step int) // before the pushes of a step, and between them where the step is negative
	running sync.WaitGroup
	mu      sync.Mutex // guards the rest
	workers []*loopWorker
}

type loopWorker struct {
	j      *loopJob
	number int
	host   *faultnet.Host
	kv     kvstore.Store
	seen   []string // epochs, and how many workers there were at their end
	values [2][]float32
	turns  map[string]string // what all workers are told alike, by where they are
	err    error
}

var loopKeys = [2]string{"a", "b"}

func (j *loopJob) start(number int, cfg cluster.Config) *loopWorker {
	w := &loopWorker{j: j, number: number, host: cfg.Network.(*faultnet.Host)}
	j.mu.Lock()
	j.workers = append(j.workers, w)
	j.mu.Unlock()
	j.running.Go(func() { w.err = w.run(j.t.Context(), cfg) })
	return w
}

func (j *loopJob) join(number int) { j.start(number, j.job.JoinerConfig(number)) }

func (w *loopWorker) run(ctx context.Context, cfg cluster.Config) (err error) {
	j := w.j
	kv, err := joining.Join(ctx, cfg, "dist_sync", kvstore.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	w.kv = kv
	err = kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1})
	for _, key := range loopKeys {
		err = errors.Join(err, kv.Init(ctx, key, make([]float32, j.cfg.Examples)))
	}
	if err != nil {
		return err
	}
	own := j.cfg
	if kv.Joining() {
		own.Order = j.joiners
	}
	examples, err := kvstore.NewElasticSampler(ctx, kv, own)
	if err != nil {
		return err
	}
	if j.byNext {
		return w.byNext(ctx, examples)
	}
	for epoch := range examples.Epochs() {
		for batch := range examples.Batches(ctx) {
			if err := w.step(ctx, examples, epoch, batch); err != nil {
				return err
			}
		}
		if examples.Err() == nil {
			w.seen = append(w.seen, fmt.Sprintf("%d:%d", epoch, kv.NumWorkers()))
		}
	}
	return examples.Err()
}

// step pushes both keys.
func (w *loopWorker) step(ctx context.Context, examples *kvstore.ElasticSampler, epoch int, batch []int) error {
	grad := make([]float32, w.j.cfg.Examples)
	for _, i := range batch {
		grad[i]++
	}
	step := int(examples.Steps())
	w.j.at(w, epoch, step)
	for i, key := range loopKeys {
		if i > 0 {
			w.j.at(w, epoch, -step)
		}
		w.values[i] = make([]float32, w.j.cfg.Examples)
		if err := examples.Pusher().PushPull(ctx, key, [][]float32{grad}, [][]float32{w.values[i]}); err != nil {
			return err
		}
	}
	return nil
}

// runLoop runs such a job to its end: each example is used once an epoch by steps that brought both
// keys.
func runLoop(t *testing.T, workers int, cfg kvstore.SamplerConfig, at func(w *loopWorker, epoch, step int)) *loopJob {
	t.Helper()
	return (&loopJob{t: t, cfg: cfg, at: at}).run(workers)
}

func (j *loopJob) run(workers int) *loopJob {
	t, cfg := j.t, j.cfg
	t.Helper()
	j.joiners = cfg.Order
	j.job = jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2, Elastic: cluster.Elastic{Enabled: true}, Lease: 2 * time.Second, Heartbeat: 500 * time.Millisecond})
	for i := range workers {
		j.start(i, j.job.WorkerConfig(i))
	}
	j.running.Wait()
	ended := 0
	for _, w := range j.workers {
		if w.err != nil {
			continue
		}
		ended++
		for i := range cfg.Examples {
			if n := min(w.values[0][i], w.values[1][i]); n != float32(cfg.Epochs) {
				t.Errorf("worker %d: example %d was used %v times in %d epochs", w.number, i, n, cfg.Epochs)
				return j
			}
		}
	}
	if ended == 0 {
		for _, w := range j.workers {
			t.Errorf("worker %d ended with error %v, want one at least without", w.number, w.err)
		}
	}
	return j
}

// Whatever happens to the workers, every example is used once an epoch.
func TestEveryExampleOnceOverAJoinALeaveAndALoss(t *testing.T) {
	orders := []sampler.Order{sampler.Permutation, sampler.Contiguous, sampler.Blocks([]int{0, 30, 31, 31, 77}, 2)}
	for i, lostIn := range []int{13, 14, 15, 13, 14, 15} {
		byNext := i > 2
		i %= len(orders)
		t.Run(fmt.Sprintf("lost in step %d, %v, by Next %v", lostIn, orders[i], byNext), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := kvstore.SamplerConfig{Examples: 100, Batch: 4, Epochs: 3, Seed: 7, Order: orders[i]}
				j := &loopJob{t: t, cfg: cfg, byNext: byNext}
				j.at = func(w *loopWorker, epoch, step int) {
					time.Sleep(100 * time.Millisecond)
					switch {
					case w.number == 0 && step == 2:
						w.j.join(3)
					case w.number == 1 && step == 9:
						if err := w.kv.AskLeave(t.Context(), "told to"); err != nil {
							t.Error(err)
						}
					case w.number == 2 && step == -lostIn:
						w.host.Kill(false)
					}
				}
				j.run(3)
				errs := make([]error, 4)
				for _, w := range j.workers {
					errs[w.number] = w.err
				}
				if errs[0] != nil || errs[3] != nil || !errors.Is(errs[1], kvstore.ErrRemoved) || errs[2] == nil {
					t.Errorf("got errors %q, want none of workers 0 and 3, ErrRemoved of 1, and one of the lost 2", errs)
				}
				j.wantAlike()
				if got := fmt.Sprint(j.workers[0].seen); got != "[0:4 1:2 2:2]" && got != "[0:4 1:3 2:2]" {
					t.Errorf("worker 0 saw epochs and workers %s, want 4 workers at the end of the first, 2 in the last", got)
				}
			})
		})
	}
}

// A worker is lost in the last step of an epoch, and the others hear of that late: they wait for
// the news before they begin the next one.
func TestALossInTheLastStepOfAnEpoch(t *testing.T) {
	for _, end := range []int{1, 2} { // the first epoch's, and the job's
		t.Run(fmt.Sprint("epoch ", end), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := kvstore.SamplerConfig{Examples: 24, Batch: 2, Epochs: 2} // 4 steps an epoch
				runLoop(t, 3, cfg, func(w *loopWorker, epoch, step int) {
					switch {
					case step == 4*end-1 && w.number == 0:
						w.j.job.Net.Delay("scheduler", "worker0", 300*time.Millisecond, 300*time.Millisecond)
						w.j.job.Net.Delay("scheduler", "worker1", 300*time.Millisecond, 300*time.Millisecond)
					case step == -(4*end-1) && w.number == 2:
						w.host.Kill(false)
					}
				})
			})
		})
	}
}

// Without changes the examples come in the order of package sampler, and the store's other kinds
// have them as well.
func TestTheExamplesAreThoseOfTheSampler(t *testing.T) {
	for _, kind := range []string{"local", "device", "dist_sync", "dist_async"} {
		kv, err := kvstore.Create(t.Context(), kind)
		if err == nil {
			err = kv.Init(t.Context(), "x", []float32{0})
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 7, Batch: 3, Epochs: 3, First: 1, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for epoch := range s.Epochs() {
			var used []int
			for batch := range s.Batches(t.Context()) {
				used = append(used, batch...)
				sizes = append(sizes, len(batch))
			}
			if slices.Sort(used); !slices.Equal(used, []int{0, 1, 2, 3, 4, 5, 6}) {
				t.Errorf("store %s: epoch %d has examples %v, want each of 7 once", kind, epoch, used)
			}
		}
		if got := fmt.Sprint(sizes); got != "[3 3 1 3 3 1]" || s.Err() != nil || s.Steps() != 6 {
			t.Errorf("store %s: batches of %s examples in %d steps, error %v; want [3 3 1 3 3 1] in 6", kind, got, s.Steps(), s.Err())
		}
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A worker that joins with another order would take examples that others have used.
func TestAWorkerThatJoinsHasTheSameOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &loopJob{t: t, cfg: kvstore.SamplerConfig{Examples: 60, Batch: 4, Epochs: 1}, joiners: sampler.Contiguous}
		j.at = func(w *loopWorker, epoch, step int) {
			time.Sleep(100 * time.Millisecond)
			if w.number == 0 && step == 2 {
				j.join(1)
			}
		}
		j.job = jobtest.New(t, jobtest.Config{Workers: 1, Servers: 1, Elastic: cluster.Elastic{Enabled: true, MinWorkers: 1}})
		j.start(0, j.job.WorkerConfig(0))
		j.running.Wait()
		want := `SamplerConfig.Order is contiguous, and the job's order is "permutation", want the same on all workers`
		if err := j.workers[1].err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the worker that joined: got error %v, want one with %q", err, want)
		}
		if err := j.workers[0].err; err != nil {
			t.Errorf("the worker that was there: got error %v, want none", err)
		}
	})
}

// A billion examples need no list.
func TestAShareOfABillionExamplesTakesNoMemory(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err == nil {
		err = kv.Init(t.Context(), "x", []float32{0})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 1_000_000_000, Batch: 1000, Epochs: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range s.Epochs() {
		for range s.Batches(t.Context()) {
			if s.Steps() == 10 {
				break
			}
		}
		break
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 || s.Steps() != 10 {
		t.Errorf("%d steps of 10⁹ examples took %d bytes, want 10 steps and at most 1 MiB", s.Steps(), got)
	}
}

// A turn that ends early is no step, and the next epoch does not begin without it.
func TestABatchThatWasBrokenOffComesAgain(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	s, err := kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 4, Batch: 2, Epochs: 2})
	if err != nil {
		t.Fatal(err)
	}
	var first, again []int
	epochs := 0
	for range s.Epochs() {
		epochs++
		for batch := range s.Batches(t.Context()) {
			first = slices.Clone(batch)
			break
		}
		for batch := range s.Batches(t.Context()) {
			if again = batch; s.Steps() == 1 {
				break
			}
			if !slices.Equal(again, first) {
				t.Errorf("after a break: got batch %v, want %v again", again, first)
			}
		}
	}
	if want := "epoch 0: step 1 of 2 was not taken"; epochs != 1 || s.Err() == nil || !strings.Contains(s.Err().Error(), want) {
		t.Errorf("after %d epochs: got error %v, want %q after the first", epochs, s.Err(), want)
	}
}

func TestASamplerThatCannotBeNamesTheField(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync", kvstore.WithLocalSteps(4))
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	good := kvstore.SamplerConfig{Examples: 1, Batch: 1, Epochs: 1, First: 1}
	for _, c := range []struct {
		change func(*kvstore.SamplerConfig)
		want   string
	}{
		{func(c *kvstore.SamplerConfig) { c.Examples = 0 }, "SamplerConfig.Examples is 0, want at least 1"},
		{func(c *kvstore.SamplerConfig) { c.Batch = -1 }, "SamplerConfig.Batch is -1, want at least 1"},
		{func(c *kvstore.SamplerConfig) { c.Epochs = 0 }, "SamplerConfig.Epochs is 0, want at least 1"},
		{func(c *kvstore.SamplerConfig) { c.First = 2 }, "SamplerConfig.First is 2, want 0 to 1"},
		{func(c *kvstore.SamplerConfig) { c.First = -1 }, "SamplerConfig.First is -1, want 0 to 1"},
		{func(*kvstore.SamplerConfig) {}, "the store has local steps"},
	} {
		cfg := good
		c.change(&cfg)
		if _, err := kvstore.NewElasticSampler(t.Context(), kv, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", cfg, err, c.want)
		}
	}
}

// Calls that an ElasticSampler cannot make sense of end the loops with an error that names them,
// and take no example twice.
func TestMisuseOfASamplerIsNamed(t *testing.T) {
	ctx := t.Context()
	all := func(s *kvstore.ElasticSampler) {
		for range s.Epochs() {
			for range s.Batches(ctx) {
			}
		}
	}
	for _, c := range []struct {
		name  string
		use   func(s *kvstore.ElasticSampler)
		steps uint64
		want  string // in the error; empty: none
	}{
		{"Batches in Batches", func(s *kvstore.ElasticSampler) {
			for range s.Epochs() {
				for range s.Batches(ctx) {
					for range s.Batches(ctx) {
						t.Error("a turn within a turn")
					}
				}
			}
		}, 0, "Batches was called within a loop over Batches"},
		{"Epochs in Epochs", func(s *kvstore.ElasticSampler) {
			for range s.Epochs() {
				all(s)
			}
		}, 0, "Epochs was called within a loop over Epochs"},
		{"Batches after Epochs", func(s *kvstore.ElasticSampler) {
			all(s)
			for range s.Batches(ctx) {
				t.Error("a batch behind the last epoch")
			}
		}, 4, ""},
		{"a cancelled context", func(s *kvstore.ElasticSampler) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for range s.Epochs() {
				for range s.Batches(ctx) {
					cancel()
				}
			}
		}, 1, "context canceled"},
		{"a panic in a turn", func(s *kvstore.ElasticSampler) {
			for range s.Epochs() {
				func() {
					defer func() { _ = recover() }()
					for range s.Batches(ctx) {
						panic("of the program")
					}
				}()
				for range s.Batches(ctx) {
				}
			}
		}, 4, ""},
	} {
		for _, kind := range []string{"local", "dist_sync", "dist_async"} {
			t.Run(c.name+" with store "+kind, func(t *testing.T) {
				kv, err := kvstore.Create(ctx, kind)
				if err != nil {
					t.Fatal(err)
				}
				defer kv.Close()
				s, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: 4, Batch: 2, Epochs: 2})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Pusher().PushPull(ctx, "w", nil, nil); err == nil || !strings.Contains(err.Error(), "before the first step") {
					t.Errorf("a push before the first step: got error %v, want one that says so", err)
				}
				c.use(s)
				if err := s.Err(); s.Steps() != c.steps || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v after %d steps, want %q after %d", err, s.Steps(), c.want, c.steps)
				}
			})
		}
	}
}

// A batch may be larger than the data set: then each worker has one step an epoch.
func TestABatchOfAllExamples(t *testing.T) {
	for _, batch := range []int{8, math.MaxInt} {
		kv, err := kvstore.Create(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		s, err := kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 7, Batch: batch, Epochs: 2})
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for range s.Epochs() {
			for batch := range s.Batches(t.Context()) {
				if sizes = append(sizes, len(batch)); len(sizes) > 2 {
					break
				}
			}
		}
		if got := fmt.Sprint(sizes); got != "[7 7]" || s.Err() != nil {
			t.Errorf("batches of %d: got %s examples and error %v, want [7 7]", batch, got, s.Err())
		}
	}
}

// A second sampler of a dist_sync store would begin where the division of the last change began.
func TestASecondSamplerOfAStoreIsRefused(t *testing.T) {
	for kind, want := range map[string]string{"local": "", "dist_sync": "the store already has an ElasticSampler", "dist_async": ""} {
		kv, err := kvstore.Create(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		cfg := kvstore.SamplerConfig{Examples: 7, Batch: 2, Epochs: 2}
		if _, err := kvstore.NewElasticSampler(t.Context(), kv, cfg); err != nil {
			t.Fatal(err)
		}
		_, err = kvstore.NewElasticSampler(t.Context(), kv, cfg)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("store %s: got error %v, want %q", kind, err, want)
		}
	}
}
