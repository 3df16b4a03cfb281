package shard

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Member is a worker whose contributions a round needs.
type Member struct {
	Node uint64
	Rank uint32
	// Group is 1 + the lowest rank among the members whose contributions are added up before
	// their sum is added to the others': those of one host. 0: it is in no group. Groups, and
	// members without one, are added in the order of these ranks. In wire.ModeAnyOrder groups
	// do not matter.
	Group uint32
	// From is the first round that needs this member; earlier rounds close without it.
	From uint64
}

// A member is the shard's state of one worker.
type member struct {
	Member
	counted uint64 // highest sequence number in a closed round; in async mode, applied
	known   bool   // counted is known: in async mode the next contribution must be its successor
	// examples is the sum of the examples that its contributions counted.
	examples uint64
	caught   uint64       // its contributions that the guard refused or clipped
	async    *asyncMember // nil: all zeros
}

// An asyncMember is the state of a worker that only async mode has.
type asyncMember struct {
	// A worker that joins late starts with base contributions, as many as the slowest member
	// had, so that no worker waits for those that it has missed.
	base      uint64
	staleness staleness
	// Average rule: the newest contribution, decoded, and its weight.
	newest       *Buffer
	newestWeight float32
}

// asynchronous returns the member's state of async mode, which may be changed.
func (m *member) asynchronous() *asyncMember {
	if m.async == nil {
		m.async = &asyncMember{}
	}
	return m.async
}

// newest returns the member's newest contribution, or nil.
func (m *member) newest() *Buffer {
	if m.async == nil {
		return nil
	}
	return m.async.newest
}

// base returns asyncMember's base.
func (m *member) base() uint64 {
	if m.async == nil {
		return 0
	}
	return m.async.base
}

func (m *member) setBase(n uint64) {
	if n != m.base() {
		m.asynchronous().base = n
	}
}

// dropNewest frees the newest contribution.
func (m *member) dropNewest() {
	if m.async != nil {
		m.async.newest.Release()
		m.async.newest = nil
	}
}

// A memberIndex is what a shard has of its members if they are many or in groups.
type memberIndex struct {
	byNode  map[uint64]*member // nil if they are few
	ordered []*member          // in the order of the sum; nil if they are in no groups
}

// grouped reports whether some members are in groups.
func (s *Shard) grouped() bool { return s.index != nil && s.index.ordered != nil }

// ordered returns the members in the order of the sum.
func (s *Shard) ordered() []*member {
	if s.grouped() {
		return s.index.ordered
	}
	return s.ranked
}

// SetMembers replaces the set of workers. The open round closes at once if every worker of the new
// set has contributed. Contributions of a worker that is no longer in the set were acknowledged, so
// they count, even one made a round ahead. Requests of another generation are refused from now on.
func (s *Shard) SetMembers(generation uint64, members []Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return s.setMembers(generation, members)
}

// fewMembers is the number of members up to which looking through them takes no longer than a map,
// of which each shard would have its own.
const fewMembers = 8

// memberOf returns the member that is the node, or nil.
func (s *Shard) memberOf(node uint64) *member {
	if s.index != nil && s.index.byNode != nil {
		return s.index.byNode[node]
	}
	for _, m := range s.ranked {
		if m.Node == node {
			return m
		}
	}
	return nil
}

func (s *Shard) setMembers(generation uint64, members []Member) error {
	base := s.slowest()
	ranked := make([]*member, 0, len(members))
	var byNode map[uint64]*member
	if len(members) > fewMembers {
		byNode = make(map[uint64]*member, len(members))
	}
	find := func(node uint64) *member {
		if byNode != nil {
			return byNode[node]
		}
		for _, m := range ranked {
			if m.Node == node {
				return m
			}
		}
		return nil
	}
	var fresh []member // the memory of those that are new
	for _, m := range members {
		if find(m.Node) != nil {
			return s.refuse(wire.CodeMalformed, "members: node %d is named twice", m.Node)
		}
		known := s.memberOf(m.Node)
		if known == nil {
			if len(fresh) == 0 {
				fresh = make([]member, len(members)-len(ranked))
			}
			known, fresh = &fresh[0], fresh[1:]
			known.Member, known.known = m, !s.anySeq
			known.setBase(base)
			s.memberJoined(known)
		} else {
			m.From = min(m.From, known.From)
		}
		known.Member = m
		if byNode != nil {
			byNode[m.Node] = known
		}
		ranked = append(ranked, known)
	}
	var gone []uint64
	for _, m := range s.ranked {
		if find(m.Node) == nil {
			gone = append(gone, m.Node)
			m.dropNewest()
			s.memberLeft(m)
		}
	}
	slices.SortFunc(ranked, func(a, b *member) int {
		if a.Rank != b.Rank {
			return int(int64(a.Rank) - int64(b.Rank))
		}
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	s.generation, s.ranked, s.index = generation, ranked, nil
	many, grouped := byNode != nil, slices.ContainsFunc(ranked, func(m *member) bool { return m.Group != 0 })
	if many || grouped {
		s.index = &memberIndex{}
	}
	if many {
		s.index.byNode = byNode
	}
	if grouped {
		s.index.ordered = slices.Clone(ranked)
		slices.SortStableFunc(s.index.ordered, func(a, b *member) int { return cmp.Compare(leadOf(a.Group, a.Rank), leadOf(b.Group, b.Rank)) })
	}
	s.expel(gone)
	s.open.change(s.ordered(), s.rounds)
	if s.next != nil {
		s.next.change(s.ordered(), s.rounds+1)
	}
	s.closeRounds()
	s.wake()
	return nil
}
