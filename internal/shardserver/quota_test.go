package shardserver

import (
	"testing"

	"github.com/paragon-train/paragon/internal/wire"
)

// What workers had under way at a shard is forgotten with them, however many come and go; one that has something under way keeps its count.
func TestSharesOfWorkersThatLeftAreForgotten(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 5)
	e := r.s.entries[shardID{0, 0}]
	for id := uint64(20); id < 60; id++ {
		r.setMembers(1, wire.Membership{}, []uint64{10}, id)
		r.must(&wire.Pull{Origin: wire.Origin{Generation: 1, Node: id, Key: 0}}, nil)
	}
	under := e.take(r.s.membership.Load(), &e.pulls, 59, maxPulls)
	r.setMembers(1, wire.Membership{}, []uint64{10})
	if len(e.pulls) != 1 || e.pulls[59] != under {
		t.Errorf("counts of %d workers are kept, want that of the one which has a pull under way", len(e.pulls))
	}
	e.give(under)
	r.setMembers(1, wire.Membership{}, []uint64{10})
	if len(e.pulls) != 0 {
		t.Errorf("counts of %d workers are kept after the last pull ended, want none", len(e.pulls))
	}
}
