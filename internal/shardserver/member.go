package shardserver

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// A view is the membership at one revision, as far as a server needs it. It does not change.
type view struct {
	generation uint64
	workers    map[uint64]*worker
	members    []shard.Member // the workers that count, in rank order
	placement  uint64
	settled    bool          // nobody will ask for workers that have left
	next       chan struct{} // closed when another view takes its place
}

// A worker is what a server knows of one worker.
type worker struct {
	node  uint64
	rank  uint32
	joins bool // it does not count yet: it may ask for what is here, and changes nothing
	host  string
	pid   uint32
	heard *atomic.Int64 // when its last request came, Unix nanoseconds; shared by all views
}

func (w *worker) String() string {
	if w.joins {
		return fmt.Sprintf("joining worker on %s (node %d, pid %d)", w.host, w.node, w.pid)
	}
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", w.rank, w.host, w.node, w.pid)
}

func newView(m wire.Membership, old *view) *view {
	v := &view{generation: m.Generation, placement: m.Placement, workers: map[uint64]*worker{}, next: make(chan struct{})}
	v.settled = m.Change == 0 && len(m.Settle) == 0
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n.Role != wire.RoleWorker || n.Counts() && n.Rank < 0 {
			continue
		}
		w := &worker{node: n.Node, rank: uint32(n.Rank), joins: !n.Counts(), host: n.Host, pid: n.PID, heard: new(atomic.Int64)}
		if old != nil && old.workers[n.Node] != nil {
			w.heard = old.workers[n.Node].heard
		}
		v.workers[n.Node] = w
		if w.joins {
			continue
		}
		v.members = append(v.members, shard.Member{Node: n.Node, Rank: w.rank})
	}
	return v
}

// leads reports whether the node does what one has to do for all: the worker of the lowest rank among those that count.
func (v *view) leads(node uint64) bool { return len(v.members) > 0 && v.members[0].Node == node }

// SetMembership tells the server who takes part. Open rounds no longer wait for workers that are not in it; new ones count in
// them from their start, for a change is made when nothing is under way.
func (s *Server) SetMembership(m wire.Membership) error { return s.setMembership(m, nil) }

// setMembership is SetMembership with the places of shards, if they are new.
func (s *Server) setMembership(m wire.Membership, p *places) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil {
		s.setPlaces(p)
	}
	old := s.view.Load()
	v := newView(m, old)
	s.view.Store(v)
	defer close(old.next)
	for _, e := range s.entries {
		e.shares.forget(v)
	}
	for _, sh := range s.shards() {
		if err := sh.SetMembers(v.generation, v.members); err != nil {
			return fmt.Errorf("server: membership of generation %d: %w", v.generation, err)
		}
		if v.settled {
			sh.ForgetLeft()
		}
	}
	return nil
}

// Counted returns how many examples of a worker are in all shards here: the least of what any shard says whose contributions
// count examples, MaxUint64 where none does (see wire.Counted). Once the worker is not in the membership any more the number is final.
func (s *Server) Counted(node uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	least := uint64(math.MaxUint64)
	for _, e := range s.entries {
		if e.at().role == follower {
			continue
		}
		if n, ok := e.shard.Counted(node); ok {
			least = min(least, n)
		}
	}
	return least
}

// admit checks who asks. A request of a generation that the server has not heard of yet waits for the news.
func (s *Server) admit(ctx context.Context, c *call) error {
	o := c.origin
	v := s.view.Load()
	if o.Generation > v.generation {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
		defer cancel()
		for ; o.Generation > v.generation; v = s.view.Load() {
			select {
			case <-v.next:
			case <-s.done:
				return s.ended()
			case <-ctx.Done():
				return refuse(wire.CodeStaleGeneration, "%v: sender's generation %d, ours still %d", c.kind, o.Generation, v.generation)
			}
		}
	}
	if o.Generation < v.generation {
		return refuse(wire.CodeStaleGeneration, "%v: stale generation: sender's %d, ours %d", c.kind, o.Generation, v.generation)
	}
	w := v.workers[o.Node]
	if w == nil {
		return refuse(wire.CodeUnknownNode, "%v: node %d is not a worker of generation %d", c.kind, o.Node, v.generation)
	}
	if w.joins {
		if !mayAsk(c.kind) {
			return refuse(wire.CodeUnsupported, "%v: %s does not count yet", c.kind, w)
		}
	} else if w.rank != o.Rank {
		return refuse(wire.CodeConflict, "%v: node %d is rank %d in generation %d, got rank %d", c.kind, o.Node, w.rank, v.generation, o.Rank)
	}
	w.heard.Store(s.now())
	return nil
}

// now is the time in nanoseconds by a clock that does not jump, and takes half as long to read as time.Now. It begins with Unix time.
func (s *Server) now() int64 { return s.began.UnixNano() + int64(time.Since(s.began)) }

// mayAsk reports whether workers that do not count yet may send requests of a kind: those that change nothing. To set the optimizer
// is one of them where the same is set already.
func mayAsk(kind wire.Kind) bool {
	switch kind {
	case wire.KindAwaitShard, wire.KindPull, wire.KindPullRows, wire.KindSetOptimizer, wire.KindReadState, wire.KindReadRows, wire.KindReadUsage:
		return true
	}
	return false
}

// ended returns why the server ended.
func (s *Server) ended() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// who names a node for messages.
func (s *Server) who(node uint64) string {
	if w := s.view.Load().workers[node]; w != nil {
		return w.String()
	}
	return fmt.Sprintf("node %d", node)
}
