package shardserver

import (
	"unsafe"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A lentPush is the loan of a push with an answer, as its shard uses it.
//
// The worker may take its memory back at any time: the transport's Loan says whether it has. The
// shard claims the loan for as long as it reads or writes, and settle ends all use before the
// call is answered, since an answered worker changes its gradient.
type lentPush struct {
	// Loan is nil if nothing is lent.
	*transport.Loan
	// out says that the place for the value may be used.
	out bool
	// placed is how many rounds the value that is there contains; 0: none is there.
	placed uint64
}

var _ shard.Loan = (*lentPush)(nil)

// Values are the gradient. They may be read only between Claim and Release.
func (l *lentPush) Values() []float32 { return float32s(l.Payload()) }

// Out is where the value goes; nil: the answer carries it.
func (l *lentPush) Out() []float32 {
	if !l.out {
		return nil
	}
	return float32s(l.Loan.Out())
}

// Place notes what Out has now. The answer then needs no payload.
func (l *lentPush) Place(rounds uint64) { l.placed = rounds }

// float32s returns memory as numbers, without a copy.
func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// keepLoan keeps the loan of a dense gradient that is pushed with an answer: its worker waits for
// the round, and with it for its memory. It returns false for other payloads, which must be copied,
// so that they can be acknowledged.
func (c *call) keepLoan(l *transport.Loan) bool {
	m := &c.push
	if l == nil || c.kind != wire.KindPush || !m.Answer || m.Codec != wire.CodecFloat32 || m.Step.Measure || !c.entry.shard.TakesLoans() {
		return false
	}
	c.lent = lentPush{Loan: l, out: m.AnswerCodec == wire.CodecFloat32}
	return true
}

// copyLoan copies a gradient that was lent, where its shard wants a copy. The worker may take the
// memory back at any time, so it is claimed for the copy.
func (c *call) copyLoan() error {
	l := c.lent.Loan
	c.lent.Loan = nil
	if !l.Claim() {
		// Then it waits for no answer.
		return refuse(wire.CodeBusy, "push: %v: the worker has taken its gradient back", c.entry.cfg)
	}
	defer l.Release()
	n := len(l.Payload())
	c.data = c.s.pool.Get(n)
	copy(c.data.Bytes(n), l.Payload())
	return nil
}

// settle ends the use of the call's loan, before its answer, or when the connection has ended without
// one. The worker may use its memory again when it has the answer, so the shard must not after that.
// The gradient of a worker that was killed is still there, and is kept (shard.Settle).
func (c *call) settle() {
	// Once the value is placed the round has closed, and the shard no longer uses the loan.
	if c.lent.Loan != nil && c.lent.placed == 0 {
		c.entry.shard.Settle(&c.lent)
	}
	c.lent.Loan = nil
}
