package kvstore

import (
	"context"

	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// pushMany pushes several keys. Small keys share a message for each server; other keys, and those
// that wait for something before they can be pushed, go by themselves, concurrently: a round waits
// for all workers, and another worker may name its keys in another order.
func (d *densePath) pushMany(ctx context.Context, by *PushOptions, t trip, entries []Entry) error {
	m := d.takeManyPush()
	defer d.keepManyPush(m)
	errs := d.checkMany(m, t, entries)
	if err := failed(entries, errs); err != nil {
		return err
	}
	if d.requests.atOnce() {
		for i := range entries {
			errs[i] = d.push(ctx, by, t, entries[i])
		}
		return failed(entries, errs)
	}
	trips := &m.trips
	apart := t.pull && d.cfg.pullsApart()
	for i, k := range m.keys {
		if apart || d.requests.inline || !d.sharesMessages(k) || !k.pushes.try() {
			trips.Go(func() { errs[i] = d.push(ctx, by, t, entries[i]) })
			continue
		}
		m.add(i, k)
	}
	d.runMany(ctx, m, by, t, entries)
	trips.Wait()
	return failed(entries, errs)
}

// checkMany checks all entries before anything is sent. It returns an error or nil for each, and
// leaves their keys in m.
func (d *densePath) checkMany(m *manyPush, t trip, entries []Entry) []error {
	errs := buffer.Grow(&m.errs, len(entries))
	clear(errs)
	for i := range entries {
		e := &entries[i]
		k, err := d.check(t.verb, e)
		switch {
		case k != nil && m.named[k]:
			err = keyError(t.verb, e.Key, ErrConflict, "entry %d: the key is named twice in one call; a round takes one contribution from each worker", i)
		case err != nil:
		case !t.pull && len(e.Outs) > 0:
			err = keyError(t.verb, e.Key, ErrSize, "got %d outs, want none: a push brings no value; use PushPullMany", len(e.Outs))
		case d.member.joining.Load():
			err = d.notYet(t.verb, e.Key)
		}
		errs[i] = err
		m.named[k] = true
		m.keys = append(m.keys, k)
	}
	return errs
}

// failed returns the errors of entries as KeyErrors; nil if there are none.
func failed(entries []Entry, errs []error) error {
	var all KeyErrors
	for i, err := range errs {
		if err != nil {
			all = append(all, KeyError{entries[i].Key, err})
		}
	}
	if all == nil {
		return nil
	}
	return all
}
