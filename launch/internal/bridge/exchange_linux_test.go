package bridge

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// pair joins two Python processes to a job.
func pair(t *testing.T, change func(*session)) [2]*python {
	t.Helper()
	job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2})
	var all [2]*python
	var ids [2]uint64
	for rank := range all {
		all[rank] = newPython(t, func(s *session) {
			of(job, rank)(s)
			if change != nil {
				change(s)
			}
		})
		ids[rank] = all[rank].send("join", map[string]any{"protocol": protocol, "store": "dist_sync", "timeout_ms": 60000})
	}
	for rank, p := range all {
		if err := p.await(ids[rank], &p.joined); err != nil {
			t.Fatalf("worker %d: %+v", rank, err)
		}
	}
	return all
}

// both does the same on both workers at the same time.
func both(all [2]*python, f func(p *python, rank int)) {
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() { f(p, p.joined.Rank) })
	}
	running.Wait()
}

func fill(values []float32, x float32) {
	for i := range values {
		values[i] = x
	}
}

// What comes back from an overlapped step is the weighted mean of both workers; one answer tells
// that all exchanges of the step have ended, and every word says that its own has.
func TestExchangesBringTheMeanOfAllWorkers(t *testing.T) {
	all := pair(t, nil)
	sizes := []int{5, 1000, 40000, 3, 20000}
	both(all, func(p *python, rank int) {
		region, plan := p.plan(sizes...)
		for step := range 20 {
			for i := range sizes {
				fill(p.slot(region, i), float32((rank*2+1)*(rank+1)*(step+i))) // times the weight
			}
			weight := float32(rank*2 + 1)
			last := uint64(0)
			for _, run := range [][2]uint32{{4, 1}, {2, 1}, {3, 1}, {0, 2}} {
				flags := byte(0)
				if run[0] == 0 {
					flags = flagAnswer
				}
				last = p.exchange(flags, plan, run[0], run[1], weight)
			}
			if a := p.wait(last); a.state != stateDone || a.error != nil {
				t.Errorf("worker %d, step %d: got the answer %+v", rank, step, a)
				return
			}
			for n := last - 3; n <= last; n++ {
				if got := p.word(n); got != stateDone {
					t.Errorf("worker %d, step %d: exchange %d has state %d in its word, want %d", rank, step, n, got, stateDone)
				}
			}
			for i := range sizes {
				want := float32(1*1*(step+i)+3*2*(step+i)) / 4
				for j, got := range p.slot(region, len(sizes)+i) {
					if got != want {
						t.Fatalf("worker %d, step %d, key %d, value %d: got %v, want %v", rank, step, i, j, got, want)
					}
				}
			}
		}
		p.mustAsk("close", nil, nil)
	})
	for rank, p := range all {
		if err := p.end(); err != nil {
			t.Errorf("worker %d: the session ended with %v, want nil after close", rank, err)
		}
	}
}

// A push leaves the new values with the servers; an exchange of no entries waits for those before.
func TestPushesAloneBringNoValues(t *testing.T) {
	all := pair(t, nil)
	both(all, func(p *python, rank int) {
		region, plan := p.plan(10, 30000)
		fill(p.slot(region, 0), 4)
		fill(p.slot(region, 1), 8)
		p.exchange(flagPushOnly, plan, 0, 2, 1)
		if a := p.wait(p.exchange(flagAnswer, 0, 0, 0, 0)); a.state != stateDone {
			t.Fatalf("got %+v", a)
		}
		if got := p.slot(region, 2)[0]; got != 0 {
			t.Errorf("got the value %v after a push alone, want 0", got)
		}
		p.mustAsk("pull", map[string]any{"keys": []map[string]any{{"key": "key0", "region": region, "out": 2}, {"key": "key1", "region": region, "slots": []int{3}}}}, nil)
		if a, b := p.slot(region, 2)[9], p.slot(region, 3)[29999]; a != 4 || b != 8 {
			t.Errorf("got %v and %v, want 4 and 8", a, b)
		}
	})
}

