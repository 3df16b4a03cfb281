package kvstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A push that fails keeps its number and its round, so that what a shard has counted it does not
// count again; once the round is set anew, as by a Load, the number is not used again.
func TestAFailedPushKeepsItsNumber(t *testing.T) {
	type numbers struct{ seq, round uint64 }
	for _, async := range []bool{false, true} {
		r := &keyPushes{async: async}
		check := func(after string, want numbers) {
			t.Helper()
			seq, round := r.next()
			if async {
				want.round = want.seq
			}
			if got := (numbers{seq, round}); got != want {
				t.Errorf("async %v: after %s: next got %v, want %v", async, after, got, want)
			}
			if seq, round := r.wanted(); seq != want.seq || async && round != 0 || !async && round != want.round {
				t.Errorf("async %v: after %s: a pull wants push %d and round %d", async, after, seq, round)
			}
		}
		check("nothing", numbers{0, 0})
		r.pushed(nil)
		check("a push", numbers{1, 1})
		r.pushed(errors.New("lost"))
		check("a push that failed", numbers{1, 1})
		r.pushed(nil)
		check("its repeat", numbers{2, 2})
		r.set(7)
		check("a load", numbers{2, 7})
		r.pushed(errors.New("lost"))
		r.set(3)
		check("a push that failed and a load", numbers{3, 3})
		r.set(3)
		check("another load", numbers{3, 3})
	}
}

// Only one holds the turn; whoever waits gets it when it is given back, or gives up with its context
// or when the store closes.
func TestTurnsAreTakenOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, quit := &keyPushes{}, make(chan struct{})
		if !r.try() || r.try() {
			t.Fatal("a free turn was refused, or taken twice")
		}
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan bool, 3)
		go func() { results <- r.take(ctx, quit) }()
		synctest.Wait()
		cancel()
		if <-results {
			t.Error("a wait whose context has ended took the turn")
		}
		for range 2 {
			go func() { results <- r.take(t.Context(), quit) }()
		}
		synctest.Wait()
		r.give()
		if !<-results {
			t.Error("nobody took the turn that was given back")
		}
		synctest.Wait()
		if len(results) > 0 || r.try() {
			t.Error("a second one took the turn")
		}
		close(quit)
		if <-results {
			t.Error("a wait took the turn after the store had closed")
		}
	})
}
