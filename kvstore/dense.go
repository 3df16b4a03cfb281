package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A densePush is the push, or the push-pull, of a dense key. It is reused: that of a small key for
// any small key.
type densePush struct {
	*op
	s                  *store
	heads              []wire.Push
	acks               []wire.Ack
	values             []wire.Value
	payloads           [][1][]byte
	codes              []alignedBuffer // by shard: the encoded gradient, or its bytes in little-endian order
	lengths            []int           // by shard: bytes used of codes
	uncompressedShards []bool          // by shard: sent as float32
	thresholds         []float32       // by shard: 2bit's threshold
	judged             []bool          // by shard: this worker has compared the norm with the guard's limit
	norms              []float64       // by shard: the norm of the devices' sum, divided by the weight
	deviceNorms        []float64       // norms of the devices' gradients, where each is compressed by itself
	encoded            bool            // codes or sum hold a compressed gradient whose push failed; it will be sent again
	sum                []float32
	answers            answerBuffers
	discarded          []float32 // receives a value that the caller did not ask for

	// Of the current push:
	pull       bool
	compressed bool
	seq        uint64
	placement  uint64 // version of the placement when the push began
	into       []float32
}

func newDensePush(k *key) *densePush {
	n := len(k.shards)
	p := &densePush{s: k.s, op: newOp(k.s.requests, "push", k.name, n), heads: make([]wire.Push, n), acks: make([]wire.Ack, n),
		values: make([]wire.Value, n), payloads: make([][1][]byte, n), codes: make([]alignedBuffer, n), lengths: make([]int, n),
		uncompressedShards: make([]bool, n), judged: make([]bool, n), norms: make([]float64, n), thresholds: make([]float32, n)}
	for i := range p.calls {
		c := &p.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.payload = &p.heads[i], &p.heads[i].Origin, p.payloads[i][:]
	}
	return p
}

// takePush returns the densePush for the key's next push, until keepPush. The caller holds
// pushLock.
func (k *key) takePush() *densePush {
	if k.push != nil {
		return k.push
	}
	if k.small() {
		if p := k.s.idlePushes.take(); p != nil {
			p.key = k.name
			p.calls[0].aim(k, 0)
			return p
		}
	}
	return newDensePush(k)
}

// keepPush ends the use of p. A gradient that is encoded and not acknowledged stays with its key.
func (k *key) keepPush(p *densePush) {
	if k.small() && !p.encoded {
		k.push = nil
		k.s.idlePushes.keep(p)
		return
	}
	k.push = p
}

func (s *store) pushDense(ctx context.Context, by *PushOptions, verb, name string, grads, outs [][]float32, pull bool) error {
	k, err := s.checkPush(verb, name, grads, outs)
	if err != nil {
		return err
	}
	if s.joining.Load() {
		return s.notYet(fmt.Sprintf("%s key %s", verb, wire.Shown(name)))
	}
	if err := k.lockPushes(ctx, verb); err != nil {
		return err
	}
	defer k.unlockPushes()
	then := pull && s.pullsApart()
	if err := k.learnLimits(ctx, verb, s.compressionOf(k)); err != nil {
		return err
	}
	p := k.takePush()
	defer k.keepPush(p)
	if err := p.prepare(k, by, verb, grads, outs, pull && !then); err != nil {
		return err
	}
	err = p.received(k, p.run(ctx))
	if err == nil && then {
		err = k.pull(ctx, verb, p.seq, p.round+1, outs)
	}
	p.end(k, err, outs)
	return err
}

// pullsApart reports whether a push-pull needs a pull of its own: the answer to a push does not
// wait for slow workers.
func (s *store) pullsApart() bool { return s.async && s.bounded }

