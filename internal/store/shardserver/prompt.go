package shardserver

import "github.com/paragon-train/paragon/internal/store/shard"

// promptValues is the size, in values, up to which a dense shard's pushes and pulls are answered
// by the goroutine that reads their connection: their sum and update take microseconds, less
// than starting another goroutine. Larger ones would hold up the requests behind them.
const promptValues = 4096

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
