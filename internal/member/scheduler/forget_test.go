package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scheduler remembers, and keeps, a bounded number of nodes and hosts, however many come and go.
// It goes on with the records of any moment, and those who are there notice nothing.
func TestMemoryOfNodesThatComeAndGoIsBounded(t *testing.T) {
	set := Settings{Job: "j", Workers: 1, Servers: 2, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute,
		Elastic: cluster.Elastic{Enabled: true, Backups: 1}}
	now := time.Unix(1_000_000, 0)
	c, k := NewCore(set, now), journalRecords{}
	request := uint64(0)
	ask := func(m wire.Message) wire.Message {
		t.Helper()
		request++
		now = now.Add(time.Millisecond)
		out := c.Step(Event{At: now, Request: request, Message: m})
		k.take(out)
		for _, a := range out.Answers {
			if a.Request == request {
				return a.Message
			}
		}
		return nil
	}
	register := func(m wire.Register) uint64 {
		t.Helper()
		m.Job, m.Workers, m.Servers, m.Nonce = "j", 1, 2, request+1
		got, ok := ask(&m).(*wire.Registered)
		if !ok {
			t.Fatalf("register %+v: got %+v", m, got)
		}
		return got.Node
	}
	control := func(op string) {
		t.Helper()
		got, ok := ask(&wire.Control{Request: op}).(*wire.Report)
		if !ok || strings.Contains(got.Answer, `"error"`) {
			t.Fatalf("%s: got %+v", op, got)
		}
	}
	staying := []uint64{
		register(wire.Register{Role: wire.RoleServer, Rank: 0, Host: "s0", Addr: "s0:1"}),
		register(wire.Register{Role: wire.RoleServer, Rank: 1, Host: "s1", Addr: "s1:1"}),
		register(wire.Register{Role: wire.RoleWorker, Rank: 0, Host: "w0"}),
	}
	// Rank 3 was removed before all others.
	for range 2 {
		control(`{"op":"add-server"}`)
	}
	for _, rank := range []int32{2, 3} {
		id := register(wire.Register{Role: wire.RoleServer, Rank: rank, Host: "s2", Addr: "s2:1", Joining: true})
		control(fmt.Sprintf(`{"op":"remove-server","rank":%d}`, rank))
		ask(&wire.Leave{Node: id, OK: true})
	}
	// Each round has so many nodes.
	const rounds, each = 290, 3
	const all = 3 + 2 + rounds*each
	var first uint64
	for i := range rounds {
		control(`{"op":"add-server"}`)
		id := register(wire.Register{Role: wire.RoleServer, Rank: 2, Host: "s2", Addr: "s2:1", Joining: true})
		control(`{"op":"remove-server","rank":2}`)
		ask(&wire.Leave{Node: id, OK: true})
		if first == 0 {
			first = id
		}
		// Workers that join from hosts that never were there before, and leave before they
		// count.
		for w := range each - 1 {
			id := register(wire.Register{Role: wire.RoleWorker, Rank: -1, Host: fmt.Sprintf("h%d-%d", i, w), Joining: true})
			ask(&wire.Leave{Node: id, OK: true})
		}
		for _, id := range staying {
			if _, ok := ask(&wire.Heartbeat{Node: id, Generation: c.members.job.generation}).(*wire.Beat); !ok {
				t.Fatalf("round %d: the heartbeat of node %d was refused", i, id)
			}
		}
		if i == rounds-20 {
			k.check(t, set, c, fmt.Sprint("after round ", i))
			again, err := Restore(set, now, k.list())
			if err != nil {
				t.Fatal(err)
			}
			c = again
		}
	}
	if most := maxGone + 10; len(c.members.roster.nodes) > most || len(c.members.hosts.hosts) > most {
		t.Errorf("after %d nodes that came and went %d nodes and %d hosts are remembered, want at most %d of each", all, len(c.members.roster.nodes), len(c.members.hosts.hosts), most)
	}
	records := map[string]int{}
	for key := range k {
		kind, _, _ := strings.Cut(key, "/")
		records[kind]++
	}
	if records["node"] != len(c.members.roster.nodes) || records["host"] != len(c.members.hosts.hosts) {
		t.Errorf("%d records of nodes and %d of hosts are kept, want as many as are remembered, %d and %d", records["node"], records["host"], len(c.members.roster.nodes), len(c.members.hosts.hosts))
	}
	if next := register(wire.Register{Role: wire.RoleWorker, Rank: -1, Host: "w9", Joining: true}); next != all+1 {
		t.Errorf("the next node got ID %d, want %d: IDs are never used again", next, all+1)
	}
	if n, ok := ask(&wire.Heartbeat{Node: first}).(*wire.Nack); !ok || n.Code != wire.CodeUnknownNode {
		t.Errorf("a heartbeat of a node that is forgotten: got %+v, want it refused as not known", n)
	}
	// These are the ranks of those that were removed.
	for _, rank := range []uint32{2, 3} {
		if got, refusal := c.members.addServer(&c.out, ""); got != rank || refusal != "" {
			t.Errorf("the next server gets rank %d (%s), want %d", got, refusal, rank)
		}
	}
}

// A job has no more workers and servers than its membership has room for, whoever comes.
func TestNobodyJoinsAJobThatIsFull(t *testing.T) {
	set := Settings{Job: "j", Workers: 1, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute, Elastic: cluster.Elastic{Enabled: true}}
	now := time.Unix(1_000_000, 0)
	c, request := NewCore(set, now), uint64(0)
	register := func(m wire.Register) wire.Message {
		t.Helper()
		request++
		m.Job, m.Workers, m.Servers, m.Nonce = "j", 1, 1, request
		for _, a := range c.Step(Event{At: now, Request: request, Message: &m}).Answers {
			if a.Request == request {
				return a.Message
			}
		}
		return nil
	}
	register(wire.Register{Role: wire.RoleServer, Rank: 0, Host: "s0", Addr: "s0:1"})
	register(wire.Register{Role: wire.RoleWorker, Rank: 0, Host: "w0"})
	joins := wire.Register{Role: wire.RoleWorker, Rank: -1, Host: "w1", Joining: true}
	for len(c.members.roster.nodes) < cluster.MaxNodes-1 {
		n := *c.members.roster.nodes[1]
		n.Node, n.nonce = c.members.roster.last()+1, ^c.members.roster.last()
		c.members.roster.nodes = append(c.members.roster.nodes, &n)
	}
	if got, ok := register(joins).(*wire.Registered); !ok {
		t.Errorf("the last one that there is room for: got %+v", got)
	}
	if got, ok := register(joins).(*wire.Nack); !ok || got.Code != wire.CodeConflict || !strings.Contains(got.Text, "the job has 5000 workers and servers") {
		t.Errorf("one more: got %+v, want it refused, since the job is full", got)
	}
}
