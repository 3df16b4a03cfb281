package kvstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The newest two pushes are kept, the older one first, each until its round has closed; the memory
// that the program pushed from may change meanwhile.
func TestTheNewestTwoPushesAreKept(t *testing.T) {
	u := &unreplicatedPushes{busy: make(chan struct{}, 1)}
	kept := func() string {
		var all []string
		u.inOrder(func(p *unreplicatedPush) { all = append(all, fmt.Sprint(p.round, p.dense[0].Seq, p.payloads[0])) })
		return fmt.Sprint(all)
	}
	memory := []byte{0}
	calls := []call{{payload: [][]byte{memory}}}
	for round := range uint64(3) {
		memory[0] = byte(round)
		u.add(sentPush{round: round, dense: []wire.Push{{Origin: wire.Origin{Seq: round + 1}}}, calls: calls})
	}
	memory[0] = 9
	if got, want := kept(), "[1 2 [1] 2 3 [2]]"; got != want {
		t.Errorf("after pushes to rounds 0 to 2: got %s, want %s", got, want)
	}
	u.dropClosed(2)
	if got, want := kept(), "[2 3 [2]]"; got != want {
		t.Errorf("after round 1 has closed: got %s, want %s", got, want)
	}
	u.clear()
	if got := kept(); got != "[]" || u.any(t.Context()) {
		t.Errorf("after a load: got %s, want none", got)
	}
}

// Whoever asks whether there are pushes waits no longer than its context for one that resends them.
func TestAskingForPushesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreplicatedPushes{busy: make(chan struct{}, 1)}
		u.add(sentPush{round: 1})
		u.lock()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan bool)
		go func() { got <- u.any(ctx) }()
		synctest.Wait()
		cancel()
		if <-got {
			t.Error("got pushes from a lock that another holds")
		}
		u.unlock()
		if !u.any(t.Context()) {
			t.Error("got no pushes, want one")
		}
		var none *unreplicatedPushes
		if none.any(t.Context()) {
			t.Error("got pushes of a key that has none")
		}
		none.dropClosed(1)
		none.clear()
		none.inOrder(func(*unreplicatedPush) { t.Error("got a push of a key that has none") })
	})
}
