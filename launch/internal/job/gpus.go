package job

import (
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// gpuSlots say which worker has which slot of its host, so that no two workers get the same GPUs.
type gpuSlots struct {
	request gpus.Request
	// first is how many workers each host began with.
	first map[string]int
	taken map[string][]*Node
}

func newGPUSlots(set *settings) gpuSlots {
	g := gpuSlots{request: set.GPUs, first: make(map[string]int), taken: make(map[string][]*Node)}
	for _, h := range set.Workers {
		g.first[h.String()]++
	}
	return g
}

// take says which of its host's GPUs a worker gets; nil: nothing is said. With --gpus they are
// those of the first slot that no other worker there has. A worker that is started again where
// another one ended gets that one's.
func (g *gpuSlots) take(n *Node) *gpus.Want {
	if g.request.Empty() && n.host.GPUs == 0 {
		return nil
	}
	key := n.host.String()
	slots := g.taken[key]
	// A slot is free if it was given back, or if the worker that has it has ended.
	slot := slices.IndexFunc(slots, func(o *Node) bool { return o == nil || o == n || o.ended })
	if slot < 0 {
		slot, slots = len(slots), append(slots, nil)
	}
	slots[slot] = n
	g.taken[key] = slots
	return &gpus.Want{Request: g.request, Slot: slot, Workers: max(g.first[key], n.host.Slots, len(slots)), Limit: n.host.GPUs}
}

// free gives the slot of a worker back that was not started after all.
func (g *gpuSlots) free(n *Node) {
	slots := g.taken[n.host.String()]
	if i := slices.Index(slots, n); i >= 0 {
		slots[i] = nil
	}
}

// hostLimits are the hosts with gpus= or cpus= that the job began with, each once.
type hostLimits []hosts.Host

func newHostLimits(set *settings) (limits hostLimits) {
	seen := make(map[string]bool)
	for _, h := range slices.Concat(set.Workers, set.Servers) {
		if key := h.String(); (h.GPUs != 0 || h.CPUs != 0) && !seen[key] {
			seen[key] = true
			limits = append(limits, h)
		}
	}
	return limits
}

// of is a host with its limits: who names a host for a server or the scheduler does not repeat
// them.
func (l hostLimits) of(h hosts.Host) hosts.Host {
	if h.GPUs != 0 || h.CPUs != 0 {
		return h
	}
	for _, o := range l {
		if o.Same(h) {
			h.GPUs, h.CPUs = o.GPUs, o.CPUs
		}
	}
	return h
}
