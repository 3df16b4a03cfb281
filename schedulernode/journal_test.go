package schedulernode

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/wire"
)

// kept is what a State would hold.
type kept map[string]string

func (k kept) take(out Output) {
	for _, r := range out.Records {
		if r.Value == nil {
			delete(k, r.Key)
		} else {
			k[r.Key] = string(r.Value)
		}
	}
}

func (k kept) list() (records []Record) {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		records = append(records, Record{key, []byte(k[key])})
	}
	return records
}

// essence is all of a core but times, heartbeats and waits.
func essence(c *Core) map[string]any {
	if c.phase == wire.PhaseForming {
		c.assign()
	}
	m := c.membership()
	m.Waiting = nil // has times
	nodes := make([]keptNode, 0, len(c.nodes))
	for _, n := range c.nodes {
		nodes = append(nodes, keptNode{n.Member, n.wanted, n.nonce, n.state, n.why, !n.joinBy.IsZero()})
	}
	hosts := make(map[string]keptHost)
	for name, h := range c.hosts {
		hosts[name] = keptHost{h.status, h.reason}
	}
	return map[string]any{"membership": m, "job": c.keptJob(), "nodes": nodes, "hosts": hosts, "events": slices.Clone(c.happened), "last": c.events,
		"barriers": slices.Clone(c.barriers.order), "signals": slices.Clone(c.signals.order), "load": c.plan.load, "hash": c.plan.hash, "keys": len(c.plan.keys)}
}

// check holds that what was kept makes the same core.
func (k kept) check(t *testing.T, set Settings, c *Core, what string) {
	t.Helper()
	if len(k) == 0 {
		return
	}
	again, err := Restore(set, c.now, k.list())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if d := cmp.Diff(essence(c), essence(again)); d != "" {
		t.Fatalf("%s: a core of the records is another one (-is +restored):\n%s", what, d)
	}
}
