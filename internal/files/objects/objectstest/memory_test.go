package objectstest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func TestMemoryIsAStore(t *testing.T) {
	var store *objectstest.Memory
	objectstest.TestStore(t, objectstest.Suite{
		Make: func(_ *testing.T, contents map[string][]byte) objects.Store {
			store = objectstest.New(contents)
			return store
		},
		Replace: func(_ *testing.T, name string, data []byte) { store.Put(name, data) },
		Remove:  func(_ *testing.T, name string) { store.Remove(name) },
	})
}

func TestReadsFailAndWaitAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objectstest.New(map[string][]byte{"a": []byte("0123")})
		store.Latency = 20 * time.Millisecond
		broken := errors.New("broken")
		store.Fail = func(c objectstest.Call) error {
			if c.Kind == objectstest.Read && c.Number == 2 {
				return broken
			}
			return nil
		}
		info, err := store.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 3 {
			p := make([]byte, 4)
			if err := store.ReadRange(t.Context(), info, p, 0); errors.Is(err, broken) != (i == 1) {
				t.Errorf("read %d: got %q and error %v", i+1, p, err)
			}
		}
		if took := time.Since(began); took != 60*time.Millisecond {
			t.Errorf("three reads took %v, want 60ms", took)
		}
	})
}
