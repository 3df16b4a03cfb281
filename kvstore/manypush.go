package kvstore

import (
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// A manyPush is one call of PushMany or PushPullMany. It is reused.
//
// Each part's turn is held from add to the end of runMany, so that the pushes of its key stay in
// order, whether they go in the message or by themselves. The densePushes of the parts are not run
// as ops while the message is under way: only their heads and payloads travel.
type manyPush struct {
	requests *requests
	// keys and errs are of the entries, and named are the keys again.
	keys  []*key
	named map[*key]bool
	errs  []error
	parts []manyPart
	// op has a call for each of the messages that are used, out of calls.
	op       *op
	calls    []call
	messages []*manyMessage
	used     int
	// trips are of keys that go by themselves, and repeats of those that went in a message.
	trips, repeats sync.WaitGroup
}

// A manyPart is the part of one key that shares a message. Its turn is held.
type manyPart struct {
	entry int
	k     *key
	p     *densePush
	// message is the index of its message.
	message int
	// again is why it goes on by itself.
	again error
	// done says that it has ended, and err how.
	done bool
	err  error
}

// A manyMessage is a message of a manyPush, and its answer. It is the carrier of its call.
type manyMessage struct {
	many   *manyPush
	server uint32
	head   wire.PushMany
	answer wire.PushedMany
	// parts are indices into those of the manyPush.
	parts []int
	// in and out are the bytes of the payload, and of that of the answer.
	in, out int
	bytes   [][]byte
	buffer  buffer.Aligned
	// over says that the only attempt has ended, with got or err.
	over bool
	got  []byte
	err  error
}

func (x *manyMessage) reset() {
	clear(x.bytes)
	x.head.Pushes, x.parts, x.bytes = x.head.Pushes[:0], x.parts[:0], x.bytes[:0]
	x.in, x.out, x.got, x.err, x.over = 0, 0, nil, nil, false
}

// add adds a key whose turn the caller has taken.
func (m *manyPush) add(entry int, k *key) { m.parts = append(m.parts, manyPart{entry: entry, k: k}) }

// opOf returns the op with n calls. Calls do not move in memory, so a larger op is a new one.
func (m *manyPush) opOf(n int) *op {
	if n > len(m.calls) {
		m.op = newOp(m.requests, "", "", max(n, 2*len(m.calls)))
		m.calls = m.op.calls
	}
	m.op.calls = m.calls[:n]
	return m.op
}

// fill makes a call that of the message.
func (x *manyMessage) fill(c *call) {
	c.to = route{way: attempt.ViaMessage, server: int(x.server), message: x}
	c.request, c.answer, c.payload, c.dst = &x.head, &x.answer, x.bytes, x.buffer.Bytes(x.out)
	c.origin = &x.head.Pushes[0].Origin
	for _, i := range x.parts {
		p := x.many.parts[i].p
		p.op.reset()
		p.op.calls[0].beginSpan()
	}
}

// stamp gives all pushes the membership that the first has.
func (x *manyMessage) stamp() {
	pushes := x.head.Pushes
	first := &pushes[0].Origin
	for i := range pushes {
		o := &pushes[i].Origin
		o.Generation, o.Node, o.Rank = first.Generation, first.Node, first.Rank
	}
}

// left notes that the pushes have been sent.
func (x *manyMessage) left(now int64) {
	for _, i := range x.parts {
		x.many.parts[i].p.op.calls[0].spans.sent.Store(now)
	}
}

// answered ends the only attempt.
func (x *manyMessage) answered(got []byte, err error) { x.got, x.err, x.over = got, err, true }

// take gives each part its result. It is an error, and nothing is taken, if the answer is not one
// of this message.
func (x *manyMessage) take() error {
	a := &x.answer
	asked := 0
	for i := range x.head.Pushes {
		if x.head.Pushes[i].Answer {
			asked++
		}
	}
	if len(a.Values) != asked {
		return fmt.Errorf("%w: got %d values, want %d", ErrSize, len(a.Values), asked)
	}
	size := 0
	for i := range a.Values {
		if v := &a.Values[i]; v.N > smallValues || v.Codec > wire.CodecBFloat16 {
			return fmt.Errorf("%w: got %d values in codec %d, want at most %d", ErrSize, v.N, v.Codec, smallValues)
		}
		size += buffer.ValuesSize(a.Values[i].Codec, int(a.Values[i].N))
	}
	if size != len(x.got) {
		return fmt.Errorf("%w: got %d bytes of values, want %d", ErrSize, len(x.got), size)
	}
	for i := range a.Refused {
		if int(a.Refused[i].Index) >= len(x.parts) || i > 0 && a.Refused[i].Index <= a.Refused[i-1].Index {
			return fmt.Errorf("%w: refusal %d is of push %d of %d", ErrSize, i, a.Refused[i].Index, len(x.parts))
		}
	}
	rest, values, refused := x.got, a.Values, a.Refused
	for j, i := range x.parts {
		part := &x.many.parts[i]
		c := &part.p.op.calls[0]
		if x.head.Pushes[j].Answer {
			v := &values[0]
			values = values[1:]
			n := buffer.ValuesSize(v.Codec, int(v.N))
			part.p.values[0], c.got = *v, rest[:n]
			// answerBuffers.decode refuses another length.
			if n == len(c.dst) {
				copy(c.dst, c.got)
				c.got = c.dst
			}
			rest = rest[n:]
		}
		if len(refused) > 0 && int(refused[0].Index) == j {
			r := &refused[0]
			refused = refused[1:]
			part.again = &transport.Refusal{Addr: c.peer(), Code: r.Code, Generation: r.Generation, Text: r.Text}
			continue
		}
		part.done = true
		c.endSpan()
	}
	return nil
}
