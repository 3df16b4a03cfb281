package kvstore

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// A gradient is what a push of a dense key sends: the sum of the devices' gradients, compressed.
// All its slices are by shard, but for sum and deviceNorms.
//
// What compression leaves out of a gradient goes into the key's residual. That happens once: where
// the push fails, the gradient stays encoded as it is, and the next push sends it again.
type gradient struct {
	payloads [][1][]byte
	// codes are the memory of payloads that are not in the caller's, and lengths the bytes
	// used.
	codes   []buffer.Aligned
	lengths []int
	// plain says that the shard is sent as float32 whatever the compression is.
	plain []bool
	// thresholds are of 2bit.
	thresholds []float32
	// judged says that this worker has compared the norm with the guard's limit. norms are of
	// the devices' sum, divided by the weight.
	judged []bool
	norms  []float64
	// sum is the devices' sum, and deviceNorms are the norms of their gradients where each is
	// compressed by itself.
	sum         []float32
	deviceNorms []float64
	// compressed says that the last push had a compression, and encoded that it failed: its
	// gradient will be sent again.
	compressed, encoded bool
}

func newGradient(shards int) gradient {
	return gradient{payloads: make([][1][]byte, shards), codes: make([]buffer.Aligned, shards), lengths: make([]int, shards),
		plain: make([]bool, shards), judged: make([]bool, shards), norms: make([]float64, shards), thresholds: make([]float32, shards)}
}

// An encoding is how a push of a key encodes its gradient.
type encoding struct {
	rules *roundRules
	k     *key
	c     Compression
	// verb, weight and round are the push's.
	verb   string
	weight float32
	round  uint64
}

func (e *encoding) native() bool     { return e.rules.cfg.native }
func (e *encoding) eachDevice() bool { return e.rules.cfg.eachDevice }

// codec is that of the payloads: the compression's, or float32 where each device's gradient was
// compressed and decoded before the sum.
func (e *encoding) codec() uint8 {
	if e.eachDevice() {
		return wire.CodecFloat32
	}
	return e.c.codec()
}

// fill fills the payloads with the devices' sum. After an error the residuals are as before.
func (g *gradient) fill(e *encoding, grads [][]float32) error {
	again := g.encoded && e.k.residuals().using == e.c.forResiduals()
	if !again {
		clear(g.plain)
		clear(g.judged)
	}
	switch {
	case again && e.eachDevice():
		g.send(e, g.sum)
	case again:
		for i := range g.payloads {
			g.payloads[i][0] = g.codes[i].Bytes(g.lengths[i])
		}
	case e.c.codec() == wire.CodecFloat32:
		g.send(e, sumOf(grads, &g.sum))
	case e.eachDevice():
		if err := g.compressDevices(e, grads); err != nil {
			return err
		}
	default:
		if err := g.compress(e, sumOf(grads, &g.sum)); err != nil {
			return err
		}
	}
	g.compressed = e.c.codec() != wire.CodecFloat32
	return nil
}

// describe writes into the head of shard i how its gradient is encoded.
func (g *gradient) describe(i int, h *wire.Push) {
	h.Judged = g.judged[i]
	if g.judged[i] {
		h.Norm = g.norms[i]
	}
	if g.plain[i] {
		h.Codec = wire.CodecFloat32
	}
	if h.Codec == wire.Codec2Bit {
		h.Threshold = g.thresholds[i]
	}
}

// release ends the push: the caller's memory is not kept. A compressed gradient of a push that
// failed is.
func (g *gradient) release(err error) {
	g.encoded = err != nil && g.compressed
	for i := range g.payloads {
		g.payloads[i][0] = nil
	}
}

// send fills the payloads with a sum, uncompressed.
func (g *gradient) send(e *encoding, sum []float32) {
	for i := range g.payloads {
		from, to := e.k.span(i)
		g.payloads[i][0] = g.codes[i].Floats(e.native(), sum[from:to])
	}
}

