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

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// caught is what the guard has refused and clipped: counts by worker, and lines for the log. Shards tell it under their locks, so it
// writes nothing itself; whoever has pushed does.
type caught struct {
	waiting atomic.Bool // there are lines

	mu      sync.Mutex // guards the rest; taken last
	workers map[uint64]*offender
	lines   []line
}

// An offender is a worker of whom something was caught.
type offender struct {
	wire.CaughtCount
	said   time.Time // when the log last had a line
	unsaid int       // caught since
}

type line struct {
	text string
	args []any
}

// sayCaught is the time between two lines about one worker.
const sayCaught = time.Second

// take is called by a shard.
func (c *caught) take(cfg *shard.Config, v *view, x shard.Caught) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.workers[x.Node]
	if o == nil {
		o = &offender{CaughtCount: wire.CaughtCount{Node: x.Node}}
		if c.workers == nil {
			c.workers = map[uint64]*offender{}
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
	if now.Sub(o.said) < sayCaught {
		o.unsaid++
		return
	}
	why := "it is not finite"
	if x.Norm <= math.MaxFloat64 {
		why = fmt.Sprintf("its norm is %.4g, the limit is %.4g", x.Norm, x.Limit)
	}
	c.lines = append(c.lines, line{"server: the guard " + what + " a gradient: " + why,
		[]any{"rank", x.Rank, "host", o.Host, "node", x.Node, "key", cfg.Name, "shard", cfg.Index, "step", x.Round, "more", o.unsaid}})
	o.said, o.unsaid = now, 0
	c.waiting.Store(true)
}

// log writes the lines that wait.
func (c *caught) log(to *slog.Logger) {
	if !c.waiting.Load() {
		return
	}
	c.mu.Lock()
	lines := c.lines
	c.lines = nil
	c.waiting.Store(false)
	c.mu.Unlock()
	for _, l := range lines {
		to.Warn(l.text, l.args...)
	}
}

// counts returns what was caught, by node.
func (c *caught) counts() []wire.CaughtCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []wire.CaughtCount
	for _, node := range slices.Sorted(maps.Keys(c.workers)) {
		list = append(list, c.workers[node].CaughtCount)
	}
	return list
}
