package hostsum

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A sums is the leader's state of one shard in one membership: the rounds whose gradients are being
// added up.
type sums struct {
	// env and all up to mu do not change.
	env   *env
	key   uint64
	shard uint32
	// n is the number of values.
	n       int
	members []member
	own     int

	// mu guards all below, and rounds.
	mu sync.Mutex
	// over, unless nil, says that the membership is another one.
	over   error
	rounds []*round
	// settled has, by node, its newest push in a round that has ended, which this leader does
	// not take again.
	settled map[uint64]uint64
	// absent has, by node, how many rounds in a row were dissolved because it did not come.
	absent map[uint64]int
	// taken has, by node, how many payloads are being received.
	taken map[uint64]int
	// apart has, by node, the number of the push with which it began to push for itself. A node
	// that is not there comes to the rounds.
	apart map[uint64]uint64
}

// Limits for each shard.
const (
	// maxRounds is how many rounds there are at once: a worker is at most one round ahead, and
	// dissolved rounds wait for workers that are late.
	maxRounds = 4
	// maxPayloads is how many payloads of one worker are being received, wait or are being
	// answered.
	maxPayloads = 4
	// maxAbsent is how many rounds are dissolved for a worker that does not come before the
	// leader stops to wait for it: most likely it cannot reach this process.
	maxAbsent = 2
)

// A round is one round's gradients of the host's workers.
type round struct {
	of     *sums
	number uint64
	// first is the first push that came. What the pushes of a round have in common is as in
	// this one.
	first *wire.Push
	// slots are in the order of the ranks.
	slots []slot
	here  int
	sum   *shard.Adder
	began time.Time
	timer *time.Timer
	state state
	// done is closed when the round is over.
	done chan struct{}
	// err is the error with which all waiting workers are refused.
	err error
	out Forwarded
	// answer is out's payload, while anybody reads it.
	answer *shard.Buffer
	// using is the number of calls that wait or are being answered.
	using int
}

type state uint8

const (
	gathering state = iota
	forwarded
	answered
	dissolved
)

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

// join adds a worker's push to its round and returns the round, in use, whose end the caller then
// awaits. It takes data unless it returns an error. What is lent is used until settle.
func (t *sums) join(p *wire.Push, data *shard.Buffer, lent loan, at time.Time) (*round, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return nil, t.over
	}
	delete(t.absent, p.Node)
	if p.Seq <= t.settled[p.Node] {
		return nil, alone("push %d of node %d: its round has ended here", p.Seq, p.Node)
	}
	if p.Seq >= t.apart[p.Node] {
		delete(t.apart, p.Node)
	}
	r, err := t.round(p, at)
	if err != nil {
		return nil, err
	}
	x := r.find(p.Node)
	switch {
	case x == nil:
		return nil, alone("node %d is not on this host", p.Node)
	case r.state == dissolved:
		// Its worker has been told.
		x.seq = p.Seq
		t.settled[p.Node] = p.Seq
		t.forget(r)
		if m := t.gone(); m != nil {
			return nil, alone("round %d: %v pushes for itself", p.Round, m)
		}
		return nil, alone("round %d was dissolved", p.Round)
	case x.seq == p.Seq:
		x.takeAgain(data, lent)
		r.using++
		return r, nil
	case x.seq != 0:
		return nil, alone("push %d of node %d: its push %d is in round %d", p.Seq, p.Node, x.seq, p.Round)
	}
	if why := r.differs(p); why != "" {
		x.seq = p.Seq
		r.dissolve(alone("round %d: %s", p.Round, why))
		return nil, r.err
	}
	x.take(p, data, lent, at)
	r.here++
	r.add()
	if r.here == len(r.slots) {
		r.forward(p)
	}
	r.using++
	return r, nil
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

