package job

import (
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// gpus says which of its host's GPUs a worker gets; nil: nothing is said. With --gpus they are
// those of the first slot that no other worker there has. A worker that is started again where
// another one ended gets that one's.
func (c *core) gpus(n *Node) *gpus.Want {
	if c.set.GPUs.Empty() && n.host.GPUs == 0 {
		return nil
	}
	key := n.host.String()
	slots := c.gpuSlots[key]
	slot := slices.IndexFunc(slots, func(o *Node) bool { return o == nil || o == n || o.ended })
	if slot < 0 {
		slot, slots = len(slots), append(slots, nil)
	}
	slots[slot] = n
	c.gpuSlots[key] = slots
	workers := 0
	for _, h := range c.set.Workers {
		if h.String() == key {
			workers++
		}
	}
	return &gpus.Want{Request: c.set.GPUs, Slot: slot, Workers: max(workers, n.host.Slots, len(slots)), Limit: n.host.GPUs}
}

// limited is a host with the gpus= and cpus= that the job began with: who names a host for a server
// or the scheduler does not repeat them.
func (c *core) limited(h hosts.Host) hosts.Host {
	if h.GPUs != 0 || h.CPUs != 0 {
		return h
	}
	if c.limits == nil { // of each host with limits one
		c.limits = []hosts.Host{}
		seen := make(map[string]bool)
		for _, o := range slices.Concat(c.set.Workers, c.set.Servers) {
			if key := o.String(); (o.GPUs != 0 || o.CPUs != 0) && !seen[key] {
				seen[key] = true
				c.limits = append(c.limits, o)
			}
		}
	}
	for _, o := range c.limits {
		if o.Same(h) {
			h.GPUs, h.CPUs = o.GPUs, o.CPUs
		}
	}
	return h
}

// freeGPUs says that a worker was not started after all.
func (c *core) freeGPUs(n *Node) {
	slots := c.gpuSlots[n.host.String()]
	if i := slices.Index(slots, n); i >= 0 {
		slots[i] = nil
	}
}
