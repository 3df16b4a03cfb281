package shard

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is the set of workers whose contributions rounds need, in one generation.
//
// A shard of a small key has some hundred bytes, so what only many or grouped members need lies in
// an index of its own.
type membership struct {
	generation uint64
	// ranked holds the members in rank order.
	ranked []*member
	// index is nil while the members are few and in no groups.
	index *memberIndex
}

// A memberIndex is what a shard has of its members if they are many or in groups.
type memberIndex struct {
	// byNode is nil if the members are few.
	byNode map[uint64]*member
	// ordered has the members in the order of the sum; nil if they are in no groups.
	ordered []*member
}

// fewMembers is the number of members up to which looking through them takes no longer than a map,
// of which each shard would have its own.
const fewMembers = 8

// grouped reports whether some members are in groups.
func (x *membership) grouped() bool { return x.index != nil && x.index.ordered != nil }

// ordered returns the members in the order of the sum. All shards, and all servers of a job, must
// have the same order, since a key's shards are parts of one sum.
func (x *membership) ordered() []*member {
	if x.grouped() {
		return x.index.ordered
	}
	return x.ranked
}

// of returns the member that is the node, or nil.
func (x *membership) of(node uint64) *member {
	if x.index != nil && x.index.byNode != nil {
		return x.index.byNode[node]
	}
	for _, m := range x.ranked {
		if m.Node == node {
			return m
		}
	}
	return nil
}

// slowest is the least progress of all members; 0 if there are none. It looks through all of them:
// keeping it up to date would cost every contribution, and only async pulls ask.
func (x *membership) slowest() uint64 {
	if len(x.ranked) == 0 {
		return 0
	}
	least := x.ranked[0].progress()
	for _, m := range x.ranked[1:] {
		least = min(least, m.progress())
	}
	return least
}

// replace makes members the members of a generation. Those that stay keep their state; those that
// are new begin with the progress of the slowest, and with no contributions known, unless anySeq
// says that a first contribution may have any sequence number. It returns who has joined and who
// has left. On an error nothing has changed.
func (x *membership) replace(cfg *Config, generation uint64, members []Member, anySeq bool) (joined, left []*member, err error) {
	byNode, node, twice := indexOf(members)
	if twice {
		return nil, nil, cfg.refuse(wire.CodeMalformed, "members: node %d is named twice", node)
	}
	base := x.slowest()
	ranked := make([]*member, 0, len(members))
	// fresh is the memory of all new members, in one block.
	var fresh []member
	for i, m := range members {
		known := x.of(m.Node)
		if known == nil {
			if fresh == nil {
				fresh = make([]member, 0, len(members)-i)
			}
			fresh = append(fresh, member{Member: m, known: !anySeq})
			known = &fresh[len(fresh)-1]
			known.setBase(base)
			joined = append(joined, known)
		} else {
			m.From = min(m.From, known.From)
			known.Member = m
		}
		if byNode != nil {
			byNode[m.Node] = known
		}
		ranked = append(ranked, known)
	}
	for _, m := range x.ranked {
		if !names(members, byNode, m.Node) {
			left = append(left, m)
		}
	}
	slices.SortFunc(ranked, func(a, b *member) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Node, b.Node)) })
	x.generation, x.ranked, x.index = generation, ranked, newMemberIndex(byNode, ranked)
	return joined, left, nil
}

// follow counts, at a backup, what a closed round counts.
func (x *membership) follow(r *Record) {
	for _, c := range r.Counts {
		if m := x.of(c.Node); m != nil {
			m.lastSeq, m.known = max(m.lastSeq, c.Seq), true
		}
	}
}

// indexOf returns a map with an empty place for each member if they are many, and a node that is
// named twice.
func indexOf(members []Member) (byNode map[uint64]*member, node uint64, twice bool) {
	if len(members) > fewMembers {
		byNode = make(map[uint64]*member, len(members))
	}
	for i, m := range members {
		if byNode != nil {
			_, twice = byNode[m.Node]
			byNode[m.Node] = nil
		} else {
			twice = names(members[:i], nil, m.Node)
		}
		if twice {
			return nil, m.Node, true
		}
	}
	return byNode, 0, false
}

// names reports whether a node is among the members, of which byNode is the map if they are many.
func names(members []Member, byNode map[uint64]*member, node uint64) bool {
	if byNode != nil {
		return byNode[node] != nil
	}
	return slices.ContainsFunc(members, func(m Member) bool { return m.Node == node })
}

// newMemberIndex returns the index of members in rank order, or nil if they need none.
func newMemberIndex(byNode map[uint64]*member, ranked []*member) *memberIndex {
	x := memberIndex{byNode: byNode}
	if slices.ContainsFunc(ranked, func(m *member) bool { return m.Group != 0 }) {
		x.ordered = slices.Clone(ranked)
		slices.SortStableFunc(x.ordered, func(a, b *member) int { return cmp.Compare(leadOf(a.Group, a.Rank), leadOf(b.Group, b.Rank)) })
	}
	if x.byNode == nil && x.ordered == nil {
		return nil
	}
	return &x
}

func leadOf(group, rank uint32) uint32 {
	if group != 0 {
		return group - 1
	}
	return rank
}
