package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A habit is how a worker makes one round of some keys: which calls it makes, and in which order.
type habit func(ctx context.Context, kv kvstore.Store, round int, x []kvstore.Entry) error

func pushPulls(ctx context.Context, kv kvstore.Store, _ int, x []kvstore.Entry) (err error) {
	for _, e := range x {
		err = errors.Join(err, kv.PushPull(ctx, e.Key, e.Grads, e.Outs))
	}
	return err
}

func pushPullsOfEach(ctx context.Context, kv kvstore.Store, _ int, x []kvstore.Entry) (err error) {
	for _, e := range x {
		err = errors.Join(err, kv.Push(ctx, e.Key, e.Grads...), kv.Pull(ctx, e.Key, e.Outs...))
	}
	return err
}

func pushesThenPulls(ctx context.Context, kv kvstore.Store, _ int, x []kvstore.Entry) (err error) {
	for _, e := range x {
		err = errors.Join(err, kv.Push(ctx, e.Key, e.Grads...))
	}
	return errors.Join(err, pulls(ctx, kv, x))
}

func pulls(ctx context.Context, kv kvstore.Store, x []kvstore.Entry) (err error) {
	for _, e := range x {
		err = errors.Join(err, kv.Pull(ctx, e.Key, e.Outs...))
	}
	return err
}

// backwards pushes the last key first, as a backward pass does.
func backwards(ctx context.Context, kv kvstore.Store, round int, x []kvstore.Entry) error {
	x = slices.Clone(x)
	slices.Reverse(x)
	return pushesThenPulls(ctx, kv, round, x)
}

func pushOfMany(ctx context.Context, kv kvstore.Store, _ int, x []kvstore.Entry) error {
	pushed := slices.Clone(x)
	for i := range pushed {
		pushed[i].Outs = nil
	}
	return errors.Join(kv.PushMany(ctx, pushed), pulls(ctx, kv, x))
}

func pushPullOfMany(ctx context.Context, kv kvstore.Store, _ int, x []kvstore.Entry) error {
	return kv.PushPullMany(ctx, x)
}

// inTurn takes another habit in each round.
func inTurn(habits ...habit) habit {
	return func(ctx context.Context, kv kvstore.Store, round int, x []kvstore.Entry) error {
		return habits[round%len(habits)](ctx, kv, round, x)
	}
}

// mixedHabits are jobs of four workers, two on each of two hosts. lost says under which a server is
// lost without PARAGON_TEST_SLOW, too.
var mixedHabits = []struct {
	name  string
	lost  bool
	ranks [4]habit
}{
	{"one worker pushes, then pulls", false, [4]habit{pushPulls, pushPullsOfEach, pushPulls, pushPulls}},
	{"one worker of each host pushes, then pulls", true, [4]habit{pushPullsOfEach, pushPulls, pushPulls, pushesThenPulls}},
	{"leaders push, then pull", false, [4]habit{pushesThenPulls, pushPulls, pushesThenPulls, pushPulls}},
	{"another order of keys", true, [4]habit{pushPulls, backwards, backwards, pushPulls}},
	{"many at once beside one by one", false, [4]habit{pushPullOfMany, pushPulls, pushOfMany, pushPullOfMany}},
	{"pushes of many", false, [4]habit{pushOfMany, pushPullOfMany, pushPulls, pushOfMany}},
	{"other calls in each round", false, [4]habit{inTurn(pushPulls, pushPullsOfEach), pushPulls, inTurn(pushesThenPulls, pushPulls, pushPullOfMany), pushPullOfMany}},
	{"turns that never meet", true, [4]habit{inTurn(pushPulls, pushesThenPulls), inTurn(pushesThenPulls, pushPulls), inTurn(pushPulls, pushPulls, pushOfMany), inTurn(pushOfMany, pushPulls)}},
}

