package hostsum

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A round is one round's gradients of the host's workers.
type round struct {
	number uint64
	// first is the first push that came. What the pushes of a round have in common is as in
	// this one.
	first *wire.Push
	// slots are in the order of the ranks.
	slots []slot
	// here is how many slots have their contribution.
	here int
	sum  *shard.Adder
	// began is when the first push came, and timer ends the wait for the others.
	began time.Time
	timer *time.Timer
	state state
	// done is closed when the round is over.
	done chan struct{}
	// err is the error with which all waiting workers are refused.
	err error
	// out is the sum on its way, and then the server's answer.
	out Forwarded
	// answer is the memory of out's payload, while anybody reads it.
	answer *shard.Buffer
	// using is the number of calls that wait or are being answered.
	using int
}

// A state is how far a round has come. Only a round that is gathering can be dissolved.
type state uint8

const (
	// gathering: gradients are still to come.
	gathering state = iota
	// forwarded: the sum is on its way to the server.
	forwarded
	// answered: the server has answered, or could not be reached.
	answered
	// dissolved: each worker is told to push for itself.
	dissolved
)

// A slot is a member's place in a round.
type slot struct {
	member
	// seq is 0 until the contribution has come.
	seq   uint64
	push  wire.Contributor
	codec uint8
	// data is the gradient until it is in the sum.
	data *shard.Buffer
	// lent is where the gradient lies, in place of data, until it is in the sum or its worker
	// no longer waits.
	lent    loan
	added   bool
	arrived time.Time
}

// A loan is a gradient of wire.CodecFloat32 where it lies, in memory of a worker that waits for its
// round. Between Claim, if that is true, and Release it may be read.
type loan interface {
	Claim() bool
	Release()
	values() []float32
}

// take puts a push into its slot.
func (x *slot) take(p *wire.Push, data *shard.Buffer, lent loan, at time.Time) {
	x.seq, x.codec, x.data, x.lent, x.arrived = p.Seq, p.Codec, data, lent, at
	x.push = wire.Contributor{Node: p.Node, Seq: p.Seq, Weight: p.Weight, Examples: p.Examples, Counted: p.Counted, Micro: p.Step.Micro, MicroSqr: p.Step.MicroSqr}
}

// takeAgain is for a push that was sent before: its connection has most likely broken. The copy of
// a gradient that is here stays, but what was lent over that connection may be gone.
func (x *slot) takeAgain(data *shard.Buffer, lent loan) {
	if x.lent == nil {
		data.Release()
		return
	}
	x.data, x.lent = data, lent
}

// find returns a node's slot; nil: it is not of this host.
func (r *round) find(node uint64) *slot {
	for i := range r.slots {
		if r.slots[i].node == node {
			return &r.slots[i]
		}
	}
	return nil
}

// differs says in what a push differs from the round's others, with which it cannot be added up;
// empty: in nothing.
func (r *round) differs(p *wire.Push) string {
	f := r.first
	switch {
	case p.Step.Rate != f.Step.Rate:
		return fmt.Sprintf("nodes %d and %d give other learning rates", f.Node, p.Node)
	case p.Step.Measure != f.Step.Measure:
		return fmt.Sprintf("one of nodes %d and %d measures norms", f.Node, p.Node)
	case p.AnswerCodec != f.AnswerCodec:
		return fmt.Sprintf("nodes %d and %d want the value in codecs %d and %d", f.Node, p.Node, f.AnswerCodec, p.AnswerCodec)
	}
	return ""
}

// add adds the gradients that are next in rank order, or with anyOrder all that are there. Rank order
// makes a run repeat bit for bit; it costs that gradients wait in memory for those of lower ranks.
func (r *round) add(anyOrder bool) {
	for i := range r.slots {
		x := &r.slots[i]
		switch {
		case x.added:
		case x.seq != 0:
			var sqr *float64
			if r.first.Step.Measure {
				sqr = &x.push.Sqr
			}
			if x.lent == nil {
				r.sum.Add(x.codec, x.data, sqr)
			} else if x.lent.Claim() {
				r.sum.AddValues(x.lent.values(), sqr)
				x.lent.Release()
			} else {
				r.vacate(x)
				if !anyOrder {
					return
				}
				continue
			}
			x.data, x.lent, x.added = nil, nil, true
		case !anyOrder:
			return
		}
	}
}

// vacate makes a slot whose worker has taken its gradient back as if none had come: the worker has
// stopped waiting, and may push something else.
func (r *round) vacate(x *slot) {
	*x = slot{member: x.member}
	r.here--
}

// codec is that of the sum: the gradients' own, or float32 if one came so.
func (r *round) codec() uint8 {
	codec := r.slots[0].codec
	for i := range r.slots {
		if r.slots[i].codec == wire.CodecFloat32 {
			codec = wire.CodecFloat32
		}
	}
	return codec
}

// release ends one use of the answer. The caller holds the mutex.
func (r *round) release() {
	if r.using--; r.using == 0 && r.state >= answered {
		r.answer.Release()
		r.answer = nil
	}
}

// waiting says whom the round waits for.
func (r *round) waiting() string {
	if r.state == forwarded {
		text := fmt.Sprintf("round %d: the sum of this host's %d workers is at the server", r.number, len(r.slots))
		if w := r.out.waiting.Load(); w != nil {
			text += ": " + (*w)()
		}
		return text
	}
	var missing []string
	for i := range r.slots {
		if r.slots[i].seq == 0 {
			missing = append(missing, r.slots[i].member.String())
		}
	}
	return fmt.Sprintf("round %d has waited %v for a push of %s", r.number, time.Since(r.began).Round(time.Millisecond), strings.Join(missing, ", "))
}
