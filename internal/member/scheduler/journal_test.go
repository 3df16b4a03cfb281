package scheduler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// journalRecords is what a State would hold.
type journalRecords map[string]string

func (k journalRecords) take(out Output) {
	for _, r := range out.Records {
		if r.Value == nil {
			delete(k, r.Key)
		} else {
			k[r.Key] = string(r.Value)
		}
	}
}

func (k journalRecords) list() (records []Record) {
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
		nodes = append(nodes, keptNode{n.Member, n.wanted, n.process, n.nonce, n.state, n.why, !n.joinBy.IsZero()})
	}
	hosts := make(map[string]keptHost)
	for name, h := range c.hosts {
		hosts[name] = keptHost{h.status, h.reason}
	}
	return map[string]any{"membership": m, "job": c.keptJob(), "nodes": nodes, "hosts": hosts, "events": slices.Clone(c.happened), "last": c.events,
		"barriers": slices.Clone(c.barriers.order), "signals": slices.Clone(c.signals.order), "load": c.plan.load, "hash": c.plan.hash, "keys": len(c.plan.keys)}
}

// check holds that what was kept makes the same core.
func (k journalRecords) check(t *testing.T, set Settings, c *Core, what string) {
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

// Whatever a file holds, it makes a core or an error.
func FuzzRestore(f *testing.F) {
	set, events := randomEvents(3)
	set.Elastic = cluster.Elastic{Enabled: true}
	c, k := NewCore(set, events[0].At), journalRecords{}
	for _, e := range events {
		k.take(c.Step(e))
	}
	for _, r := range k.list() {
		f.Add(r.Key, r.Value, "job", []byte(k["job"]))
		f.Add("node/00000001", []byte(k["node/00000001"]), r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte) {
		c, err := Restore(set, time.Unix(0, 0), []Record{{key1, value1}, {key2, value2}})
		if err != nil {
			return
		}
		c.status()
		c.why()
		for i := range 20 {
			c.Step(Event{At: c.Next(), Request: uint64(100 + i), Message: &wire.Arrive{Node: uint64(i), Change: c.change.number}})
			c.Step(Event{At: c.Next(), Request: uint64(200 + i), Message: &wire.Counted{Node: uint64(i), Lost: 1}})
		}
	})
}

func TestRecordsThatDoNotBelongTogetherAreRefused(t *testing.T) {
	set := Settings{Job: "j", Workers: 1, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	job := `{"Job":"j","Phase":2,"Workers":1`
	node := `{"Node":1,"Role":3}`
	for _, c := range []struct{ name, want string }{
		{"job=" + job + `}|ghost/1=x`, `record "ghost/1": unknown kind of record`},
		{"node/1=" + node, "1 records, and none is of the job"},
		{"job=" + job + `}|node/1=` + node + `|node/2=` + node, `record "node/2": it is of node 1, want one above 1`},
		{"job=" + job + `}|node/1={"Node":18446744073709551615,"Role":3}`, `record "node/1": it is of node 18446744073709551615, want one above 0`},
		{"job=" + job + `}|node/1={"Node":1,"Role":1}`, "role 1, state 0, life 0: one of them is unknown"},
		{"job=" + job + `,"Shares":[7]}|node/1=` + node, "a part of the division belongs to node 7, which is unknown"},
		{"job=" + job + `,"Shares":[1,1]}|node/1=` + node, "1 workers, and 2 parts of the division"},
		{"job=" + job + `,"Settle":[{"Lost":9}]}|node/1=` + node, "the examples of lost node 9 are to be counted, and the node is unknown"},
		{`job={"Job":"j","Phase":2,"Workers":2,"Shares":[1]}|node/1=` + node, "2 workers, and 1 parts of the division"},
		{`job={"Job":"j","Phase":2,"Workers":1,"Shares":[1]}|node/1=` + node, "1 parts of the division, and examples used before of 0"},
		{`job={"Job":"j","Phase":9}`, "unknown phase 9"},
		{"job=" + job + `}|barrier/1={"Name":"a"}|barrier/3={"Name":"b"}`, `record "barrier/3": want number 2`},
		{"job=" + job + `}|key/0={"Declare":{"Name":"a"}}`, `record "key/0": malformed`},
		{"job={", "unexpected end of JSON input"},
	} {
		var records []Record
		for r := range strings.SplitSeq(c.name, "|") {
			key, value, _ := strings.Cut(r, "=")
			records = append(records, Record{key, []byte(value)})
		}
		if _, err := Restore(set, time.Unix(0, 0), records); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}
