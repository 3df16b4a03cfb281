package kvstore

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// unreplicatedPushes are copies of a worker's newest pushes of a key that a server acknowledged
// while their rounds were open. The server's backup has closed rounds only, so after the loss of
// the server these pushes are sent again to the backup that takes its place. At most two need
// copies: a push is acknowledged only after the round two before it has been answered, and then the
// backup has that round. (In an asynchronous store a push is acknowledged once the backup has it.)
//
// The methods but add do nothing on nil.
type unreplicatedPushes struct {
	// busy is a lock that can be waited for together with a context: resend holds it over
	// network calls.
	busy   chan struct{}
	pushes [2]unreplicatedPush
}

// lock is for those who hold it for a moment: whoever holds it longer sends pushes again, and its
// requests end with the store.
func (t *unreplicatedPushes) lock()   { t.busy <- struct{}{} }
func (t *unreplicatedPushes) unlock() { <-t.busy }

type unreplicatedPush struct {
	used  bool
	round uint64
	dense []wire.Push
	rows  []wire.PushRows
	// payloads are by shard.
	payloads [][]byte
}

// A sentPush is an acknowledged push: the heads, of a dense key or of a key of rows, and the calls
// that sent them with their payloads.
type sentPush struct {
	round uint64
	dense []wire.Push
	rows  []wire.PushRows
	calls []call
}

// add copies an acknowledged push.
func (t *unreplicatedPushes) add(sent sentPush) {
	t.lock()
	defer t.unlock()
	p := &t.pushes[sent.round%2]
	p.used, p.round = true, sent.round
	p.dense = append(p.dense[:0], sent.dense...)
	p.rows = append(p.rows[:0], sent.rows...)
	if p.payloads == nil {
		p.payloads = make([][]byte, len(sent.calls))
	}
	for i := range sent.calls {
		p.payloads[i] = p.payloads[i][:0]
		for _, part := range sent.calls[i].payload {
			p.payloads[i] = append(p.payloads[i], part...)
		}
	}
}

// dropClosed drops the pushes of closed rounds: those below rounds.
func (t *unreplicatedPushes) dropClosed(rounds uint64) {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		if p := &t.pushes[i]; p.round < rounds {
			p.used = false
		}
	}
}

// clear drops all pushes.
func (t *unreplicatedPushes) clear() {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	for i := range t.pushes {
		t.pushes[i].used = false
	}
}

// inOrder calls do for each push, the older one first. No push is added or dropped meanwhile.
func (t *unreplicatedPushes) inOrder(do func(p *unreplicatedPush)) {
	if t == nil {
		return
	}
	t.lock()
	defer t.unlock()
	first, second := &t.pushes[0], &t.pushes[1]
	if first.round > second.round {
		first, second = second, first
	}
	for _, p := range []*unreplicatedPush{first, second} {
		if p.used {
			do(p)
		}
	}
}

// any reports whether there are unreplicated pushes; false if ctx ends first.
func (t *unreplicatedPushes) any(ctx context.Context) bool {
	if t == nil {
		return false
	}
	select {
	case t.busy <- struct{}{}:
		defer t.unlock()
	case <-ctx.Done():
		return false
	}
	return t.pushes[0].used || t.pushes[1].used
}
