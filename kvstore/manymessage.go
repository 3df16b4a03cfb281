package kvstore

import (
	"context"
	"errors"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A push of many keys sends one message to each server, with a push of each key. A message is tried
// once. What became of each key is in its answer; a key that the server has refused, or whose
// message failed as a whole, goes on by itself, as a push that was refused or failed: with the same
// sequence number, so that it counts once. So repeats, moves to other servers and changes of the
// membership need no rules of their own (package attempt).

// manyBytes is the most bytes of payload in a message, either way: the server is at work while the
// next message is on its way. manyKeys is the most keys in one.
const (
	manyBytes = 128 << 10
	manyKeys  = 1024
)

// sharesMessages reports whether the key's pushes may share messages with those of other keys. A
// key whose norms are judged may have to pull before it pushes.
func (d *densePath) sharesMessages(k *key) bool {
	if d.host != nil && d.host.leaders.all {
		return false
	}
	return k.small() && !d.rules.judgesNorms(d.rules.compressionOf(k))
}

var _ carrier = (*manyMessage)(nil)

func (d *densePath) takeManyPush() *manyPush {
	if m := d.manyPushes.take(); m != nil {
		return m
	}
	return &manyPush{requests: d.requests, named: map[*key]bool{}}
}

func (d *densePath) keepManyPush(m *manyPush) {
	clear(m.keys)
	clear(m.named)
	clear(m.errs)
	clear(m.parts)
	m.keys, m.parts = m.keys[:0], m.parts[:0]
	for _, x := range m.messages[:m.used] {
		x.reset()
	}
	m.used = 0
	d.manyPushes.keep(m)
}

// runMany pushes the keys that were added, and gives their turns back.
func (d *densePath) runMany(ctx context.Context, m *manyPush, by *PushOptions, t trip, entries []Entry) {
	began := d.requests.watcher.now()
	if d.prepareMany(m, by, t, entries) > 1 {
		m.send(ctx, t.verb)
	}
	for i := range m.parts {
		switch x := &m.parts[i]; {
		case x.p == nil, x.done:
		case x.again != nil:
			m.repeats.Go(func() { x.err = x.p.op.resume(ctx, began, x.again) })
		default: // the only one
			x.err = x.p.op.run(ctx)
		}
	}
	m.repeats.Wait()
	for i := range m.parts {
		if x := &m.parts[i]; x.p != nil {
			err := d.received(x.p, x.k, x.err)
			x.p.end(x.k, err, entries[x.entry].Outs)
			m.errs[x.entry] = err
			d.keepPush(x.k, x.p)
			x.k.unlock()
		}
	}
}

// prepareMany prepares the pushes of all parts, and returns for how many that was possible. The
// turns of the others are given back.
func (d *densePath) prepareMany(m *manyPush, by *PushOptions, t trip, entries []Entry) (ready int) {
	for i := range m.parts {
		x := &m.parts[i]
		p := d.takePush(x.k)
		if err := d.prepare(p, x.k, by, t, &entries[x.entry]); err != nil {
			m.errs[x.entry] = err
			d.keepPush(x.k, p)
			x.k.unlock()
			continue
		}
		x.p = p
		ready++
	}
	return ready
}

// send sends the messages of all parts that are prepared, and takes what the answers say of each.
func (m *manyPush) send(ctx context.Context, verb string) {
	for i := range m.parts {
		if m.parts[i].p != nil {
			m.place(i)
		}
	}
	o := m.opOf(m.used)
	first := &m.parts[m.messages[0].parts[0]]
	o.verb, o.key, o.round = verb, first.k.name, first.p.op.round
	for i := range o.calls {
		m.messages[i].fill(&o.calls[i])
	}
	cause := causeOf(o.run(ctx))
	for _, x := range m.messages[:m.used] {
		if x.over && x.err == nil {
			x.err = x.take()
		}
	}
	for i := range m.parts {
		x := &m.parts[i]
		if x.p == nil || x.done {
			continue
		}
		if cause != nil {
			x.err, x.done = &ShardError{Verb: verb, Key: x.k.name, Shard: -1, Round: x.p.op.round, Err: cause}, true
			x.p.op.calls[0].spans.begun = 0
		} else if x.again == nil {
			x.again = m.messages[x.message].err
		}
	}
}

// causeOf returns why an op has ended, without what it was about.
func causeOf(err error) error {
	if err == nil {
		return nil
	}
	var e *ShardError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// place adds part i to a message to its server that has room, or to a new one.
func (m *manyPush) place(i int) {
	x := &m.parts[i]
	server := x.k.servers[0].Load()
	payload, answer := x.p.gradient.payloads[0][0], x.p.op.calls[0].dst
	at := m.used - 1
	for ; at >= 0; at-- {
		if c := m.messages[at]; c.server == server && c.in+len(payload) <= manyBytes && c.out+len(answer) <= manyBytes && len(c.parts) < manyKeys {
			break
		}
	}
	if at < 0 {
		at = m.used
		if at == len(m.messages) {
			m.messages = append(m.messages, &manyMessage{many: m})
		}
		m.messages[at].server = server
		m.used++
	}
	to := m.messages[at]
	x.message = at
	to.parts = append(to.parts, i)
	to.head.Pushes = append(to.head.Pushes, wire.SizedPush{Push: x.p.heads[0], Size: uint32(len(payload))})
	to.bytes = append(to.bytes, payload)
	to.in += len(payload)
	to.out += len(answer)
}
