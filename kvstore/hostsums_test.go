package kvstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
	"github.com/paragon-train/paragon/optim"
)

// hostJob returns a harness's Open for whole jobs whose workers share hosts and add up within them.
func hostJob(over transport.Network, perHost int) func(t testing.TB, c kvstoretest.Config) []kvstore.Store {
	return func(t testing.TB, c kvstoretest.Config) []kvstore.Store {
		t.Helper()
		servers := c.Servers
		if servers == 0 {
			servers = 2
		}
		job := jobtest.New(t, jobtest.Config{Workers: c.Workers, Servers: servers, WorkersPerHost: perHost, TCP: over != nil, Over: over,
			Lease: time.Minute, Start: 2 * time.Minute})
		return job.Stores(t, c.Type, append(c.Options, kvstore.WithHostSums(kvstore.HostSumsOn))...)
	}
}

// The store keeps its promises where the workers of a host add up before a push leaves it.
func TestStoresWithSumsWithinHosts(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{Open: hostJob(transport.Auto, 2), WorkersPerHost: 2, Workers: unlessShort([]int{4}, 3), Types: []string{"dist_sync"}, Servers: unlessShort(nil, 2), Brief: brief(), Edge: smallEdge()})
	if workers := unlessShort(nil, 3, 6); len(workers) > 0 {
		kvstoretest.Run(t, kvstoretest.Harness{Open: hostJob(nil, 3), WorkersPerHost: 3, Workers: workers, Types: []string{"dist_sync"}, Servers: []int{1}, Edge: smallEdge()})
	}
}

// onHosts puts two workers of a crowd on each host; they add up within it.
func onHosts(c *jobtest.Config) { c.WorkersPerHost = 2 }

// Workers that add up within their hosts come, go and are lost in the middle of rounds, as in
// TestWorkersComeAndGoWhileOthersTrain; also the connections among them break.
func TestWorkersOfHostsComeAndGoWhileOthersTrain(t *testing.T) { hostsComeAndGo(t, false) }

// They may do so while some push and then pull where others do both in one: nobody waits for a
// group that does not come together.
func TestWorkersOfHostsWithOtherCallsComeAndGoWhileOthersTrain(t *testing.T) { hostsComeAndGo(t, true) }

func hostsComeAndGo(t *testing.T, mixed bool) {
	for seed := range seeds(1, 8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards random and lost
				random := rand.New(rand.NewPCG(seed, 6))
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				c := newCrowd(t, 4, 50, seed, cluster.Elastic{}, nil, onHosts)
				c.mixed = mixed
				began := time.Now()
				c.opts = []kvstore.Option{kvstore.WithHostSums(kvstore.HostSumsOn)}
				c.job.Net.Delay(faultnet.Any, faultnet.Any, time.Millisecond, 3*time.Millisecond)
				var once sync.Map
				first := func(what string) bool { _, again := once.LoadOrStore(what, true); return !again }
				soon := func(f func()) {
					wait := time.Duration(draw(20_000)) * time.Microsecond
					c.running.Go(func() { time.Sleep(wait); f() })
				}
				var lost []kvstore.NodeID
				kill := func(host string, silent bool) { // odd seeds lose them the other way round
					soon(func() { c.kill(host, silent != (seed%2 == 1)) })
					mu.Lock()
					defer mu.Unlock()
					lost = append(lost, c.node(host))
				}
				c.at = func(w *hand, step uint64) {
					switch {
					case step == 3 && first("join 4"):
						c.start(c.job.JoinerConfig(4))
						c.start(c.job.JoinerConfig(5))
					case step == 12 && first("kill 2"):
						kill("worker2", true)
					case step == 25 && first("remove"):
						if answer, err := c.job.Control(t.Context(), `{"op":"remove","host":"host0"}`); err != nil || strings.Contains(answer, "error") {
							t.Errorf("remove: got %s, %v", answer, err)
						}
					case step == 31 && first("join 6"):
						c.start(c.job.JoinerConfig(6))
						c.start(c.job.JoinerConfig(7))
					case step == 41 && first("kill 6"):
						kill("worker4", false)
					case step%7 == 3 && first(fmt.Sprint("cut", step)):
						from, to := w.host.Name(), fmt.Sprint("worker", draw(8))
						soon(func() { c.job.Net.Break(from, to, 30*time.Millisecond) })
					case step%7 == 5 && first(fmt.Sprint("cut", step)):
						from := w.host.Name()
						soon(func() { c.job.Net.Cut(from, faultnet.Any) })
					}
				}
				c.run(4)
				c.wantEnded(map[string]error{"worker0": kvstore.ErrRemoved, "worker1": kvstore.ErrRemoved, "worker3": nil, "worker5": nil, "worker6": nil, "worker7": nil})
				c.wantLedger(lost...)
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("50 steps with two losses took %v of fake time, want at most 25 s", took)
				} else {
					t.Logf("took %v of fake time", took)
				}
			})
		})
	}
}