// prepare makes the requests of the key's next push. The caller holds pushLock; after an error
// nothing has begun.
func (p *densePush) prepare(k *key, by *PushOptions, verb string, grads, outs [][]float32, pull bool) error {
	s := k.s
	c := s.compressionOf(k)
	seq, round := k.next()
	weight, counted := by.Weight, by.Counted && !k.auxiliary
	step, err := k.stepOf(verb, by, c)
	if err != nil {
		return err
	}
	examples, err := by.examples(verb, k.name)
	if err != nil {
		return err
	}
	if err := p.makePayloads(k, c, grads, verb, weight, round); err != nil {
		return err
	}
	p.compressed, p.pull, p.seq = c.codec() != wire.CodecFloat32, pull, seq+1
	p.into = p.answers.prepare(k, outs, &p.discarded, c.answerCodec(), pull)
	p.placement = s.placement.version.Load()
	p.verb, p.round = verb, round
	summed := pull && !s.async && s.sumsWithinHost(c, step)
	for i := range p.heads {
		n := int(k.shards[i].Length)
		p.heads[i] = wire.Push{Origin: k.origin(i, p.seq), Round: round, Weight: weight, Codec: p.codec(c), Threshold: p.thresholds[i],
			N: uint64(n), Answer: pull, AnswerCodec: c.answerCodec(), WaitMillis: s.waitMillis(), Counted: counted, Examples: examples, Judged: p.judged[i], Step: step}
		step.MicroSqr = 0 // the whole key's is on its first shard
		if p.judged[i] {
			p.heads[i].Norm = p.norms[i]
		}
		if p.uncompressedShards[i] {
			p.heads[i].Codec = wire.CodecFloat32
		}
		if p.heads[i].Codec != wire.Codec2Bit {
			p.heads[i].Threshold = 0
		}
		call := &p.calls[i]
		call.to.way = viaServer
		if s.hostSums.route(k, i, call.origin, summed, round) {
			call.to.way = viaLeader
		}
		if pull {
			call.answer, call.dst = &p.values[i], p.answers.shardBuffer(k, p.into, i)
		} else {
			call.answer, call.dst = &p.acks[i], nil
		}
	}
	return nil
}

// received records what the answers say. err is that of the requests; it returns the push's.
func (p *densePush) received(k *key, err error) error {
	if err == nil && p.pull {
		err = p.answers.decode(k, p.op, p.values, p.into)
	}
	switch {
	case err != nil:
	case p.pull:
		k.pulled(p.values)
		k.roundsClosed(p.values)
	default:
		k.acknowledged(p.placement, p.round, p.heads, nil, p.calls)
	}
	return err
}

// end ends a push that was prepared. The caller then gives pushLock back.
func (p *densePush) end(k *key, err error, outs [][]float32) {
	k.pushed(err)
	p.encoded = err != nil && p.compressed
	for i := range p.payloads {
		p.payloads[i][0] = nil // do not keep the caller's memory
		p.calls[i].dst, p.calls[i].got = nil, nil
	}
	p.into = nil
	if err == nil {
		copyTo(outs)
	}
}

// span returns the range of a dense key's values that shard i holds.
func (k *key) span(i int) (from, to int) {
	from = int(k.shards[i].Offset)
	return from, from + int(k.shards[i].Length)
}

// checkSizes checks that every slice has the key's size.
func (k *key) checkSizes(verb, what string, slices [][]float32) error {
	for i, x := range slices {
		if len(x) != k.size {
			return keyError(verb, k.name, ErrSize, "%s %d: got %d values, want %d", what, i, len(x), k.size)
		}
	}
	return nil
}

// A densePull is one pull of a dense key. Several may be under way; they are reused, those of small
// keys for any small key.
type densePull struct {
	*op
	heads     []wire.Pull
	values    []wire.Value
	answers   answerBuffers
	discarded []float32
}

func newDensePull(k *key) *densePull {
	n := len(k.shards)
	p := &densePull{op: newOp(k.s.requests, "pull", k.name, n), heads: make([]wire.Pull, n), values: make([]wire.Value, n)}
	for i := range p.calls {
		c := &p.calls[i]
		c.aim(k, i)
		c.request, c.origin, c.answer = &p.heads[i], &p.heads[i].Origin, &p.values[i]
	}
	return p
}

func (s *store) Pull(ctx context.Context, key string, outs ...[]float32) error {
	k, err := s.lookup("pull", key, wire.FormDense)
	if err != nil {
		return err
	}
	if err := k.checkSizes("pull", "out", outs); err != nil {
		return err
	}
	seq, round := k.wanted()
	return k.pull(ctx, "pull", seq, round, outs)
}

