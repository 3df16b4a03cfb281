package kvstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A keyTable has the keys of this worker by name.
//
// A key is in it from the moment when its value can be pulled: after its Init, or after the Load
// that brought it. Two Inits of a name exclude each other, also while the first is under way.
type keyTable struct {
	// closed reports whether the store is.
	closed func() bool

	// mu guards the fields below.
	mu   sync.Mutex
	keys map[string]*key
	// initialising has the names whose Init is under way.
	initialising map[string]bool
	// brought has the names that a Load brought: one more Init of each is allowed.
	brought map[string]bool
}

func newKeyTable(closed func() bool) *keyTable {
	return &keyTable{closed: closed, keys: map[string]*key{}, initialising: map[string]bool{}, brought: map[string]bool{}}
}

// lookup returns a key of the form that the call is for.
func (t *keyTable) lookup(verb, name string, form uint8) (*key, error) {
	k := t.get(name)
	switch {
	case t.closed():
		return nil, keyError(verb, name, ErrClosed, "")
	case k == nil:
		return nil, keyError(verb, name, ErrUnknownKey, "call Init first")
	case k.dense() == (form == wire.FormDense):
	case form == wire.FormDense:
		return nil, keyError(verb, name, ErrUnsupported, "it is a key of rows; use PushRows and PullRows")
	default:
		return nil, keyError(verb, name, ErrUnsupported, "it is a dense key; use Push and Pull")
	}
	return k, nil
}

// get returns the key of this name, or nil if this worker has not initialised it.
func (t *keyTable) get(name string) *key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys[name]
}

// sorted returns all keys by name.
func (t *keyTable) sorted() []*key {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]*key, 0, len(t.keys))
	for _, name := range slices.Sorted(maps.Keys(t.keys)) {
		keys = append(keys, t.keys[name])
	}
	return keys
}

// beginInit claims a name for an Init, until endInit. It returns the key if a Load brought it.
func (t *keyTable) beginInit(name string) (*key, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[name]
	switch {
	case t.closed():
		return nil, keyError("init", name, ErrClosed, "")
	case t.initialising[name], k != nil && !t.brought[name]:
		return nil, keyError("init", name, ErrDuplicateInit, "by this worker")
	}
	if k != nil {
		delete(t.brought, name)
	}
	t.initialising[name] = true
	return k, nil
}

func (t *keyTable) endInit(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.initialising, name)
}

// allowInit allows one more Init of a key that a Load brought.
func (t *keyTable) allowInit(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brought[name] = true
}

// add adds keys whose values can be pulled.
func (t *keyTable) add(keys ...*key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.keys[k.name] = k
	}
}
