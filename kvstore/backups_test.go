package kvstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A guarded run is some rounds of a job whose shards have backups.
type guardedRun struct {
	optimizer   optim.Config
	compression kvstore.Compression
	apart       bool // push and pull apart, so that pushes are acknowledged before their rounds close
	kind        string
	rounds      int
	pause       time.Duration // between rounds; a millisecond unless set
	// adapts: the norms of the dense key are measured in every round, and each round has a
	// learning rate of its own. The norms are among the values that train returns.
	adapts bool
	micro  int // micro-batches of a gradient
	// hosts: there are four workers, two on each host, which add up within it.
	hosts bool
	slow  bool // runs with PARAGON_TEST_SLOW alone
}

// pushers returns the pushers of a round, for the dense key and for all others.
func (g *guardedRun) pushers(kv kvstore.Store, round int) (dense, others kvstore.Pusher) {
	weight := float32(1 + kv.Rank())
	if !g.adapts {
		by := kv.Weighted(weight, false)
		return by, by
	}
	st := kvstore.PushOptions{Weight: weight, Factor: func(string) float64 { return 1 + float64(round)/10 }, ByProgress: true, Progress: 1.3 * float64(round)}
	others = kv.Step(st)
	st.Measure = true
	if g.micro > 1 {
		st.Micro = func(string) kvstore.Micro { return kvstore.Micro{Count: g.micro, Sqr: 1 / float64(1+round)} }
	}
	return kv.Step(st), others
}

// bitsOf returns numbers as float32 of which two hold one's bits, none of them a NaN.
func bitsOf(n kvstore.Norms) (bits []float32) {
	for _, u := range []uint64{n.Rounds, uint64(n.Count), math.Float64bits(n.Examples), math.Float64bits(n.MeanSqr), math.Float64bits(n.SqrMean)} {
		for range 4 {
			bits = append(bits, float32(u&0xffff))
			u >>= 16
		}
	}
	return bits
}

const (
	guardedSize = 70_000 // cut into a shard for each server
	guardedRows = 50
)

var smallKeys = []string{"mean", "a", "b", "c"}

// noise are random numbers, drawn once: under the race detector drawing them for each round takes
// longer than the round.
var noise = sync.OnceValue(func() []float32 {
	random := rand.New(rand.NewPCG(3, 3))
	x := make([]float32, 1<<18)
	for i := range x {
		x[i] = random.Float32() - 0.5
	}
	return x
})

// gradient returns n numbers of noise from a place that is drawn. They are only read.
func gradient(random *rand.Rand, n int) []float32 {
	x := noise()
	at := random.IntN(len(x) - n)
	return x[at : at+n : at+n]
}

// step makes one round of all keys.
func (g *guardedRun) step(ctx context.Context, kv kvstore.Store, round int, dense []float32, small [][]float32, rows, open []float32) error {
	random := rand.New(rand.NewPCG(uint64(round), uint64(kv.Rank())))
	grad := func(n int) []float32 { return gradient(random, n) }
	var ids []int64
	for i := range int64(guardedRows) {
		if random.IntN(3) == 0 {
			ids = append(ids, i)
		}
	}
	of, by := g.pushers(kv, round)
	var together []kvstore.Entry // these share messages
	for i, key := range smallKeys {
		e := kvstore.Entry{Key: key, Grads: [][]float32{grad(len(small[i]))}}
		if !g.apart {
			e.Outs = small[i : i+1]
		}
		together = append(together, e)
	}
	if g.apart {
		if err := errors.Join(of.Push(ctx, "dense", grad(guardedSize)), by.PushMany(ctx, together)); err != nil {
			return err
		}
	} else if err := errors.Join(of.PushPull(ctx, "dense", [][]float32{grad(guardedSize)}, [][]float32{dense}), by.PushPullMany(ctx, together)); err != nil {
		return err
	}
	x := grad(3 * len(ids))
	if err := errors.Join(by.PushRows(ctx, "rows", ids, x), by.PushRows(ctx, "open", ids, x)); err != nil {
		return err
	}
	if err := g.clip(ctx, kv); err != nil {
		return err
	}
	all := make([]int64, guardedRows)
	for i := range all {
		all[i] = int64(i)
	}
	err := errors.Join(kv.PullRows(ctx, "rows", all, rows), kv.PullRows(ctx, "open", all, open))
	if g.apart {
		err = errors.Join(err, kv.Pull(ctx, "dense", dense))
		for i, key := range smallKeys {
			err = errors.Join(err, kv.Pull(ctx, key, small[i]))
		}
	}
	return err
}

