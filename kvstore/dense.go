package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// takePush returns the densePush for the key's next push, until keepPush. The caller holds the
// turn.
func (d *densePath) takePush(k *key) *densePush {
	if k.push != nil {
		return k.push
	}
	if k.small() {
		if p := d.idlePushes.take(); p != nil {
			p.op.key = k.name
			p.op.calls[0].aim(k, 0)
			return p
		}
	}
	return newDensePush(d.requests, k)
}

// keepPush ends the use of p. A gradient that is encoded and not acknowledged stays with its key,
// because what it left out is in the key's residual already: encoding it anew would lose that.
func (d *densePath) keepPush(k *key, p *densePush) {
	if k.small() && !p.gradient.encoded {
		k.push = nil
		d.idlePushes.keep(p)
		return
	}
	k.push = p
}

// check checks the arguments of a push and returns its key, if there is one.
func (d *densePath) check(verb string, e *Entry) (*key, error) {
	k, err := d.keys.lookup(verb, e.Key, wire.FormDense)
	if err != nil {
		return nil, err
	}
	if len(e.Grads) == 0 {
		return k, keyError(verb, e.Key, ErrSize, "got no gradient, want one for each local device")
	}
	if err := k.checkSizes(verb, "gradient", e.Grads); err != nil {
		return k, err
	}
	return k, k.checkSizes(verb, "out", e.Outs)
}

// notYet is the error of a push by a worker that joins.
func (d *densePath) notYet(verb, name string) error {
	return d.member.notYet(fmt.Sprintf("%s key %s", verb, wire.Shown(name)))
}

// push pushes one key.
func (d *densePath) push(ctx context.Context, by *PushOptions, t trip, e Entry) error {
	k, err := d.check(t.verb, &e)
	if err != nil {
		return err
	}
	if d.member.joining.Load() {
		return d.notYet(t.verb, e.Key)
	}
	if err := k.lock(ctx, t.verb); err != nil {
		return err
	}
	defer k.unlock()
	if err := d.learnLimits(ctx, t.verb, k); err != nil {
		return err
	}
	p := d.takePush(k)
	defer d.keepPush(k, p)
	apart := t.pull && d.cfg.pullsApart()
	if err := d.prepare(p, k, by, trip{t.verb, t.pull && !apart}, &e); err != nil {
		return err
	}
	err = d.received(p, k, p.op.run(ctx))
	if err == nil && apart {
		err = d.pull(ctx, t.verb, k, asOf{p.seq, p.op.round + 1}, e.Outs)
	}
	p.end(k, err, e.Outs)
	return err
}

// learnLimits pulls if this worker judges norms and its copy of the guard's limits is too old. A
// program that pulls what it pushes never needs this.
func (d *densePath) learnLimits(ctx context.Context, verb string, k *key) error {
	if !k.limited() || !d.rules.judgesNorms(d.rules.compressionOf(k)) || k.answers.limitsUsable() {
		return nil
	}
	return d.settle(ctx, verb, k)
}

// prepare makes the requests of the key's next push. The caller holds the turn; after an error
// nothing has begun.
func (d *densePath) prepare(p *densePush, k *key, by *PushOptions, t trip, e *Entry) error {
	c := d.rules.compressionOf(k)
	seq, round := k.pushes.next()
	step, err := by.stepOf(t.verb, k, c)
	if err != nil {
		return err
	}
	examples, err := by.examples(t.verb, k.name)
	if err != nil {
		return err
	}
	as := &encoding{d.rules, k, c, t.verb, by.Weight, round}
	if err := p.gradient.fill(as, e.Grads); err != nil {
		return err
	}
	p.pull, p.seq = t.pull, seq+1
	p.into = p.answers.prepare(k, e.Outs, &p.discarded, c.answerCodec(), t.pull)
	p.placement = d.copies.placement.version.Load()
	p.op.verb, p.op.round = t.verb, round
	summed := t.pull && d.sumsWithinHost(c, step)
	for i := range p.heads {
		p.heads[i] = wire.Push{Origin: k.origin(i, p.seq), Round: round, Weight: by.Weight, Codec: as.codec(), N: k.shards[i].Length,
			Answer: t.pull, AnswerCodec: c.answerCodec(), WaitMillis: d.cfg.waitMillis(), Counted: by.Counted && !k.auxiliary, Examples: examples, Step: step}
		p.gradient.describe(i, &p.heads[i])
		p.route(d.host, k, i, summed)
		// The first shard has the key's, which would count once for each shard.
		step.MicroSqr = 0
	}
	return nil
}

// route says whom the request of shard i goes to, and where its answer comes.
func (p *densePush) route(host *hostSums, k *key, i int, summed bool) {
	c := &p.op.calls[i]
	c.to.way = attempt.ViaServer
	if host.route(k, i, c.origin, summed, p.op.round) {
		c.to.way = attempt.ViaLeader
	}
	if p.pull {
		c.answer, c.dst = &p.values[i], p.answers.shardBuffer(k, p.into, i)
	} else {
		c.answer, c.dst = &p.acks[i], nil
	}
}

// sumsWithinHost reports whether a push-pull of a key may be summed up within the host, wherever
// its shards' servers are.
func (d *densePath) sumsWithinHost(c Compression, step wire.Step) bool {
	if d.host == nil || d.cfg.async || d.cfg.guard != nil || c.codec() > wire.CodecBFloat16 || d.cfg.eachDevice || d.host.leaders.none() {
		return false
	}
	return !step.Measure || !d.rules.preconditions()
}

// received records what the answers say. err is that of the requests; it returns the push's. A
// push-pull whose answer cannot be decoded has failed, although the servers have counted it: its
// repeat has the same number, and they answer it again.
func (d *densePath) received(p *densePush, k *key, err error) error {
	if err == nil && p.pull {
		err = p.answers.decode(k, p.op, p.values, p.into)
	}
	switch {
	case err != nil:
	case p.pull:
		k.pulled(p.values)
		d.copies.closed(k, p.values)
	default:
		d.copies.acknowledged(k, p.placement, sentPush{round: p.op.round, dense: p.heads, calls: p.op.calls})
	}
	return err
}

// end ends a push that was prepared. The caller then gives the turn back.
func (p *densePush) end(k *key, err error, outs [][]float32) {
	k.pushed(err)
	p.gradient.release(err)
	for i := range p.op.calls {
		p.op.calls[i].dst, p.op.calls[i].got = nil, nil
	}
	p.into = nil
	if err == nil {
		copyTo(outs)
	}
}