// pull copies the value into outs once it contains this worker's first seq pushes and, in a
// synchronous store, the first round rounds.
func (k *key) pull(ctx context.Context, verb string, seq, round uint64, outs [][]float32) error {
	s := k.s
	p := k.takePull()
	defer k.keepPull(p)
	codec := s.compressionOf(k).answerCodec()
	into := p.answers.prepare(k, outs, &p.discarded, codec, true)
	p.verb, p.round = verb, round
	for i := range p.heads {
		p.heads[i] = wire.Pull{Origin: k.origin(i, seq), Round: round, Codec: codec, WaitMillis: s.waitMillis(), Staleness: s.staleness}
		p.calls[i].dst = p.answers.shardBuffer(k, into, i)
	}
	err := p.run(ctx)
	if err == nil {
		err = p.answers.decode(k, p.op, p.values, into)
	}
	if err == nil {
		k.pulled(p.values)
		k.roundsClosed(p.values)
	}
	for i := range p.calls {
		p.calls[i].dst, p.calls[i].got = nil, nil
	}
	if err != nil {
		return err
	}
	copyTo(outs)
	return nil
}

func (k *key) takePull() *densePull {
	if !k.small() {
		if p := takeIdle(k, &k.pulls); p != nil {
			return p
		}
	} else if p := k.s.idlePulls.take(); p != nil {
		p.key = k.name
		p.calls[0].aim(k, 0)
		return p
	}
	return newDensePull(k)
}

func (k *key) keepPull(p *densePull) {
	if k.small() {
		k.s.idlePulls.keep(p)
	} else {
		keepIdle(k, &k.pulls, p)
	}
}

// takeIdle takes one of the idle pulls of a key, or nil; keepIdle gives it back.
func takeIdle[T any](k *key, idle *[]*T) *T {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(*idle)
	if n == 0 {
		return nil
	}
	p := (*idle)[n-1]
	*idle = (*idle)[:n-1]
	return p
}

func keepIdle[T any](k *key, idle *[]*T, p *T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*idle = append(*idle, p)
}

// copyTo copies the first slice into the others.
func copyTo(outs [][]float32) {
	for i := 1; i < len(outs); i++ {
		copy(outs[i], outs[0])
	}
}

// answerBuffers receive the answers of a dense key's shards: in the caller's memory, or in buffers
// from which the values are decoded.
type answerBuffers struct {
	codec   uint8
	direct  bool
	buffers []alignedBuffer
}

// prepare returns the slice that will hold the value.
func (l *answerBuffers) prepare(k *key, outs [][]float32, nowhere *[]float32, codec uint8, pull bool) []float32 {
	if !pull {
		return nil
	}
	l.codec, l.direct = codec, codec == wire.CodecFloat32 && k.s.native
	if l.buffers == nil && !l.direct {
		l.buffers = make([]alignedBuffer, len(k.shards))
	}
	if len(outs) > 0 {
		return outs[0]
	}
	return grow(nowhere, k.size)
}

// shardBuffer returns the memory that shard i's answer is read into.
func (l *answerBuffers) shardBuffer(k *key, into []float32, i int) []byte {
	from, to := k.span(i)
	if l.direct {
		return bytesOf(into[from:to])
	}
	return l.buffers[i].bytes(valuesSize(l.codec, to-from))
}

// decode checks the answers, and decodes those that were not received in place.
func (l *answerBuffers) decode(k *key, o *op, values []wire.Value, into []float32) error {
	for i := range values {
		from, to := k.span(i)
		v, got := &values[i], o.calls[i].got
		if v.Codec != l.codec || v.N != uint64(to-from) || len(got) != valuesSize(l.codec, to-from) {
			return &ShardError{Verb: o.verb, Key: k.name, Shard: i, Round: o.round, Peer: o.calls[i].peer(),
				Err: fmt.Errorf("%w: got %d values in %d bytes of codec %d, want %d in codec %d", ErrSize, v.N, len(got), v.Codec, to-from, l.codec)}
		}
		switch {
		case l.direct:
		case l.codec == wire.CodecFloat32:
			decodeFloats(k.s.native, into[from:to], got)
		default:
			decodeHalves(k.s.native, l.codec, into[from:to], got)
		}
	}
	return nil
}
