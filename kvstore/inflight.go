package kvstore

import (
	"math"
	"sync/atomic"
)

// An inFlight counts the calls of a store that are under way, and refuses new ones once the store
// closes. It is one atomic number, because small pushes change it hundreds of thousands of times a
// second.
//
// Calls that the store makes by itself are counted apart: the program must have no call under way
// when the membership changes, while the store may. Closing waits for both.
type inFlight struct {
	// n is the number of the program's calls, plus backgroundCall for each of the store's own,
	// plus refusing once calls are refused.
	n atomic.Int64
	// empty holds a token once the last call has left after refuse.
	empty chan struct{}
	// closing is closed by refuse, for those who wait for something else than a call.
	closing chan struct{}
}

const (
	backgroundCall = 1 << 32
	refusing       = math.MinInt64
)

func newInFlight() *inFlight {
	return &inFlight{empty: make(chan struct{}, 1), closing: make(chan struct{})}
}

func countOf(background bool) int64 {
	if background {
		return backgroundCall
	}
	return 1
}

// enter counts a call, or returns false if calls are refused. A call that entered leaves.
func (g *inFlight) enter(background bool) bool {
	if g.n.Add(countOf(background)) < 0 {
		g.leave(background)
		return false
	}
	return true
}

// leave ends a call that has entered.
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

// refused reports whether calls are refused.
func (g *inFlight) refused() bool { return g.n.Load() < 0 }

// refuse refuses calls from now on. It returns false if they were refused before.
func (g *inFlight) refuse() bool {
	for {
		n := g.n.Load()
		if n < 0 {
			return false
		}
		if g.n.CompareAndSwap(n, n+refusing) {
			close(g.closing)
			return true
		}
	}
}

// wait waits for the calls that entered before refuse. It is called once.
func (g *inFlight) wait() {
	for g.n.Load() != refusing {
		<-g.empty
	}
}
