package shardserver_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// Connections that break, dials that are refused and bytes that come late or never change nothing
// in the result: every contribution counts once, and the values are those of a quiet run, bit for
// bit.
func TestBrokenConnectionsChangeNoBit(t *testing.T) {
	const workers, servers = 3, 2
	want := trainUnderFaults(t, workers, servers, 0)
	last := uint64(2) // one with messages of many keys, one without
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		last = 8
	}
	for seed := uint64(1); seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if got := trainUnderFaults(t, workers, servers, seed); !slices.Equal(got, want) {
				t.Errorf("values after faults differ from those of a quiet run: got %v, want %v", got, want)
			}
		})
	}
}

// trainUnderFaults runs a job with random gradients on fake time and returns its last values. Seed
// 0 makes no faults. Under odd seeds keys share messages.
func trainUnderFaults(t *testing.T, workers, servers int, seed uint64) (result []float32) {
	const rounds, keys, n = 8, 8, 50
	many := seed%2 == 1
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: servers, Seed: seed, Lease: time.Hour})
		stores := job.Stores(t, "dist_sync", kvstore.WithTimeout(time.Hour))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			random := rand.New(rand.NewPCG(seed, 3))
			for i := 0; seed > 0; i++ {
				select {
				case <-stop:
					job.Net.Heal()
					return
				case <-time.After(4 * time.Millisecond):
					w, s := fmt.Sprint("worker", random.IntN(workers)), fmt.Sprint("server", random.IntN(servers))
					switch what := random.IntN(8); {
					case i%20 == 0:
						job.Net.Heal()
						job.Net.Delay("*", "*", 0, 3*time.Millisecond) // so that something is on its way when a link breaks
					case what == 0:
						job.Net.Drop(w, s)
					case what == 1:
						job.Net.Drop(s, w)
					case what == 2:
						job.Net.Refuse(w, s)
					default:
						job.Net.Cut(w, s)
					}
				}
			}
		}()
		results := make([][]float32, workers)
		var training sync.WaitGroup
		for rank, kv := range stores {
			training.Go(func() {
				check := func(err error) {
					if err != nil {
						t.Errorf("worker %d: %v", rank, err)
					}
				}
				ctx := t.Context()
				check(kv.SetOptimizer(ctx, optim.Config{Name: "adam", LearningRate: 0.01}))
				check(kv.InitRows(ctx, "rows", 9, 2, nil))
				values := make([][]float32, keys)
				for k := range keys {
					values[k] = make([]float32, n)
					check(kv.Init(ctx, fmt.Sprint(k), values[k]))
				}
				random := rand.New(rand.NewPCG(5, uint64(rank)))
				for round := range rounds {
					if t.Failed() {
						return
					}
					var pushPulls, pushes []kvstore.Entry
					for k := range keys {
						gradient := make([]float32, n)
						for i := range gradient {
							gradient[i] = float32(random.NormFloat64())
						}
						e := kvstore.Entry{Key: fmt.Sprint(k), Grads: [][]float32{gradient}}
						switch pull := (k+round)%2 == 0; {
						case many && pull:
							e.Outs = values[k : k+1]
							pushPulls = append(pushPulls, e)
						case many:
							pushes = append(pushes, e)
						case pull:
							check(kv.PushPull(ctx, e.Key, e.Grads, values[k:k+1]))
						default:
							check(kv.Push(ctx, e.Key, gradient))
						}
					}
					if many {
						check(kv.PushMany(ctx, pushes))
						check(kv.PushPullMany(ctx, pushPulls))
					}
					check(kv.PushRows(ctx, "rows", []int64{int64(round % 9), int64(rank)}, []float32{1, 2, 3, float32(random.NormFloat64())}))
					time.Sleep(10 * time.Millisecond) // of fake time: a step's arithmetic
				}
				for k := range keys {
					check(kv.Pull(ctx, fmt.Sprint(k), values[k]))
				}
				rows := make([]float32, 18)
				check(kv.PullRows(ctx, "rows", []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, rows))
				results[rank] = append(slices.Concat(values...), rows...)
			})
		}
		training.Wait()
		close(stop)
		<-stopped
		for rank := range results {
			if !slices.Equal(results[rank], results[0]) {
				t.Errorf("workers 0 and %d hold different values", rank)
			}
			if err := stores[rank].Close(); err != nil {
				t.Errorf("close worker %d: %v", rank, err)
			}
		}
		result = results[0]
	})
	return result
}
