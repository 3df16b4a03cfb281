package scheduler

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// fuzzed is a core of a running job that may change, and what it has kept.
func fuzzed(tb testing.TB) (*Core, Settings, journalRecords) {
	set := Settings{Job: "j", Workers: 2, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	set.Elastic.Enabled, set.Elastic.OnWorkerLoss, set.Elastic.MinWorkers = true, "shrink", 1
	set.Elastic.JoinTimeout, set.Elastic.RejoinTimeout = time.Minute, time.Minute
	at := time.Unix(1_700_000_000, 0)
	c, all, request := NewCore(set, at), make(journalRecords), uint64(0)
	for _, m := range []wire.Message{
		&wire.Register{Role: wire.RoleServer, Rank: -1, Workers: 2, Servers: 1, Nonce: 1, Job: "j", Host: "s", Addr: "s:1"},
		&wire.Register{Role: wire.RoleWorker, Rank: -1, Workers: 2, Servers: 1, Nonce: 2, Job: "j", Host: "a"},
		&wire.Register{Role: wire.RoleWorker, Rank: -1, Workers: 2, Servers: 1, Nonce: 3, Job: "j", Host: "b"},
		&wire.Declare{Generation: 1, Node: 2, Name: "w", Size: 100},
		&wire.Signal{Node: 2, Name: "x"},
		&wire.Register{Role: wire.RoleWorker, Rank: -1, Workers: 2, Servers: 1, Nonce: 4, Job: "j", Host: "c", Joining: true},
		&wire.Control{Request: `{"op":"add","host":"d"}`},
		&wire.Ready{Node: 4, WaitMillis: 1000},
	} {
		request++
		at = at.Add(time.Millisecond)
		all.take(c.Step(Event{At: at, Request: request, Message: m}))
	}
	if phase, reason := c.Phase(); phase != wire.PhaseRunning {
		tb.Fatalf("the job is in phase %d: %s", phase, reason)
	}
	return c, set, all
}

// prod asks a core everything, as nodes and people would, and lets time pass.
func prod(t *testing.T, c *Core) {
	at, request := c.out.now, uint64(1000)
	for id := range uint64(6) {
		for _, m := range []wire.Message{
			&wire.Heartbeat{Node: id}, &wire.Watch{Node: id, WaitMillis: 10}, &wire.Declare{Node: id, Generation: c.members.job.generation, Name: "w", Size: 100},
			&wire.Barrier{Node: id, Generation: c.members.job.generation, Name: "b", WaitMillis: 10}, &wire.Ready{Node: id, WaitMillis: 10},
			&wire.Arrive{Node: id, Generation: c.members.job.generation, Change: c.members.change.last, WaitMillis: 10}, &wire.LostExamples{Node: 1, Lost: id, Examples: 7},
			&wire.Register{Role: wire.RoleWorker, Rank: -1, Nonce: 90 + id, Job: "j", Host: "n", Joining: true, Workers: 2, Servers: 1},
			&wire.Control{Request: `{"op":"status"}`}, &wire.Control{Request: `{"op":"why"}`}, &wire.Control{Request: `{"op":"events"}`},
			&wire.Control{Request: `{"op":"remove","host":"a"}`}, &wire.AskLeave{Node: id, Reason: "x"},
			&wire.Control{Request: `{"op":"checkpoint-stop","reason":"x"}`}, &wire.Stopped{Node: id, Steps: 7},
			&wire.Control{Request: `{"op":"scale","workers":3}`}, &wire.Control{Request: `{"op":"report","observed":{"number":1,"processes":[{"process":4,"role":"worker","rank":0,"number":0,"host":"a","state":"running"}]}}`},
			&wire.Control{Request: `{"op":"wanted","wait_ms":10}`},
		} {
			request++
			at = at.Add(time.Millisecond)
			for _, a := range c.Step(Event{At: at, Request: request, Message: m}).Answers {
				if r, ok := a.Message.(*wire.Report); ok && !json.Valid([]byte(r.Answer)) {
					t.Errorf("an answer that is no JSON: %q", r.Answer)
				}
			}
		}
	}
	for range 50 {
		next := c.Next()
		if next.IsZero() {
			break
		}
		c.Step(Event{At: next})
	}
	c.Step(Event{At: at.Add(time.Hour), Stop: "over"})
}

// FuzzControl: whatever is asked, the answer is JSON or a refusal, and the core goes on.
func FuzzControl(f *testing.F) {
	for _, s := range []string{`{"op":"status"}`, `{"op":"why"}`, `{"op":"events","after":1,"wait_ms":1000}`, `{"op":"add","host":"h"}`,
		`{"op":"remove","host":"a"}`, `{"op":"report","observed":{"number":2,"hosts":[{"host":"d"}]}}`, `{"op":"scale","placement":[{"host":"a","workers":2}]}`, `{"op":"scaling","scale":5,"state":"refused"}`, `{"op":"grow","host":"a","slots":2}`, `{"op":"release","process":3}`, `{"op":7}`, `{`, `[[[[`, `{"op":"add","host":"a\u0000b"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > wire.MaxString {
			return
		}
		c, _, _ := fuzzed(t)
		answers := c.Step(Event{At: c.out.now, Request: 99, Message: &wire.Control{Request: s}}).Answers
		for _, a := range answers {
			switch m := a.Message.(type) {
			case *wire.Report:
				if a.Request == 99 && !json.Valid([]byte(m.Answer)) {
					t.Errorf("%q: an answer that is no JSON: %q", s, m.Answer)
				}
			case *wire.Nack:
			default:
				if a.Request == 99 {
					t.Errorf("%q: answered by %v", s, a.Message.Kind())
				}
			}
		}
		prod(t, c)
	})
}

// FuzzRestoreWhole: FuzzRestore with all records of a job. whatever the records, they are refused
// or make a core that goes on. In the input a record is a line: key, tab, value.
func FuzzRestoreWhole(f *testing.F) {
	_, set, all := fuzzed(f)
	text := func(all journalRecords) string {
		var b strings.Builder
		for _, r := range all.list() {
			b.WriteString(r.Key + "\t" + string(r.Value) + "\n")
		}
		return b.String()
	}
	f.Add(text(all))
	delete(all, "node/00000004")
	f.Add(text(all))
	f.Add("job\t{}\n")
	f.Fuzz(func(t *testing.T, s string) {
		var records []Record
		for line := range strings.Lines(s) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			records = append(records, Record{key, []byte(value)})
		}
		c, err := Restore(set, time.Unix(1_700_000_100, 0), records)
		if err != nil {
			return
		}
		prod(t, c)
	})
}
