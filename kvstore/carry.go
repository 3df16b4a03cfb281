package kvstore

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/wire"
)

// What a code cannot carry travels as it is, float32, one shard at a time: see Compression.

// reach is how many quanta a value may hold. One that large would take as many pushes to leave the residual, and from 2²⁴ on
// float32 would not notice that a quantum was taken from it.
const reach = 1024

// A residual is looked at in each such round: it also grows where gradients are larger than a quantum for long.
const residualRounds = 64

// largestHalf is the least number that float16 rounds to infinity.
const largestHalf = 65520

// quantum is what one code adds to a value, of types whose codes say that or nothing.
func (c Compression) quantum() float32 {
	if c.Type == "1bit" {
		return 1
	}
	return c.Threshold
}

// quantised reports whether codes are signs of a quantum.
func (c Compression) quantised() bool { return c.Type == "2bit" || c.Type == "1bit" }

// carries reports whether a code can carry a gradient with this Euclidean norm on top of a residual, which is nil without error
// feedback.
func (c Compression) carries(residual, grad []float32, norm float64, round uint64) bool {
	switch {
	case c.quantised():
		limit := reach * c.quantum()
		return !beyond(grad, norm, limit) && (round%residualRounds != residualRounds-1 || !beyond(residual, math.Inf(1), limit))
	case c.Type == "fp16": // which has numbers for what is not finite
		return !(norm <= math.MaxFloat64) || !beyond(grad, norm, largestHalf)
	}
	return true
}

// beyond reports whether any of x, whose norm is known or infinite, has a magnitude of limit or more.
func beyond(x []float32, norm float64, limit float32) bool {
	if norm < float64(limit) {
		return false
	}
	const part = 256 // so few that their norm says much about each
	for len(x) > 0 {
		p := x[:min(part, len(x))]
		x = x[len(p):]
		if math.Sqrt(f32.Squares(p)) < float64(limit) {
			continue
		}
		for _, v := range p {
			if !(v < limit && v > -limit) {
				return true
			}
		}
	}
	return false
}

// checkFinite returns an error for a gradient, which is not finite, that the compression has no code for. from is the index of its first
// value in the key.
func (k *key) checkFinite(verb string, c Compression, grad []float32, from, device int) error {
	if !c.quantised() {
		return nil
	}
	what := "value"
	if device >= 0 {
		what = fmt.Sprintf("device %d: value", device)
	}
	for i, v := range grad {
		if v-v != 0 {
			return keyError(verb, k.name, ErrNotFinite, "%s %d is %v, which %s cannot carry; nothing was pushed. Find where it comes from, or let "+
				"WithGuard leave such gradients out", what, from+i, v, c.Type)
		}
	}
	return nil
}

// watches reports whether this worker judges norms before it compresses: what is left out then waits in a residual, where no server sees it.
func (s *store) watches(c Compression) bool {
	return s.guard != nil && s.guard.Factor > 0 && c.feedback()
}

// limitAge is for how many pushes the limits that came with a value serve. A worker that pulls after every push has those of the round that
// it pushes to, as the servers have.
const limitAge = 8

// A limits is the guard's limit on norms, by shard, as the value pulled last told.
type limits struct {
	known  bool
	pushes int // since
	norms  []float64
	rounds []uint64
}

// usable reports whether the limits serve one more push.
func (l *limits) usable() bool { return l.known && l.pushes < limitAge }

// take takes note of the answers that brought a value.
func (l *limits) take(values []wire.Value) {
	if l.norms == nil {
		l.norms, l.rounds = make([]float64, len(values)), make([]uint64, len(values))
	}
	if !l.known {
		clear(l.rounds)
	}
	for i := range values {
		if v := &values[i]; v.Round >= l.rounds[i] {
			l.norms[i], l.rounds[i] = v.Limit, v.Round
		}
	}
	l.known, l.pushes = true, 0
}

// allows reports whether shard i takes a norm as it is.
func (l *limits) allows(i int, norm float64) bool {
	return l.norms == nil || l.norms[i] == 0 || norm <= l.norms[i]
}

// overWeight is what the guard judges: a norm for each unit of weight.
func overWeight(norm float64, weight float32) float64 {
	if weight > 0 {
		return norm / float64(weight)
	}
	return norm
}

// tellBeyond logs, once, that gradients do not fit their codes.
func (s *store) tellBeyond(c Compression, k *key, shard int, round uint64) {
	if s.toldBeyond.Swap(true) {
		return
	}
	what := fmt.Sprintf("a gradient or residual reaches %d times the quantum of %v", reach, c)
	if c.Type == "fp16" {
		what = fmt.Sprintf("a gradient reaches %v, which fp16 rounds to infinity", largestHalf)
	}
	s.logger.Warn("kvstore: "+what+"; such shards are sent uncompressed (logged once)", "key", k.name, "shard", shard, "round", round, "rank", s.Rank())
}
