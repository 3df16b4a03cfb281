package job

import (
	"slices"

	"github.com/paragon-train/paragon/internal/gpus"
)

// gpus says which of its host's GPUs a worker gets: those of the first slot that no other worker there has. A worker that is
// started again where another one ended gets that one's.
func (r *run) gpus(n *Node) *gpus.Want {
	if r.cfg.GPUs.Empty() {
		return nil
	}
	key := n.host.String()
	slots := r.slots[key]
	slot := slices.IndexFunc(slots, func(o *Node) bool { return o == nil || o == n || o.ended })
	if slot < 0 {
		slot, slots = len(slots), append(slots, nil)
	}
	slots[slot] = n
	r.slots[key] = slots
	workers := 0
	for _, h := range r.cfg.Workers {
		if h.String() == key {
			workers++
		}
	}
	return &gpus.Want{Request: r.cfg.GPUs, Slot: slot, Workers: max(workers, n.host.Slots, len(slots))}
}

// freeGPUs says that a worker was not started after all.
func (r *run) freeGPUs(n *Node) {
	slots := r.slots[n.host.String()]
	if i := slices.Index(slots, n); i >= 0 {
		slots[i] = nil
	}
}
