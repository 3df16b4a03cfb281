package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// In each phase a replica says whether a round may close and whether the value may be shown.
func TestAReplicasPhaseDecidesWhatMayHappen(t *testing.T) {
	async, sync := mode(wire.ModeAsync), mode(wire.ModeSync)
	for _, tt := range []struct {
		name                          string
		replica                       *replica
		blocks, hidesSync, hidesAsync bool
	}{
		{"never had a backup", nil, false, false, false},
		{"off", &replica{}, false, false, false},
		{"filling", &replica{phase: replicaFilling}, true, false, true},
		{"stale", &replica{phase: replicaStale}, true, false, true},
		{"in sync", &replica{phase: replicaInSync}, false, false, false},
		{"in sync, a round is not acknowledged", &replica{phase: replicaInSync, pending: &Record{}}, true, true, true},
	} {
		b := tt.replica
		if b.blocks() != tt.blocks || b.hides(sync) != tt.hidesSync || b.hides(async) != tt.hidesAsync {
			t.Errorf("%s: blocks %v, hides %v in sync mode and %v in async mode; want %v, %v and %v", tt.name,
				b.blocks(), b.hides(sync), b.hides(async), tt.blocks, tt.hidesSync, tt.hidesAsync)
		}
	}
}

// A round is lent once at a time, and until it was acknowledged it is lent again.
func TestARecordIsLentUntilItIsAcknowledged(t *testing.T) {
	r := newReaders(denseConfig(1), 1)
	b := &replica{phase: replicaInSync}
	b.record(Record{Round: 3}, &updater{}, r.cfg)
	one := b.lend()
	if one == nil || one.Round != 3 || b.lend() != nil {
		t.Fatalf("got %+v, and another meanwhile; want round 3, once", one)
	}
	if b.commit(one, false, r) || b.lend() != one {
		t.Error("a record that was not acknowledged is not lent again")
	}
	if !b.commit(one, true, r) || b.unacknowledged() != nil {
		t.Error("an acknowledged record still waits")
	}
	if b.record(Record{Round: 4}, &updater{}, r.cfg) != one {
		t.Error("the record's memory was not used again")
	}
}

// A record of a state that was replaced is no one's: it is freed, at the latest when it comes back.
func TestAReplacedStateMakesTheCopyStale(t *testing.T) {
	cfg := denseConfig(1)
	r := newReaders(cfg, 1)
	told := 0
	b := &replica{phase: replicaInSync, closed: func() { told++ }}
	b.record(Record{Form: wire.RecordValue, version: r.acquire()}, &updater{}, cfg)
	lent := b.lend()
	b.replaced(r)
	if !b.in(replicaStale) || b.unacknowledged() != nil || told != 1 || r.current.readers != 1 {
		t.Errorf("got phase %d, pending %v, told %d times, %d readers; want stale, none, once, and the record that is lent", b.phase, b.pending, told, r.current.readers)
	}
	if b.endFill(r) {
		t.Error("a copy of a replaced state was taken for the state")
	}
	if b.commit(lent, true, r) || r.current.readers != 0 {
		t.Errorf("the replaced record shows a round, or is still held by %d readers", r.current.readers)
	}
	b.beginFill(nil)
	if b.reconfigured(); !b.in(replicaStale) {
		t.Errorf("after another optimizer during the copy: got phase %d, want stale", b.phase)
	}
	b.beginFill(nil)
	if !b.endFill(r) || !b.in(replicaInSync) {
		t.Errorf("after the second copy: got phase %d, want in sync", b.phase)
	}
}

// The backup gets each optimizer once, before the first round that applies it.
func TestAnOptimizerIsSentOnce(t *testing.T) {
	cfg := denseConfig(1)
	opt, err := optim.New(optim.Config{Name: "sgd", LearningRate: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := newReaders(cfg, 1)
	b, u := &replica{}, &updater{}
	b.beginFill(nil)
	b.endFill(r)
	configured := func() bool {
		c := b.record(Record{}, u, cfg).Configured
		b.drop(r)
		return c
	}
	if configured() {
		t.Error("a record names an optimizer, want none: the copy had none")
	}
	u.set(cfg, opt)
	if !configured() || configured() {
		t.Error("a new optimizer is not in the first record after it alone")
	}
}
