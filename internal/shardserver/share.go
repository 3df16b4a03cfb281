package shardserver

import (
	"sync"

	"github.com/paragon-train/paragon/internal/wire"
)

// shares counts what each worker has under way at one shard, so that no sender can make the server take memory without
// bound. It is apart from the shard's own state: a reader of a connection asks here, and must not wait for a round's arithmetic.
type shares struct {
	mu    sync.Mutex // guards both, and the counts they hold
	pushs map[uint64]*int
	pulls map[uint64]*int
}

// take adds one to the node's count unless it is at its limit. Senders that are no members have one share together.
func (s *shares) take(v *view, counts *map[uint64]*int, node uint64, limit int) *int {
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

func (s *shares) give(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n--
}

// forget drops the counts of senders that are members no more and have nothing under way.
func (s *shares) forget(v *view) {
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
	if c.pushing = c.entry.take(c.s.view.Load(), &c.entry.pushs, c.origin.Node, c.s.pushes); c.pushing == nil {
		return refuse(wire.CodeBusy, "%v: %d pushes of %s to %v are under way already", c.kind, c.s.pushes, c.s.who(c.origin.Node), c.entry.cfg)
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
	if c.pulling = c.entry.take(c.s.view.Load(), &c.entry.pulls, c.origin.Node, c.s.pulls); c.pulling == nil {
		return refuse(wire.CodeBusy, "%v: %d pulls of %s from %v are under way already", c.kind, c.s.pulls, c.s.who(c.origin.Node), c.entry.cfg)
	}
	return nil
}

func (c *call) endPull() {
	if c.pulling != nil {
		c.entry.give(c.pulling)
		c.pulling = nil
	}
}
