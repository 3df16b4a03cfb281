package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/kvstore/shard"
	"github.com/paragon-train/paragon/wire"
)

// A view is the membership at one revision, as far as a server needs it. It does not change.
type view struct {
	generation uint64
	workers    map[uint64]*worker
	members    []shard.Member
	next       chan struct{} // closed when another view takes its place
}

// A worker is what a server knows of one worker.
type worker struct {
	node  uint64
	rank  uint32
	host  string
	pid   uint32
	heard *atomic.Int64 // when its last request came, Unix nanoseconds; shared by all views
}

func (w *worker) String() string {
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", w.rank, w.host, w.node, w.pid)
}

func newView(m wire.Membership, old *view) *view {
	v := &view{generation: m.Generation, workers: map[uint64]*worker{}, next: make(chan struct{})}
	for _, n := range m.Nodes {
		if n.Role != wire.RoleWorker || n.Rank < 0 {
			continue
		}
		w := &worker{node: n.Node, rank: uint32(n.Rank), host: n.Host, pid: n.PID, heard: new(atomic.Int64)}
		if old != nil && old.workers[n.Node] != nil {
			w.heard = old.workers[n.Node].heard
		}
		v.workers[n.Node] = w
		v.members = append(v.members, shard.Member{Node: n.Node, Rank: w.rank})
	}
	return v
}

// SetMembership tells the server who takes part. Open rounds no longer wait for workers that are not in it.
func (s *Server) SetMembership(m wire.Membership) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.view.Load()
	v := newView(m, old)
	s.view.Store(v)
	defer close(old.next)
	for _, sh := range s.shards() {
		if err := sh.SetMembers(v.generation, v.members); err != nil {
			return fmt.Errorf("server: membership of generation %d: %w", v.generation, err)
		}
	}
	return nil
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
	if w.rank != o.Rank {
		return refuse(wire.CodeConflict, "%v: node %d is rank %d in generation %d, got rank %d", c.kind, o.Node, w.rank, v.generation, o.Rank)
	}
	w.heard.Store(time.Now().UnixNano())
	return nil
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