// mixedTraining makes rounds of three keys on four workers, two on each of two hosts, each in its
// own way, under synctest. It returns the values of rank 0, the sums that left hosts and the fake
// time that it took.
func mixedTraining(t *testing.T, ranks [4]habit, rounds int, options func(rank int) []kvstore.Option, gradient func(*rand.Rand, int) []float32) (value []float32, sent uint64, took time.Duration) {
	t.Helper()
	return mixedTrainingOn(t, jobtest.Config{}, ranks, rounds, options, gradient, nil)
}

// mixedTrainingOn is mixedTraining of a job with more settings. before, unless nil, is called by
// each worker before each round.
func mixedTrainingOn(t *testing.T, cfg jobtest.Config, ranks [4]habit, rounds int, options func(rank int) []kvstore.Option, gradient func(*rand.Rand, int) []float32,
	before func(job *jobtest.Job, kv kvstore.Store, round int)) (value []float32, sent uint64, took time.Duration) {
	t.Helper()
	sizes := []int{20_000, 5000, 300}
	synctest.Test(t, func(t *testing.T) {
		cfg.Workers, cfg.Servers, cfg.WorkersPerHost = 4, 2, 2
		job := jobtest.New(t, cfg)
		stores := jobStores(t, job, 4, options)
		values, began := make([][]float32, len(stores)), time.Now()
		together(t, stores, func(kv kvstore.Store) error {
			err := kv.SetOptimizer(t.Context(), optim.Config{Name: "sgd", LearningRate: 0.5, Momentum: 0.5})
			x := make([]kvstore.Entry, len(sizes))
			for i, n := range sizes {
				x[i] = kvstore.Entry{Key: fmt.Sprint("key", i), Outs: [][]float32{make([]float32, n)}}
				err = errors.Join(err, kv.Init(t.Context(), x[i].Key, make([]float32, n)))
			}
			for round := 0; round < rounds && err == nil; round++ {
				if before != nil {
					before(job, kv, round)
				}
				random := rand.New(rand.NewPCG(uint64(round), uint64(kv.Rank())))
				for i, n := range sizes {
					x[i].Grads = [][]float32{gradient(random, n)}
				}
				err = ranks[kv.Rank()](t.Context(), kv, round, x)
			}
			for i := range x {
				values[kv.Rank()] = append(values[kv.Rank()], x[i].Outs[0]...)
			}
			return err
		})
		for rank, v := range values[1:] {
			if d := firstDifference(v, values[0]); d != "" {
				t.Errorf("worker %d has other values than worker 0: %s", rank+1, d)
			}
		}
		value, took = values[0], time.Since(began)
		for _, kv := range stores {
			s, _ := kvstore.HostSumsOf(kv)
			sent += s
		}
		together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
	})
	return value, sent, took
}

func everyRank(opts ...kvstore.Option) func(int) []kvstore.Option {
	return func(int) []kvstore.Option { return opts }
}

// Whichever calls each worker of a host makes, no round waits for a worker that has contributed,
// and the bits are those of a job whose workers push for themselves.
func TestCallsOfTheWorkersOfAHostMayDiffer(t *testing.T) {
	const rounds = 6
	apart := [4]habit{pushesThenPulls, pushesThenPulls, pushesThenPulls, pushesThenPulls}
	want, sent, _ := mixedTraining(t, apart, rounds, everyRank(on...), gradient)
	if sent != 0 {
		t.Fatalf("workers that push for themselves: got %d sums, want none", sent)
	}
	together, sent, _ := mixedTraining(t, [4]habit{pushPulls, pushPulls, pushPulls, pushPulls}, rounds, everyRank(on...), gradient)
	if d := firstDifference(together, want); d != "" || sent == 0 {
		t.Fatalf("workers that all push and pull in one: got %d sums; %s", sent, d)
	}
	for _, c := range mixedHabits {
		t.Run(c.name, func(t *testing.T) {
			got, _, took := mixedTraining(t, c.ranks, rounds, everyRank(on...), gradient)
			if d := firstDifference(got, want); d != "" {
				t.Error(d)
			}
			if took > time.Second {
				t.Errorf("%d rounds took %v of fake time, want less than 1 s", rounds, took)
			}
		})
	}
}

