package kvstore_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// A key whose round stays open longer than a message waits is refused in its answer. It goes on by
// itself: the call returns with the values of all keys, of the same size, and each push has counted
// once.
func TestAKeyThatIsRefusedInAMessageGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1}).Stores(t, "dist_sync", kvstore.WithTimeout(time.Hour))
		keys := []string{"a", "b", "c"}
		together(t, stores, func(kv kvstore.Store) error {
			for _, k := range keys {
				if err := kv.Init(t.Context(), k, []float32{0}); err != nil {
					return err
				}
			}
			return nil
		})
		for _, round := range []float32{0, 1} { // the second one's sequence numbers follow those of the first
			together(t, stores, func(kv kvstore.Store) error {
				if kv.Rank() == 0 {
					return pushPullMany(t, kv, keys, []float32{1 + round, 2, 3}, []float32{11 + round, 22, 33})
				}
				for _, i := range []int{0, 2, 1} {
					out := []float32{0}
					if err := kv.PushPull(t.Context(), keys[i], [][]float32{{float32(10 * (i + 1))}}, [][]float32{out}); err != nil {
						return err
					}
					time.Sleep(20 * time.Second) // messages wait for 5
				}
				return nil
			})
		}
		together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
	})
}

// A call may name more keys than a server takes of one worker in messages of many at a time: those
// that it refuses go on by themselves, and all count once.
func TestACallOfAHundredThousandKeys(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes half a minute; set PARAGON_TEST_SLOW")
	}
	const keys, initialisers = 100_000, 64
	stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1, TCP: true}).Stores(t, "dist_sync")
	names, values, sums := make([]string, keys), make([]float32, keys), make([]float32, keys)
	for i := range keys {
		names[i], values[i], sums[i] = fmt.Sprint("layer", i), float32(i), float32(2*i)
	}
	together(t, stores, func(kv kvstore.Store) error {
		var group errgroup.Group
		for from := range initialisers {
			group.Go(func() error {
				for i := from; i < keys; i += initialisers {
					if err := kv.Init(t.Context(), names[i], []float32{0}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
	for range 2 {
		together(t, stores, func(kv kvstore.Store) error { return pushPullMany(t, kv, names, values, sums) })
	}
	together(t, stores, func(kv kvstore.Store) error { return kv.Close() })
}

// pushPullMany pushes one value to each key, and checks what comes back.
func pushPullMany(t *testing.T, kv kvstore.Store, keys []string, grads, want []float32) error {
	entries := make([]kvstore.Entry, len(keys))
	for i, k := range keys {
		entries[i] = kvstore.Entry{Key: k, Grads: [][]float32{grads[i : i+1]}, Outs: [][]float32{{-1}}}
	}
	err := kv.PushPullMany(context.WithoutCancel(t.Context()), entries)
	wrong := 0
	for i, e := range entries {
		if got := e.Outs[0][0]; err == nil && got != want[i] {
			if wrong++; wrong < 8 {
				t.Errorf("key %q: got %v, want %v", e.Key, got, want[i])
			}
		}
	}
	return err
}
