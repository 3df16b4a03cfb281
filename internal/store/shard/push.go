package shard

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Contribution is one worker's gradient for one round of the shard.
type Contribution struct {
	Generation uint64
	Node       uint64
	Seq        uint64 // number of this push among the worker's pushes to this shard, from 1
	Round      uint64 // the round that it belongs to, from 0; ignored in async mode
	Weight     float32
	Examples   uint64  // of which the gradient is
	Counted    bool    // the worker has used the Examples: see Counted of a Shard
	Codec      uint8   // of Data, for a dense shard
	Threshold  float32 // for wire.Codec2Bit
	Rows       int     // rows in Data, for a shard of rows
	Size       int     // bytes in Data, for wire.CodecTopK
	// Judged: the worker has compared Norm (of the gradient before compression, divided by the
	// weight) with the guard's limit. So the guard only checks that the values are finite, and
	// remembers Norm. See Version.Limit.
	Judged bool
	Norm   float64
	Step   wire.Step
	// Contributors are the workers of a host whose gradients Data is the sum of, in the order
	// of their nodes, and Node is one of them; none: it is Node's gradient alone. Then Seq,
	// Weight, Examples, Counted, Judged, Norm, Step.Micro and Step.MicroSqr are 0. All
	// contributors are counted or none. Push does not keep the slice.
	Contributors []wire.Contributor
	// Arrived is when the whole contribution was here, by the Meter's clock; 0: when Push is
	// called.
	Arrived int64
	// Data holds the values, as wire.Push or wire.PushRows describes. The shard owns it if Push
	// returns Held or Repeated, the caller otherwise. Nil means no bytes.
	Data *Buffer
	// Loan, unless nil, has the values in place of Data, which is nil. If Push returns Held the
	// shard uses it, until Settle.
	Loan Loan

	norm float64 // for the guard
}

// A Status is the result of a Push.
type Status int

const (
	// Refused comes with an error.
	Refused Status = iota
	// Held: the contribution counts in its round, once.
	Held
	// Repeated: it came before, and counts once.
	Repeated
	// Ahead: it came too early. Await Turn(c), then push it again.
	Ahead
	// Unlent: it cannot be used where it lies. Push it again with a copy as Data.
	Unlent
)

