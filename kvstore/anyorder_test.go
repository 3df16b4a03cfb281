package kvstore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// Sums in any order are the same sums, of numbers that add up exactly.
func TestSumsInAnyOrderAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, rounds, n = 4, 20, 1000
		job := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2, Seed: 1})
		stores := job.Stores(t, "dist_sync", kvstore.WithSumsInAnyOrder())
		begin(t, stores, n)
		together(t, stores, func(kv kvstore.Store) error {
			grad, out := make([]float32, n), make([]float32, n)
			for round := range rounds {
				for i := range grad {
					grad[i] = float32((kv.Rank() + 1) * (round + i))
				}
				if err := kv.PushPull(t.Context(), "w", [][]float32{grad}, [][]float32{out}); err != nil {
					return err
				}
				for i, got := range out {
					want := float32(0)
					for r := range round + 1 {
						want += 10 * float32(r+i) // 1 + 2 + 3 + 4 times
					}
					if got != want {
						t.Errorf("rank %d, round %d, value %d: got %v, want %v", kv.Rank(), round, i, got, want)
						return nil
					}
				}
			}
			return nil
		})
	})
}

func TestSumsInAnyOrderAreForSynchronousStores(t *testing.T) {
	_, err := kvstore.Create(t.Context(), "dist_async", kvstore.WithSumsInAnyOrder())
	if !errors.Is(err, kvstore.ErrUnsupported) || !strings.Contains(err.Error(), "use WithSumsInAnyOrder with dist_sync") {
		t.Errorf("dist_async: got error %v", err)
	}
	kv, err := kvstore.Create(t.Context(), "local", kvstore.WithSumsInAnyOrder())
	if err != nil {
		t.Fatal(err)
	}
	kv.Close()
}
