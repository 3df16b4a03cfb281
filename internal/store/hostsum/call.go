package hostsum

import (
	"context"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A call is one worker's push.
type call struct {
	s    *Server
	push wire.Push
	sums *sums
	data *shard.Buffer
	// lent is where the payload lies, in place of data.
	lent loan
	// taken says that the payload is counted in sums.taken.
	taken bool
	round *round
	value wire.Value
}

// prepare checks a push with a payload of n bytes, and counts it as being received. It comes before
// memory is taken: a peer that knows the job's secret may still announce any size.
func (c *call) prepare(n int) error {
	p, s := &c.push, c.s
	least, most, err := 0, 0, error(nil)
	switch p.Codec {
	case wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16:
	default:
		return alone("codec %d cannot be summed", p.Codec)
	}
	switch p.AnswerCodec {
	case wire.CodecFloat32, wire.CodecFloat16, wire.CodecBFloat16:
	default:
		return transport.Refuse(wire.CodeUnsupported, 0, "host sums: got codec %d for the answer, want float32 (0), float16 (1) or bfloat16 (2)", p.AnswerCodec)
	}
	if !p.Answer || p.Judged || len(p.Contributors) > 0 || p.Seq == 0 {
		return alone("got a push that cannot be summed: without an answer, judged, of several workers or without a sequence number")
	}
	length, ok := s.env.cfg.Length(p.Key, p.Shard)
	if !ok {
		return transport.Refuse(wire.CodeBusy, 0, "host sums: key %d shard %d is not initialised here yet", p.Key, p.Shard)
	}
	if p.N != length {
		return transport.Refuse(wire.CodeSize, 0, "host sums: key %d shard %d: got %d values, want %d", p.Key, p.Shard, p.N, length)
	}
	if least, most, err = shard.PayloadSize(p.Codec, int(length)); err != nil || n < least || n > most {
		return transport.Refuse(wire.CodeSize, 0, "host sums: key %d shard %d: got %d bytes of payload, want %d", p.Key, p.Shard, n, least)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.sumsOf(p, length)
	if err != nil {
		return err
	}
	if !t.take(p.Node) {
		return transport.Refuse(wire.CodeBusy, p.Generation, "host sums: %d pushes of node %d to key %d shard %d are under way", maxPayloads, p.Node, p.Key, p.Shard)
	}
	c.sums, c.taken = t, true
	s.active++
	if c.lent == nil {
		c.data = s.env.pool.Get(max(n, 8))
	}
	return nil
}

// decode reads the head of a push, the only kind of request that there is.
func (c *call) decode(r *transport.Request) error {
	if r.Kind != wire.KindPush {
		return transport.Refuse(wire.CodeUnsupported, 0, "host sums: got a %v, want a push", r.Kind)
	}
	return wire.DecodeHead(&c.push, r.Head)
}

// serve waits for the round and returns its value's bytes, which are valid until finish. A lent
// payload is not used after an error: its worker may change it then.
func (c *call) serve(ctx context.Context) (value []byte, err error) {
	r, err := c.sums.join(&c.push, c.data, c.lent, time.Now())
	if err != nil {
		return nil, err
	}
	c.data, c.round = nil, r
	if c.lent != nil {
		defer func() {
			if err != nil {
				c.sums.settle(r, c.push.Node, c.lent)
			}
		}()
	}
	timer := time.NewTimer(max(time.Duration(c.push.WaitMillis)*time.Millisecond, time.Millisecond))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, alone("the connection has ended")
	case <-timer.C:
		t := c.sums
		t.mu.Lock()
		defer t.mu.Unlock()
		return nil, transport.Refuse(wire.CodeTimeout, c.push.Generation, "host sums: push of key %d shard %d: %s", t.key, t.shard, r.waiting())
	}
	if r.err != nil {
		return nil, r.err
	}
	c.value = r.out.Value
	return r.out.Got, nil
}

// finish releases what the call holds. It may be called more than once.
func (c *call) finish() {
	c.data.Release()
	c.data = nil
	if !c.taken {
		return
	}
	c.taken = false
	c.sums.give(c.push.Node, c.round)
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// A remoteLoan is a gradient in the memory of another process.
type remoteLoan struct{ *transport.Loan }

// An ownLoan is a gradient in this process, of a call that waits, so that no one takes it back.
type ownLoan []byte

func (l remoteLoan) values() []float32 { return float32s(l.Payload()) }

func (l *ownLoan) Claim() bool { return true }

func (l *ownLoan) Release() {}

func (l *ownLoan) values() []float32 { return float32s(*l) }

func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
