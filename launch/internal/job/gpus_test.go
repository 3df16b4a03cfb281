package job

import (
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

func TestWorkersOfAHostGetSlotsOfTheirOwn(t *testing.T) {
	one, two := hosts.Host{Name: "d1", Slots: 2}, hosts.Host{Name: "d2", Slots: 1}
	slots := newGPUSlots(&settings{GPUs: gpus.Request{Each: 1}, Places: Places{Workers: []hosts.Host{one, one, two}}})
	check := func(n *Node, slot, workers int) {
		t.Helper()
		if got := slots.take(n); got == nil || got.Slot != slot || got.Workers != workers || got.Each != 1 {
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
	slots.free(b)
	check(&Node{host: one}, 1, 3)
	guest := hosts.Host{Name: "d3", Slots: 4}
	check(&Node{host: guest}, 0, 4)
	slots.request = gpus.Request{}
	if got := slots.take(&Node{host: one}); got != nil {
		t.Errorf("without --gpus: got %+v, want nothing", got)
	}
	for _, tc := range []struct {
		role string
		host hosts.Host
		want int
	}{{roleWorker, hosts.Host{Name: "d1", CPUs: 3}, 3}, {roleServer, hosts.Host{Name: "D2"}, 7}, {roleServer, hosts.Host{Name: "d9"}, 0}, {roleScheduler, hosts.Host{Name: "d2"}, 7}} {
		cfg := Config{Places: Places{Workers: []hosts.Host{{Name: "d2", CPUs: 7}}}}
		c := newCore(cfg.settings("j"), time.Now())
		c.out.take()
		n := c.runner.newNode(9, tc.role, 0, tc.host)
		n.machine = &machine{}
		c.runner.start(n)
		actions := c.out.take()
		if spec := newShell(cfg).spec(actions[len(actions)-1].(startProcess), &fake{}); spec.CPUs != tc.want {
			t.Errorf("%s on %s: got %d processors, want %d", tc.role, tc.host.Entry(), spec.CPUs, tc.want)
		}
	}
	prepare := newShell(Config{}).spec(startProcess{role: rolePrepare, host: hosts.Host{Name: "d1", CPUs: 3}, sharers: 2}, &fake{})
	if prepare.CPUs != 0 || prepare.Sharers != 0 {
		t.Errorf("what prepares a host runs before its workers: got %d processors and %d sharers, want all of them for itself", prepare.CPUs, prepare.Sharers)
	}
	for _, limit := range []int{2, hosts.NoGPUs} {
		if got := slots.take(&Node{host: hosts.Host{Name: "d4", GPUs: limit}}); got == nil || got.Limit != limit || !got.Empty() {
			t.Errorf("gpus=%d without --gpus: got %+v, want the limit alone", limit, got)
		}
	}
}
