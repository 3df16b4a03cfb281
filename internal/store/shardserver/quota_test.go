package shardserver

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// What workers have under way at a shard is forgotten when it ends, however many come and go.
func TestSharesOfWorkersThatLeftAreForgotten(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 5)
	e := r.s.entries[shardID{0, 0}]
	for id := uint64(20); id < 60; id++ {
		r.setMembers(1, wire.Membership{}, []uint64{10}, id)
		r.must(&wire.Pull{Origin: wire.Origin{Generation: 1, Node: id, Key: 0}}, nil)
	}
	under := e.take(r.s.membership.Load(), answers, 59, maxPulls)
	r.setMembers(1, wire.Membership{}, []uint64{10})
	if len(e.shares) != 1 || e.shares[0] != (share{node: 59, count: [2]int{answers: 1}}) {
		t.Errorf("kept: got %+v, want the one pull that is under way", e.shares)
	}
	under.end()
	if len(e.shares) != 0 {
		t.Errorf("kept after the last pull has ended: got %+v, want nothing", e.shares)
	}
}