// clip clips the round by its norm over all keys, if the optimizer does.
func (g *guardedRun) clip(ctx context.Context, kv kvstore.Store) error {
	if g.optimizer.ClipGlobalNorm == 0 {
		return nil
	}
	norm, err := kv.ClipGlobalNorm(ctx, "dense", "a", "b", "c", "rows", "open")
	if err == nil && !(norm > g.optimizer.ClipGlobalNorm) {
		err = fmt.Errorf("got norm %v, want more than %v", norm, g.optimizer.ClipGlobalNorm)
	}
	return err
}

// train initialises the keys and makes the rounds; done counts rounds of all workers. It returns
// all values.
func (g *guardedRun) train(ctx context.Context, kv kvstore.Store, done *atomic.Int64) ([]float32, error) {
	dense, small := make([]float32, guardedSize), make([][]float32, len(smallKeys))
	rows, open := make([]float32, 3*guardedRows), make([]float32, 3*guardedRows)
	err := errors.Join(kv.SetOptimizer(ctx, g.optimizer), kv.SetCompression(ctx, g.compression),
		kv.Init(ctx, "dense", dense), kv.InitRows(ctx, "rows", guardedRows, 3, nil),
		kv.InitTable(ctx, "open", kvstore.Table{RowLen: 3, Initializer: kvstore.Initializer{Name: "normal", Deviation: 1, Seed: 5}}))
	for i, key := range smallKeys {
		init := kv.Init
		if key == "mean" {
			init = kv.InitAverage
		}
		small[i] = make([]float32, 500>>i)
		err = errors.Join(err, init(ctx, key, small[i]))
	}
	if err != nil {
		return nil, err
	}
	var norms []float32
	for round := range g.rounds {
		if err := g.step(ctx, kv, round, dense, small, rows, open); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		if g.adapts {
			n, ok := kv.Norms("dense")
			if !ok && round >= 5 {
				return nil, fmt.Errorf("round %d was not measured", round)
			}
			norms = append(norms, bitsOf(n)...)
			norms = append(norms, float32(kv.RoundWeight("dense")), float32(kv.RoundWeight("mean")))
		}
		done.Add(1)
		time.Sleep(max(g.pause, time.Millisecond))
	}
	return slices.Concat(dense, slices.Concat(small...), rows, open, norms), nil
}

// run makes a job of 3 workers and some servers, during which faults happen, and returns what rank
// 0 has in the end.
func (g *guardedRun) run(t *testing.T, servers int, seed uint64, faults func(job *jobtest.Job, done *atomic.Int64)) []float32 {
	t.Helper()
	var value []float32
	synctest.Test(t, func(t *testing.T) {
		logs := &logLines{}
		cfg := jobtest.Config{Workers: 3, Servers: servers, Seed: seed, Logger: slog.New(slog.NewTextHandler(logs, nil))}
		if faults != nil { // backups change no bit either
			cfg.Elastic.Backups = 1
		}
		var opts []kvstore.Option
		if g.hosts {
			cfg.Workers, cfg.WorkersPerHost = 4, 2
			opts = append(opts, kvstore.WithHostSums(kvstore.HostSumsOn))
		}
		job := jobtest.New(t, cfg)
		if faults != nil { // so that a server may be lost anywhere in a round
			job.Net.Delay(faultnet.Any, faultnet.Any, 10*time.Microsecond, 3*time.Millisecond)
		}
		stores := job.Stores(t, g.kind, opts...)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var done atomic.Int64
		var work sync.WaitGroup
		if faults != nil {
			work.Go(func() { faults(job, &done) })
		}
		values := make([][]float32, len(stores))
		for rank, kv := range stores {
			work.Go(func() {
				var err error
				if values[rank], err = g.train(ctx, kv, &done); err != nil {
					t.Errorf("seed %d: rank %d: %v", seed, rank, err)
				}
			})
		}
		work.Wait()
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, logs.tail(60))
			return
		}
		for rank := 1; rank < len(values) && g.kind == "dist_sync"; rank++ {
			if !slices.Equal(values[rank], values[0]) {
				t.Errorf("seed %d: rank %d has other values than rank 0", seed, rank)
			}
		}
		value = values[0]
		for _, kv := range stores {
			work.Go(func() {
				if err := kv.Close(); err != nil {
					t.Errorf("seed %d: close: %v", seed, err)
				}
			})
		}
		work.Wait()
	})
	return value
}

