package job

import (
	"testing"

	"github.com/paragon-train/paragon/internal/gpus"
	"github.com/paragon-train/paragon/internal/hosts"
)

func TestWorkersOfAHostGetSlotsOfTheirOwn(t *testing.T) {
	one, two := hosts.Host{Name: "d1", Slots: 2}, hosts.Host{Name: "d2", Slots: 1}
	r := &run{cfg: Config{GPUs: gpus.Request{Each: 1}, Workers: []hosts.Host{one, one, two}}, slots: map[string][]*Node{}}
	check := func(n *Node, slot, workers int) {
		t.Helper()
		if got := r.gpus(n); got == nil || got.Slot != slot || got.Workers != workers || got.Each != 1 {
			t.Errorf("worker on %s: got %+v, want slot %d of %d", n.host.Name, got, slot, workers)
		}
	}
	a, b, c := &Node{host: one}, &Node{host: one}, &Node{host: two}
	check(a, 0, 2)
	check(b, 1, 2)
	check(c, 0, 1)
	a.ended = true
	again := &Node{host: one}
	check(again, 0, 2) // in the place of the one that ended
	check(&Node{host: one}, 2, 3)
	r.freeGPUs(b)
	check(&Node{host: one}, 1, 3)
	guest := hosts.Host{Name: "d3", Slots: 4}
	check(&Node{host: guest}, 0, 4)
	r.cfg.GPUs = gpus.Request{}
	if got := r.gpus(&Node{host: one}); got != nil {
		t.Errorf("without --gpus: got %+v, want nothing", got)
	}
}
