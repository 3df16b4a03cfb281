package kvstore

import (
	"context"
	"errors"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A load whose context ends before all keys were loaded fails, also where no call of a key has
// noticed it.
func TestALoadThatIsCutOffFails(t *testing.T) {
	keys := make([]*key, 3*smallAtOnce)
	for i := range keys {
		keys[i] = &key{form: wire.FormDense, size: 1, shards: make([]wire.ShardPlace, 1)}
		if i%2 == 1 { // one that is loaded alone
			keys[i].size = 2 * smallValues
		}
	}
	for _, at := range []int{1, len(keys)/2 + 1} { // in the call of the key of this number, which is loaded alone
		ctx, cancel := context.WithCancel(t.Context())
		done := make([]bool, len(keys))
		err := forKeys(ctx, keys, func(_ context.Context, k *key) error {
			for i := range keys {
				if keys[i] == k {
					done[i] = true
				}
			}
			if k == keys[at] {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || done[len(keys)-1] {
			t.Errorf("cut off at key %d: got error %v, and the last key was loaded: %v; want %v and false", at, err, done[len(keys)-1], context.Canceled)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := forKeys(ended, keys, func(context.Context, *key) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: got error %v, want %v", err, context.Canceled)
	}
	failed := errors.New("one key")
	if err := forKeys(t.Context(), keys, func(_ context.Context, k *key) error {
		if k == keys[0] {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) {
		t.Errorf("got error %v, want that of the key", err)
	}
	if err := forKeys(t.Context(), keys, func(context.Context, *key) error { return nil }); err != nil {
		t.Errorf("of keys that were all loaded: %v", err)
	}
}
