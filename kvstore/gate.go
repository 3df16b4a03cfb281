package kvstore

import (
	"math"
	"sync/atomic"
)

// A gate counts the calls of a store that are under way, and refuses new ones once it is shut. One number holds it all, for small pushes
// pass it by the hundred thousand each second.
type gate struct {
	n     atomic.Int64 // the program's calls, ownCall times those of the store, and gateShut
	empty chan struct{}
}

const (
	ownCall  = 1 << 32
	gateShut = math.MinInt64
)

func newGate() gate { return gate{empty: make(chan struct{}, 1)} }

func weightOf(own bool) int64 {
	if own {
		return ownCall
	}
	return 1
}

// enter counts a call, unless the gate is shut.
func (g *gate) enter(own bool) bool {
	if g.n.Add(weightOf(own)) < 0 {
		g.leave(own)
		return false
	}
	return true
}

func (g *gate) leave(own bool) {
	if g.n.Add(-weightOf(own)) == gateShut {
		select {
		case g.empty <- struct{}{}:
		default: // wait was told, or need not be
		}
	}
}

// under is how many calls of the program are under way.
func (g *gate) under() int64 { return g.n.Load() & (ownCall - 1) }

// shut refuses calls from now on, and wait waits for those that entered. Each is called once.
func (g *gate) shut() { g.n.Add(gateShut) }

func (g *gate) wait() {
	for g.n.Load() != gateShut {
		<-g.empty
	}
}