// Push adds a contribution to its round. Its Data must have the length that PayloadSize or
// RowsPayloadSize gives.
func (s *Shard) Push(c Contribution) (Status, error) {
	if err := s.check(&c); err != nil {
		return Refused, err
	}
	if c.Loan != nil && (c.Step.Measure || s.guarded.Load()) {
		return Unlent, nil
	}
	if s.guarded.Load() && len(c.Contributors) == 0 { // before the lock, which others may hold meanwhile
		c.norm = s.normOf(&c)
		if c.Judged && c.norm <= math.MaxFloat64 {
			c.norm = c.Norm
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Refused, s.err
	}
	if c.Generation != s.generation {
		return Refused, s.refuse(wire.CodeStaleGeneration, "push: got generation %d, want %d", c.Generation, s.generation)
	}
	m := s.memberOf(c.Node)
	if m == nil {
		return Refused, s.refuse(wire.CodeUnknownNode, "push: node %d is not a worker of generation %d", c.Node, s.generation)
	}
	if len(c.Contributors) > 0 {
		return s.pushTogether(&c)
	}
	if c.Seq <= m.counted {
		c.Data.Release()
		return Repeated, nil
	}
	if c.Loan != nil && (s.guard != nil || s.async() && s.cfg.Rule == wire.RuleAverage) {
		return Unlent, nil
	}
	if s.async() && c.Step.Measure {
		return Refused, s.refuse(wire.CodeUnsupported, "push: got a measured push in async mode, where a round has one contribution")
	}
	if s.async() {
		return s.pushAsync(m, &c)
	}
	return s.pushSync(m, &c)
}

func (s *Shard) pushSync(m *member, c *Contribution) (Status, error) {
	slot, r, status, err := s.place(m, c.Seq, c.Round)
	switch status {
	case Held:
	case Repeated:
		c.Data.Release()
		return Repeated, nil
	default:
		return status, err
	}
	if err := s.checkRate(r, c, m.Rank); err != nil {
		return Refused, err
	}
	if err := s.takeRows(c); err != nil {
		return Refused, err
	}
	r.setRate(c.Step.Rate)
	slot.measure, slot.micro, slot.microSqr = c.Step.Measure, c.Step.Micro, c.Step.MicroSqr
	slot.seq, slot.weight, slot.examples, slot.counts, slot.norm, slot.judged = c.Seq, c.Weight, uint32(c.Examples), c.Counted, c.norm, c.Judged
	slot.payload, slot.loan = payloadOf(c), c.Loan
	s.countExamples(m, c.Counted, c.Examples)
	r.present++
	s.hold(slot)
	s.arrived(r, c.Node, c.Arrived)
	s.took(r)
	return Held, nil
}

// took goes on after a contribution was put into its slot of a round.
func (s *Shard) took(r *round) {
	s.pushed = true
	if r == &s.open {
		s.closeRounds()
	} else {
		s.tellHeld()
	}
}

// place returns the slot, and its round, for push seq of a member to a round; Held means that it is
// empty. Repeated: the round has it already.
func (s *Shard) place(m *member, seq, number uint64) (*slot, *round, Status, error) {
	if seq <= m.counted {
		return nil, nil, Repeated, nil
	}
	var r *round
	switch {
	case number < s.rounds:
		return nil, nil, Refused, s.refuse(wire.CodeConflict, "push %d of rank %d: round %d closed without it; round %d is open now", seq, m.Rank, number, s.rounds)
	case number == s.rounds:
		r = &s.open
	case number == s.rounds+1 && s.backup.unacknowledged() == nil: // pending: so that a worker never has more than two rounds to resend
		r = s.ahead()
	default:
		return nil, nil, Ahead, nil
	}
	slot := r.find(m)
	if slot == nil {
		return nil, nil, Refused, s.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, want at least %d, the first it counts in", seq, m.Rank, number, m.From)
	}
	if slot.payload.lent && slot.loan.Over() {
		s.vacate(r, slot) // the worker has stopped waiting; it may push something else now
	}
	if slot.seq == seq {
		return nil, nil, Repeated, nil
	}
	if slot.seq != 0 {
		return nil, nil, Refused, s.refuse(wire.CodeConflict, "push %d of rank %d: its push %d already counts in round %d", seq, m.Rank, slot.seq, number)
	}
	if o := s.open.find(m); r == s.next && o != nil && seq <= o.seq {
		return nil, nil, Refused, s.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, but its push %d was for round %d", seq, m.Rank, number, o.seq, s.rounds)
	}
	if x := s.next.find(m); r == &s.open && x != nil && x.seq != 0 && seq >= x.seq {
		return nil, nil, Refused, s.refuse(wire.CodeConflict, "push %d of rank %d: got round %d, but its push %d was for round %d", seq, m.Rank, number, x.seq, s.rounds+1)
	}
	return slot, r, Held, nil
}

// check checks all that does not depend on the shard's state.
func (s *Shard) check(c *Contribution) error {
	if len(c.Contributors) > 0 {
		if err := s.checkContributors(c); err != nil {
			return err
		}
	} else {
		if err := s.checkNumbers("push", c.Seq, c.Weight, c.Examples); err != nil {
			return err
		}
	}
	if err := s.checkStep(c); err != nil {
		return err
	}
	switch s.cfg.Form {
	case wire.FormRows:
		return s.checkRows(c)
	case wire.FormOpen:
		return s.checkOpen(c)
	}
	if !(c.Norm >= 0) || c.Norm > math.MaxFloat64 || c.Norm != 0 && !c.Judged {
		return s.refuse(wire.CodeMalformed, "push: got norm %v, judged: %v; want a finite number, at least 0, and 0 unless judged", c.Norm, c.Judged)
	}
	if c.Rows != 0 {
		return s.refuse(wire.CodeUnsupported, "push: got rows, but the key is dense")
	}
	if _, _, err := PayloadSize(c.Codec, s.n); err != nil {
		return s.refuse(wire.CodeUnsupported, "push: %v", err)
	}
	if c.Codec == wire.Codec2Bit && !(c.Threshold > 0 && c.Threshold <= maxWeight) {
		return s.refuse(wire.CodeMalformed, "push: got threshold %v, want a finite number above 0", c.Threshold)
	}
	if c.Loan != nil && (c.Codec != wire.CodecFloat32 || len(c.Loan.Values()) != s.n || c.Data != nil || len(c.Contributors) > 0) {
		return s.refuse(wire.CodeSize, "push: got a loan of %d values in codec %d, of %d contributors, want %d in codec %d of one", len(c.Loan.Values()), c.Codec, len(c.Contributors), s.n, wire.CodecFloat32)
	}
	if c.Data == nil && c.Loan == nil && s.n > 0 {
		return s.refuse(wire.CodeSize, "push: got no values, want %d", s.n)
	}
	if c.Codec == wire.CodecTopK && s.n > 0 {
		if err := f32.CheckTopK(c.Data.Bytes(c.Size), s.n); err != nil {
			return s.refuse(wire.CodeMalformed, "push: topk: %v", err)
		}
	}
	return nil
}

// checkNumbers checks what each contributor has of its own.
func (s *Shard) checkNumbers(what string, seq uint64, weight float32, examples uint64) error {
	if seq == 0 {
		return s.refuse(wire.CodeMalformed, "%s: got sequence number 0, want them from 1", what)
	}
	if !(weight >= 0) || weight > maxWeight {
		return s.refuse(wire.CodeMalformed, "%s: got weight %v, want a finite number, at least 0", what, weight)
	}
	if examples > maxExamples {
		return s.refuse(wire.CodeMalformed, "%s: got %d examples, want at most %d", what, examples, maxExamples)
	}
	return nil
}
