package scheduler

import (
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// adapted takes what rank 0 says of how it adapts. It is not in the journal: rank 0 sends it with
// each heartbeat.
func (c *Core) adapted(n *node, text string) {
	a, err := control.DecodeAdaptation(text)
	c.reported = text
	if err != nil {
		if !c.saidMisreported {
			c.saidMisreported = true
			c.warn("%v sent an adaptation that cannot be decoded, and it is ignored: %v", n, err)
		}
		return
	}
	c.adaptation = a
}

// wishEvery is the least time between two events of wishes.
const wishEvery = 5 * time.Second

// tellWish hands a number of workers that rank 0 newly wishes for on to the launcher, where it
// carries wishes out.
func (c *Core) tellWish() {
	a := c.adaptation
	if a == nil || !c.set.Elastic.AdaptWorkers || a.WishedWorkers == 0 || a.WishedWorkers == c.wished || c.phase != wire.PhaseRunning || c.now.Sub(c.wishedAt) < wishEvery {
		return
	}
	c.wished, c.wishedAt, c.dirty.job = a.WishedWorkers, c.now, true
	c.tellEvent(control.Event{Action: control.Wish, Workers: c.wished, Reason: a.WishReason})
}

// Adaptation is the newest one of rank 0; nil: none came.
func (c *Core) Adaptation() *control.Adaptation { return c.adaptation }