// jobStores joins all workers of a job, each with its own options.
func jobStores(t *testing.T, job *jobtest.Job, workers int, options func(rank int) []kvstore.Option) []kvstore.Store {
	t.Helper()
	stores, errs := make([]kvstore.Store, workers), make([]error, workers)
	var begun sync.WaitGroup
	for rank := range stores {
		begun.Go(func() {
			opts := append([]kvstore.Option{kvstore.WithTimeout(10 * time.Minute), kvstore.WithLogger(slog.New(slog.DiscardHandler))}, options(rank)...)
			stores[rank], errs[rank] = joining.Join(context.Background(), job.WorkerConfig(rank), "dist_sync", opts...)
		})
	}
	begun.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return stores
}

// Workers that compress, each in its own way, beside workers that do not.
func TestCompressionOfOneWorkerOfAHostStallsNoRound(t *testing.T) {
	for _, compression := range []kvstore.Compression{{Type: "2bit", Threshold: 0.5}, {Type: "1bit"}, {Type: "fp16"}} {
		t.Run(fmt.Sprint(compression), func(t *testing.T) {
			compress := func(own habit) habit {
				return func(ctx context.Context, kv kvstore.Store, round int, x []kvstore.Entry) error {
					if round == 0 {
						if err := kv.SetCompression(ctx, compression); err != nil {
							return err
						}
					}
					return own(ctx, kv, round, x)
				}
			}
			const rounds = 6
			want, _, _ := mixedTraining(t, [4]habit{pushesThenPulls, compress(pushesThenPulls), pushesThenPulls, compress(pushesThenPulls)}, rounds, everyRank(on...), gradient)
			got, _, took := mixedTraining(t, [4]habit{pushPulls, compress(pushPulls), pushPullOfMany, compress(pushPulls)}, rounds, everyRank(on...), gradient)
			if d := firstDifference(got, want); d != "" {
				t.Error(d)
			}
			if took > time.Second {
				t.Errorf("%d rounds took %v of fake time, want less than 1 s", rounds, took)
			}
		})
	}
}

// Keys of rows are not added up within a host, beside keys that are.
func TestKeysOfRowsBesideSumsWithinAHostStallNoRound(t *testing.T) {
	const rounds = 6
	rows := func(own habit) habit {
		return func(ctx context.Context, kv kvstore.Store, round int, x []kvstore.Entry) error {
			if round == 0 {
				if err := kv.InitRows(ctx, "rows", 40, 5, nil); err != nil {
					return err
				}
			}
			out := make([]float32, 10)
			return errors.Join(kv.PushRows(ctx, "rows", []int64{int64(kv.Rank()), 7}, x[0].Grads[0][:10]), own(ctx, kv, round, x),
				kv.PullRows(ctx, "rows", []int64{7, 3}, out))
		}
	}
	_, _, took := mixedTraining(t, [4]habit{rows(pushPulls), rows(pushesThenPulls), rows(pushPullOfMany), rows(pushPulls)}, rounds, everyRank(on...), gradient)
	if took > time.Second {
		t.Errorf("%d rounds took %v of fake time, want less than 1 s", rounds, took)
	}
}

// Shards move to another server while workers make other calls: only the loss of the server takes
// time, and no bit changes.
func TestALostServerUnderOtherCallsStallsNoRound(t *testing.T) {
	const rounds = 8
	cfg := jobtest.Config{Elastic: cluster.Elastic{Enabled: true, Backups: 1}}
	// The calls make no difference to the bits: see TestCallsOfTheWorkersOfAHostMayDiffer.
	want, _, _ := mixedTrainingOn(t, cfg, [4]habit{pushPulls, pushPulls, pushPulls, pushPulls}, rounds, everyRank(on...), gradient, nil)
	for _, c := range mixedHabits {
		if !c.lost && os.Getenv("PARAGON_TEST_SLOW") == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			got, _, took := mixedTrainingOn(t, cfg, c.ranks, rounds, everyRank(on...), gradient, func(job *jobtest.Job, kv kvstore.Store, round int) {
				if kv.Rank() == 0 && round == 5 {
					job.KillServer(1, false)
				}
			})
			if d := firstDifference(got, want); d != "" {
				t.Error(d)
			}
			if took > 4*time.Second {
				t.Errorf("%d rounds with the loss of a server took %v of fake time, want less than 4 s", rounds, took)
			}
		})
	}
}

