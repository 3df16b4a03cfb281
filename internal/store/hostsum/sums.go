package hostsum

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A sums is the leader's state of one shard in one membership: the rounds whose gradients are being
// added up. Another membership has other sums, so that members and their order never change within
// a round.
//
// A worker may send a push here, and again after its connection broke, and may have sent it to the
// shard's server in the meantime. What keeps a gradient from counting twice is the sequence number:
// the sum names each contributor with its own, and the server counts each once. So a sums may forget
// a round once all its workers know how it ended; it need not know what became of them.
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
		t.dissolve(r, alone("round %d: %s", p.Round, why))
		return nil, r.err
	}
	x.take(p, data, lent, at)
	r.here++
	r.add(t.env.cfg.AnyOrder)
	if r.here == len(r.slots) {
		t.forward(r, p)
	}
	r.using++
	return r, nil
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
			t.dissolve(r, alone("round %d: %v pushes for itself", r.number, x.member))
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

// give is the end of take.
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
	r := &round{number: p.Round, sum: shard.NewAdder(t.env.pool, t.n), began: at, done: make(chan struct{})}
	common := *p
	r.first = &common
	for _, m := range t.members {
		r.slots = append(r.slots, slot{member: m})
	}
	r.timer = time.AfterFunc(t.env.cfg.Wait, func() { t.expire(r) })
	t.rounds = append(t.rounds, r)
	if m := t.gone(); m != nil {
		t.dissolve(r, alone("round %d: %v pushes for itself", r.number, m))
	}
	return r, nil
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

// forward sends a complete round's sum on its way, on a goroutine of its own. last is the push that
// came last. From here on the round cannot be dissolved: the server may have counted the sum, and a
// worker that pushed for itself would then be a repeat.
func (t *sums) forward(r *round, last *wire.Push) {
	e := t.env
	r.state = forwarded
	r.timer.Stop()
	data, codec, payload := r.sum.Take(r.codec())
	now := time.Now()
	own := t.members[t.own]
	f := &r.out
	f.Push = wire.Push{Origin: last.Origin, Round: r.number, Codec: codec, N: last.N, Answer: true, AnswerCodec: last.AnswerCodec, WaitMillis: last.WaitMillis, Step: r.first.Step}
	f.Push.Node, f.Push.Rank, f.Push.Seq, f.Push.Step.Micro, f.Push.Step.MicroSqr = own.node, own.rank, 0, 0, 0
	for i := range r.slots {
		x := r.slots[i].push
		x.Early = uint64(max(now.Sub(r.slots[i].arrived), 0))
		f.Push.Contributors = append(f.Push.Contributors, x)
	}
	sortContributors(f.Push.Contributors)
	size := 4 * t.n
	if last.AnswerCodec != wire.CodecFloat32 {
		size = 2 * t.n
	}
	f.Payload, r.answer = payload, e.pool.Get(size)
	f.Into = r.answer.Bytes(size)
	r.using++
	e.forwarding.Go(func() {
		err := e.cfg.Forward(e.ctx, f)
		data.Release()
		t.answerAll(r, err)
	})
}

// answerAll ends the wait of all workers of a round when the server has answered. If the server has
// not taken the sum each of them pushes for itself: it took nothing, or it counts none twice.
func (t *sums) answerAll(r *round, err error) {
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

// expire dissolves a round for which workers have not come in time.
func (t *sums) expire(r *round) {
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
	t.dissolve(r, err)
}

// end dissolves all rounds that are not complete and takes no more pushes.
func (t *sums) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = why
	for _, r := range slices.Clone(t.rounds) {
		if r.state == gathering {
			t.dissolve(r, why)
		}
	}
}

// dissolve ends a round that is not complete. Workers that have yet to come will be told. Their
// gradients are dropped here, since each worker still has its own.
func (t *sums) dissolve(r *round, err error) {
	r.state, r.err = dissolved, err
	t.env.dissolved.Add(1)
	r.timer.Stop()
	r.sum.Drop()
	for i := range r.slots {
		x := &r.slots[i]
		x.data.Release()
		x.data, x.lent = nil, nil
		if x.seq != 0 {
			t.settled[x.node] = max(t.settled[x.node], x.seq)
		}
	}
	t.forget(r)
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

// alone refuses a push: the worker is to send it to the shard's server itself.
func alone(format string, args ...any) *transport.Refusal {
	return &transport.Refusal{Code: wire.CodePushAlone, Text: "host sums: " + fmt.Sprintf(format, args...)}
}
