package shardserver

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is the job's membership at one revision, as far as a server needs it. It is
// immutable: a request reads the pointer once and sees generation, ranks and members that belong
// together, without a lock.
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

// String names the worker for people: rank, host, node and process.
func (w *worker) String() string {
	if w.joins {
		return fmt.Sprintf("joining worker on %s (node %d, pid %d)", w.host, w.node, w.pid)
	}
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", w.rank, w.host, w.node, w.pid)
}

// newMembership returns the membership that replaces old, which may be nil. blames are those of all
// workers; nil: nothing is measured.
func newMembership(m *wire.Membership, old *membership, blames *blameTable) *membership {
	v := &membership{generation: m.Generation, placement: m.Placement, workers: map[uint64]*worker{}, replaced: make(chan struct{})}
	v.lossesCounted = m.Change == 0 && len(m.LostToCount) == 0
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n.Role != wire.RoleWorker || n.Counts() && n.Rank < 0 {
			continue
		}
		w := &worker{node: n.Node, rank: uint32(n.Rank), joins: !n.Counts(), host: n.Host, pid: n.PID, heard: new(atomic.Int64), many: new(atomic.Int64), blame: blames.of(n.Node)}
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

// describe names a node for messages.
func (v *membership) describe(node uint64) string {
	if w := v.workers[node]; w != nil {
		return w.String()
	}
	return fmt.Sprintf("node %d", node)
}

// hasBackups reports whether the job's shards have backups, and so may move.
func (v *membership) hasBackups() bool { return v.placement > 0 }

// laggards names workers that a call waits for at a time; empty: none.
func (v *membership) laggards(late []shard.Laggard, now int64) string {
	var b strings.Builder
	for i, l := range late {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == 8 {
			fmt.Fprintf(&b, "and %d more", len(late)-i)
			break
		}
		fmt.Fprintf(&b, "%s has contributed %d times", v.describe(l.Node), l.Done)
		if w := v.workers[l.Node]; w != nil {
			if heard := w.heard.Load(); heard != 0 {
				fmt.Fprintf(&b, ", was last heard from %v ago", rounded(time.Duration(now-heard)))
			} else {
				b.WriteString(", was never heard from")
			}
		}
	}
	return b.String()
}

// rounded leaves the digits out that say nothing to a person.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
