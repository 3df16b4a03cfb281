package bridge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore"
)

// A keyCount is how many of this worker's examples the contributions to one key have counted.
//
// Servers add up the examples of a worker's contributions, key by key, to know which it had used
// should it be lost. So a contribution counts the examples of all turns since the last one to its
// key: those of a step that was skipped, of gradients that were accumulated, and of turns in which
// another model trained are counted late, and once.
//
// A key counts once Python has said of a contribution to it that it is of examples. Other keys,
// such as that of a score that is pushed once an epoch, do not say what was used.
type keyCount struct {
	counts   atomic.Bool
	examples atomic.Uint64
}

// due is how many of the examples that this worker has used are to be counted.
func (k *keyCount) due(used uint64) uint64 {
	if !k.counts.Load() {
		return 0
	}
	return used - k.examples.Load()
}

// A contribution says by what the pushes of a turn push.
type contribution struct {
	store    kvstore.Store
	weight   float32
	examples int
	// sharing says that a sampler shares out the examples, of which this worker has used so
	// many.
	sharing bool
	used    uint64
	// factor multiplies the learning rate of the servers' optimizer in this round; 0: 1.
	factor float64
}

// options are those of the contribution's pushes.
func (c *contribution) options(examples int, counted bool) kvstore.PushOptions {
	o := kvstore.PushOptions{Weight: c.weight, Examples: examples, Counted: counted}
	if factor := c.factor; factor != 0 {
		o.Factor = func(string) float64 { return factor }
	}
	return o
}

// maxCounted is the most keys whose contributions a session counts. Their counts are kept when
// plans are dropped: another plan with the key goes on with its count.
const maxCounted = 1 << 20

// count returns the count of a key.
func (t *turns) count(key string) (*keyCount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counted == nil {
		t.counted = map[string]*keyCount{}
	}
	c := t.counted[key]
	if c == nil {
		if len(t.counted) >= t.mostCounted {
			return nil, fmt.Errorf("bridge: key %q: %w: %d other keys have had contributions or plans, which is the most of a session; use their names again", shorten(key, 256), kvstore.ErrFull, len(t.counted))
		}
		c = new(keyCount)
		t.counted[key] = c
	}
	return c, nil
}

// contribution returns by what is pushed in the turn under way. Without a sampler the examples are
// those that Python gives.
func (t *turns) contribution(store kvstore.Store, weight float32, examples uint32, factor float64) (contribution, error) {
	if !(weight >= 0) || math.IsInf(float64(weight), 0) {
		return contribution{}, usage("got the weight %v, want a number of 0 or more", weight)
	}
	if !(factor >= 0 && factor <= wire.MaxFactor) {
		return contribution{}, usage("got the learning-rate factor %v, want 0 to %d", factor, wire.MaxFactor)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest != nil && !t.newest.isMade() {
		return contribution{}, usage("a turn is being made, and nothing may be pushed between two turns; wait for the answer of turn or sampler")
	}
	return contribution{store: store, weight: weight, examples: int(examples), sharing: t.newest != nil, used: t.used, factor: factor}, nil
}

// push makes call with a Pusher whose contributions count what each key is due. counts are those of
// the entries' keys. Keys that are due the same are one call, and nearly always all are. Otherwise
// the calls are made at the same time: rounds of other workers may close in another order.
func (c *contribution) push(entries []kvstore.Entry, counts []*keyCount, call func(p kvstore.Pusher, entries []kvstore.Entry) error) error {
	if !c.sharing && c.weight == 1 && c.examples == 0 && c.factor == 0 {
		// These are the store's own pushes, for which no Pusher is made.
		return call(c.store, entries)
	}
	if !c.sharing {
		return call(c.store.Step(c.options(c.examples, false)), entries)
	}
	if c.examples > 0 {
		for _, k := range counts {
			k.counts.Store(true)
		}
	}
	first := counts[0].due(c.used)
	if !slices.ContainsFunc(counts, func(k *keyCount) bool { return k.due(c.used) != first }) {
		return c.pushDue(first, entries, counts, call)
	}
	type group struct {
		entries []kvstore.Entry
		counts  []*keyCount
	}
	groups := map[uint64]*group{}
	for i, k := range counts {
		due := k.due(c.used)
		g := groups[due]
		if g == nil {
			g = new(group)
			groups[due] = g
		}
		g.entries, g.counts = append(g.entries, entries[i]), append(g.counts, k)
	}
	var calls sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for due, g := range groups {
		calls.Go(func() {
			err := c.pushDue(due, g.entries, g.counts, call)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

// pushDue pushes keys that are due the same. A key that failed is due the same again: the
// servers that have its contribution do not take it twice.
func (c *contribution) pushDue(due uint64, entries []kvstore.Entry, counts []*keyCount, call func(p kvstore.Pusher, entries []kvstore.Entry) error) error {
	err := call(c.store.Step(c.options(int(due), due > 0)), entries)
	var some kvstore.KeyErrors
	if err != nil && !errors.As(err, &some) {
		return err
	}
	for i, k := range counts {
		if !slices.ContainsFunc(some, func(e kvstore.KeyError) bool { return e.Key == entries[i].Key }) {
			k.examples.Store(c.used)
		}
	}
	return err
}
