package scheduler

import (
	"encoding/json"
	"fmt"
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
	m := &c.members
	if m.job.phase == wire.PhaseForming {
		m.roster.assign(&c.set)
	}
	message := m.message(c.out.now)
	// It has times.
	message.Waiting = nil
	nodes := make([]keptNode, 0, len(m.roster.nodes))
	for _, n := range m.roster.nodes {
		nodes = append(nodes, n.kept())
	}
	hosts := make(map[string]keptHost)
	for name, h := range m.hosts.hosts {
		hosts[name] = keptHost{h.status, h.reason, h.dismissed}
	}
	return map[string]any{"membership": message, "job": m.job.kept(), "change": m.change.kept(), "scale": asJSON(m.scale.newest), "fleet": fmt.Sprint(m.fleet.keptFleet, m.fleet.revision), "processes": keptProcesses(m.fleet.list), "sites": m.sites.kept(), "servers": m.servers.kept(), "placement": m.places.kept(),
		"wish": carriedOut(&c.adapts), "nodes": nodes, "hosts": hosts, "events": slices.Clone(c.events.list), "last": c.events.last,
		"barriers": slices.Clone(m.barriers.opened.order), "signals": slices.Clone(m.signals.sent.order), "load": m.places.plan.load, "hash": m.places.plan.hash, "keys": len(m.places.plan.keys)}
}

// carriedOut is the newest wish, if it was carried out: another one is told again.
func carriedOut(a *adaptations) int {
	if a.pending {
		return 0
	}
	return a.wished
}

// keptProcesses are the records of processes.
func keptProcesses(list []*wantedProcess) (kept []string) {
	for _, p := range list {
		kept = append(kept, asJSON(p))
	}
	return kept
}

// asJSON is a record as the journal has it: an empty list is none.
func asJSON(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// check holds that what was kept makes the same core.
func (k journalRecords) check(t *testing.T, set Settings, c *Core, what string) {
	t.Helper()
	if len(k) == 0 {
		return
	}
	again, err := Restore(set, c.out.now, k.list())
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
			c.Step(Event{At: c.Next(), Request: uint64(100 + i), Message: &wire.Arrive{Node: uint64(i), Change: c.members.change.pending.number}})
			c.Step(Event{At: c.Next(), Request: uint64(200 + i), Message: &wire.LostExamples{Node: uint64(i), Lost: 1}})
		}
	})
}

func TestRecordsThatDoNotBelongTogetherAreRefused(t *testing.T) {
	set := Settings{Job: "j", Workers: 1, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	job := `job={"Format":3,"Job":"j","Phase":2`
	node := `{"Node":1,"Role":3}`
	for _, c := range []struct{ name, want string }{
		{job + `}|ghost/1=x`, `record "ghost/1": unknown kind of record`},
		{job + `}|placement/ghost/1=x`, `record "placement/ghost/1": unknown kind of record`},
		{"node/1=" + node, "1 records, and none is of the job"},
		{job + `}|node/1=` + node + `|node/2=` + node, `record "node/2": it is of node 1, want one above 1`},
		{job + `}|node/1={"Node":18446744073709551615,"Role":3}`, `record "node/1": it is of node 18446744073709551615, want one above 0`},
		{job + `}|node/1={"Node":1,"Role":1}`, "role 1, state 0, life 0: one of them is unknown"},
		{job + `}|change={"Shares":[{"Node":7}]}|node/1=` + node, "a part of the division belongs to node 7, which is unknown"},
		{job + `}|change={"Reports":[{"Lost":9}]}|node/1=` + node, "the examples of lost node 9 are to be counted, and the node is unknown"},
		{job + `}|server={"Ranks":5000}`, "it has 5000 ranks of servers, want at most 4096"},
		{job + `}|server={"Coming":[{"Rank":4096}]}`, "server 4096 was asked for, want one below 4096"},
		{job + `,"Stop":3}`, "unknown way to stop 3"},
		{`job={"Format":3,"Job":"j","Phase":9}`, "unknown phase 9"},
		{`job={"Format":3,"Job":"k","Phase":2}`, `it is of job "k", this is job "j"`},
		{`job={"Job":"j","Phase":2,"Workers":1}|node/1=` + node, "another build of Paragon wrote this journal (format 0, this build reads 3)"},
		{job + `}|barrier/1={"Name":"a"}|barrier/3={"Name":"b"}`, `record "barrier/3": want number 2`},
		{job + `}|placement/key/0={"Declare":{"Name":"a"}}`, `record "placement/key/0": malformed`},
		{job + `}|placement/places/0={}`, "want the number of one of 0 keys"},
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

// A job that had more servers than it began with may have ended when its scheduler is started
// again.
func TestAnEndedJobThatHadGrownIsRestored(t *testing.T) {
	set := *settingsOf(1, 1)
	set.Elastic.Backups = 1
	c, k := NewCore(set, time.Unix(1000, 0)), journalRecords{}
	for i, m := range []wire.Message{
		&wire.Register{Role: wire.RoleServer, Rank: -1, Workers: 1, Servers: 1, Nonce: 1, Job: "j", Host: "s", Addr: "s:1"},
		&wire.Register{Role: wire.RoleWorker, Rank: -1, Workers: 1, Servers: 1, Nonce: 2, Job: "j", Host: "w"},
		&wire.Declare{Generation: 1, Node: 2, Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 100},
		&wire.Control{Request: `{"op":"add-server"}`},
		&wire.Register{Role: wire.RoleServer, Rank: 1, Workers: 1, Servers: 1, Nonce: 3, Job: "j", Host: "s", Addr: "s:2", Joining: true},
		&wire.Control{Request: `{"op":"add-server"}`},
		&wire.Leave{Node: 2, Reason: "x"},
	} {
		k.take(c.Step(Event{At: time.Unix(1000, 0), Request: uint64(i + 1), Message: m}))
	}
	if phase, _ := c.Phase(); phase != wire.PhaseFailed {
		t.Fatalf("the job is in phase %d, want it failed", phase)
	}
	again, err := Restore(set, time.Unix(1000, 0), k.list())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c.status().Servers, again.status().Servers); d != "" {
		t.Errorf("the servers of an ended job after a restart (-were +are):\n%s", d)
	}
}
