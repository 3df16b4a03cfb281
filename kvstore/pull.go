package kvstore

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Pull copies the value into every out.
func (d *densePath) Pull(ctx context.Context, key string, outs ...[]float32) error {
	k, err := d.keys.lookup("pull", key, wire.FormDense)
	if err != nil {
		return err
	}
	if err := k.checkSizes("pull", "out", outs); err != nil {
		return err
	}
	seq, round := k.pushes.wanted()
	return d.pull(ctx, "pull", k, asOf{seq, round}, outs)
}

// settle waits until the rounds of this worker's pushes have closed, and learns what comes with the
// value.
func (d *densePath) settle(ctx context.Context, verb string, k *key) error {
	seq, round := k.pushes.wanted()
	return d.pull(ctx, verb, k, asOf{seq, round}, nil)
}

// pull copies the value into outs once it contains what is wanted. It takes no turn: several pulls
// of a key may be under way together, and with a push, whose acknowledgement they need not wait
// for.
func (d *densePath) pull(ctx context.Context, verb string, k *key, want asOf, outs [][]float32) error {
	p := d.takePull(k)
	defer d.keepPull(k, p)
	codec := d.rules.compressionOf(k).answerCodec()
	into := p.answers.prepare(k, outs, &p.discarded, codec, true)
	p.op.verb, p.op.round = verb, want.round
	for i := range p.heads {
		p.heads[i] = wire.Pull{Origin: k.origin(i, want.seq), Round: want.round, Codec: codec, WaitMillis: d.cfg.waitMillis(), Staleness: d.cfg.staleness}
		p.op.calls[i].dst = p.answers.shardBuffer(k, into, i)
	}
	err := p.op.run(ctx)
	if err == nil {
		err = p.answers.decode(k, p.op, p.values, into)
	}
	if err == nil {
		k.pulled(p.values)
		d.copies.closed(k, p.values)
	}
	for i := range p.op.calls {
		p.op.calls[i].dst, p.op.calls[i].got = nil, nil
	}
	if err != nil {
		return err
	}
	copyTo(outs)
	return nil
}

func (d *densePath) takePull(k *key) *densePull {
	if !k.small() {
		if p := takeIdle(k, &k.pulls); p != nil {
			return p
		}
	} else if p := d.idlePulls.take(); p != nil {
		p.op.key = k.name
		p.op.calls[0].aim(k, 0)
		return p
	}
	return newDensePull(d.requests, k)
}

func (d *densePath) keepPull(k *key, p *densePull) {
	if k.small() {
		d.idlePulls.keep(p)
	} else {
		keepIdle(k, &k.pulls, p)
	}
}
