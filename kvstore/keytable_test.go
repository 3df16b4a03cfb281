package kvstore

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A name is initialised once, and once more after a Load that brought it; two Inits of it exclude
// each other.
func TestANameIsInitialisedOnce(t *testing.T) {
	closed := false
	table := newKeyTable(func() bool { return closed })
	k := &key{name: "x", form: wire.FormDense}
	begin := func(what string, wantKey *key, want error) {
		t.Helper()
		if got, err := table.beginInit("x"); got != wantKey || !errors.Is(err, want) {
			t.Errorf("%s: got key %v and error %v, want %v and %v", what, got, err, wantKey, want)
		}
	}
	begin("the first", nil, nil)
	begin("while it is under way", nil, ErrDuplicateInit)
	table.endInit("x")
	begin("after one that failed", nil, nil)
	table.add(k)
	table.endInit("x")
	begin("the second", nil, ErrDuplicateInit)
	table.allowInit("x")
	begin("after a load", k, nil)
	table.endInit("x")
	begin("the second after a load", nil, ErrDuplicateInit)
	closed = true
	begin("after close", nil, ErrClosed)
}

// A lookup says why there is no key of the form that the call is for.
func TestLookupsNameTheRightCall(t *testing.T) {
	closed := false
	table := newKeyTable(func() bool { return closed })
	dense, rows, open := &key{name: "d", form: wire.FormDense}, &key{name: "r", form: wire.FormRows}, &key{name: "o", form: wire.FormOpen}
	table.add(rows, dense, open)
	for _, c := range []struct {
		name string
		form uint8
		key  *key
		want error
	}{{"d", wire.FormDense, dense, nil}, {"r", wire.FormRows, rows, nil}, {"o", wire.FormRows, open, nil},
		{"d", wire.FormRows, nil, ErrUnsupported}, {"o", wire.FormDense, nil, ErrUnsupported}, {"y", wire.FormDense, nil, ErrUnknownKey}} {
		if got, err := table.lookup("pull", c.name, c.form); got != c.key || !errors.Is(err, c.want) {
			t.Errorf("key %q as form %d: got %v and error %v, want %v and %v", c.name, c.form, got, err, c.key, c.want)
		}
	}
	if keys := table.sorted(); len(keys) != 3 || keys[0] != dense || keys[1] != open || keys[2] != rows {
		t.Errorf("got %v, want d, o and r", keys)
	}
	closed = true
	if _, err := table.lookup("pull", "d", wire.FormDense); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: got error %v, want ErrClosed", err)
	}
}
