package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

type echoStore struct{ kvstore.Store }

func (echoStore) PushPull(ctx context.Context, key string, in, out [][]float32) error {
	return nil
}

func TestAParameterWithoutValuesThatIsHandedInLastLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grads := [][][]float32{{nil}, {make([]float32, 3)}}
		e := newExchange(t.Context(), echoStore{}, []string{"empty", "w"}, grads, grads, func(int) error { return nil })
		defer e.close()
		e.submit(1)
		e.submit(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.flush(ctx); err != nil {
			t.Errorf("flush: %v, want nil", err)
		}
	})
}