// hostTraining makes rounds of two keys on four workers, two on each host, under synctest. before
// is called by each worker before each round. It returns the values of rank 0, the sums that left
// hosts, the rounds that were dissolved, and the fake time that it took.
func hostTraining(t *testing.T, rounds int, opts []kvstore.Option, before func(job *jobtest.Job, kv kvstore.Store, round int)) (value []float32, sent, dissolved uint64, took time.Duration) {
	t.Helper()
	const size = 30_000
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 4, Servers: 2, WorkersPerHost: 2})
		stores := job.Stores(t, "dist_sync", append([]kvstore.Option{kvstore.WithTimeout(10 * time.Minute)}, opts...)...)
		values, began := make([][]float32, len(stores)), time.Now()
		together(t, stores, func(kv kvstore.Store) error {
			x, y := make([]float32, size), make([]float32, 10)
			err := errors.Join(kv.SetOptimizer(t.Context(), optim.Config{Name: "sgd", LearningRate: 0.1, Reduction: optim.Mean}),
				kv.Init(t.Context(), "x", x), kv.InitAverage(t.Context(), "y", y))
			for round := 0; round < rounds && err == nil; round++ {
				if before != nil {
					before(job, kv, round)
				}
				random := rand.New(rand.NewPCG(uint64(round), uint64(kv.Rank())))
				by := kv.Weighted(float32(1+kv.Rank()), false)
				err = errors.Join(by.PushPull(t.Context(), "x", [][]float32{gradient(random, size)}, [][]float32{x}),
					by.PushPull(t.Context(), "y", [][]float32{gradient(random, 10)}, [][]float32{y}))
			}
			values[kv.Rank()] = slices.Concat(x, y)
			return err
		})
		for _, v := range values[1:] {
			if !slices.Equal(v, values[0]) {
				t.Error("workers have different values")
			}
		}
		value, took = values[0], time.Since(began)
		for _, kv := range stores {
			s, d := kvstore.HostSumsOf(kv)
			sent, dissolved = sent+s, dissolved+d
		}
		together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
	})
	return value, sent, dissolved, took
}

var on = []kvstore.Option{kvstore.WithHostSums(kvstore.HostSumsOn)}