// A server that does not give lent memory back keeps its pages: the slot moves, Python is told
// before the answer, and has old and new values there. The slots beside it stay where they are, also
// what Python writes to them meanwhile.
func TestLentMemoryThatAServerKeepsMoves(t *testing.T) {
	all := pair(t, nil)
	const n = 2 * shm.MinBytes / 4
	var regions, plans [2]uint32
	both(all, func(p *python, rank int) { regions[rank], plans[rank] = p.plan(n, n) })
	p, other := all[0], all[1]
	fill(p.slot(regions[0], 0), 1)
	number := p.exchange(flagAnswer, plans[0], 0, 1, 1)
	p.mustAsk("state", nil, nil) // the exchange has begun

	_, r, err := p.session.memory.slot(regions[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.session.memory.giveBack(r)
	for _, part := range [][]float32{r.each[0], r.each[2][n/2:]} {
		b, _, ok := shm.Find(bytesOf(part))
		if !ok {
			t.Fatal("the region's memory has no file")
		}
		if err := b.Detach(bytesOf(part)); err != nil {
			t.Fatal(err)
		}
	}
	fill(p.slot(regions[0], 1), 7) // a hook goes on
	fill(other.slot(regions[1], 0), 3)
	if a := other.wait(other.exchange(flagAnswer, plans[1], 0, 1, 1)); a.state != stateDone {
		t.Fatalf("the other worker: got %+v", a)
	}
	if a := p.wait(number); a.state != stateDone {
		t.Fatalf("got %+v", a)
	}
	if got := p.word(number); got != stateNoted {
		t.Errorf("got state %d in the word, want %d", got, stateNoted)
	}
	if p.note("moved"); p.note("moved")["region"] != float64(regions[0]) {
		t.Error("a note is about another region")
	}
	for _, want := range []struct {
		slot  int
		value float32
	}{{0, 1}, {2, 2}, {1, 7}} {
		if got := p.slot(regions[0], want.slot); slices.ContainsFunc(got, func(x float32) bool { return x != want.value }) {
			t.Errorf("slot %d has %v, want %v", want.slot, got[:3], want.value)
		}
	}
	for step := range 3 { // and the new memory is used as the old one was
		both(all, func(p *python, rank int) {
			fill(p.slot(regions[rank], 0), float32(rank+step))
			if a := p.wait(p.exchange(flagAnswer, plans[rank], 0, 2, 1)); a.state != stateDone {
				t.Errorf("got %+v", a)
			}
			if got, want := p.slot(regions[rank], 2)[n-1], float32(step)+0.5; got != want {
				t.Errorf("worker %d, step %d: got %v, want %v", rank, step, got, want)
			}
		})
	}
	if len(p.notes) != 0 && slices.ContainsFunc(p.notes, func(n map[string]any) bool { return n["note"] == "moved" }) {
		t.Error("a slot moved again")
	}
}

// A worker that waits for another one says so after a while: which key, and for whom.
func TestWaitsAreNoted(t *testing.T) {
	all := pair(t, func(s *session) { s.waitingEvery = 20 * time.Millisecond })
	var regions, plans [2]uint32
	both(all, func(p *python, rank int) { regions[rank], plans[rank] = p.plan(100) })
	number := all[0].exchange(flagAnswer, plans[0], 0, 1, 1)
	note := all[0].note("waiting")
	if note["key"] != "key0" || note["round"] != float64(0) || !strings.HasPrefix(note["call"].(string), "push-pull") {
		t.Errorf("got the note %v, want one of a push-pull of key0", note)
	}
	for !strings.Contains(note["waiting_for"].(string), "worker 1") {
		note = all[0].note("waiting")
	}
	all[1].wait(all[1].exchange(flagAnswer, plans[1], 0, 1, 1))
	if a := all[0].wait(number); a.state != stateDone {
		t.Errorf("got %+v", a)
	}
}

// Exchanges that cannot be fail by themselves, name what is wrong and change nothing; those beside
// them go on.
func TestWrongExchangesFailAlone(t *testing.T) {
	all := pair(t, nil)
	var regions, plans [2]uint32
	both(all, func(p *python, rank int) { regions[rank], plans[rank] = p.plan(100, 200) })
	p, plan := all[0], plans[0]
	under := p.exchange(0, plan, 1, 1, 1)
	for _, tt := range []struct {
		plan, first, count uint32
		weight             float32
		want               string
	}{
		{plan + 1, 0, 1, 1, "there is no plan"},
		{plan, 1, 2, 1, "entries 1 to 3 of plan"},
		{plan, 1<<32 - 1, 1<<32 - 1, 1, "which has 2"},
		{plan, 0, 2, 1, `key "key1" is in exchange 1`},
		{plan, 1, 1, -1, "weight -1"},
	} {
		p.exchange(0, tt.plan, tt.first, tt.count, tt.weight)
		note := p.note("failed")
		e := note["error"].(map[string]any)
		if note["number"] != float64(p.exchanged) || e["class"] != "Usage" || !strings.Contains(e["text"].(string), tt.want) {
			t.Errorf("got the note %v, want exchange %d, class Usage and %q", note, p.exchanged, tt.want)
		}
	}
	if e := p.ask("drop_plan", map[string]any{"plan": plan}, nil); e == nil || !strings.Contains(e.Text, "exchanges under way, 1 of them") {
		t.Errorf("a plan is dropped that an exchange uses: got %+v", e)
	}
	// The key that was refused beside another one is free.
	last := p.exchange(flagAnswer, plan, 0, 1, 1)
	both(all, func(q *python, rank int) {
		if q == p {
			if a := p.wait(last); a.state != stateFailed || a.error == nil || a.error.Number != under+1 {
				t.Errorf("got %+v, want the error of exchange %d", a, under+1)
			}
			return
		}
		if a := q.wait(q.exchange(flagAnswer, plans[1], 0, 2, 1)); a.state != stateDone {
			t.Errorf("got %+v", a)
		}
	})
	// Words are written behind the notes, and before the answer.
	for number := under + 1; number < last; number++ {
		if got := p.word(number); got != stateFailed {
			t.Errorf("exchange %d has state %d in its word, want %d", number, got, stateFailed)
		}
	}
	if got := p.word(under); got != stateDone {
		t.Errorf("the exchange beside them has state %d, want %d", got, stateDone)
	}
}

// Errors of the store have its classes, and name their keys.
func TestErrorsHaveClassAndKey(t *testing.T) {
	p := newPython(t, nil).join("dist_sync")
	region := p.memory(10, 20)
	keys := func(key string, slot int) map[string]any {
		return map[string]any{"keys": []map[string]any{{"key": key, "form": "average", "region": region, "slot": slot, "size": 10}}}
	}
	p.mustAsk("init", keys("a", 0), nil)
	entry := func(key string, slot int) map[string]any {
		return map[string]any{"keys": []map[string]any{{"key": key, "region": region, "grad": slot, "out": slot}}}
	}
	for _, tt := range []struct {
		op   string
		args map[string]any
		want errorText
	}{
		{"init", keys("a", 0), errorText{Class: "DuplicateInit", Key: "a"}},
		{"pull", entry("b", 0), errorText{Class: "UnknownKey", Key: "b"}},
		{"pushpull", entry("b", 0), errorText{Class: "UnknownKey", Key: "b"}},
		{"push", entry("a", 1), errorText{Class: "Size", Key: "a"}},
		{"pull", entry("a", 2), errorText{Class: "Usage"}},
		{"pull_rows", map[string]any{"key": "a", "region": region}, errorText{Class: "UnknownKey"}},
		{"pull", entry(strings.Repeat("k", 1025), 0), errorText{Class: "Usage"}},
		{"plan", map[string]any{"entries": []map[string]any{{"key": strings.Repeat("k", 1025), "region": region}}}, errorText{Class: "Usage"}},
		{"init", keys("", 0), errorText{Class: "Usage"}},
		{"init", map[string]any{"keys": []map[string]any{{"key": "large", "form": "dense", "region": region, "slot": 0, "size": 11}}}, errorText{Class: "Usage"}},
		{"init", map[string]any{"keys": []map[string]any{{"key": "shaped", "form": "dense", "region": region, "slot": 0, "size": 10, "shape": []int{3, 4}}}}, errorText{Class: "Size", Key: "shaped"}},
		{"broadcast", map[string]any{"region": region, "slot": 0, "bytes": 41}, errorText{Class: "Usage"}},
		{"set_optimizer", map[string]any{"config": map[string]any{"name": "sgd", "momentum": -1}}, errorText{Class: "Usage"}},
		{"set_optimizer", map[string]any{"config": map[string]any{"name": "sgd", "clip_global_norm": 1}}, errorText{Class: "Usage"}},
		{"set_optimizer", map[string]any{"config": map[string]any{"name": "sgd", "learning_rate": 0.1, "nesterov": true}}, errorText{Class: "Usage"}},
		{"set_compression", map[string]any{"config": map[string]any{"type": "3bit"}}, errorText{Class: "Usage"}},
		{"set_learning_rate", map[string]any{"round": 1, "rate": -1}, errorText{Class: "Usage"}},
		{"load", map[string]any{"uri": "/nowhere/at/all"}, errorText{Class: "Usage"}},
		{"join", map[string]any{"protocol": protocol, "store": "dist_sync"}, errorText{Class: "Usage"}},
		{"join", map[string]any{"protocol": protocol + 1, "release": "9.9.9", "store": "dist_sync"}, errorText{Class: "Protocol"}},
		{"nothing", nil, errorText{Class: "Usage"}},
	} {
		got := p.ask(tt.op, tt.args, nil)
		if got == nil || got.Class != tt.want.Class || got.Key != tt.want.Key || got.Text == "" {
			t.Errorf("%s %v: got %+v, want class %s and key %q", tt.op, tt.args, got, tt.want.Class, tt.want.Key)
		}
	}
	if e := newPython(t, nil).ask("join", map[string]any{"protocol": protocol, "store": "dits_sync"}, nil); e == nil || e.Class != "Usage" || !e.Final {
		t.Errorf("an unknown store: got %+v, want class Usage, final", e)
	}
	for _, c := range errorClasses {
		if got := errorOf(errors.Join(c.is)).Class; got != c.class {
			t.Errorf("%v: got class %s, want %s", c.is, got, c.class)
		}
	}
	if got := errorOf(kvstore.KeyErrors{{Key: "x", Err: kvstore.ErrFull}, {Key: "y", Err: kvstore.ErrSize}}); got.Key != "x" {
		t.Errorf("got the key %q, want the first that failed", got.Key)
	}
}
