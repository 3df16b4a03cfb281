package shardserver

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is the job's membership at one revision, as far as a server needs it. It is
// immutable.
type membership struct {
	generation uint64
	workers    map[uint64]*worker
	// members are those of the generation, in rank order, without joining workers.
	members   []shard.Member
	placement uint64
	// lossesCounted says that the scheduler has the example counts of all lost workers.
	lossesCounted bool
	// replaced is closed when a newer membership replaces this one.
	replaced chan struct{}
}

// A worker is a server's state of one worker.
type worker struct {
	node uint64
	rank uint32
	// joins says that the worker is joining and not yet a member: it may read and must not
	// change anything.
	joins bool
	host  string
	pid   uint32
	// heard is when its last request came, in Unix nanoseconds. It is shared by all
	// memberships, as are the following.
	heard *atomic.Int64
	// many is the number of pushes under way in messages of many.
	many *atomic.Int64
	// blame is nil if nothing is measured.
	blame *blame
}

func (w *worker) String() string {
	if w.joins {
		return fmt.Sprintf("joining worker on %s (node %d, pid %d)", w.host, w.node, w.pid)
	}
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", w.rank, w.host, w.node, w.pid)
}

func (s *Server) newMembership(m wire.Membership, old *membership) *membership {
	v := &membership{generation: m.Generation, placement: m.Placement, workers: map[uint64]*worker{}, replaced: make(chan struct{})}
	v.lossesCounted = m.Change == 0 && len(m.LostToCount) == 0
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n.Role != wire.RoleWorker || n.Counts() && n.Rank < 0 {
			continue
		}
		w := &worker{node: n.Node, rank: uint32(n.Rank), joins: !n.Counts(), host: n.Host, pid: n.PID, heard: new(atomic.Int64), many: new(atomic.Int64), blame: s.meter.blameOf(n.Node)}
		if old != nil && old.workers[n.Node] != nil {
			w.heard, w.many = old.workers[n.Node].heard, old.workers[n.Node].many
		}
		v.workers[n.Node] = w
		if w.joins {
			continue
		}
		v.members = append(v.members, shard.Member{Node: n.Node, Rank: w.rank})
	}
	v.groupByHost(m.Nodes)
	return v
}

// groupByHost makes a group of the workers of each host that take part in sums within it. Where all
// workers are of one host there is none: the order of the sum is that of the ranks.
func (v *membership) groupByHost(nodes []wire.Member) {
	lead := map[uint64]uint32{}
	for _, group := range wire.HostGroups(nodes) {
		if len(group) == len(v.members) {
			return
		}
		for _, m := range group {
			lead[m.Node] = 1 + uint32(group[0].Rank)
		}
	}
	for i := range v.members {
		v.members[i].Group = lead[v.members[i].Node]
	}
}

// isLeader reports whether the node is the leader: the member of the lowest rank, which initialises
// and loads for all.
func (v *membership) isLeader(node uint64) bool {
	return len(v.members) > 0 && v.members[0].Node == node
}

// SetMembership sets the job's members. Open rounds no longer wait for workers that are not among
// them. A loss comes in the middle of a round: the contributions of a lost worker that a shard has
// accepted stay in it. Workers join when no round is under way, because all others have arrived at
// the change then; so a new worker is needed in the open rounds from their start.
func (s *Server) SetMembership(m wire.Membership) error { return s.setMembership(m, nil) }

// setMembership is SetMembership, and sets the placement, if it is not nil.
func (s *Server) setMembership(m wire.Membership, p *placement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil {
		s.setPlacement(p)
	}
	old := s.membership.Load()
	v := s.newMembership(m, old)
	s.membership.Store(v)
	s.profiles.keepOf(v)
	if s.meter != nil {
		s.meter.blames.leave(v, s.clock.now())
	}
	defer close(old.replaced)
	for _, sh := range s.entries.sorted() {
		if err := sh.SetMembers(v.generation, v.members); err != nil {
			return fmt.Errorf("server: membership of generation %d: %w", v.generation, err)
		}
		if v.lossesCounted {
			sh.ForgetLeft()
		}
	}
	return nil
}

// ExamplesOf returns how many examples of a worker all shards of this server have: the least count of
// any shard whose contributions count examples; MaxUint64 if there is none (see wire.LostExamples). The
// number is final once the worker is no longer a member.
func (s *Server) ExamplesOf(node uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	least := uint64(math.MaxUint64)
	for _, e := range s.entries {
		if e.assignment().role == backup {
			continue
		}
		if n, ok := e.shard.ExamplesOf(node); ok {
			least = min(least, n)
		}
	}
	return least
}

// admit checks the sender. A request of a generation that the server does not know yet waits for
// it: workers often hear of a change first, and a refusal would cost them a round trip and a line
// in the log. One of an older generation is refused at once, since its round is no one's any more.
func (s *Server) admit(ctx context.Context, c *call, from senders) error {
	o := c.origin
	v := s.membership.Load()
	if o.Generation > v.generation {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
		defer cancel()
		for ; o.Generation > v.generation; v = s.membership.Load() {
			select {
			case <-v.replaced:
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
		if from != joiningToo {
			return refuse(wire.CodeUnsupported, "%v: %s is joining and not yet a member", c.kind, w)
		}
	} else if w.rank != o.Rank {
		return refuse(wire.CodeConflict, "%v: node %d is rank %d in generation %d, got rank %d", c.kind, o.Node, w.rank, v.generation, o.Rank)
	}
	w.heard.Store(c.arrived)
	return nil
}

// ended returns why the server has ended; nil while it has not.
func (s *Server) ended() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// describe names a node for messages.
func (v *membership) describe(node uint64) string {
	if w := v.workers[node]; w != nil {
		return w.String()
	}
	return fmt.Sprintf("node %d", node)
}
