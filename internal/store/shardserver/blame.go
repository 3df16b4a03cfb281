package shardserver

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A blame is how often a worker's contribution came last, and how long after the last but one,
// since the server began.
type blame struct {
	rounds atomic.Uint64
	nanos  atomic.Int64

	// Guarded by the table's mu.
	// toldRounds is as in the newest Record that had this worker.
	toldRounds uint64
	toldNanos  int64
	// left is when the worker was last seen to be no member; 0: it is one.
	left int64
}

// A blameTable has the blames of the workers of the membership, and of those that have left it
// within forgetBlame.
type blameTable struct {
	// mu guards the rest.
	mu    sync.Mutex
	nodes map[uint64]*blame
}

// forgetBlame is how long the blame of a worker that has left is told: some heartbeats, of which a
// few may be lost.
const forgetBlame = int64(time.Minute)

// of returns the blame of a worker that is in the membership. A nil table has none.
func (t *blameTable) of(node uint64) *blame {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.nodes[node]
	if b == nil {
		b = &blame{}
		t.nodes[node] = b
	}
	b.left = 0
	return b
}

// leave marks the workers that are no members now, and forgets those that are gone for long.
func (t *blameTable) leave(isMember func(node uint64) bool, now int64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, b := range t.nodes {
		switch {
		case isMember(node):
		case b.left == 0:
			b.left = now
		case now-b.left > forgetBlame:
			delete(t.nodes, node)
		}
	}
}

// newest returns what a Record has of the blames, sorted by node: those that grew most since a
// Record had them, the longest time first. So a worker that others wait for is in each Record, and
// each other one from time to time, however many there are.
func (t *blameTable) newest(now int64) []telemetry.Blame {
	t.mu.Lock()
	defer t.mu.Unlock()
	type grown struct {
		*blame
		telemetry.Blame
		nanos, by int64
	}
	var all []grown
	for node, b := range t.nodes {
		if b.left != 0 && now-b.left > forgetBlame {
			delete(t.nodes, node)
			continue
		}
		if rounds := b.rounds.Load(); rounds > 0 {
			nanos := b.nanos.Load()
			all = append(all, grown{b, telemetry.Blame{Node: node, Rounds: rounds, Seconds: time.Duration(nanos).Seconds()}, nanos, nanos - b.toldNanos})
		}
	}
	slices.SortFunc(all, func(a, b grown) int {
		return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(b.Rounds-b.toldRounds, a.Rounds-a.toldRounds), cmp.Compare(a.Node, b.Node))
	})
	all = all[:min(len(all), telemetry.MaxBlames)]
	slices.SortFunc(all, func(a, b grown) int { return cmp.Compare(a.Node, b.Node) })
	told := make([]telemetry.Blame, len(all))
	for i, g := range all {
		told[i], g.toldNanos, g.toldRounds = g.Blame, g.nanos, g.Rounds
	}
	return told
}
