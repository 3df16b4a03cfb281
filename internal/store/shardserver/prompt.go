package shardserver

import (
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// promptValues is the size, in values, up to which a dense shard's pushes and pulls are answered by
// the goroutine that reads their connection: their sum and update take microseconds, less than
// starting another goroutine.
const promptValues = 4096

// Prompt answers pushes to small dense shards, and pulls from them, that need not wait. Without it
// many small keys would cost a goroutine each. See transport.PromptHandler.
func (s *Server) Prompt(r *transport.Request) (resp transport.Response, done bool, err error) {
	if r.Kind != wire.KindPush && r.Kind != wire.KindPull && r.Kind != wire.KindPushMany {
		return transport.Response{}, false, nil
	}
	defer s.recovered(r.Kind, &err)
	c, ok := r.Value.(*call)
	if !ok {
		c = s.newCall()
		r.Value = c
	}
	if c.arrived == 0 {
		c.arrived = c.s.clock.now()
	}
	c.received()
	keep := false
	defer func() {
		// The call is finished after its answer is written, or by Serve.
		if !keep {
			r.Value = nil
			c.finish()
		}
	}()
	if !ok {
		if err := c.prepare(r, 0); err != nil {
			return transport.Response{}, false, s.nack(err)
		}
	}
	if !c.prompt() || !s.knows(c) {
		keep = true
		return transport.Response{}, false, nil
	}
	switch r.Kind {
	case wire.KindPush:
		done, err = c.tryPush()
	case wire.KindPushMany:
		done = c.tryPushMany()
	default:
		done, err = c.tryAnswer(wantOf(&c.pull), c.pull.Codec)
	}
	if err != nil {
		return transport.Response{}, false, s.nack(err)
	}
	keep = true
	if !done {
		return transport.Response{}, false, nil
	}
	return c.response(), true, nil
}

// prompt reports whether the call's shards are small enough.
func (c *call) prompt() bool {
	if c.kind == wire.KindPushMany {
		return c.many.prompt()
	}
	return c.entry.cfg.Length <= promptValues
}

// knows reports whether the sender is a member of the server's generation. If not, Serve's admit
// waits or refuses it.
func (s *Server) knows(c *call) bool {
	o, v := c.origin, s.membership.Load()
	w := v.workers[o.Node]
	if o.Generation != v.generation || w == nil || w.joins || w.rank != o.Rank {
		return false
	}
	w.heard.Store(c.arrived)
	return true
}

// tryPush is servePush, if it need not wait. If it must it may have handed over the contribution
// already; servePush then goes on from there, since held is set.
func (c *call) tryPush() (done bool, err error) {
	m := &c.push
	x := contributionOf(m, c.size)
	x.Data, x.Arrived = c.data, c.arrived
	switch status, err := c.entry.shard.Push(x); status {
	case shard.Held, shard.Repeated:
		c.heardFrom(x.Contributors)
		c.accepted(x.Round)
	case shard.Ahead:
		return false, nil
	default:
		return false, err
	}
	if !m.Answer {
		if c.backupLacks() {
			return false, nil
		}
		return true, c.answerAck()
	}
	return c.tryAnswer(wantAfter(m), m.AnswerCodec)
}

// tryAnswer answers with the value, if it is available.
func (c *call) tryAnswer(want shard.Want, codec uint8) (done bool, err error) {
	v, ok, err := c.entry.shard.TryPull(want)
	if !ok {
		return false, err
	}
	return true, c.answerVersion(v, want.Node, codec)
}
