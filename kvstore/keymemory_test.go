package kvstore_test

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// A model may have many small keys. What one takes on its worker, its server and the scheduler,
// which all are in this process, is bounded, also once it was pushed and pulled.
func TestASmallKeyTakesLittleMemory(t *testing.T) {
	const keys, most = 2000, 1900 // bytes: about 500 on the worker, 300 at the scheduler, 940 on the server
	kv := jobtest.New(t, quietJob(transport.TCP)).Stores(t, "dist_sync")[0]
	name := func(i int) string { return fmt.Sprint("layer", i) }
	one := [][]float32{{1}}
	rounds := func(from, to int) { // some keys also by themselves
		var entries []kvstore.Entry
		for i := from; i < to; i++ {
			must(kv.Init(t.Context(), name(i), one[0]))
			if i%10 == 0 {
				must(kv.PushPull(t.Context(), name(i), one, one))
				must(kv.Pull(t.Context(), name(i), one[0]))
			}
			entries = append(entries, kvstore.Entry{Key: name(i), Grads: one, Outs: one})
			if len(entries) == 50 {
				must(kv.PushPullMany(t.Context(), entries))
				entries = entries[:0]
			}
		}
	}
	rounds(0, 100) // connections, and the memory of as many calls, are there afterwards
	before := inUse()
	rounds(100, 100+keys)
	after := inUse()
	if each := (after.heap - before.heap) / keys; each > most {
		t.Errorf("a key of one value takes %d bytes, want at most %d", each, most)
	} else {
		t.Logf("a key of one value takes %d bytes", each)
	}
	// All of them in one call, which is several messages, each key with a value of its own.
	var names []string
	var values []float32
	for i := range 100 + keys {
		names, values = append(names, name(i)), append(values, float32(i))
	}
	must(pushPullMany(t, kv, names, values, values))
	must(kv.Close())
}
