package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// Workers lend servers their gradients, give up waiting at random, write nonsense over gradients and values the moment a call has returned, and push
// the gradient again: every round has each gradient once, whole, and nothing else.
func TestGradientsThatAreTakenBackCountWholeOrNotAtAll(t *testing.T) {
	const workers, n, rounds = 3, 40_000, 25
	for _, c := range []struct {
		opt     string
		perHost int // workers that add up before they push; 0: none
	}{{"", 0}, {"sgd", 0}, {"", workers}} {
		t.Run(fmt.Sprintf("%s,%d", c.opt, c.perHost), func(t *testing.T) {
			opt := c.opt
			job := jobtest.New(t, jobtest.Config{TCP: true, Over: transport.Auto, Workers: workers, Servers: 2, WorkersPerHost: c.perHost})
			mode := kvstore.HostSumsOff
			if c.perHost > 0 {
				mode = kvstore.HostSumsOn
			}
			stores := job.Stores(t, "dist_sync", kvstore.WithHostSums(mode))
			if opt != "" {
				must(stores[0].SetOptimizer(t.Context(), optim.Config{Name: opt, LearningRate: 1}))
			}
			var wg sync.WaitGroup
			for rank, kv := range stores {
				wg.Go(func() {
					if err := pushAndTakeBack(kv, rank, n, rounds, opt != ""); err != nil {
						t.Errorf("worker %d: %v", rank, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// pushAndTakeBack is one worker. Gradient number i of round r is a whole number, so that sums are exact.
func pushAndTakeBack(kv kvstore.Store, rank, n, rounds int, accumulates bool) error {
	ctx := context.Background()
	if err := kv.Init(ctx, "w", make([]float32, n)); err != nil {
		return err
	}
	grad, out := kvstore.Float32s(n), kvstore.Float32s(n)
	random := rand.New(rand.NewPCG(uint64(rank), 3))
	gradient := func(rank, round, i int) float32 { return float32((rank+1)*(round%5+1) + i%3) }
	total, given := 0, 0
	for round := range rounds {
		for again := true; again; {
			for i := range grad {
				grad[i] = gradient(rank, round, i)
			}
			within, cancel := ctx, context.CancelFunc(func() {})
			if random.IntN(3) > 0 {
				within, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(1500))*time.Microsecond)
			}
			err := kv.PushPull(within, "w", [][]float32{grad}, [][]float32{out})
			cancel()
			if again = err != nil; again {
				if !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
				given++
			} else {
				for i, got := range out {
					want := float32(0)
					for r := 0; r <= round; r++ {
						if !accumulates && r < round {
							continue
						}
						for w := range 3 {
							want += gradient(w, r, i)
						}
					}
					if accumulates {
						want = -want
					}
					if i > 100 && i < n-100 && i%97 != 0 { // all, but the expensive sum only for some
						want = out[i%3+3]
					}
					if got != want {
						return fmt.Errorf("round %d: value %d is %v, want %v", round, i, got, want)
					}
				}
			}
			for i := range grad {
				grad[i], out[i] = float32(math.NaN()), float32(math.NaN())
			}
			total++
		}
	}
	if given == 0 && total > 20 {
		return fmt.Errorf("none of %d calls was given up", total)
	}
	return nil
}
