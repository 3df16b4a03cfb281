package kvstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// An Entry is one key's part of a PushMany or PushPullMany.
type Entry struct {
	Key   string
	Grads [][]float32 // one for each local device; they are summed
	Outs  [][]float32 // of a PushPullMany: the new value is copied into each; may be Grads
}

// A KeyError is the error of one key of a PushMany or PushPullMany. Err names the key as well.
type KeyError struct {
	Key string
	Err error
}

// KeyErrors are the keys of a PushMany or PushPullMany that failed, in the order in which they were
// given. errors.Is and errors.As look into all of them.
type KeyErrors []KeyError

// shownErrors is how many errors a message shows: after the loss of a server all keys fail with the
// same cause.
const shownErrors = 8

func (e KeyErrors) Error() string {
	if len(e) == 1 {
		return e[0].Err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kvstore: %d keys failed:", len(e))
	for i, k := range e {
		if i == shownErrors {
			fmt.Fprintf(&b, "\nand %d more: %s", len(e)-i, wire.Shown(k.Key))
			for _, k := range e[i+1:] {
				fmt.Fprintf(&b, ", %s", wire.Shown(k.Key))
			}
			break
		}
		b.WriteString("\n" + k.Err.Error())
	}
	return b.String()
}

// Unwrap returns the keys' errors.
func (e KeyErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i := range e {
		errs[i] = e[i].Err
	}
	return errs
}

// pushMany is PushMany and, with pull, PushPullMany. Small keys share a message for each server;
// other keys, and those that wait for something before they can be pushed, go by themselves,
// concurrently: a round waits for all workers, and another worker may name its keys in another
// order.
func (s *store) pushMany(ctx context.Context, by *PushOptions, verb string, entries []Entry, pull bool) error {
	m := s.takeManyPush()
	defer s.keepManyPush(m)
	errs := grow(&m.errs, len(entries))
	clear(errs)
	for i := range entries { // check all entries before anything is sent
		e := &entries[i]
		k, err := s.checkPush(verb, e.Key, e.Grads, e.Outs)
		switch {
		case k != nil && m.named[k]:
			err = keyError(verb, e.Key, ErrConflict, "entry %d: the key is named twice in one call; a round takes one contribution from each worker", i)
		case err != nil:
		case !pull && len(e.Outs) > 0:
			err = keyError(verb, e.Key, ErrSize, "got %d outs, want none: a push brings no value; use PushPullMany", len(e.Outs))
		case s.joining.Load():
			err = s.notYet(fmt.Sprintf("%s key %s", verb, wire.Shown(e.Key)))
		}
		errs[i] = err
		m.named[k] = true
		m.keys = append(m.keys, k)
	}
	if err := failed(entries, errs); err != nil {
		return err
	}
	if s.requests.inline { // requests are answered on this goroutine
		for i := range entries {
			errs[i] = s.pushDense(ctx, by, verb, entries[i].Key, entries[i].Grads, entries[i].Outs, pull)
		}
		return failed(entries, errs)
	}
	trips := &m.trips
	apart := pull && s.pullsApart()
	for i, k := range m.keys {
		if apart || !k.sharesMessages() || !k.tryLockPushes() {
			trips.Go(func() {
				errs[i] = s.pushDense(ctx, by, verb, entries[i].Key, entries[i].Grads, entries[i].Outs, pull)
			})
			continue
		}
		m.add(i, k)
	}
	m.run(ctx, by, verb, entries, pull)
	trips.Wait()
	return failed(entries, errs)
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

// checkPush checks the arguments of a push and returns its key, if there is one.
func (s *store) checkPush(verb, name string, grads, outs [][]float32) (*key, error) {
	k, err := s.lookup(verb, name, wire.FormDense)
	if err != nil {
		return nil, err
	}
	if len(grads) == 0 {
		return k, keyError(verb, name, ErrSize, "got no gradient, want one for each local device")
	}
	if err := k.checkSizes(verb, "gradient", grads); err != nil {
		return k, err
	}
	return k, k.checkSizes(verb, "out", outs)
}