// A worker that skips a key for a while is named, with the call that waits, by the log of those who
// wait and by the scheduler.
func TestAWaitForAWorkerOfTheHostNamesItAndTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var mu sync.Mutex // guards log
		job := jobtest.New(t, jobtest.Config{Workers: 4, Servers: 2, WorkersPerHost: 2})
		stores := jobStores(t, job, 4, func(rank int) []kvstore.Option {
			if rank != 0 {
				return on
			}
			return append([]kvstore.Option{kvstore.WithLogger(slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)))}, on...)
		})
		together(t, stores, func(kv kvstore.Store) error {
			const size = 20_000
			grad, out := [][]float32{make([]float32, size)}, [][]float32{make([]float32, size)}
			err := errors.Join(kv.Init(t.Context(), "x", make([]float32, size)), kv.PushPull(t.Context(), "x", grad, out))
			if kv.Rank() == 1 { // in place of a worker that pushes other keys
				time.Sleep(6500 * time.Millisecond)
				answer, e := job.Control(t.Context(), `{"op":"why"}`)
				err = errors.Join(err, e)
				for _, want := range []string{`push-pull of key \"x\", round 1`, "worker 1 on host0"} {
					if !strings.Contains(answer, want) {
						t.Errorf("why: got %s, want %s", answer, want)
					}
				}
			}
			return errors.Join(err, kv.PushPull(t.Context(), "x", grad, out))
		})
		together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
		mu.Lock()
		defer mu.Unlock()
		if got := log.String(); !strings.Contains(got, "worker 1 on host0") || strings.Contains(got, "no answer yet") {
			t.Errorf("worker 0 logged:\n%s\nwant a line that names worker 1 on host0", got)
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// Small keys share messages where a host's sums are automatic, over shared memory; one worker sends
// each by itself, and large keys beside them.
func TestOtherCallsForSmallAndLargeKeysOverSharedMemoryStallNoRound(t *testing.T) {
	const rounds, workers = 20, 4
	job := jobtest.New(t, jobtest.Config{TCP: true, Over: transport.Auto, Workers: workers, Servers: 2, WorkersPerHost: 2})
	stores := jobStores(t, job, workers, everyRank(kvstore.WithHostSums(kvstore.HostSumsAuto)))
	ranks := [workers]habit{pushPullOfMany, inTurn(pushPulls, pushesThenPulls), pushOfMany, pushPulls}
	var began time.Time
	var start sync.Once
	together(t, stores, func(kv kvstore.Store) error {
		var err error
		x := make([]kvstore.Entry, 12)
		for i := range x {
			n := 10 << i // to 20480: both sides of the size of small keys
			x[i] = kvstore.Entry{Key: fmt.Sprint("key", i), Grads: [][]float32{make([]float32, n)}, Outs: [][]float32{make([]float32, n)}}
			x[i].Grads[0][n-1] = float32(int(1) << kv.Rank())
			err = errors.Join(err, kv.Init(t.Context(), x[i].Key, make([]float32, n)))
		}
		err = errors.Join(err, kv.Barrier(t.Context()))
		start.Do(func() { began = time.Now() })
		for round := 0; round < rounds && err == nil; round++ {
			err = ranks[kv.Rank()](t.Context(), kv, round, x)
			for i := range x {
				if out := x[i].Outs[0]; err == nil && out[len(out)-1] != 15 {
					err = fmt.Errorf("round %d, %s: got %v, want 15", round, x[i].Key, out[len(out)-1])
				}
			}
		}
		return err
	})
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("%d rounds took %v, want none to wait 4.5 s for a group", rounds, took)
	}
	together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
}