// logLines keeps what is logged.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logLines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "")
}

func firstDifference(got, want []float32) string {
	for i := range want {
		if i >= len(got) || math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Sprintf("value %d of %d: got %v, want %v", i, len(want), got[i], want[i])
		}
	}
	return ""
}

// guardedRuns have each setting at least once, beside others. The slow ones add no setting, and run
// with PARAGON_TEST_SLOW.
var guardedRuns = map[string]guardedRun{
	"momentum": {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, Schedule: optim.Schedule{Kind: "exponential", Every: 4}}, apart: true, kind: "dist_sync",
		adapts: true, micro: 3},
	"adam":    {optimizer: optim.Config{Name: "adam", LearningRate: 0.1, Reduction: optim.Mean}, compression: kvstore.Compression{Type: "fp16"}, kind: "dist_sync", adapts: true},
	"hosts":   {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}, kind: "dist_sync", adapts: true, micro: 3, hosts: true},
	"2bit":    {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}, compression: kvstore.Compression{Type: "2bit", Threshold: 0.2}, apart: true, kind: "dist_sync"},
	"clipped": {optimizer: optim.Config{Name: "adamw", LearningRate: 0.1, Reduction: optim.Mean, ClipGlobalNorm: 1}, compression: kvstore.Compression{Type: "fp16"}, apart: true, kind: "dist_sync", adapts: true},
	"sgd":     {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}, kind: "dist_sync", slow: true},
	"adam, apart": {optimizer: optim.Config{Name: "adam", LearningRate: 0.1, Reduction: optim.Mean}, compression: kvstore.Compression{Type: "fp16"}, apart: true, kind: "dist_sync",
		adapts: true, slow: true},
}

// A server is killed while a job trains, whenever in a round that is: the job goes on and ends with
// the bits of a quiet run.
func TestAKilledServerChangesNoBit(t *testing.T) {
	for name, g := range guardedRuns {
		if g.slow && os.Getenv("PARAGON_TEST_SLOW") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g.rounds = 6
			want := g.run(t, 3, 0, nil)
			for seed := range seeds(1, 3) {
				rng := rand.New(rand.NewPCG(seed, 11))
				got := g.run(t, 3, seed, func(job *jobtest.Job, done *atomic.Int64) {
					rank := rng.IntN(3)
					for done.Load() < int64(1+rng.IntN(9)) {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(time.Duration(rng.IntN(10_000)) * time.Microsecond)
					job.KillServer(rank, rng.IntN(4) == 0)
				})
				if d := firstDifference(got, want); d != "" {
					t.Errorf("seed %d: %s", seed, d)
				}
			}
		})
	}
}

// When a server comes in the place of one that was lost, its shards get backups again, so that a
// second loss is survived, too: once there has been time.
func TestServersMayBeLostOneAfterTheOther(t *testing.T) {
	g := guardedRun{optimizer: optim.Config{Name: "adam", LearningRate: 0.1, Reduction: optim.Mean}, apart: true, kind: "dist_sync", rounds: 18, pause: 500 * time.Millisecond}
	want := g.run(t, 2, 0, nil)
	for seed := range seeds(1, 2) {
		rng := rand.New(rand.NewPCG(seed, 12))
		got := g.run(t, 2, seed, func(job *jobtest.Job, done *atomic.Int64) {
			for _, rank := range rng.Perm(2) {
				for before := done.Load(); done.Load() < before+5; {
					time.Sleep(time.Millisecond)
				}
				if n := done.Load(); n > 3*16 {
					t.Errorf("seed %d: %d rounds are over, want the loss of server %d in the middle", seed, n, rank)
				}
				time.Sleep(time.Duration(rng.IntN(10_000)) * time.Microsecond)
				job.KillServer(rank, false)
				time.Sleep(3 * time.Second)
				job.StartServer(rank)
				time.Sleep(2 * time.Second)
			}
		})
		if d := firstDifference(got, want); d != "" {
			t.Errorf("seed %d: %s", seed, d)
		}
	}
}

