package jobtest

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/optim"
)

// train lets all workers make some rounds, checks the sums and closes the stores.
func train(t *testing.T, job *Job) {
	t.Helper()
	stores := job.Stores(t, "dist_sync")
	n := float32(len(stores))
	var wg sync.WaitGroup
	for rank, kv := range stores {
		wg.Go(func() {
			defer kv.Close()
			ctx := t.Context()
			check := func(err error) bool {
				if err != nil {
					t.Errorf("worker %d: %v", rank, err)
				}
				return err == nil
			}
			if kv.Rank() != rank {
				t.Errorf("worker %d: got rank %d", rank, kv.Rank())
			}
			if !check(kv.SetOptimizer(ctx, optim.Config{Name: "test", LearningRate: 2})) || !check(kv.Init(ctx, "x", []float32{1, 1, 1})) {
				return
			}
			out := make([]float32, 3)
			for i := range 5 {
				g := float32(rank + 1)
				if !check(kv.Push(ctx, "x", []float32{g, g, g})) || !check(kv.Pull(ctx, "x", out)) {
					return
				}
				if want := n*(n+1)*float32(i+1) + 1; out[0] != want || out[2] != want {
					t.Errorf("worker %d round %d: got %v, want %v", rank, i, out, want)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range job.Wait(20 * time.Second) {
		if err != nil {
			t.Errorf("scheduler or server: %v", err)
		}
	}
}

func TestJobsRunFromStartToFinish(t *testing.T) {
	for _, c := range []Config{{}, {Workers: 3, Servers: 2}, {TCP: true, Workers: 2, Servers: 2, Secret: []byte("secret")},
		{TCP: true, TLS: true, Workers: 2, Servers: 2, Secret: []byte("secret")}, {TLS: true, Workers: 3, Servers: 2}} {
		t.Run(fmt.Sprintf("workers=%d/servers=%d/tcp=%v/tls=%v", max(c.Workers, 1), max(c.Servers, 1), c.TCP, c.TLS), func(t *testing.T) {
			train(t, New(t, c))
		})
	}
}

// Leases, heartbeats and waits of minutes take no real time.
func TestJobInMemoryLivesOnFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := New(t, Config{Workers: 2, Servers: 2})
		// The servers wait for the workers meanwhile.
		time.Sleep(10 * time.Second)
		train(t, job)
	})
}
