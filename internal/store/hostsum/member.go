package hostsum

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A member is a worker of the host.
type member struct {
	node uint64
	rank uint32
	host string
	pid  uint32
}

func (m member) String() string {
	return fmt.Sprintf("worker %d on %s (node %d, pid %d)", m.rank, m.host, m.node, m.pid)
}

// A shardID names a shard.
type shardID struct {
	key   uint64
	index uint32
}

// A view is the host's part of one membership.
type view struct {
	generation uint64
	// members are in rank order. With fewer than two there is nothing to add up.
	members []member
	// own is this worker's place among the members.
	own int
}

// An env is what the sums of a Server need of it: how to forward, where to allocate, and what to
// count. It takes no lock, so that rounds never wait for the Server.
type env struct {
	cfg  Config
	pool *shard.Pool
	// ctx ends with Close, which then waits for what is being forwarded.
	ctx        context.Context
	cancel     context.CancelFunc
	forwarding sync.WaitGroup
	// sent counts the sums that servers have taken.
	sent atomic.Uint64
	// dissolved counts the rounds whose workers have pushed for themselves.
	dissolved atomic.Uint64
}

// sortContributors sorts by node, the order in which the shard's server looks them up.
func sortContributors(list []wire.Contributor) {
	slices.SortFunc(list, func(a, b wire.Contributor) int { return cmp.Compare(a.Node, b.Node) })
}
