package shard

import (
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A guard is one shard's Guard with the norms that it compares with. It judges contributions; the
// shard takes the refused ones out of the sum, and members count what was caught.
//
// Whether a contribution is refused must not depend on when it came. So the window changes only
// when a round closes, by the norms of that round in the order of the sum.
type guard struct {
	// Guard has its defaults filled in; given is without them, for backups.
	Guard
	given Guard
	// norms are those of recent contributions, a ring of Window; next is the oldest's index
	// once it is full. sorted has the same numbers.
	norms  []float64
	next   int
	sorted []float64
	// refusedSince is the number of contributions refused for their norm since the last
	// accepted one.
	refusedSince int
}

func newGuard(g Guard) *guard { return &guard{Guard: g.withDefaults(), given: g} }

// limit is the largest norm that is accepted unchanged.
func (g *guard) limit() float64 {
	if g.Factor == 0 || len(g.sorted) < g.Warmup {
		return math.Inf(1)
	}
	return g.Factor * g.sorted[(len(g.sorted)-1)/2]
}

// valueLimit is the limit as it is sent with a value: 0 if every norm is accepted.
func (g *guard) valueLimit(cfg *Config) float64 {
	if g == nil || cfg.Rule != wire.RuleOptimizer {
		return 0
	}
	if limit := g.limit(); limit <= math.MaxFloat64 {
		return limit
	}
	return 0
}

// judge judges a contribution before it is added to the sum as part of round number round. A
// clipped one is scaled, a refused one loses its values.
func (g *guard) judge(cfg *Config, x *slot, round uint64) {
	if g == nil || x.norm == 0 {
		return
	}
	finite := x.norm <= math.MaxFloat64
	limit := math.Inf(1)
	if cfg.Rule == wire.RuleOptimizer && !x.judged {
		limit = g.limit()
	}
	if finite && x.norm <= limit {
		return
	}
	c := Caught{Node: x.node, Rank: x.rank, Round: round, Norm: x.norm, Limit: limit, Clipped: finite && g.Clip}
	if c.Clipped {
		cfg.shrink(&x.payload, float32(limit/x.norm))
		x.norm, x.verdict = limit, clipped
	} else {
		x.payload.data.Release()
		x.payload, x.verdict = payload{}, notFinite
		if finite {
			x.verdict = tooLarge
		}
	}
	if cfg.Caught != nil {
		cfg.Caught(cfg, c)
	}
}

// learn adds a closed round's norms to the window.
func (g *guard) learn(cfg *Config, slots []slot, members *membership) {
	if g == nil {
		return
	}
	for i := range slots {
		g.learnNorm(cfg, members.of(slots[i].node), slots[i].norm, slots[i].verdict)
	}
	g.resetIfStuck(len(members.ranked))
}

// follow is learn at a backup, which gets the norms of a closed round.
func (g *guard) follow(cfg *Config, r *Record, members *membership) {
	if g == nil {
		return
	}
	for _, c := range r.Counts {
		g.learnNorm(cfg, members.of(c.Node), c.Norm, verdict(c.Verdict))
	}
	g.resetIfStuck(len(members.ranked))
}

// learnNorm adds one contribution's norm to the window, or counts its refusal. m is nil for a
// worker that has left.
func (g *guard) learnNorm(cfg *Config, m *member, norm float64, v verdict) {
	if m != nil && v != accepted {
		m.caught++
	}
	switch {
	case g.Factor == 0 || cfg.Rule != wire.RuleOptimizer:
	case v == tooLarge:
		g.refusedSince++
	case !v.refused() && norm > 0:
		g.refusedSince = 0
		g.add(norm)
	}
}

// resetAfter is the number of rounds in which every contribution must be refused before the window
// begins anew: one bad batch lasts a round or two, a change of the gradients stays.
const resetAfter = 8

// resetIfStuck begins the window anew if every contribution of resetAfter rounds was refused for
// its norm: then the gradients have changed and no worker is broken.
func (g *guard) resetIfStuck(members int) {
	if g.refusedSince >= resetAfter*max(1, members) {
		g.forget()
	}
}

// oldestFirst returns the window's norms, the oldest first.
func (g *guard) oldestFirst() []float64 { return slices.Concat(g.norms[g.next:], g.norms[:g.next]) }

// forget empties the window.
func (g *guard) forget() {
	if g != nil {
		g.norms, g.sorted, g.next, g.refusedSince = g.norms[:0], g.sorted[:0], 0, 0
	}
}

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
