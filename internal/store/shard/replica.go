package shard

import (
	"errors"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// ErrAgain: since the caller's wait another round has closed, which the backup does not have yet.
// Wait again.
var ErrAgain = errors.New("shard: a round has closed meanwhile: wait again")

// A replica is what a primary knows about its shard's backup. Its rule is that no one sees a value
// that the backup cannot make: a closed round waits as the pending record until the backup has
// acknowledged it, and the next round closes only after that. So at most one round is ever in
// between, and a worker that pushes again after a loss needs to remember two.
//
// A shard that has never had a backup has a nil replica, which hides and blocks nothing.
type replica struct {
	// closed reports to the shard's owner that a record waits to be sent.
	closed func()
	phase  replicaPhase
	// pending is closed, and not yet acknowledged by the backup.
	pending *Record
	// spare is memory for the next record.
	spare *Record
	// sent is the optimizer that the backup was last sent, in the copy or in a record.
	sent *optim.Optimizer
	// newest are, while the state is copied, the members whose newest contributions are part of
	// it, in the order of their arrays.
	newest []*member
}

// A replicaPhase says what the backup has.
type replicaPhase uint8

const (
	// replicaOff: there is no backup, and closed rounds are shown at once.
	replicaOff replicaPhase = iota
	// replicaFilling: the state is being copied to the backup, and no round closes meanwhile.
	replicaFilling
	// replicaStale: the state was replaced (a Load) after the copy to the backup began, so that
	// it must be filled again. No round closes meanwhile.
	replicaStale
	// replicaInSync: the backup has the whole state. A round's value is shown only after the
	// backup has the round.
	replicaInSync
)

// made returns the replica, or a new one if it is nil.
func (b *replica) made() *replica {
	if b == nil {
		return &replica{}
	}
	return b
}

// in reports whether the replica is in a phase.
func (b *replica) in(p replicaPhase) bool { return b != nil && b.phase == p }

// copying reports whether the backup is being filled, perhaps in vain.
func (b *replica) copying() bool { return b.in(replicaFilling) || b.in(replicaStale) }

// unacknowledged returns the round that the backup does not have yet, or nil.
func (b *replica) unacknowledged() *Record {
	if b == nil {
		return nil
	}
	return b.pending
}

// hides reports whether the value must not be shown, because it contains a round that the backup
// does not have. In async mode a value that is being copied is not shown either, so that a
// contribution that comes too early can wait for the end of the copy.
func (b *replica) hides(m mode) bool {
	return b != nil && (b.pending != nil || m.async() && b.copying())
}

// blocks reports whether no round may close.
func (b *replica) blocks() bool { return b != nil && (b.pending != nil || b.copying()) }

// record begins the Record of a round that was just applied, with an optimizer if the backup does
// not have it. The caller fills in the rest.
func (b *replica) record(head Record, u *updater, cfg *Config) *Record {
	r := b.spare
	if b.spare = nil; r == nil {
		r = &Record{}
	}
	head.Counts = r.Counts[:0]
	*r = head
	if b.sent != u.opt {
		r.Configured, b.sent = true, u.opt
		// It cannot fail: the optimizer was decoded from such JSON.
		r.Config, _ = u.config(cfg)
	}
	b.pending = r
	return r
}

// count adds a contribution to the record of the round that was just applied.
func (b *replica) count(c CountedPush) {
	if r := b.unacknowledged(); r != nil {
		r.Counts = append(r.Counts, c)
	}
}

// addNewest adds a copy of a member's newest contribution, of n values, to the record.
func (b *replica) addNewest(m *member, pool *Pool, n int) {
	r := b.unacknowledged()
	if r == nil || m.newest() == nil {
		return
	}
	r.Form, r.data, r.size = wire.RecordNewest, pool.Get(4*n), 4*n
	copy(r.data.Float32s(n), m.newest().Float32s(n))
}

// announce reports that a record waits to be sent.
func (b *replica) announce() {
	if b.unacknowledged() != nil && b.closed != nil {
		b.closed()
	}
}

// lend returns the record to be sent, or nil if it is being sent.
func (b *replica) lend() *Record {
	r := b.unacknowledged()
	if r == nil || r.lent {
		return nil
	}
	r.lent = true
	return r
}

// commit takes a record back, and reports whether the backup has it, so that its value may be
// shown. A record that is not the pending one any more is of a state that was replaced.
func (b *replica) commit(r *Record, acknowledged bool, readers *readers) (shown bool) {
	r.lent = false
	if b.pending != r {
		b.discard(r, readers)
		return false
	}
	if acknowledged {
		b.drop(readers)
	}
	return acknowledged
}

// drop gives up the pending record. One that is being sent is freed by commit.
func (b *replica) drop(readers *readers) {
	r := b.pending
	if b.pending = nil; r != nil && !r.lent {
		b.discard(r, readers)
	}
}

// discard frees a record's data and keeps the record for reuse.
func (b *replica) discard(r *Record, readers *readers) {
	r.data.Release()
	if r.version != nil {
		readers.release(r.version)
	}
	r.data, r.version = nil, nil
	b.spare = r
}

// beginFill begins to copy the state, with its optimizer, to a new backup.
func (b *replica) beginFill(opt *optim.Optimizer) {
	b.phase, b.sent, b.newest = replicaFilling, opt, nil
}

// endFill ends the copy. It returns false if the state was replaced meanwhile. A round that was
// pending is in the copy.
func (b *replica) endFill(readers *readers) bool {
	if !b.in(replicaFilling) {
		return false
	}
	b.phase = replicaInSync
	b.drop(readers)
	return true
}

// replaced records that the state was replaced. A shard with a backup closes no round until the
// backup has the new state. A pending record is of the old one.
func (b *replica) replaced(readers *readers) {
	if b == nil || b.phase == replicaOff {
		return
	}
	b.phase = replicaStale
	b.drop(readers)
	if b.closed != nil {
		b.closed()
	}
}

// reconfigured records that the optimizer was replaced: a copy that is under way has the old one.
func (b *replica) reconfigured() {
	if b.copying() {
		b.phase = replicaStale
	}
}

// detach gives up the backup.
func (b *replica) detach(readers *readers) {
	if b != nil {
		b.phase = replicaOff
		b.drop(readers)
	}
}

// array returns one array of a state that is copied: array 0 is the value, then come the slots,
// then the newest contributions of the members that have one, then the kept sum. It is nil if there
// is no such array, or if it was of a member that was lost meanwhile. Primary and backup count
// alike.
func (b *replica) array(i int, value []float32, slots []optim.Slot, kept *Buffer) []float32 {
	var newest []*member
	if b != nil {
		newest = b.newest
	}
	var data *Buffer
	switch at := i - 1 - len(slots); {
	case i < 0:
	case i == 0:
		return value
	case at < 0:
		return slots[i-1].Values
	case at < len(newest):
		data = newest[at].newest()
	case at == len(newest):
		data = kept
	}
	if data == nil {
		return nil
	}
	return data.Float32s(len(value))
}

// forget frees what members that are gone have left for a copy.
func (b *replica) forget() {
	if b == nil {
		return
	}
	for _, m := range b.newest {
		m.dropNewest()
	}
	b.newest = nil
}
