package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A worker may be one round ahead, and no further; not even that while the backup lacks a round.
func TestAWorkerIsOneRoundAheadAtMost(t *testing.T) {
	x := membershipOf(t, 0, 0)
	r := rounds{number: 5}
	r.begin(x.ordered())
	if got := r.find(5, x.ordered(), true); got != &r.open {
		t.Errorf("round 5: got %p, want the open round", got)
	}
	if got := r.find(6, x.ordered(), false); got != nil {
		t.Error("round 6 takes a contribution while the backup lacks round 4")
	}
	if got := r.find(6, x.ordered(), true); got == nil || got != r.next {
		t.Errorf("round 6: got %p, want the next round", got)
	}
	if got := r.find(7, x.ordered(), true); got != nil {
		t.Error("round 7 takes a contribution while round 5 is open")
	}
}

// A member's sequence numbers rise with its rounds, or it could not be told what is a repetition.
func TestSequenceNumbersRiseWithTheRounds(t *testing.T) {
	cfg, x := denseConfig(1), membershipOf(t, 0, 0)
	m := x.of(node(0))
	for _, tt := range []struct {
		open, next, seq, number uint64
		want                    Status
	}{
		{0, 0, 3, 0, Held},
		{3, 0, 3, 0, Repeated},
		{3, 0, 4, 0, Refused},
		{3, 0, 4, 1, Held},
		{3, 0, 3, 1, Refused},
		{0, 4, 3, 0, Held},
		{0, 4, 4, 0, Refused},
		{0, 4, 4, 1, Repeated},
	} {
		var r rounds
		r.begin(x.ordered())
		next := r.ahead(x.ordered())
		r.open.find(m).seq, next.find(m).seq = tt.open, tt.next
		at := r.find(tt.number, x.ordered(), true)
		if got, err := r.place(cfg, at, at.find(m), m, tt.seq, tt.number); got != tt.want || (err != nil) != (got == Refused) {
			t.Errorf("pushes %d and %d are in rounds 0 and 1, push %d to round %d: got status %d, %v; want %d", tt.open, tt.next, tt.seq, tt.number, got, err, tt.want)
		}
	}
}

// What is dropped leaves its sequence number behind, so that it does not count if it is sent again.
func TestDroppedContributionsAreRemembered(t *testing.T) {
	cfg, x := denseConfig(2), membershipOf(t, 0, 0)
	base := cfg.Pool.Taken()
	var r rounds
	r.begin(x.ordered())
	w := stopwatch{}
	for i, at := range []*round{&r.open, r.ahead(x.ordered())} {
		p := payloadWith(cfg, 1, 2)
		s := at.find(x.of(node(1)))
		at.put(s, &Contribution{Seq: uint64(8 + i), Weight: 1, Examples: 3, Counted: true, Codec: wire.CodecFloat32, Data: p.data})
		w.hold(s)
	}
	if got := r.examples(node(1)); got != 6 {
		t.Errorf("examples in open rounds: got %d, want 6", got)
	}
	if held := r.drop(x); held != w.held {
		t.Errorf("dropped %d bytes, want the %d that were held", held, w.held)
	}
	if got := x.of(node(1)).lastSeq; got != 9 {
		t.Errorf("highest sequence number: got %d, want 9", got)
	}
	if got := cfg.Pool.Taken() - base; got != 0 {
		t.Errorf("%d bytes are still taken", got)
	}
}

// A round that a member leaves goes on without it, unless it has contributed.
func TestARoundNeedsItsMembersAndKeepsWhatCame(t *testing.T) {
	x := membershipOf(t, 0, 0, 0)
	var r round
	r.begin(x.ordered(), 0)
	r.slots[0].seq, r.slots[1].seq, r.present = 1, 1, 2
	if r.full() {
		t.Error("a round of three is full with two contributions")
	}
	if _, _, err := x.replace(denseConfig(1), 2, ranksIn(0), false); err != nil {
		t.Fatal(err)
	}
	r.change(x.ordered(), 0)
	if len(r.slots) != 2 || !r.full() {
		t.Errorf("after ranks 1 and 2 have left: got %d slots, full: %v; want those of ranks 0 and 1, which have contributed", len(r.slots), r.full())
	}
}
