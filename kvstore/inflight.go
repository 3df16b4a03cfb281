package kvstore

import (
	"math"
	"sync/atomic"
)

// An inFlight counts the calls of a store that are under way, and refuses new ones once the store
// closes. It is one atomic number, because small pushes change it hundreds of thousands of times a
// second.
type inFlight struct {
	n     atomic.Int64 // the program's calls, plus backgroundCall for each of the store's own; plus refusing once calls are refused
	empty chan struct{}
}

const (
	backgroundCall = 1 << 32
	refusing       = math.MinInt64
)

func newInFlight() inFlight { return inFlight{empty: make(chan struct{}, 1)} }

func countOf(background bool) int64 {
	if background {
		return backgroundCall
	}
	return 1
}

// enter counts a call, or returns false if calls are refused.
func (g *inFlight) enter(background bool) bool {
	if g.n.Add(countOf(background)) < 0 {
		g.leave(background)
		return false
	}
	return true
}

func (g *inFlight) leave(background bool) {
	if g.n.Add(-countOf(background)) == refusing {
		select {
		case g.empty <- struct{}{}:
		default: // wait has a token already
		}
	}
}

// programCalls is the number of the program's calls under way.
func (g *inFlight) programCalls() int64 { return g.n.Load() & (backgroundCall - 1) }

// refuse refuses calls from now on, and wait waits for those that entered before. Each is called
// once.
func (g *inFlight) refuse() { g.n.Add(refusing) }

func (g *inFlight) wait() {
	for g.n.Load() != refusing {
		<-g.empty
	}
}