// A server that shuts down, or is silent, is handled as one that is killed.
func TestServerThatEndsInOrderIsReplaced(t *testing.T) {
	g := guardedRun{optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}, kind: "dist_sync", rounds: 5}
	want := g.run(t, 3, 0, nil)
	for seed, end := range []func(job *jobtest.Job){
		func(job *jobtest.Job) { job.StopServer(1) },
		func(job *jobtest.Job) { job.KillServer(1, true) },
		func(job *jobtest.Job) {
			if answer, err := job.Control(context.Background(), `{"op":"remove-server","rank":1}`); err != nil || strings.Contains(answer, "error") {
				t.Errorf("remove server 1: got %s, error %v", answer, err)
			}
			select {
			case <-job.ServerEnded(1):
			case <-time.After(5 * time.Second):
				t.Error("server 1 was removed and goes on")
			}
		},
	} {
		got := g.run(t, 3, uint64(seed), func(job *jobtest.Job, done *atomic.Int64) {
			for done.Load() < 4 {
				time.Sleep(time.Millisecond)
			}
			end(job)
		})
		if d := firstDifference(got, want); d != "" {
			t.Errorf("%d: %s", seed, d)
		}
	}
}

// Servers come and go while a job trains, more than it began with and as few as one. Shards move to
// those that come, new keys are cut for all of them, and the parameters are those of a quiet run.
func TestServersComeAndGoWithoutATrace(t *testing.T) {
	for _, name := range []string{"momentum", "clipped"} {
		g := guardedRuns[name]
		g.rounds, g.pause = 20, 10*time.Millisecond // of which some ten pass while servers come and go
		want := g.run(t, 2, 0, nil)
		for seed := range seeds(1, 2) {
			got := g.run(t, 2, seed, func(job *jobtest.Job, done *atomic.Int64) {
				ask := func(request string) {
					t.Helper()
					for range 100 {
						answer, err := job.Control(context.Background(), request)
						if err == nil && strings.Contains(answer, `"again":true`) {
							time.Sleep(20 * time.Millisecond)
							continue
						}
						if err != nil || strings.Contains(answer, "error") {
							t.Errorf("seed %d: %s: got %s, error %v", seed, request, answer, err)
						}
						return
					}
					t.Errorf("seed %d: %s was never done", seed, request)
				}
				status := func() (s control.Status) {
					answer, err := job.Control(context.Background(), `{"op":"status"}`)
					if err == nil {
						err = json.Unmarshal([]byte(answer), &s)
					}
					if err != nil {
						t.Errorf("seed %d: status: %v", seed, err)
					}
					return s
				}
				// settled waits until the servers that are here share the values.
				settled := func(when string, servers int) {
					t.Helper()
					var s control.Status
					for range 500 {
						s = status()
						here, least, most, filling := 0, uint64(math.MaxUint64), uint64(0), 0
						for _, x := range s.Servers {
							if x.Status == "HERE" {
								here, least, most, filling = here+1, min(least, x.Values), max(most, x.Values), filling+x.Filling
							}
						}
						if here == servers && filling == 0 && least > 0 && (servers == 1 || most < 2*guardedSize) {
							return
						}
						time.Sleep(10 * time.Millisecond)
					}
					t.Errorf("seed %d: %s: want %d servers with a share each, got %+v", seed, when, servers, s.Servers)
				}
				for done.Load() < 5 {
					time.Sleep(time.Millisecond)
				}
				ask(`{"op":"add-server"}`)
				ask(`{"op":"add-server","host":"server3"}`)
				job.StartServer(2)
				job.StartServer(3)
				settled("two servers came", 4)
				for _, rank := range []int{0, 3, 1} {
					ask(fmt.Sprintf(`{"op":"remove-server","rank":%d}`, rank))
					select {
					case <-job.ServerEnded(rank):
					case <-time.After(5 * time.Second):
						t.Errorf("seed %d: server %d was removed and goes on", seed, rank)
					}
				}
				settled("three went", 1)
				ask(`{"op":"add-server"}`)
				job.StartServer(0) // the lowest rank that was removed
				settled("one came again", 2)
				if n := done.Load(); n >= int64(3*g.rounds) {
					t.Errorf("seed %d: training was over before the servers had come and gone", seed)
				}
			})
			if d := firstDifference(got, want); d != "" {
				t.Errorf("%s, seed %d: %s", name, seed, d)
			}
		}
	}
}

