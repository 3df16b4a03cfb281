package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore"
)

const (
	// maxKeys is the most keys of a request.
	maxKeys = 256
	// keysAtATime is how many keys of a request are initialised or pulled at the same time.
	keysAtATime = 32
)

// slotUses are the slots that a request uses.
type slotUses struct {
	s    *session
	uses []slotUse
}

type slotUse struct {
	region *region
	number uint32
	slot   int
}

// slot returns the values of a slot, which the request uses until done.
func (u *slotUses) slot(region uint32, slot int) ([]float32, error) {
	values, r, err := u.s.memory.slot(region, slot)
	if err != nil {
		return nil, err
	}
	u.uses = append(u.uses, slotUse{r, region, slot})
	return values, nil
}

// slots returns the values of several slots.
func (u *slotUses) slots(region uint32, list []int) ([][]float32, error) {
	all := make([][]float32, len(list))
	for i, slot := range list {
		var err error
		if all[i], err = u.slot(region, slot); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// done gives the slots back to Python.
func (u *slotUses) done() {
	for _, use := range u.uses {
		u.s.settleSlot(use.region, use.number, use.slot)
		u.s.memory.giveBack(use.region)
	}
}

// everyKey calls f for each of n keys, some at a time, and returns the errors by their keys.
func everyKey(n int, name func(i int) string, f func(i int) error) error {
	errs := make([]error, n)
	room := make(chan struct{}, keysAtATime)
	var calls sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		calls.Go(func() {
			defer func() { <-room }()
			errs[i] = f(i)
		})
	}
	calls.Wait()
	var all kvstore.KeyErrors
	for i, err := range errs {
		if err != nil {
			all = append(all, kvstore.KeyError{Key: name(i), Err: err})
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// checkKeys refuses lists of keys that cannot be.
func checkKeys(op string, n int, name func(i int) string) error {
	if n == 0 || n > maxKeys {
		return usage("bridge: %s: got %d keys, want 1 to %d", op, n, maxKeys)
	}
	for i := range n {
		if err := checkKey(op, name(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkKey refuses a key that no store has.
func checkKey(op, key string) error {
	if err := wire.CheckKeyName(key); err != nil {
		return usage("bridge: %s: key: %w", op, err)
	}
	return nil
}

// initKey is a key of the operation init.
type initKey struct {
	Key    string  `json:"key"`
	Form   string  `json:"form"`
	Region *uint32 `json:"region"`
	Slot   int     `json:"slot"`
	Size   int     `json:"size"`
	Rows   int     `json:"rows"`
	RowLen int     `json:"row_len"`
	Shape  []int   `json:"shape"`
}

// initKeys is the operation init.
func initKeys(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Keys []initKey `json:"keys"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return a.Keys[i].Key }
	if err := checkKeys("init", len(a.Keys), name); err != nil {
		return nil, err
	}
	uses := slotUses{s: s}
	defer uses.done()
	values := make([][]float32, len(a.Keys))
	for i := range a.Keys {
		if values[i], err = a.Keys[i].value(&uses); err != nil {
			return nil, err
		}
	}
	return nil, everyKey(len(a.Keys), name, func(i int) error { return a.Keys[i].init(ctx, s, store, values[i]) })
}

// value is the first value of a key; nil: the key is a table of zeros.
func (k *initKey) value(uses *slotUses) ([]float32, error) {
	key := shorten(k.Key, 256)
	size := uint64(k.Size)
	switch k.Form {
	case "dense", "average":
		if k.Region == nil || k.Size < 1 {
			return nil, usage("bridge: init: key %q: got size %d, want a region, a slot and a size of at least 1", key, k.Size)
		}
	case "rows":
		if k.Rows < 1 || k.RowLen < 1 || uint64(k.Rows) > math.MaxInt64/4/uint64(k.RowLen) {
			return nil, usage("bridge: init: key %q: got %d rows of %d values, want at least one row of at least one value", key, k.Rows, k.RowLen)
		}
		if k.Region == nil {
			return nil, nil
		}
		size = uint64(k.Rows) * uint64(k.RowLen)
	default:
		return nil, usage("bridge: init: key %q: got the form %q, want dense, average or rows", key, shorten(k.Form, 64))
	}
	slot, err := uses.slot(*k.Region, k.Slot)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(slot)) {
		return nil, usage("bridge: init: key %q: got %d values, and slot %d of region %d has %d", key, size, k.Slot, *k.Region, len(slot))
	}
	return slot[:size:size], nil
}

// init gives the key its first value.
func (k *initKey) init(ctx context.Context, s *session, store kvstore.Store, value []float32) error {
	switch k.Form {
	case "rows":
		if err := store.InitRows(ctx, k.Key, k.Rows, k.RowLen, value); err != nil {
			return err
		}
		s.rows.declared(k.Key, k.RowLen)
		return nil
	case "average":
		if err := store.InitAverage(ctx, k.Key, value); err != nil {
			return err
		}
	default:
		if err := store.Init(ctx, k.Key, value); err != nil {
			return err
		}
	}
	if k.Shape == nil {
		return nil
	}
	return store.SetShape(k.Key, k.Shape...)
}

// valueKey is a key of the operations push, pull and pushpull. Several slots are of several local
// devices.
type valueKey struct {
	Key    string `json:"key"`
	Region uint32 `json:"region"`
	Slots  []int  `json:"slots"`
	Grad   *int   `json:"grad"`
	Out    *int   `json:"out"`
}

// entry finds the slots of a key: gradients, and places for the new value.
func (k *valueKey) entry(uses *slotUses, grads, outs bool) (e kvstore.Entry, err error) {
	e.Key = k.Key
	if e.Grads, err = k.values(uses, grads, k.Grad); err != nil {
		return e, err
	}
	if !grads || k.Out != nil {
		e.Outs, err = k.values(uses, outs, k.Out)
		return e, err
	}
	if outs {
		e.Outs = e.Grads
	}
	return e, nil
}

// values are those of one slot, or else of the slots.
func (k *valueKey) values(uses *slotUses, wanted bool, one *int) ([][]float32, error) {
	switch {
	case !wanted:
		return nil, nil
	case one != nil:
		return uses.slots(k.Region, []int{*one})
	case len(k.Slots) == 0 || len(k.Slots) > maxSlots:
		return nil, usage("bridge: key %q: got %d slots, want 1 to %d, or grad or out", shorten(k.Key, 256), len(k.Slots), maxSlots)
	}
	return uses.slots(k.Region, k.Slots)
}

// valuesArguments are those of push, pull and pushpull.
type valuesArguments struct {
	Keys     []valueKey `json:"keys"`
	Weight   *float32   `json:"weight"`
	Examples uint32     `json:"examples"`
}

// exchangeValues is the operation push, pull or pushpull.
func exchangeValues(op string, grads, outs bool) operation {
	return func(ctx context.Context, s *session, args json.RawMessage) (any, error) {
		var a valuesArguments
		if err := arguments(args, &a); err != nil {
			return nil, err
		}
		store, err := s.member.get()
		if err != nil {
			return nil, err
		}
		name := func(i int) string { return a.Keys[i].Key }
		if err := checkKeys(op, len(a.Keys), name); err != nil {
			return nil, err
		}
		uses := slotUses{s: s}
		defer uses.done()
		entries := make([]kvstore.Entry, len(a.Keys))
		for i := range a.Keys {
			if entries[i], err = a.Keys[i].entry(&uses, grads, outs); err != nil {
				return nil, err
			}
		}
		if grads {
			return nil, a.push(ctx, s, store, entries, outs)
		}
		return nil, everyKey(len(entries), name, func(i int) error { return store.Pull(ctx, entries[i].Key, entries[i].Outs...) })
	}
}

// push pushes entries, and pulls the new values if outs.
func (a *valuesArguments) push(ctx context.Context, s *session, store kvstore.Store, entries []kvstore.Entry, outs bool) error {
	weight := float32(1)
	if a.Weight != nil {
		weight = *a.Weight
	}
	by, err := s.turns.contribution(store, weight, a.Examples, 0)
	if err != nil {
		return fmt.Errorf("bridge: push: %w", err)
	}
	counts := make([]*keyCount, len(entries))
	for i := range entries {
		if counts[i], err = s.turns.count(entries[i].Key); err != nil {
			return err
		}
	}
	return by.push(entries, counts, func(p kvstore.Pusher, entries []kvstore.Entry) error {
		if outs {
			return p.PushPullMany(ctx, entries)
		}
		return p.PushMany(ctx, entries)
	})
}
