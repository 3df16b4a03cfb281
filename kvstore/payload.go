package kvstore

import (
	"context"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// codec returns the codec of the payloads: c's, or float32 where each device's gradient was
// compressed and decoded before the sum.
func (p *densePush) codec(c Compression) uint8 {
	if p.s.eachDevice {
		return wire.CodecFloat32
	}
	return c.codec()
}

// makePayloads fills the payloads with the devices' sum, compressed with c. After an error the
// residuals are as before.
func (p *densePush) makePayloads(k *key, c Compression, grads [][]float32, verb string, weight float32, round uint64) error {
	again := p.encoded && k.residuals().using == c.forResiduals() // the gradient is encoded, and its remainder is in the residual, since a push that failed
	if !again {
		clear(p.uncompressedShards)
		clear(p.judged)
	}
	switch {
	case again && p.s.eachDevice:
		p.setSum(k, p.sum)
	case again:
		for i := range p.payloads {
			p.payloads[i][0] = p.codes[i].bytes(p.lengths[i])
		}
	case c.codec() == wire.CodecFloat32:
		p.setSum(k, sumOf(grads, &p.sum))
	case p.s.eachDevice:
		return p.compressDevices(k, c, grads, verb, weight, round)
	default:
		return p.compressSum(k, c, sumOf(grads, &p.sum), verb, weight, round)
	}
	return nil
}

// setSum fills the payloads with a sum, uncompressed.
func (p *densePush) setSum(k *key, sum []float32) {
	for i := range p.payloads {
		from, to := k.span(i)
		p.payloads[i][0] = p.codes[i].floats(p.s.native, sum[from:to])
	}
}

// compressSum compresses the devices' sum.
func (p *densePush) compressSum(k *key, c Compression, sum []float32, verb string, weight float32, round uint64) error {
	s := p.s
	for i := range p.payloads { // inspect all shards before any residual changes
		from, to := k.span(i)
		var err error
		if p.norms[i], p.uncompressedShards[i], err = k.inspect(c, verb, sum[from:to], i, -1, weight); err != nil {
			return err
		}
		p.judged[i] = s.judgesNorms(c) && !p.uncompressedShards[i]
	}
	var residual []float32
	if c.feedback() {
		residual = k.residuals().residual(c, 0, k.size)
	}
	for i := range p.payloads {
		from, to := k.span(i)
		var r []float32
		if residual != nil {
			r = residual[from:to]
		}
		c := c.at(p.norms[i], to-from)
		p.thresholds[i] = c.Threshold
		switch {
		case p.uncompressedShards[i]: // for the servers' guard to judge
			p.payloads[i][0] = p.uncompressed(i, sum[from:to])
		case c.canEncode(r, sum[from:to], p.norms[i], round):
			var top *f32.TopK
			if c.Type == "topk" {
				top = &k.feedback.top
			}
			p.payloads[i][0] = p.codes[i].encode(s.native, c, top, r, sum[from:to])
		default:
			s.warnUncompressed(c, k, i, round)
			p.uncompressedShards[i] = true
			if r == nil {
				p.payloads[i][0] = p.uncompressed(i, sum[from:to])
				break
			}
			f32.AddTo(r, sum[from:to])
			p.payloads[i][0] = p.uncompressed(i, r)
			clear(r)
		}
		p.lengths[i] = len(p.payloads[i][0])
		p.norms[i] = perWeight(p.norms[i], weight)
	}
	return nil
}

// uncompressed returns a copy of values as float32 bytes, in shard i's buffer.
func (p *densePush) uncompressed(i int, values []float32) []byte {
	b := p.codes[i].bytes(4 * len(values))
	copy(b, new(alignedBuffer).floats(p.s.native, values))
	return b
}

// compressDevices compresses each device's gradient by itself. Only a store within this process
// does so, where a key has one shard.
func (p *densePush) compressDevices(k *key, c Compression, grads [][]float32, verb string, weight float32, round uint64) error {
	s, plain := p.s, false
	norms := grow(&p.deviceNorms, len(grads))
	for d, g := range grads {
		n, isPlain, err := k.inspect(c, verb, g, 0, d, weight)
		if err != nil {
			return err
		}
		norms[d], plain = n, plain || isPlain
	}
	sum := grow(&p.sum, k.size)
	if plain || s.judgesNorms(c) {
		copy(sum, grads[0])
		for _, g := range grads[1:] {
			f32.AddTo(sum, g)
		}
		n, isPlain, err := k.inspect(c, verb, sum, 0, -1, weight)
		if err != nil {
			return err
		}
		p.norms[0], plain = perWeight(n, weight), plain || isPlain
	}
	p.uncompressedShards[0], p.judged[0] = plain, s.judgesNorms(c) && !plain
	if !plain && !k.residuals().sumOver(s.native, c, sum, grads, norms, round) {
		s.warnUncompressed(c, k, 0, round)
	}
	p.setSum(k, sum)
	return nil
}

// inspect returns the norm of shard i's gradient, if the compression or the guard needs it, and
// whether it must be sent uncompressed for the servers' guard to judge. A gradient that is not
// finite is an error if c cannot encode it and there is no guard. device is -1 for the sum of all
// devices.
func (k *key) inspect(c Compression, verb string, grad []float32, i, device int, weight float32) (n float64, plain bool, _ error) {
	s := k.s
	guarded := s.guard != nil && c.feedback()
	if !guarded && !c.quantised() && c.Type != "fp16" {
		return 0, false, nil
	}
	n = norm(grad)
	isFinite := n <= math.MaxFloat64
	switch {
	case guarded && !isFinite: // a NaN would never leave the residual
		return n, true, nil
	case !isFinite:
		from, _ := k.span(i)
		return n, false, k.checkFinite(verb, c, grad, from, device)
	case guarded && s.judgesNorms(c):
		k.mu.Lock()
		defer k.mu.Unlock()
		return n, !k.limits.allows(i, perWeight(n, weight)), nil
	}
	return n, false, nil
}

// learnLimits pulls if this worker judges norms and its copy of the guard's limits is too old. A
// program that pulls what it pushes never needs this.
func (k *key) learnLimits(ctx context.Context, verb string, c Compression) error {
	if !k.s.judgesNorms(c) {
		return nil
	}
	k.mu.Lock()
	usable := k.limits.usable()
	k.mu.Unlock()
	if usable {
		return nil
	}
	seq, round := k.wanted()
	return k.pull(ctx, verb, seq, round, nil)
}
