package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxGone is how many nodes that have left or were lost are remembered, and how many hosts that
// were removed or have failed: the newest. A node that comes back after that is told only that it
// is no member.
const maxGone = 500

// A roster has the nodes of the job, those that are gone too, until so many are that the oldest are
// forgotten.
//
// Invariants: nodes are in order of their IDs, which are given once, from 1 on; the newest node is
// never forgotten, so that its ID is not given again. Whoever changes a node that is in the roster
// marks it, and it is recorded when the event has been handled.
type roster struct {
	nodes []*node
	// changed has the nodes that were marked since the last event.
	changed []*node
}

// node returns the node of an ID; nil if none registered under it, or it is forgotten.
func (r *roster) node(id uint64) *node {
	i, found := slices.BinarySearchFunc(r.nodes, id, func(n *node, id uint64) int { return cmp.Compare(n.Node, id) })
	if !found {
		return nil
	}
	return r.nodes[i]
}

// last is the highest ID that was given; 0: none was.
func (r *roster) last() uint64 {
	if len(r.nodes) == 0 {
		return 0
	}
	return r.nodes[len(r.nodes)-1].Node
}

// add makes the node of a process that registers. Its lease is the caller's.
func (r *roster) add(m *wire.Register) *node {
	n := &node{
		Member:     wire.Member{Node: r.last() + 1, Role: m.Role, Rank: m.Rank, PID: m.PID, Host: m.Host, Addr: m.Addr},
		wantedRank: m.Rank, process: m.Process, nonce: m.Nonce,
	}
	r.nodes = append(r.nodes, n)
	r.mark(n)
	return n
}

// mark says that a node has changed.
func (r *roster) mark(n *node) {
	if !slices.Contains(r.changed, n) {
		r.changed = append(r.changed, n)
	}
}

// setLife changes a node's life.
func (r *roster) setLife(n *node, s life) {
	n.life = s
	r.mark(n)
}

// who names a node for people.
func (r *roster) who(id uint64) string {
	if n := r.node(id); n != nil {
		return n.String()
	}
	return fmt.Sprintf("node %d", id)
}

// living lists the living nodes of a role: those that count in order of rank, then the others.
func (r *roster) living(role uint8) (nodes []*node) {
	for _, n := range r.nodes {
		if n.life == living && n.Role == role {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return cmp.Compare(uint32(a.Rank), uint32(b.Rank)) })
	return nodes
}

// counting lists the nodes of a role that count, in order of rank.
func (r *roster) counting(role uint8) []*node {
	return slices.DeleteFunc(r.living(role), func(n *node) bool { return !n.Counts() })
}

// workers lists the workers that count, in order of rank.
func (r *roster) workers() []*node { return r.counting(wire.RoleWorker) }