// Whether a host's gradients leave it as one sum, or a worker is late, or two workers cannot reach
// each other, or do not want to: the bits are the same, and each round of each shard leaves a host
// once if nothing is in the way.
func TestFaultsBetweenTheWorkersOfAHostChangeNoBit(t *testing.T) {
	const rounds, shards, hosts = 8, 2, 2
	quiet, sent, dissolved, _ := hostTraining(t, rounds, on, nil)
	if sent != rounds*shards*hosts || dissolved != 0 {
		t.Fatalf("a quiet run: got %d sums and %d dissolved, want %d and 0", sent, dissolved, rounds*shards*hosts)
	}
	for _, c := range []struct {
		name                string
		before              func(job *jobtest.Job, kv kvstore.Store, round int)
		least, most         uint64        // sums sent
		leastGone, mostGone uint64        // rounds dissolved
		longest             time.Duration // of fake time
	}{
		{"one worker is late", func(job *jobtest.Job, kv kvstore.Store, round int) {
			if kv.Rank() == 1 && round == 4 {
				time.Sleep(30 * time.Second)
			}
		}, rounds*shards*hosts - 1, rounds*shards*hosts - 1, 1, 1, time.Minute},
		{"one worker is often late", func(job *jobtest.Job, kv kvstore.Store, round int) {
			if kv.Rank() == 2 && round%2 == 0 {
				time.Sleep(20 * time.Second)
			}
		}, rounds*shards*hosts - rounds/2, rounds*shards*hosts - rounds/2, rounds / 2, rounds / 2, 3 * time.Minute},
		{"connections are cut", func(job *jobtest.Job, kv kvstore.Store, round int) {
			if round%3 == 1 {
				job.Net.Cut(fmt.Sprint("worker", kv.Rank()), faultnet.Any)
			}
		}, rounds * shards, rounds * shards * hosts, 0, rounds * shards * hosts, time.Minute},
		// Worker 1 may have sent its part of round 3 before the network drops what it sends.
		{"two workers cannot reach each other", func(job *jobtest.Job, kv kvstore.Store, round int) {
			if round == 3 && kv.Rank() == 0 {
				job.Net.Drop("worker0", "worker1")
				job.Net.Drop("worker1", "worker0")
			}
		}, rounds*shards + 3*shards, rounds*shards + 4*shards, 1, 2 * shards, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, sent, dissolved, took := hostTraining(t, rounds, on, c.before)
			if d := firstDifference(got, quiet); d != "" {
				t.Error(d)
			}
			if sent < c.least || sent > c.most || dissolved < c.leastGone || dissolved > c.mostGone || took > c.longest {
				t.Errorf("got %d sums, %d dissolved in %v, want %d to %d and %d to %d within %v", sent, dissolved, took, c.least, c.most, c.leastGone, c.mostGone, c.longest)
			}
		})
	}
}

// Workers of a host with different settings do not wait for each other: those with the same one add
// up.
func TestWorkersOfAHostWithOtherSettingsAreNotWaitedFor(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{TCP: true, Over: transport.Auto, Workers: 4, WorkersPerHost: 4})
	stores := make([]kvstore.Store, 4)
	var creating sync.WaitGroup
	for rank, mode := range []kvstore.HostSums{kvstore.HostSumsOn, kvstore.HostSumsAuto, kvstore.HostSumsOn, kvstore.HostSumsOff} {
		creating.Go(func() {
			var err error
			if stores[rank], err = joining.Join(t.Context(), job.WorkerConfig(rank), "dist_sync", kvstore.WithHostSums(mode)); err != nil {
				t.Error(err)
			}
		})
	}
	if creating.Wait(); t.Failed() {
		return
	}
	const size, rounds = 100, 4 // few enough for auto to leave them alone
	began := time.Now()
	together(t, stores, func(kv kvstore.Store) error {
		grad, out := make([]float32, size), make([]float32, size)
		grad[1] = float32(int(1) << kv.Rank())
		err := kv.Init(t.Context(), "x", make([]float32, size))
		for range rounds {
			if err = errors.Join(err, kv.PushPull(t.Context(), "x", [][]float32{grad}, [][]float32{out})); err == nil && out[1] != 15 {
				err = fmt.Errorf("got %v, want 15", out[1])
			}
		}
		return err
	})
	sent, dissolved := uint64(0), uint64(0)
	for _, kv := range stores {
		s, d := kvstore.HostSumsOf(kv)
		sent, dissolved = sent+s, dissolved+d
	}
	if took := time.Since(began); dissolved > 0 || sent != rounds || took > 4*time.Second {
		t.Errorf("got %d sums and %d rounds dissolved in %v, want %d and none at once", sent, dissolved, took, rounds)
	}
	together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
}
