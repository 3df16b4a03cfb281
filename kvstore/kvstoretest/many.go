package kvstoretest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/kvstore"
)

// many makes keys of several sizes, one beyond the size at which a key is cut over all servers, and
// returns their sizes.
func (w *Worker) many() []int {
	sizes := []int{1, smallSize, 100, 3, 7, w.bigSize(), 50}
	for i, size := range sizes {
		w.init(w.key("%d", i), make([]float32, size))
	}
	return sizes
}

// Several keys in one call, which every worker names in an order of its own, with two devices each.
// Without optimizer a round leaves the sum: key number i, pushed to with (r+1)·(i+1) on each of d
// devices, is d·(i+1)·n(n+1)/2 after it.
func manyKeys(w *Worker) {
	sizes := w.many()
	const devices = 2
	entries := make([]kvstore.Entry, len(sizes))
	for i, size := range sizes {
		grad := fill(size, float32((w.r+1)*(i+1)))
		entries[i] = kvstore.Entry{Key: w.key("%d", i), Grads: [][]float32{grad, slices.Clone(grad)},
			Outs: [][]float32{make([]float32, size), make([]float32, size)}}
	}
	check := func(entries []kvstore.Entry, times int) {
		for i, e := range entries {
			for d, out := range e.Outs {
				w.all(fmt.Sprintf("%s, device %d", e.Key, d), out, float32(times*devices*(i+1)*w.n*(w.n+1)/2))
			}
		}
	}
	order := rand.New(rand.NewPCG(12, uint64(w.r)))
	for range 3 {
		shuffled := slices.Clone(entries)
		order.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		w.ok(w.Store.PushPullMany(w.Ctx, shuffled))
		check(entries, 1)
	}
	// Rounds are the keys' own: other keys, and single calls, go on with them.
	w.ok(w.Store.PushPullMany(w.Ctx, entries[2:5]))
	for i := range entries {
		if i < 2 || i > 4 {
			w.pushPull(entries[i].Key, entries[i].Grads, entries[i].Outs)
		}
	}
	check(entries, 1)
	w.ok(w.Store.PushPullMany(w.Ctx, nil))
	w.ok(w.Store.PushMany(w.Ctx, nil))
	w.pushMany(entries)
	check(entries, 1)

	w.wrongEntries(entries)
	w.ok(w.Store.PushPullMany(w.Ctx, entries))
	check(entries, 1)
}

// wrongEntries calls with entries of which some are wrong: what is wrong with any is said of each,
// and nothing is sent.
func (w *Worker) wrongEntries(entries []kvstore.Entry) {
	wrong := slices.Clone(entries)
	wrong[1].Key = w.key("none")
	wrong[2].Grads = [][]float32{make([]float32, 99)}
	wrong[4].Outs = [][]float32{make([]float32, 8)}
	wrong[5].Key = wrong[0].Key
	wrong[6].Grads = nil
	err := w.Store.PushPullMany(w.Ctx, wrong)
	var failed kvstore.KeyErrors
	if !errors.As(err, &failed) {
		w.failf("wrong entries: got error %v, want KeyErrors", err)
	}
	for i, x := range []struct {
		key  string
		is   error
		text string
	}{
		{wrong[1].Key, kvstore.ErrUnknownKey, "call Init first"}, {wrong[2].Key, kvstore.ErrSize, "got 99 values, want 100"},
		{wrong[4].Key, kvstore.ErrSize, "got 8 values, want 7"}, {wrong[5].Key, kvstore.ErrConflict, "named twice"},
		{wrong[6].Key, kvstore.ErrSize, "got no gradient"},
	} {
		if i >= len(failed) || failed[i].Key != x.key || !errors.Is(failed[i].Err, x.is) || !strings.Contains(err.Error(), x.text) || !strings.Contains(err.Error(), x.key) {
			w.failf("wrong entries: got %v, want number %d to be %q, %v: %s", err, i, x.key, x.is, x.text)
		}
	}
	if len(failed) != 5 {
		w.failf("wrong entries: got %d errors, want 5: %v", len(failed), err)
	}
}

// pushMany pushes what entries say, and pulls what became of it.
func (w *Worker) pushMany(entries []kvstore.Entry) {
	pushes := slices.Clone(entries)
	for i := range pushes {
		pushes[i].Outs = nil
	}
	w.ok(w.Store.PushMany(w.Ctx, pushes))
	for _, e := range entries {
		w.ok(w.Store.Pull(w.Ctx, e.Key, e.Outs...))
	}
	pushes[1].Outs = entries[1].Outs
	var failed kvstore.KeyErrors
	if err := w.Store.PushMany(w.Ctx, pushes); !errors.As(err, &failed) || len(failed) != 1 || failed[0].Key != pushes[1].Key || !errors.Is(err, kvstore.ErrSize) {
		w.failf("outs in a PushMany: got %v, want ErrSize for %q alone", err, pushes[1].Key)
	}
}

// In an asynchronous store each push counts at once; when all have pushed, all is in every key.
func asyncManyKeys(w *Worker) {
	sizes := w.many()
	const times = 4
	entries := make([]kvstore.Entry, len(sizes))
	for i, size := range sizes {
		entries[i] = kvstore.Entry{Key: w.key("%d", i), Grads: [][]float32{fill(size, float32(i+1))}, Outs: [][]float32{make([]float32, size)}}
	}
	for range times / 2 {
		w.ok(w.Store.PushPullMany(w.Ctx, entries))
		w.pushMany(entries)
	}
	for i, e := range entries {
		for _, v := range e.Outs[0] {
			if v < float32(times*(i+1)) || v > float32(times*w.n*(i+1)) {
				w.failf("%s: got %v, want this worker's %d to all workers' %d", e.Key, v, times*(i+1), times*w.n*(i+1))
			}
		}
	}
	w.barrier()
	for i, e := range entries {
		w.all(e.Key, w.pulled(e.Key, sizes[i]), float32(times*w.n*(i+1)))
	}
}
