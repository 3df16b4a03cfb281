package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/cluster"
	"github.com/paragon-train/paragon/internal/faultnet"
	"github.com/paragon-train/paragon/internal/jobtest"
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
}

const (
	guardedSize = 70_000 // cut into a shard for each server
	guardedRows = 50
)

// step makes one round of all keys.
func (g *guardedRun) step(ctx context.Context, kv kvstore.Store, round int, dense, mean, rows, open []float32) error {
	random := rand.New(rand.NewPCG(uint64(round), uint64(kv.Rank())))
	grad := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = random.Float32() - 0.5
		}
		return x
	}
	var ids []int64
	for i := range int64(guardedRows) {
		if random.IntN(3) == 0 {
			ids = append(ids, i)
		}
	}
	kv.SetWeight(float32(1 + kv.Rank()))
	if g.apart {
		if err := errors.Join(kv.Push(ctx, "dense", grad(guardedSize)), kv.Push(ctx, "mean", grad(500))); err != nil {
			return err
		}
	} else if err := errors.Join(kv.PushPull(ctx, "dense", [][]float32{grad(guardedSize)}, [][]float32{dense}),
		kv.PushPull(ctx, "mean", [][]float32{grad(500)}, [][]float32{mean})); err != nil {
		return err
	}
	x := grad(3 * len(ids))
	if err := errors.Join(kv.PushRows(ctx, "rows", ids, x), kv.PushRows(ctx, "open", ids, x)); err != nil {
		return err
	}
	all := make([]int64, guardedRows)
	for i := range all {
		all[i] = int64(i)
	}
	err := errors.Join(kv.PullRows(ctx, "rows", all, rows), kv.PullRows(ctx, "open", all, open))
	if g.apart {
		err = errors.Join(err, kv.Pull(ctx, "dense", dense), kv.Pull(ctx, "mean", mean))
	}
	return err
}

// train initialises the keys and makes the rounds; done counts rounds of all workers. It returns all values.
func (g *guardedRun) train(ctx context.Context, kv kvstore.Store, done *atomic.Int64) ([]float32, error) {
	dense, mean := make([]float32, guardedSize), make([]float32, 500)
	rows, open := make([]float32, 3*guardedRows), make([]float32, 3*guardedRows)
	err := errors.Join(kv.SetOptimizer(ctx, g.optimizer), kv.SetCompression(ctx, g.compression),
		kv.Init(ctx, "dense", dense), kv.InitAverage(ctx, "mean", mean), kv.InitRows(ctx, "rows", guardedRows, 3, nil),
		kv.InitTable(ctx, "open", kvstore.Table{RowLen: 3, Initializer: kvstore.Initializer{Name: "normal", Deviation: 1, Seed: 5}}))
	if err != nil {
		return nil, err
	}
	for round := range g.rounds {
		if err := g.step(ctx, kv, round, dense, mean, rows, open); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		done.Add(1)
		time.Sleep(time.Millisecond)
	}
	return slices.Concat(dense, mean, rows, open), nil
}

// run makes a job of 3 workers and some servers, during which faults happen, and returns what rank 0 has in the end.
func (g *guardedRun) run(t *testing.T, servers int, seed uint64, faults func(job *jobtest.Job, done *atomic.Int64)) []float32 {
	t.Helper()
	var value []float32
	synctest.Test(t, func(t *testing.T) {
		logs := &logLines{}
		job := jobtest.New(t, jobtest.Config{Workers: 3, Servers: servers, Seed: seed, Elastic: cluster.Elastic{Backups: 1},
			Logger: slog.New(slog.NewTextHandler(logs, nil))})
		if faults != nil { // so that a server may be lost anywhere in a round
			job.Net.Delay(faultnet.Any, faultnet.Any, 10*time.Microsecond, 3*time.Millisecond)
		}
		stores := job.Stores(t, g.kind)
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

var guardedRuns = map[string]guardedRun{
	"sgd":         {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1}, kind: "dist_sync"},
	"momentum":    {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}, apart: true, kind: "dist_sync"},
	"adam":        {optimizer: optim.Config{Name: "adam", LearningRate: 0.1, Reduction: optim.Mean}, kind: "dist_sync"},
	"adam, apart": {optimizer: optim.Config{Name: "adam", LearningRate: 0.1, Reduction: optim.Mean}, apart: true, kind: "dist_sync"},
	"2bit":        {optimizer: optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}, compression: kvstore.Compression{Type: "2bit", Threshold: 0.2}, apart: true, kind: "dist_sync"},
}

// A server is killed while a job trains, whenever in a round that is: the job goes on and ends with the bits of a quiet run.
func TestAKilledServerChangesNoBit(t *testing.T) {
	for name, g := range guardedRuns {
		t.Run(name, func(t *testing.T) {
			g.rounds = 8
			want := g.run(t, 3, 0, nil)
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, 11))
				got := g.run(t, 3, seed, func(job *jobtest.Job, done *atomic.Int64) {
					rank := rng.IntN(3)
					for done.Load() < int64(1+rng.IntN(12)) {
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
