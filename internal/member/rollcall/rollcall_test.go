package rollcall_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
)

// All workers hear the same lowest rank of those that were there before, and whether others joined.
func TestSurvivorIsTheLowestThatWasThere(t *testing.T) {
	for _, c := range []struct {
		before [3]bool
		lowest int
		joined bool
	}{
		{[3]bool{true, true, true}, 0, false},
		{[3]bool{true, true, false}, 0, true},
		{[3]bool{false, false, true}, 2, true},
		{[3]bool{false, false, false}, -1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			stores := jobtest.New(t, jobtest.Config{Workers: 3}).Stores(t, "dist_sync")
			var calling sync.WaitGroup
			for rank, kv := range stores {
				calling.Go(func() {
					roll, err := rollcall.New(t.Context(), kv)
					if err != nil {
						t.Error(err)
						return
					}
					lowest, joined, err := roll.Survivor(t.Context(), c.before[rank])
					if lowest != c.lowest || joined != c.joined || err != nil {
						t.Errorf("before %v: rank %d heard lowest %d, joined %v, error %v; want %d, %v", c.before, rank, lowest, joined, err, c.lowest, c.joined)
					}
					if change, err := roll.Call(t.Context()); change || err != nil {
						t.Errorf("before %v: rank %d: the call after it has change %v and error %v, want none", c.before, rank, change, err)
					}
				})
			}
			calling.Wait()
		})
	}
}
