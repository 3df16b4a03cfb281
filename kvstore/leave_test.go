package kvstore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// A worker whose work ended with an error does not leave the others to go on with fewer: they learn who failed and why.
func TestLeaveWithAnErrorFailsTheJobForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1}).Stores(t, "dist_sync")
		cause := errors.New("disk /ckpt is full")
		if err := kvstore.Leave(stores[0], cause); !errors.Is(err, cause) {
			t.Errorf("leave: got error %v, want the cause in it", err)
		}
		err := stores[1].Barrier(t.Context())
		if !errors.Is(err, kvstore.ErrUnavailable) || !strings.Contains(err.Error(), "worker 0") || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("barrier of the other worker: got error %v, want ErrUnavailable that names worker 0 and %q", err, cause)
		}
	})
}

func TestLeaveWithoutAnErrorIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 1}).Stores(t, "dist_sync")
		if err := kvstore.Leave(stores[0], nil); err != nil {
			t.Fatal(err)
		}
		if err := stores[1].Barrier(t.Context()); err != nil {
			t.Errorf("barrier of the worker that is left: %v", err)
		}
	})
}

func TestAbortWantsACause(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if err := kv.Abort(nil); err == nil || !strings.Contains(err.Error(), "Close leaves in order") {
		t.Errorf("abort without a cause: got error %v, want one that points to Close", err)
	}
}
