package kvstore

import (
	"context"
	"testing"
	"testing/synctest"
)

// Calls in turn under one context are watched together, from the second one on: none of them pays
// for watching it by itself. Calls whose context never ends are not.
func TestTheContextOfCallsInTurnIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, _, _ := openActor(t)
		defer kv.Close()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		before := t.Context().Done() // that of the calls of openActor
		for i, c := range []struct {
			ctx  context.Context
			want <-chan struct{}
		}{{context.WithoutCancel(ctx), before}, {context.WithoutCancel(ctx), before}, {ctx, before}, {ctx, ctx.Done()}, {ctx, ctx.Done()}} {
			if err := kv.Push(c.ctx, "x", []float32{3, 4}); err != nil {
				t.Fatal(err)
			}
			kv.requests.watcher.mu.Lock()
			if kv.requests.watcher.contextDone != c.want {
				t.Errorf("call %d: is a context watched: %v, want %v", i, kv.requests.watcher.contextDone != nil, c.want != nil)
			}
			kv.requests.watcher.mu.Unlock()
		}
	})
}
