package kvstore

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// An asOf says what a pulled value must contain: this worker's first seq pushes and, in a
// synchronous store, the first round rounds.
type asOf struct{ seq, round uint64 }

// A densePull is one pull of a dense key. Several may be under way; they are reused, those of small
// keys for any small key.
type densePull struct {
	op        *op
	heads     []wire.Pull
	values    []wire.Value
	answers   answerBuffers
	discarded []float32
}

func newDensePull(r *requests, k *key) *densePull {
	n := len(k.shards)
	p := &densePull{op: newOp(r, "pull", k.name, n), heads: make([]wire.Pull, n), values: make([]wire.Value, n)}
	for i := range p.op.calls {
		c := &p.op.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.answer = &p.heads[i], &p.heads[i].Origin, &p.values[i]
	}
	return p
}

// copyTo copies the first slice into the others.
func copyTo(outs [][]float32) {
	for i := 1; i < len(outs); i++ {
		copy(outs[i], outs[0])
	}
}

// An answerBuffers receives the answers of a dense key's shards: in the caller's memory, or in
// buffers from which the values are decoded.
type answerBuffers struct {
	codec   uint8
	direct  bool
	buffers []buffer.Aligned
}

// prepare returns the slice that will hold the value.
func (l *answerBuffers) prepare(k *key, outs [][]float32, nowhere *[]float32, codec uint8, pull bool) []float32 {
	if !pull {
		return nil
	}
	l.codec, l.direct = codec, codec == wire.CodecFloat32 && k.env.native
	if l.buffers == nil && !l.direct {
		l.buffers = make([]buffer.Aligned, len(k.shards))
	}
	if len(outs) > 0 {
		return outs[0]
	}
	return buffer.Grow(nowhere, k.size)
}

// shardBuffer returns the memory that shard i's answer is read into.
func (l *answerBuffers) shardBuffer(k *key, into []float32, i int) []byte {
	from, to := k.span(i)
	if l.direct {
		return buffer.BytesOf(into[from:to])
	}
	return l.buffers[i].Bytes(buffer.ValuesSize(l.codec, to-from))
}

// decode checks the answers, and decodes those that were not received in place. An answer of
// another size or codec than was asked for is an error that names its shard, however it came about:
// the bytes are a peer's.
func (l *answerBuffers) decode(k *key, o *op, values []wire.Value, into []float32) error {
	for i := range values {
		from, to := k.span(i)
		v, got := &values[i], o.calls[i].got
		if v.Codec != l.codec || v.N != uint64(to-from) || len(got) != buffer.ValuesSize(l.codec, to-from) {
			return &ShardError{Verb: o.verb, Key: k.name, Shard: i, Round: o.round, Peer: o.calls[i].peer(),
				Err: fmt.Errorf("%w: got %d values in %d bytes of codec %d, want %d in codec %d", ErrSize, v.N, len(got), v.Codec, to-from, l.codec)}
		}
		switch {
		case l.direct:
		case l.codec == wire.CodecFloat32:
			buffer.DecodeFloats(k.env.native, into[from:to], got)
		default:
			buffer.DecodeHalves(k.env.native, l.codec, into[from:to], got)
		}
	}
	return nil
}
