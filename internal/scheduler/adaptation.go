package scheduler

import (
	"github.com/paragon-train/paragon/internal/control"
)

// adapted takes what rank 0 says of how it adapts. It is not in the journal: rank 0 sends it with each heartbeat.
func (c *Core) adapted(n *node, text string) {
	a, err := control.DecodeAdaptation(text)
	if c.adapts = text; err != nil {
		if !c.saidMisreported {
			c.saidMisreported = true
			c.warn("%v reports an adaptation that cannot be read, and is shown without it: %v", n, err)
		}
		return
	}
	c.adaptation = a
}

// Adaptation is the newest one of rank 0; nil: none came.
func (c *Core) Adaptation() *control.Adaptation { return c.adaptation }
