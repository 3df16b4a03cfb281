package shard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Guard keeps bad gradients out of the rounds. It is sent as JSON. Its zero value refuses only
// what is not finite.
//
// A contribution of which any value is NaN or infinite is refused: it counts as present, so that
// its round closes, with no value and weight 0. With Factor the norm of each contribution
// (Euclidean, over the shard, divided by the contribution's weight if that is above 0) is compared
// with the median norm of this shard's recent contributions, from all workers. The median is fixed
// when the round before closes, and norms enter the window in rank order, so that every run judges
// the same contributions in the same way. With error feedback the worker judges its gradient before
// it compresses it, by the limit that came with the value it pulled last: see wire.Push. A norm of
// 0 is neither judged nor remembered. Averaged keys are only checked for values that are not
// finite.
type Guard struct {
	// Factor times the median is the largest norm that is accepted unchanged. Zero: norms are
	// not judged. The norms of a shard with few values vary much: 10 is low, 100 keeps out only
	// what is clearly broken.
	Factor float64 `json:"factor,omitempty"`
	// Clip scales a contribution with a larger norm down to that limit; otherwise it is
	// refused.
	Clip bool `json:"clip,omitempty"`
	// Window is the number of norms that the median is taken of. Zero: 128.
	Window int `json:"window,omitempty"`
	// Warmup is the number of norms that must have come before any is judged. Zero: 16.
	Warmup int `json:"warmup,omitempty"`
}

const maxWindow = 1 << 16

// Validate returns an error that names the field, the value and the rule.
func (g Guard) Validate() error {
	switch d := g.withDefaults(); {
	case g.Factor != 0 && !(g.Factor > 1 && g.Factor <= math.MaxFloat32):
		return fmt.Errorf("guard: Factor: got %v, want more than 1, or 0 to ignore norms", g.Factor)
	case g.Factor == 0 && (g.Clip || g.Window != 0 || g.Warmup != 0):
		return fmt.Errorf("guard: Clip, Window and Warmup: got %v, %d and %d without a Factor, want none: they apply to norms", g.Clip, g.Window, g.Warmup)
	case g.Window < 0 || g.Window > maxWindow:
		return fmt.Errorf("guard: Window: got %d, want 0 (128) to %d", g.Window, maxWindow)
	case g.Warmup < 0 || d.Warmup > d.Window:
		return fmt.Errorf("guard: Warmup: got %d, want 0 (16) to Window, %d", g.Warmup, d.Window)
	}
	return nil
}

func (g Guard) withDefaults() Guard {
	if g.Window == 0 {
		g.Window = 128
	}
	if g.Warmup == 0 {
		g.Warmup = min(16, g.Window)
	}
	return g
}

// Encode returns the JSON of a valid guard.
func (g Guard) Encode() (string, error) {
	if err := g.Validate(); err != nil {
		return "", err
	}
	data, err := json.Marshal(g)
	return string(data), err
}

// DecodeGuard decodes the JSON of Encode. Unknown fields are errors.
func DecodeGuard(text string) (Guard, error) {
	var g Guard
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return Guard{}, fmt.Errorf("guard: %w", err)
	}
	if d.More() {
		return Guard{}, fmt.Errorf("guard: got more after the JSON object")
	}
	return g, g.Validate()
}

// A Caught is a contribution that the guard has refused or clipped.
type Caught struct {
	Node    uint64
	Rank    uint32
	Round   uint64
	Norm    float64 // divided by the contribution's weight; NaN or infinite: the contribution was not finite
	Limit   float64 // the limit at that time; infinite if there was none
	Clipped bool
}

// A guard is one shard's Guard with its state.
type guard struct {
	Guard                  // with defaults
	given        Guard     // as given, without defaults
	norms        []float64 // of recent contributions, a ring of Window; next is the oldest's index once it is full
	next         int
	sorted       []float64 // the same
	refusedSince int       // contributions refused for their norm since the last accepted one
}

// SetGuard makes all shards judge contributions from now on.
func SetGuard(shards []*Shard, g Guard) {
	for _, s := range shards {
		s.mu.Lock()
		s.guard = &guard{Guard: g.withDefaults(), given: g}
		s.guarded.Store(true)
		s.mu.Unlock()
	}
}

// CaughtOf returns how many of a member's contributions the guard has refused or clipped.
func (s *Shard) CaughtOf(node uint64) uint64 {
	if !s.guarded.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.memberOf(node); m != nil {
		return m.caught
	}
	return 0
}

// limit is the largest norm that is accepted unchanged.
func (g *guard) limit() float64 {
	if g.Factor == 0 || len(g.sorted) < g.Warmup {
		return math.Inf(1)
	}
	return g.Factor * g.sorted[(len(g.sorted)-1)/2]
}

// valueLimit is the limit as it is sent with a value: 0 if every norm is accepted.
func (s *Shard) valueLimit() float64 {
	if s.guard == nil || s.cfg.Rule != wire.RuleOptimizer {
		return 0
	}
	if limit := s.guard.limit(); limit <= math.MaxFloat64 {
		return limit
	}
	return 0
}

// judge judges a contribution before it is added to the sum. A refused one loses its values.
func (s *Shard) judge(x *slot) {
	g := s.guard
	if g == nil || x.norm == 0 {
		return
	}
	finite := x.norm <= math.MaxFloat64
	limit := math.Inf(1)
	if s.cfg.Rule == wire.RuleOptimizer && !x.judged {
		limit = g.limit()
	}
	if finite && x.norm <= limit {
		return
	}
	c := Caught{Node: x.node, Rank: x.rank, Round: s.rounds, Norm: x.norm, Limit: limit, Clipped: finite && g.Clip}
	if c.Clipped {
		s.shrink(&x.payload, float32(limit/x.norm))
		x.norm, x.verdict = limit, clipped
	} else {
		x.payload.data.Release()
		x.payload, x.verdict = payload{}, notFinite
		if finite {
			x.verdict = tooLarge
		}
	}
	if s.cfg.Caught != nil {
		s.cfg.Caught(&s.cfg, c)
	}
}

