package shardserver

import (
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A reply is a request's answer, from when it is decided until it is written, with the memory that
// it lies in. The answer may lie in the reply itself and in a shard's value, so release comes after
// the write.
type reply struct {
	// message is nil until the answer is decided. It is ack, value, or a message of another owner
	// that stays as it is until release.
	message wire.Message
	ack     wire.Ack
	value   wire.Value

	// payload is used if filled. placed says that it lies where the worker wants it already.
	payload [1][]byte
	filled  bool
	placed  bool

	// out is the payload's memory, or version is what it is a part of; else it belongs to someone
	// else.
	out     *shard.Buffer
	version *shard.Version
}

// give decides the answer.
func (r *reply) give(m wire.Message, payload []byte) {
	r.message, r.payload[0], r.filled = m, payload, len(payload) > 0
}

// acknowledge decides that the answer is an Ack.
func (r *reply) acknowledge(generation, revision uint64) {
	r.ack = wire.Ack{Generation: generation, Revision: revision}
	r.message = &r.ack
}

// response returns the answer for the transport, which writes no payload that is placed.
func (r *reply) response() transport.Response {
	resp := transport.Response{Message: r.message, Placed: r.placed}
	if r.filled && !r.placed {
		resp.Payload = r.payload[:]
	}
	return resp
}

// copyTo copies the answer to a request of a kind and its payload, and returns the filled part of
// dst.
func (r *reply) copyTo(kind wire.Kind, answer wire.Message, dst []byte) ([]byte, error) {
	ok := false
	switch to := answer.(type) {
	case *wire.Ack:
		ok = copyMessage(to, r.message)
	case *wire.Value:
		ok = copyMessage(to, r.message)
	case *wire.State:
		ok = copyMessage(to, r.message)
	case *wire.Rows:
		ok = copyMessage(to, r.message)
	case *wire.Usage:
		ok = copyMessage(to, r.message)
	case *wire.Clipped:
		ok = copyMessage(to, r.message)
	}
	if !ok {
		return nil, refuse(wire.CodeInternal, "%v: the answer is a %v, want a %v", kind, r.message.Kind(), answer.Kind())
	}
	if !r.filled {
		return nil, nil
	}
	if len(dst) < len(r.payload[0]) {
		return nil, refuse(wire.CodeSize, "%v: got room for %d bytes, want %d", kind, len(dst), len(r.payload[0]))
	}
	return dst[:copy(dst, r.payload[0])], nil
}

// copyMessage copies a message, or returns false if it is of another type.
func copyMessage[M any](to *M, from wire.Message) bool {
	m, ok := any(from).(*M)
	if ok {
		*to = *m
	}
	return ok
}

// release gives the memory back and forgets the answer.
func (r *reply) release() {
	r.out.Release()
	if r.version != nil {
		r.version.Release()
	}
	r.out, r.version = nil, nil
	r.message, r.payload[0], r.filled, r.placed = nil, nil, false, false
}