// withLife lists the nodes of a life, in order of their IDs.
func (r *roster) withLife(s life) (nodes []*node) {
	for _, n := range r.nodes {
		if n.life == s {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// size is the number of living workers and servers.
func (r *roster) size() int {
	return len(r.living(wire.RoleWorker)) + len(r.living(wire.RoleServer))
}

// count is the number of nodes that match.
func (r *roster) count(match func(*node) bool) (n int) {
	for _, x := range r.nodes {
		if match(x) {
			n++
		}
	}
	return n
}

// staying is the number of workers that count and were not asked to leave.
func (r *roster) staying() int {
	return r.count(func(n *node) bool { return n.Role == wire.RoleWorker && n.stays() })
}

// joining is the number of workers that do not count yet.
func (r *roster) joining() int {
	return r.count(func(n *node) bool { return n.worker() && !n.Counts() })
}

// ready is the number of workers that are ready to count.
func (r *roster) ready() int {
	return r.count(func(n *node) bool { return n.life == living && n.State == wire.MemberReady })
}

// admitted lists the ready workers that would count after a change: those there is room for, of
// lower ID first. most is how many workers may count; 0: any number.
func (r *roster) admitted(most int) (nodes []*node) {
	room := len(r.nodes)
	if most > 0 {
		room = most - r.staying()
	}
	for _, n := range r.nodes {
		if n.life == living && n.State == wire.MemberReady && len(nodes) < room {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// leavers cuts the workers that count into those that were asked to leave and the others.
func (r *roster) leavers() (gone, stay []*node) {
	for _, n := range r.workers() {
		if n.State == wire.MemberLeaving {
			gone = append(gone, n)
		} else {
			stay = append(stay, n)
		}
	}
	return gone, stay
}

// rank gives workers the ranks from 0 on, in their order, and reports whether one had another.
func (r *roster) rank(workers []*node) (moved bool) {
	for rank, n := range workers {
		moved = moved || n.Rank >= 0 && n.Rank != int32(rank)
		n.Rank = int32(rank)
		r.mark(n)
	}
	return moved
}

// hasWorkers reports whether a living worker is on a host.
func (r *roster) hasWorkers(host string) bool {
	return slices.ContainsFunc(r.nodes, func(n *node) bool { return n.worker() && n.Host == host })
}

// on lists the living workers on a host.
func (r *roster) on(host string) (nodes []*node) {
	for _, n := range r.nodes {
		if n.worker() && n.Host == host {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// ofProcess finds the living node of a process; nil: there is none. Nodes that were started by hand
// have no process number, and are not found.
func (r *roster) ofProcess(process uint32) *node {
	for _, n := range r.nodes {
		if n.life == living && n.process == process && process != 0 {
			return n
		}
	}
	return nil
}

// registered finds the living node that has sent the same registration; nil: there is none.
func (r *roster) registered(m *wire.Register) *node {
	for _, n := range r.nodes {
		if n.life == living && n.nonce == m.Nonce && n.Role == m.Role {
			return n
		}
	}
	return nil
}

// server is the living server of a rank; nil: there is none. At most one lives.
func (r *roster) server(rank uint32) *node {
	for _, n := range r.nodes {
		if n.life == living && n.Role == wire.RoleServer && uint32(n.Rank) == rank {
			return n
		}
	}
	return nil
}

// newestServer is the server that had a rank last; nil: none ever had.
func (r *roster) newestServer(rank uint32) *node {
	for _, n := range slices.Backward(r.nodes) {
		if n.Role == wire.RoleServer && n.Rank == int32(rank) {
			return n
		}
	}
	return nil
}

// assign gives every living node a rank: the one it wants; else the lowest free one that is
// expected on its host; else the lowest free one. Nodes of lower ID choose first. The job is
// forming.
func (r *roster) assign(set *Settings) {
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		free := make([]bool, set.count(role))
		for i := range free {
			free[i] = true
		}
		pick := func(n *node, ok func(rank int) bool) bool {
			for rank := range free {
				if free[rank] && ok(rank) {
					free[rank], n.Rank = false, int32(rank)
					return true
				}
			}
			return false
		}
		nodes := r.living(role)
		slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.Node, b.Node) })
		rest := slices.DeleteFunc(nodes, func(n *node) bool {
			return n.wantedRank >= 0 && pick(n, func(rank int) bool { return rank == int(n.wantedRank) })
		})
		rest = slices.DeleteFunc(rest, func(n *node) bool {
			return pick(n, func(rank int) bool { return set.Hosts[Place{role, rank}] == n.Host })
		})
		for _, n := range rest {
			pick(n, func(int) bool { return true })
		}
	}
}

// maxNamed is how many missing nodes are named; of the others only the number is given.
const maxNamed = 100

// missing names the nodes that a forming job has waited for so long.
func (r *roster) missing(set *Settings, waited time.Duration) (names []string) {
	r.assign(set)
	more := 0
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		here := make(map[int32]bool)
		for _, n := range r.living(role) {
			here[n.Rank] = true
		}
		for rank := range set.count(role) {
			switch {
			case here[int32(rank)]:
				continue
			case len(names) == maxNamed:
				more++
				continue
			}
			name := fmt.Sprintf("%s %d", roleName(role), rank)
			if host := set.Hosts[Place{role, rank}]; host != "" {
				name += " on " + host
			}
			names = append(names, fmt.Sprintf("%s (%s)", name, control.Seconds(waited)))
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return names
}

// forgetGone forgets the nodes that are gone but the newest, and those that are still needed.
// Without it a job that runs for months with workers that come and go would have a journal that
// only grows. A node that was heard of last is forgotten last, for it may come back and ask what
// became of it.
func (r *roster) forgetGone(out *output, needed func() map[uint64]bool) {
	var gone []*node
	for _, n := range r.nodes {
		if n.life == left || n.life == lost {
			gone = append(gone, n)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortStableFunc(gone, func(a, b *node) int { return a.lease.heard.Compare(b.lease.heard) })
	stays, forget := needed(), make(map[*node]bool)
	for _, n := range gone[:len(gone)-maxGone] {
		if !stays[n.Node] {
			forget[n] = true
			out.drop(nodeKey(n.Node))
		}
	}
	r.nodes = slices.DeleteFunc(r.nodes, func(n *node) bool { return forget[n] })
	r.changed = slices.DeleteFunc(r.changed, func(n *node) bool { return forget[n] })
}

// A keptNode is the record of a node.
type keptNode struct {
	wire.Member
	Wanted  int32
	Process uint32 `json:",omitempty"`
	Nonce   uint64
	Life    life
	Why     string `json:",omitempty"`
	// Joins says that its time to join runs.
	Joins bool `json:",omitempty"`
}

func nodeKey(id uint64) string { return fmt.Sprintf("node/%08d", id) }

func (n *node) kept() keptNode {
	return keptNode{n.Member, n.wantedRank, n.process, n.nonce, n.life, n.why, !n.joinBy.IsZero()}
}

// keep records the marked nodes.
func (r *roster) keep(out *output) {
	for _, n := range r.changed {
		out.put(nodeKey(n.Node), n.kept())
	}
	r.changed = nil
}

// restore adds the node of a record, which is not older than those that are there. joinBy is when
// its time to join ends, if that runs.
func (r *roster) restore(value []byte, joinBy time.Time) (*node, error) {
	var k keptNode
	if err := json.Unmarshal(value, &k); err != nil {
		return nil, err
	}
	switch {
	case k.Node <= r.last() || k.Node > math.MaxInt64:
		return nil, fmt.Errorf("it is of node %d, want one above %d", k.Node, r.last())
	case k.Role != wire.RoleServer && k.Role != wire.RoleWorker, int(k.State) >= len(memberStates), k.Life > removed:
		return nil, fmt.Errorf("role %d, state %d, life %d: one of them is unknown", k.Role, k.State, k.Life)
	}
	n := &node{Member: k.Member, wantedRank: k.Wanted, process: k.Process, nonce: k.Nonce, life: k.Life, why: k.Why}
	if k.Joins {
		n.joinBy = joinBy
	}
	r.nodes = append(r.nodes, n)
	return n, nil
}

// status lists the nodes as a status has them, and how many it leaves out.
func (r *roster) status(now time.Time) (list []control.Node, leftOut int) {
	list = []control.Node{}
	r.present(func(n *node, state string) {
		if len(list) == maxStatusNodes {
			leftOut++
			return
		}
		list = append(list, control.Node{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, Addr: n.Addr, PID: n.PID, Process: n.process,
			State: state, Step: n.said.step, Epoch: n.said.epoch, HeardMillis: now.Sub(n.lease.heard).Milliseconds()})
	})
	return list, leftOut
}

// present calls add for the nodes that people see: servers, then workers, by rank; then those that
// are removed.
func (r *roster) present(add func(n *node, state string)) {
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range r.living(role) {
			add(n, memberStates[n.State])
		}
	}
	for _, n := range r.withLife(removed) {
		add(n, control.NodeRemoved)
	}
}

// vacating reports whether workers are leaving a host: what is started there before they have left
// would be taken for one of them.
func (r *roster) vacating(host string) bool {
	return slices.ContainsFunc(r.nodes, func(n *node) bool {
		return n.Role == wire.RoleWorker && n.Host == host && n.life == living && n.State == wire.MemberLeaving
	})
}