// A worker that pushes and closes without a pull stays until the backup has its push: should the
// server be lost, it can still send it again.
func TestCloseWaitsForTheLastPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 3, Elastic: cluster.Elastic{Backups: 1}})
		stores := job.Stores(t, "dist_sync")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		together(t, stores, func(kv kvstore.Store) error {
			return errors.Join(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}), kv.Init(ctx, "w", make([]float32, 10)))
		})
		primary := -1
		var s control.Status
		answer, err := job.Control(ctx, `{"op":"status"}`)
		if err := errors.Join(err, json.Unmarshal([]byte(answer), &s)); err != nil {
			t.Fatal(err)
		}
		for _, x := range s.Servers {
			if x.Shards > 0 {
				primary = int(x.Rank)
			}
		}
		ones := slices.Repeat([]float32{1}, 10)
		if err := stores[0].Push(ctx, "w", ones); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- stores[0].Close() }()
		time.Sleep(time.Second)
		job.KillServer(primary, false)
		time.Sleep(2 * time.Second)
		out := make([]float32, 10)
		if err := stores[1].PushPull(ctx, "w", [][]float32{ones}, [][]float32{out}); err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]float32{2}, 10); !slices.Equal(out, want) {
			t.Errorf("got %v, want %v: what both have pushed", out, want)
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		begin := time.Now()
		if err := stores[1].Close(); err != nil || time.Since(begin) > time.Second {
			t.Errorf("close of the one that has pulled: %v, after %v", err, time.Since(begin))
		}
	})
}

// Where both servers of a shard are lost the job fails, and says which shard.
func TestLossOfBothCopiesFailsAndNamesTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 1, Servers: 2, Elastic: cluster.Elastic{Backups: 1}})
		kv := job.Stores(t, "dist_sync")[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := kv.Init(ctx, "weight", make([]float32, 10)); err != nil {
			t.Fatal(err)
		}
		job.KillServer(0, false)
		job.KillServer(1, false)
		out := make([]float32, 10)
		err := kv.PushPull(ctx, "weight", [][]float32{out}, [][]float32{out})
		if err == nil || !strings.Contains(err.Error(), `key "weight" shard 0 of 1 has no complete copy left`) && !strings.Contains(err.Error(), "no server is left") {
			t.Errorf("got error %v, want one that names the shard", err)
		}
	})
}

// Each asynchronous push counts once, whenever a server is lost.
func TestAsynchronousPushesCountOnce(t *testing.T) {
	const workers, pushes, size = 3, 15, 70_000
	for seed := range seeds(2, 4) { // the first server goes silently, the second is cut off
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 13))
			job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 3, Seed: seed, Elastic: cluster.Elastic{Backups: 1}})
			job.Net.Delay(faultnet.Any, faultnet.Any, 10*time.Microsecond, 3*time.Millisecond)
			stores := job.Stores(t, "dist_async")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var work sync.WaitGroup
			work.Go(func() {
				time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond)
				job.KillServer(rng.IntN(3), rng.IntN(2) == 0)
			})
			together(t, stores, func(kv kvstore.Store) error {
				err := errors.Join(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 1}), kv.Init(ctx, "w", make([]float32, size)))
				if err != nil {
					return err
				}
				grad, out := make([]float32, size), make([]float32, size)
				for i := range grad {
					grad[i] = 1
				}
				for i := range pushes {
					if i%2 == 0 {
						err = kv.Push(ctx, "w", grad)
					} else {
						err = kv.PushPull(ctx, "w", [][]float32{grad}, [][]float32{out})
					}
					if err != nil {
						return fmt.Errorf("push %d: %w", i, err)
					}
				}
				return kv.Barrier(ctx)
			})
			work.Wait()
			out := make([]float32, size)
			if err := stores[0].Pull(ctx, "w", out); err != nil {
				t.Fatal(err)
			}
			for i, x := range out {
				if x != workers*pushes {
					t.Fatalf("seed %d: value %d: got %v, want %d: each push once", seed, i, x, workers*pushes)
				}
			}
		})
	}
}
