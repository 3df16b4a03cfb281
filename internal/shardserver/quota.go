package shardserver

import (
	"sync"

	"github.com/paragon-train/paragon/internal/wire"
)

// A quota counts each worker's payloads and answers under way at one shard, so that no sender can make the server allocate without bound. It has its
// own mutex, because the goroutine that reads a connection uses it and must not wait for a round's arithmetic.
type quota struct {
	mu    sync.Mutex // guards both, and the counts they hold
	pushs map[uint64]*int
	pulls map[uint64]*int
}

// take adds one to the node's count, or returns false at the limit. Senders that are not members share one count.
func (s *quota) take(v *membership, counts *map[uint64]*int, node uint64, limit int) *int {
	if v.workers[node] == nil {
		node = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := (*counts)[node]
	if n == nil {
		if *counts == nil {
			*counts = map[uint64]*int{}
		}
		n = new(int)
		(*counts)[node] = n
	}
	if *n >= limit {
		return nil
	}
	*n++
	return n
}

func (s *quota) give(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n--
}

// forget drops the counts of senders that are no longer members and have nothing under way.
func (s *quota) forget(v *membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, counts := range []map[uint64]*int{s.pushs, s.pulls} {
		for node, n := range counts {
			if node != 0 && *n == 0 && v.workers[node] == nil {
				delete(counts, node)
			}
		}
	}
}

func (c *call) beginPush() error {
	if c.pushing = c.entry.take(c.s.membership.Load(), &c.entry.pushs, c.origin.Node, c.s.pushes); c.pushing == nil {
		return refuse(wire.CodeBusy, "%v: %d pushes of %s to %v are under way already", c.kind, c.s.pushes, c.s.describe(c.origin.Node), c.entry.cfg)
	}
	return nil
}

func (c *call) endPush() {
	if c.pushing != nil {
		c.entry.give(c.pushing)
		c.pushing = nil
	}
}

func (c *call) beginPull() error {
	if c.pulling = c.entry.take(c.s.membership.Load(), &c.entry.pulls, c.origin.Node, c.s.pulls); c.pulling == nil {
		return refuse(wire.CodeBusy, "%v: %d pulls of %s from %v are under way already", c.kind, c.s.pulls, c.s.describe(c.origin.Node), c.entry.cfg)
	}
	return nil
}

func (c *call) endPull() {
	if c.pulling != nil {
		c.entry.give(c.pulling)
		c.pulling = nil
	}
}