// pushAlone takes note that a worker pushes for itself, with the push p and until it comes again.
// Rounds up to p's do not wait for it any longer.
func (t *sums) pushAlone(p *wire.Push) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	delete(t.absent, p.Node)
	if p.Seq > t.newest(p.Node) {
		t.apart[p.Node] = max(t.apart[p.Node], p.Seq)
	}
	for _, r := range slices.Clone(t.rounds) {
		x := r.find(p.Node)
		if r.number > p.Round || x == nil || x.seq != 0 {
			continue
		}
		// The push will not come to this round.
		x.seq = p.Seq
		if r.state == gathering {
			r.dissolve(alone("round %d: %v pushes for itself", r.number, x.member))
		} else {
			t.forget(r)
		}
	}
	return nil
}

// newest is the number of the newest push with which a worker has come.
func (t *sums) newest(node uint64) uint64 {
	seq := t.settled[node]
	for _, r := range t.rounds {
		if x := r.find(node); x != nil {
			seq = max(seq, x.seq)
		}
	}
	return seq
}

// gone returns a member that pushes for itself; nil: there is none.
func (t *sums) gone() *member {
	for i := range t.members {
		if t.apart[t.members[i].node] != 0 {
			return &t.members[i]
		}
	}
	return nil
}

// take counts a payload of a worker as under way; false: too many are. give ends that, and the use
// of its round unless nil.
func (t *sums) take(node uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[node] >= maxPayloads {
		return false
	}
	t.taken[node]++
	return true
}

func (t *sums) give(node uint64, r *round) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[node]--
	if r != nil {
		r.release()
	}
}

// round returns the round of a push, which may be a new one.
func (t *sums) round(p *wire.Push, at time.Time) (*round, error) {
	for _, r := range t.rounds {
		if r.number == p.Round {
			return r, nil
		}
	}
	for _, m := range t.members {
		if t.absent[m.node] >= maxAbsent {
			return nil, alone("%v did not come in %d rounds", m, maxAbsent)
		}
	}
	if len(t.rounds) == maxRounds {
		i := slices.IndexFunc(t.rounds, func(r *round) bool { return r.state == dissolved })
		if i < 0 {
			return nil, alone("%d rounds are open", maxRounds)
		}
		t.rounds = slices.Delete(t.rounds, i, i+1)
	}
	r := &round{of: t, number: p.Round, sum: shard.NewAdder(t.env.pool, t.n), began: at, done: make(chan struct{})}
	common := *p
	r.first = &common
	for _, m := range t.members {
		r.slots = append(r.slots, slot{member: m})
	}
	r.timer = time.AfterFunc(t.env.cfg.Wait, r.expire)
	t.rounds = append(t.rounds, r)
	if m := t.gone(); m != nil {
		r.dissolve(alone("round %d: %v pushes for itself", r.number, m))
	}
	return r, nil
}

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

// add adds the gradients that are next in rank order, or with AnyOrder all that are there.
func (r *round) add() {
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
				if !r.of.env.cfg.AnyOrder {
					return
				}
				continue
			}
			x.data, x.lent, x.added = nil, nil, true
		case !r.of.env.cfg.AnyOrder:
			return
		}
	}
}

// vacate makes a slot whose worker has taken its gradient back as if none had come.
func (r *round) vacate(x *slot) {
	*x = slot{member: x.member}
	r.here--
}