// compress fills the payloads with a sum, compressed. All shards are inspected before any residual
// changes.
func (g *gradient) compress(e *encoding, sum []float32) error {
	for i := range g.payloads {
		from, to := e.k.span(i)
		var err error
		if g.norms[i], g.plain[i], err = e.inspect(sum[from:to], i, -1); err != nil {
			return err
		}
		g.judged[i] = e.rules.judgesNorms(e.c) && !g.plain[i]
	}
	var residual []float32
	if e.c.feedback() {
		residual = e.k.residuals().residual(e.c, 0, e.k.size)
	}
	for i := range g.payloads {
		from, to := e.k.span(i)
		var r []float32
		if residual != nil {
			r = residual[from:to]
		}
		g.compressShard(e, i, r, sum[from:to])
		g.lengths[i] = len(g.payloads[i][0])
		g.norms[i] = perWeight(g.norms[i], e.weight)
	}
	return nil
}

// compressShard fills the payload of shard i. Where it cannot be encoded it is sent as it is,
// together with its residual; where only the servers' guard may judge it, without.
func (g *gradient) compressShard(e *encoding, i int, residual, sum []float32) {
	c := e.c.at(g.norms[i], len(sum))
	g.thresholds[i] = c.Threshold
	switch {
	case g.plain[i]:
		g.payloads[i][0] = g.uncompressed(e, i, sum)
	case c.canEncode(residual, sum, g.norms[i], e.round):
		var top *f32.TopK
		if c.Type == "topk" {
			top = &e.k.feedback.top
		}
		g.payloads[i][0] = c.encode(&g.codes[i], e.native(), top, residual, sum)
	default:
		e.rules.warnUncompressed(c, e.k, i, e.round)
		g.plain[i] = true
		if residual == nil {
			g.payloads[i][0] = g.uncompressed(e, i, sum)
			return
		}
		f32.AddTo(residual, sum)
		g.payloads[i][0] = g.uncompressed(e, i, residual)
		clear(residual)
	}
}

// uncompressed returns a copy of values as float32 bytes, in shard i's buffer.
func (g *gradient) uncompressed(e *encoding, i int, values []float32) []byte {
	b := g.codes[i].Bytes(4 * len(values))
	copy(b, new(buffer.Aligned).Floats(e.native(), values))
	return b
}

// compressDevices compresses each device's gradient by itself. Only a store within this process
// does so, where a key has one shard.
func (g *gradient) compressDevices(e *encoding, grads [][]float32) error {
	plain, judges := false, e.rules.judgesNorms(e.c)
	norms := buffer.Grow(&g.deviceNorms, len(grads))
	for d, x := range grads {
		n, isPlain, err := e.inspect(x, 0, d)
		if err != nil {
			return err
		}
		norms[d], plain = n, plain || isPlain
	}
	sum := buffer.Grow(&g.sum, e.k.size)
	if plain || judges {
		copy(sum, grads[0])
		for _, x := range grads[1:] {
			f32.AddTo(sum, x)
		}
		n, isPlain, err := e.inspect(sum, 0, -1)
		if err != nil {
			return err
		}
		g.norms[0], plain = perWeight(n, e.weight), plain || isPlain
	}
	g.plain[0], g.judged[0] = plain, judges && !plain
	if !plain && !e.k.residuals().sumOver(e.native(), e.c, sum, grads, norms, e.round) {
		e.rules.warnUncompressed(e.c, e.k, 0, e.round)
	}
	g.send(e, sum)
	return nil
}

// inspect returns the norm of shard i's gradient, if the compression or the guard needs it, and
// whether it must be sent as it is, for the servers' guard to judge: a NaN would never leave the
// residual. A gradient that is not finite is an error if the compression cannot encode it and there
// is no guard. device is -1 for the sum of all devices.
func (e *encoding) inspect(grad []float32, i, device int) (n float64, plain bool, _ error) {
	guarded := e.rules.cfg.guard != nil && e.c.feedback()
	if !guarded && !e.c.quantised() && e.c.Type != "fp16" {
		return 0, false, nil
	}
	n = norm(grad)
	finite := n <= math.MaxFloat64
	switch {
	case guarded && !finite:
		return n, true, nil
	case !finite:
		from, _ := e.k.span(i)
		return n, false, e.c.checkFinite(e.verb, e.k, grad, from, device)
	case guarded && e.rules.judgesNorms(e.c):
		return n, !e.k.answers.allows(i, perWeight(n, e.weight)), nil
	}
	return n, false, nil
}
