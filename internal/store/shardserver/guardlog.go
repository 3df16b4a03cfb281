package shardserver

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A guardLog counts the contributions that the guard has refused or clipped, by worker, and makes
// lines for the log. Shards call record under their locks, so it does not write the lines; the call
// that has pushed does, with flush.
type guardLog struct {
	// pending says that lines is not empty.
	pending atomic.Bool

	// mu guards the rest. No other lock is taken while it is held.
	mu      sync.Mutex
	workers map[uint64]*caughtWorker
	lines   []line
}

// An caughtWorker is a worker of which the guard has refused or clipped a contribution.
type caughtWorker struct {
	wire.CaughtCount
	// loggedAt is when the last line was made, and unlogged the number of contributions since.
	loggedAt time.Time
	unlogged int
}

// A line is one of the log, not written yet: findings are recorded while a shard's mutex is
// held, under which nothing may wait for the log.
type line struct {
	text string
	args []any
}

// guardLogPause is the shortest time between two lines about one worker, which may be caught in
// every round of every shard.
const guardLogPause = time.Second

// record counts one contribution.
func (c *guardLog) record(cfg *shard.Config, v *membership, x shard.Caught) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.workers[x.Node]
	if o == nil {
		o = &caughtWorker{CaughtCount: wire.CaughtCount{Node: x.Node}}
		if c.workers == nil {
			c.workers = map[uint64]*caughtWorker{}
		}
		c.workers[x.Node] = o
	}
	o.Rank = x.Rank
	if w := v.workers[x.Node]; w != nil {
		o.Host = w.host
	}
	what := "refused"
	if x.Clipped {
		what = "clipped"
		o.Clipped++
	} else {
		o.Refused++
	}
	now := time.Now()
	if now.Sub(o.loggedAt) < guardLogPause {
		o.unlogged++
		return
	}
	why := "it is not finite"
	if x.Norm <= math.MaxFloat64 {
		why = fmt.Sprintf("its norm is %.4g, the limit is %.4g", x.Norm, x.Limit)
	}
	c.lines = append(c.lines, line{"server: the guard " + what + " a gradient: " + why,
		[]any{"rank", x.Rank, "host", o.Host, "node", x.Node, "key", cfg.Name, "shard", cfg.Index, "step", x.Round, "more", o.unlogged,
			joblog.GuardRefused.With("clipped", x.Clipped, "norm", x.Norm, "limit", x.Limit)}})
	o.loggedAt, o.unlogged = now, 0
	c.pending.Store(true)
}

// flush writes the pending lines to the log.
func (c *guardLog) flush(to *slog.Logger) {
	if !c.pending.Load() {
		return
	}
	c.mu.Lock()
	lines := c.lines
	c.lines = nil
	c.pending.Store(false)
	c.mu.Unlock()
	for _, l := range lines {
		to.Warn(l.text, l.args...)
	}
}

// counts returns the counts by node.
func (c *guardLog) counts() []wire.CaughtCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []wire.CaughtCount
	for _, node := range slices.Sorted(maps.Keys(c.workers)) {
		list = append(list, c.workers[node].CaughtCount)
	}
	return list
}