// A verdict is the guard's decision about a contribution.
type verdict uint8

const (
	accepted verdict = iota // unchanged
	clipped
	tooLarge
	notFinite
)

func (v verdict) refused() bool { return v >= tooLarge }

// learnNorms adds a closed round's norms to the window. If every contribution of resetAfter rounds
// was refused for its norm, the gradients have changed and no worker is broken: the window begins
// anew.
func (s *Shard) learnNorms(slots []slot) {
	if s.guard == nil {
		return
	}
	for i := range slots {
		s.learnNorm(slots[i].node, slots[i].norm, slots[i].verdict)
	}
	s.resetIfStuck()
}

// learnNorm adds one contribution's norm to the window, or counts its refusal.
func (s *Shard) learnNorm(node uint64, norm float64, v verdict) {
	g := s.guard
	if m := s.memberOf(node); m != nil && v != accepted {
		m.caught++
	}
	switch {
	case g.Factor == 0 || s.cfg.Rule != wire.RuleOptimizer:
	case v == tooLarge:
		g.refusedSince++
	case !v.refused() && norm > 0:
		g.refusedSince = 0
		g.add(norm)
	}
}

func (s *Shard) resetIfStuck() {
	g := s.guard
	if g.refusedSince >= resetAfter*max(1, len(s.ranked)) {
		g.forget()
	}
}

// resetAfter is the number of rounds in which every contribution must be refused before the window
// begins anew: one bad batch lasts a round or two, a change of the gradients stays.
const resetAfter = 8

// oldestFirst returns the window's norms, the oldest first.
func (g *guard) oldestFirst() []float64 { return slices.Concat(g.norms[g.next:], g.norms[:g.next]) }

func (g *guard) forget() { g.norms, g.sorted, g.next, g.refusedSince = g.norms[:0], g.sorted[:0], 0, 0 }

// add puts a norm into the window in place of the oldest.
func (g *guard) add(norm float64) {
	if len(g.norms) < g.Window {
		if g.norms == nil {
			g.norms, g.sorted = make([]float64, 0, g.Window), make([]float64, 0, g.Window)
		}
		g.norms = append(g.norms, norm)
	} else {
		i, _ := slices.BinarySearch(g.sorted, g.norms[g.next])
		g.sorted = slices.Delete(g.sorted, i, i+1)
		g.norms[g.next] = norm
		g.next = (g.next + 1) % g.Window
	}
	i, _ := slices.BinarySearch(g.sorted, norm)
	g.sorted = slices.Insert(g.sorted, i, norm)
}

// normOf returns a contribution's norm divided by its weight, in one pass. It is NaN or infinite if
// any value is. The squares are summed in float64, in which no float32's square overflows, in the
// same order on every machine.
func (s *Shard) normOf(c *Contribution) float64 {
	norm := math.Sqrt(s.squaresOf(c))
	if c.Weight > 0 {
		norm /= float64(c.Weight)
	}
	return norm
}

func (s *Shard) squaresOf(c *Contribution) float64 {
	if s.cfg.RowLen > 0 {
		p := payload{data: c.Data, count: c.Rows}
		_, values := p.rowValues(int(s.cfg.RowLen))
		return f32.Squares(values)
	}
	if s.n == 0 {
		return 0
	}
	switch c.Codec {
	case wire.CodecFloat16, wire.CodecBFloat16:
		p := payload{data: c.Data, codec: c.Codec}
		sum := 0.0
		scratch := s.cfg.Pool.Get(4096)
		defer scratch.Release()
		part := scratch.Float32s(1024) // fits the first-level cache
		for from := 0; from < s.n; from += len(part) {
			to := min(from+len(part), s.n)
			p.decodePart(part[:to-from], from)
			sum += f32.Squares(part[:to-from])
		}
		return sum
	case wire.Codec2Bit:
		return float64(c.Threshold) * float64(c.Threshold) * float64(nonZeros(c.Data.Bytes(f32.Code2BitLen(s.n))))
	case wire.Codec1Bit:
		return float64(s.n)
	case wire.CodecTopK:
		if c.Size == 4*s.n {
			break
		}
		count := int(binary.LittleEndian.Uint32(c.Data.Bytes(4)))
		return f32.Squares(c.Data.Float32s(2 + count)[2:])
	}
	return f32.Squares(c.Data.Float32s(s.n))
}

// nonZeros counts the codes of wire.Codec2Bit that are not zero, which have their upper bit set.
func nonZeros(code []byte) int {
	n := 0
	for ; len(code) >= 8; code = code[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(code) & 0xaaaaaaaaaaaaaaaa)
	}
	for _, b := range code {
		n += bits.OnesCount8(b & 0xaa)
	}
	return n
}

// shrink scales a payload's values.
func (s *Shard) shrink(p *payload, by float32) {
	if s.cfg.RowLen > 0 {
		_, values := p.rowValues(int(s.cfg.RowLen))
		f32.Scale(values, by, values)
		return
	}
	if p.codec != wire.CodecFloat32 {
		data := s.cfg.Pool.Get(4 * s.n)
		p.decodeTo(data.Float32s(s.n))
		p.data.Release()
		*p = payload{data: data}
	}
	values := p.data.Float32s(s.n)
	f32.Scale(values, by, values)
}
