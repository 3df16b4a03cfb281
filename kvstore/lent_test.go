package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// Workers lend servers their gradients, give up waiting at random, write nonsense over gradients
// and values the moment a call has returned, and push the gradient again: every round has each
// gradient once, whole, and nothing else.
func TestGradientsThatAreTakenBackCountWholeOrNotAtAll(t *testing.T) {
	const workers, n = 3, 40_000
	for _, c := range []struct {
		opt     string
		perHost int // workers that add up before they push; 0: none
		rounds  int
	}{{"", 0, 12}, {"sgd", 0, 12}, {"", workers, 6}} { // a host's round that is given up may take seconds
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
					if err := pushAndTakeBack(kv, rank, n, c.rounds, opt != ""); err != nil {
						t.Errorf("worker %d: %v", rank, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// repeated returns n numbers: x again and again. It copies, which is quick under the race detector
// and seen by it.
func repeated(n int, x ...float32) []float32 {
	s := append(make([]float32, 0, n), x...)
	for len(s) < n {
		s = append(s, s[:min(len(s), n-len(s))]...)
	}
	return s
}

// bytesOf are the bytes of x, which are compared more quickly under the race detector.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// pushAndTakeBack is one worker. Gradients are whole numbers, so that sums are exact, of which
// three repeat.
func pushAndTakeBack(kv kvstore.Store, rank, n, rounds int, accumulates bool) error {
	ctx := context.Background()
	if err := kv.Init(ctx, "w", make([]float32, n)); err != nil {
		return err
	}
	grad, out := kvstore.Float32s(n), kvstore.Float32s(n)
	nonsense := repeated(n, float32(math.NaN()))
	random := rand.New(rand.NewPCG(uint64(rank), 3))
	gradient := func(rank, round, i int) float32 { return float32((rank+1)*(round%5+1) + i) }
	sums := make([]float32, 3)
	total, given := 0, 0
	for round := range rounds {
		for i := range sums {
			if !accumulates {
				sums[i] = 0
			}
			for w := range 3 {
				if accumulates {
					sums[i] -= gradient(w, round, i)
				} else {
					sums[i] += gradient(w, round, i)
				}
			}
		}
		want := repeated(n, sums...)
		own := repeated(n, gradient(rank, round, 0), gradient(rank, round, 1), gradient(rank, round, 2))
		for again := true; again; {
			copy(grad, own)
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
			} else if !bytes.Equal(bytesOf(out), bytesOf(want)) {
				for i, got := range out {
					if got != want[i] {
						return fmt.Errorf("round %d: value %d is %v, want %v", round, i, got, want[i])
					}
				}
			}
			copy(grad, nonsense)
			copy(out, nonsense)
			total++
		}
	}
	if given == 0 && total > 20 {
		return fmt.Errorf("none of %d calls was given up", total)
	}
	return nil
}
