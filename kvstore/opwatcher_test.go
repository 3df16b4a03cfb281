package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Each wait ends with its own context and with no other's, whether the context is one call's, or
// shared by successive calls, which the opWatcher watches, or replaces such a one; and the error
// says whom the call waited for.
func TestWaitsEndWithTheirOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, a, _ := openActor(t)
		defer kv.Close()
		for i := range 4 {
			if err := kv.Init(t.Context(), fmt.Sprint(i), []float32{0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		for turn := range 3 { // the contexts of a turn follow those of the one before
			shared, endShared := context.WithTimeout(t.Context(), 2*time.Second)
			single, endSingle := context.WithTimeout(t.Context(), time.Second)
			for range 2 { // in turn: watched from now on
				if err := kv.Push(shared, "x", []float32{3, 4}); err != nil {
					t.Fatal(err)
				}
			}
			a.answer = func(ctx context.Context, m wire.Message) error { <-ctx.Done(); return ctx.Err() }
			began := time.Now()
			var calls sync.WaitGroup
			for i, c := range []struct {
				ctx  context.Context
				want time.Duration
			}{{shared, 2 * time.Second}, {single, time.Second}, {shared, 2 * time.Second}, {single, time.Second}} {
				calls.Go(func() {
					err := kv.Push(c.ctx, fmt.Sprint(i), []float32{3, 4})
					took := time.Since(began)
					if want := fmt.Sprintf("waited %.1f s; no answer yet from server 0 at 10.0.0.7:9090", c.want.Seconds()); took != c.want ||
						!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
						t.Errorf("turn %d, call %d: got %v after %v, want the end of its context after %v, and %q", turn, i, err, took, c.want, want)
					}
				})
			}
			calls.Wait()
			a.answer = nil
			l := kv.requests.watcher
			l.mu.Lock()
			if l.watchedOps != 0 || l.contextDone != nil || l.first != nil {
				t.Errorf("turn %d: the opWatcher counts %d ops under a context that has ended (watched: %v), first %v, want none", turn, l.watchedOps, l.contextDone != nil, l.first)
			}
			l.mu.Unlock()
			endShared()
			endSingle()
		}
	})
}

// A store that closes refuses new calls and waits for those under way; background calls are not
// counted as the program's.
func TestInFlightRefusesNewCallsAndWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newInFlight()
		for _, background := range []bool{false, true, false} {
			if !g.enter(background) {
				t.Fatal("got a call refused before refuse")
			}
		}
		if got := g.programCalls(); got != 2 {
			t.Errorf("got %d calls of the program, want 2", got)
		}
		g.refuse()
		over := false
		go func() { g.wait(); over = true }()
		for i, background := range []bool{false, false, true} {
			if g.enter(background) {
				t.Error("got a call let in after refuse")
			}
			synctest.Wait()
			if over {
				t.Fatalf("wait returned with %d calls under way", 3-i)
			}
			g.leave(background)
		}
		synctest.Wait()
		if !over || g.programCalls() != 0 {
			t.Errorf("after the last call: waited %v, %d calls of the program, want true and 0", over, g.programCalls())
		}
	})
}