// settle ends all use of what a worker has lent, before its call is answered: a gradient that is
// not in the sum is copied.
func (t *sums) settle(r *round, node uint64, lent loan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := r.find(node)
	if x == nil || x.lent != lent {
		return
	}
	if !lent.Claim() {
		r.vacate(x)
		return
	}
	x.data, x.lent = t.env.pool.Get(4*t.n), nil
	copy(x.data.Float32s(t.n), lent.values())
	lent.Release()
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

// forward sends the sum on its way, on a goroutine of its own. last is the push that came last.
func (r *round) forward(last *wire.Push) {
	e := r.of.env
	r.state = forwarded
	r.timer.Stop()
	data, codec, payload := r.sum.Take(r.codec())
	now := time.Now()
	own := r.of.members[r.of.own]
	f := &r.out
	f.Push = wire.Push{Origin: last.Origin, Round: r.number, Codec: codec, N: last.N, Answer: true, AnswerCodec: last.AnswerCodec, WaitMillis: last.WaitMillis, Step: r.first.Step}
	f.Push.Node, f.Push.Rank, f.Push.Seq, f.Push.Step.Micro, f.Push.Step.MicroSqr = own.node, own.rank, 0, 0, 0
	for i := range r.slots {
		x := r.slots[i].push
		x.Early = uint64(max(now.Sub(r.slots[i].arrived), 0))
		f.Push.Contributors = append(f.Push.Contributors, x)
	}
	sortContributors(f.Push.Contributors)
	size := 4 * r.of.n
	if last.AnswerCodec != wire.CodecFloat32 {
		size = 2 * r.of.n
	}
	f.Payload, r.answer = payload, e.pool.Get(size)
	f.Into = r.answer.Bytes(size)
	r.using++
	e.forwarding.Go(func() {
		err := e.cfg.Forward(e.ctx, f)
		data.Release()
		r.answerAll(err)
	})
}

// answerAll ends the wait of all workers when the server has answered.
func (r *round) answerAll(err error) {
	t := r.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.state = answered; err == nil {
		t.env.sent.Add(1)
	} else {
		t.env.dissolved.Add(1)
		t.env.cfg.Logger.Debug("host sums: the sum was not taken; each worker pushes for itself", "key", t.key, "shard", t.shard, "round", r.number, "err", err)
		r.err = alone("round %d: %v", r.number, err)
	}
	for i := range r.slots {
		t.settled[r.slots[i].node] = max(t.settled[r.slots[i].node], r.slots[i].seq)
	}
	t.forget(r)
	close(r.done)
	r.release()
}

// release ends one use of the answer. The caller holds the mutex.
func (r *round) release() {
	if r.using--; r.using == 0 && r.state >= answered {
		r.answer.Release()
		r.answer = nil
	}
}

// expire dissolves the round, for which workers have not come in time.
func (r *round) expire() {
	t := r.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.state != gathering {
		return
	}
	for i := range r.slots {
		if x := &r.slots[i]; x.seq == 0 {
			t.absent[x.node]++
		}
	}
	err := alone("%s", r.waiting())
	t.env.cfg.Logger.Debug("host sums: "+err.Text, "key", t.key, "shard", t.shard, "round", r.number)
	r.dissolve(err)
}

// end dissolves all rounds that are not complete and takes no more pushes.
func (t *sums) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = why
	for _, r := range slices.Clone(t.rounds) {
		if r.state == gathering {
			r.dissolve(why)
		}
	}
}

// dissolve ends a round that is not complete. Workers that have yet to come will be told.
func (r *round) dissolve(err error) {
	r.state, r.err = dissolved, err
	r.of.env.dissolved.Add(1)
	r.timer.Stop()
	r.sum.Drop()
	for i := range r.slots {
		x := &r.slots[i]
		x.data.Release()
		x.data, x.lent = nil, nil
		if x.seq != 0 {
			r.of.settled[x.node] = max(r.of.settled[x.node], x.seq)
		}
	}
	r.of.forget(r)
	close(r.done)
}

// forget drops a round that is over and that no worker has yet to hear of.
func (t *sums) forget(r *round) {
	if r.state == dissolved {
		for i := range r.slots {
			if r.slots[i].seq == 0 {
				return
			}
		}
	}
	for i := range t.rounds {
		if t.rounds[i] == r {
			t.rounds = slices.Delete(t.rounds, i, i+1)
			return
		}
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

// alone refuses a push: the worker is to send it to the shard's server itself.
func alone(format string, args ...any) *transport.Refusal {
	return &transport.Refusal{Code: wire.CodePushAlone, Text: "host sums: " + fmt.Sprintf(format, args...)}
}
