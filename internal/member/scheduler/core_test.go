package scheduler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// randomEvents is a job of random doings: nodes register, work, wait, vanish and come back, some of
// it nonsense.
func randomEvents(seed uint64) (set Settings, events []Event) {
	rng := rand.New(rand.NewPCG(seed, 1))
	set = Settings{Job: "j", Workers: 1 + rng.IntN(3), Servers: 1 + rng.IntN(2), Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	if seed%2 == 1 {
		set.Elastic = cluster.Elastic{Enabled: true, OnWorkerLoss: []cluster.LossPolicy{"", cluster.LossWait}[rng.IntN(2)], JoinTimeout: 30 * time.Second, RejoinTimeout: time.Minute}
	}
	now := time.Unix(0, 0)
	total := set.Workers + set.Servers
	for i := range 200 {
		now = now.Add(time.Duration(rng.IntN(1500)) * time.Millisecond)
		node := uint64(rng.IntN(total + 2))
		name := fmt.Sprint("n", rng.IntN(4))
		wait := uint32(rng.IntN(20_000))
		var m wire.Message
		switch k := rng.IntN(40); {
		case i < total || k == 0:
			role := wire.RoleWorker
			if i >= set.Workers {
				role = wire.RoleServer
			}
			m = &wire.Register{Role: role, Rank: int32(rng.IntN(set.Workers+1)) - 1, Workers: uint32(set.Workers), Servers: uint32(set.Servers),
				Nonce: rng.Uint64N(50), Job: "j", Host: fmt.Sprint("h", i%7), Addr: "a:1", Joining: i > total && rng.IntN(2) == 0}
		case k < 4:
			m = &wire.Watch{Node: node, Revision: rng.Uint64N(4), WaitMillis: wait}
		case k < 8:
			m = &wire.Barrier{Node: node, Generation: rng.Uint64N(2) + uint64(k&1), Name: name, WaitMillis: wait}
		case k < 10:
			m = &wire.Await{Node: node, Name: name, WaitMillis: wait}
		case k < 11:
			m = &wire.Signal{Node: node, Name: name}
		case k < 13:
			m = &wire.Declare{Node: node, Generation: 1, Form: wire.FormDense, Rule: 1, Size: rng.Uint64N(1 << 20), Name: name}
		case k < 14 && i > 100:
			m = &wire.Leave{Node: node, OK: rng.IntN(4) > 0, Reason: "x"}
		case k == 14:
			events = append(events, Event{At: now, Request: uint64(1 + rng.IntN(i+1))})
			continue
		case k == 15:
			now = now.Add(-time.Minute) // clocks jump
			m = &wire.Value{}
		case k == 16 || k == 17:
			m = &wire.Ready{Node: node, WaitMillis: wait}
		case k < 22:
			m = &wire.Arrive{Node: node, Generation: rng.Uint64N(3), Change: rng.Uint64N(4), Steps: uint64(i), Used: rng.Uint64N(50), WaitMillis: wait,
				Step: rng.Uint64N(9), Earlier: slices.Repeat([]uint64{rng.Uint64N(9)}, rng.IntN(4)), Resumed: slices.Repeat([]uint64{rng.Uint64N(3)}, rng.IntN(4)),
				Cuts: []wire.Cut{{Parts: 2, Used: make([]uint64, 1+rng.IntN(2))}}}
		case k == 22:
			m = &wire.LostExamples{Node: node, Lost: rng.Uint64N(9), Examples: rng.Uint64N(100)}
		case k == 23:
			op := []string{"status", "why", "events", "add", "remove", "failed", "x", "stop", "checkpoint-stop"}[rng.IntN(9)]
			m = &wire.Control{Request: fmt.Sprintf(`{"op":%q,"host":"h%d","wait_ms":%d}`, op, rng.IntN(8), rng.IntN(9000))}
		case k == 24:
			m = &wire.AskLeave{Node: node, Reason: "x"}
		default:
			m = &wire.Heartbeat{Node: node, Step: uint64(i)}
		}
		events = append(events, Event{At: now, Request: uint64(i + 1), Message: m})
	}
	return set, events
}

// sameNotes compares what notes and their events say.
var sameNotes = cmp.Comparer(func(a, b Note) bool {
	return a.Text == b.Text && a.Event.Value.Resolve().Equal(b.Event.Value.Resolve())
})

func TestTheSameEventsGiveTheSameAnswers(t *testing.T) {
	for seed := range some(15, 50) {
		set, events := randomEvents(seed)
		a, b := NewCore(set, time.Unix(0, 0)), NewCore(set, time.Unix(0, 0))
		for i, e := range events {
			if d := cmp.Diff(a.Step(e), b.Step(e), sameNotes); d != "" {
				t.Fatalf("seed %d event %d (%T): %s", seed, i, e.Message, d)
			}
		}
	}
}

// Whatever happens, no request is answered twice and none is left without an answer once its time
// is over.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	for seed := range some(150, 500) {
		set, events := randomEvents(seed)
		c := NewCore(set, time.Unix(0, 0))
		open := make(map[uint64]wire.Message)
		check := func(out Output) {
			for _, a := range out.Answers {
				if open[a.Request] == nil {
					t.Fatalf("seed %d: request %d was answered again, with %v", seed, a.Request, a.Message)
				}
				delete(open, a.Request)
			}
		}
		for _, e := range events {
			if e.Message != nil {
				open[e.Request] = e.Message
			} else {
				// Its sender is gone, so nobody is there to be answered.
				delete(open, e.Request)
			}
			check(c.Step(e))
		}
		for range 2000 {
			next := c.Next()
			if next.IsZero() {
				break
			}
			check(c.Step(Event{At: next}))
		}
		if next := c.Next(); !next.IsZero() {
			t.Fatalf("seed %d: the core wants to be stepped for ever, next at %v", seed, next)
		}
		for r, m := range open {
			t.Fatalf("seed %d: request %d (%v) was never answered", seed, r, reflect.TypeOf(m))
		}
	}
}

// Whatever members say, in whatever order, the core answers.
func FuzzCore(f *testing.F) {
	for seed := range uint64(6) {
		_, events := randomEvents(seed)
		var b []byte
		for _, e := range events {
			if e.Message == nil {
				continue
			}
			head := wire.AppendHead(nil, e.Message)
			b = append(append(b, byte(e.Message.Kind()), byte(seed), byte(len(head))), head[:min(len(head), 255)]...)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		set, _ := randomEvents(1)
		c, now, k := NewCore(set, time.Unix(0, 0)), time.Unix(0, 0), journalRecords{}
		for request := uint64(1); len(b) > 3; request++ {
			kind, pause, n := wire.Kind(b[0]), b[1], min(int(b[2]), len(b)-3)
			m := wire.New(kind)
			if m != nil && wire.DecodeHead(m, b[3:3+n]) == nil {
				now = now.Add(time.Duration(pause) * 50 * time.Millisecond)
				k.take(c.Step(Event{At: now, Request: request, Message: m}))
			}
			b = b[3+n:]
		}
		k.check(t, set, c, "restored")
	})
}

// resnet18 is the sizes of the network's arrays (torchvision's, in order of its layers): 62 of
// them, 11,689,512 values.
func resnet18() (sizes []uint64) {
	// A layer has its weights and the two vectors of its batch norm.
	conv := func(out, in, k uint64) { sizes = append(sizes, out*in*k*k, out, out) }
	conv(64, 3, 7)
	in := uint64(64)
	for _, out := range []uint64{64, 128, 256, 512} {
		for block := range 2 {
			conv(out, in, 3)
			conv(out, out, 3)
			if block == 0 && in != out {
				conv(out, in, 1)
			}
			in = out
		}
	}
	return append(sizes, 1000*512, 1000)
}

func TestServersGetTheSameShareOfResNet18(t *testing.T) {
	sizes := resnet18()
	var total uint64
	for _, n := range sizes {
		total += n
	}
	if len(sizes) != 62 || total != 11_689_512 {
		t.Fatalf("ResNet18 has %d arrays with %d values, want 62 with 11689512", len(sizes), total)
	}
	for servers := 2; servers <= 8; servers++ {
		for _, order := range []string{"forward", "backward"} {
			p := newPlanner(servers)
			if order == "backward" {
				slices.Reverse(sizes)
			}
			for i, n := range sizes {
				k, ok := p.declare(&wire.Declare{Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: n, Name: fmt.Sprint(i)}, "w", 1).(*wire.KeyPlan)
				if !ok {
					t.Fatalf("%d values: no plan", n)
				}
				checkPlan(t, k)
			}
			if share := float64(slices.Max(p.load)) / (float64(total) / float64(servers)); share >= 1.05 {
				t.Errorf("%d servers, declared %s: the fullest has %.3f times the mean, want under 1.05: %v", servers, order, share, p.load)
			}
		}
	}
}

// checkPlan holds what is true of every plan of a dense key.
func checkPlan(t *testing.T, k *wire.KeyPlan) {
	t.Helper()
	var offset uint64
	for i, s := range k.Shards {
		if s.Offset != offset || s.Length == 0 || offset%align != 0 || (len(k.Shards) > 1 && s.Length > maxShard) {
			t.Fatalf("key of %d values: shard %d of %d is %+v, want it at %d", k.Size, i, len(k.Shards), s, offset)
		}
		offset += s.Length
	}
	if offset != k.Size {
		t.Fatalf("key of %d values: its shards hold %d", k.Size, offset)
	}
}

func TestPlansCoverKeysOfAnySizeAndFitTheirFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := newPlanner(7)
	for i := range 300 {
		n := uint64(1) + rng.Uint64N(1<<(1+rng.IntN(33)))
		switch i {
		case 0:
			n = maxKeySize
		case 1:
			n = cutAbove + 1
		}
		k := p.declare(&wire.Declare{Form: wire.FormDense, Rule: 1, Size: n, Name: fmt.Sprint(i)}, "w", 1).(*wire.KeyPlan)
		checkPlan(t, k)
		if got := len(wire.AppendHead(nil, k)); got > wire.MaxHead {
			t.Fatalf("%d values: a plan of %d bytes, want at most %d", n, got, wire.MaxHead)
		}
		rows, rowLen := 1+rng.Uint64N(1<<20), 1+rng.Uint64N(64)
		k = p.declare(&wire.Declare{Form: wire.FormRows, Rule: 1, Size: rows * rowLen, RowLen: rowLen, Name: fmt.Sprint("r", i)}, "w", 1).(*wire.KeyPlan)
		var sum uint64
		for j, s := range k.Shards {
			want := (rows + uint64(len(k.Shards)) - 1 - uint64(j)) / uint64(len(k.Shards)) * rowLen
			if s.Offset != uint64(j) || s.Length != want || s.Length > maxRows {
				t.Fatalf("%d rows of %d: shard %d is %+v, want %d values", rows, rowLen, j, s, want)
			}
			sum += s.Length
		}
		if sum != k.Size {
			t.Fatalf("%d rows of %d: shards hold %d values", rows, rowLen, sum)
		}
	}
}

// An open vocabulary has as many shards on every server; all workers must describe it alike.
func TestOpenVocabulariesAreOnEveryServer(t *testing.T) {
	p := newPlanner(3)
	d := wire.Declare{Form: wire.FormOpen, Rule: 1, RowLen: 16, Name: "words", Table: `{"max_rows":5}`}
	k, ok := p.declare(&d, "w", 1).(*wire.KeyPlan)
	if !ok {
		t.Fatalf("got %+v, want a plan", p.declare(&d, "w", 1))
	}
	count := map[uint32]int{}
	for i, s := range k.Shards {
		if s.Offset != uint64(i) || s.Length != 0 {
			t.Errorf("shard %d: got %+v, want it empty at offset %d", i, s, i)
		}
		count[s.Server]++
	}
	for server := range uint32(3) {
		if count[server] != openShards {
			t.Errorf("server %d: got %d shards, want %d", server, count[server], openShards)
		}
	}
	d.Table = ""
	if n, ok := p.declare(&d, "another", 1).(*wire.Nack); !ok || n.Code != wire.CodeConflict {
		t.Errorf("another table: got %+v, want code %d", n, wire.CodeConflict)
	}
	for _, d := range []wire.Declare{
		{Form: wire.FormOpen, Rule: 1, Size: 16, RowLen: 16, Name: "a"}, {Form: wire.FormOpen, Rule: 1, Name: "b"}, {Form: wire.FormOpen, Rule: 1, RowLen: maxRows + 1, Name: "c"},
	} {
		if n, ok := p.declare(&d, "w", 1).(*wire.Nack); !ok || n.Code != wire.CodeSize {
			t.Errorf("%+v: got %+v, want code %d", d, n, wire.CodeSize)
		}
	}
	whole := wire.Declare{Form: wire.FormOpen, Rule: 1, RowLen: 16, Name: "whole", Whole: true}
	if k := p.declare(&whole, "w", 1).(*wire.KeyPlan); len(k.Shards) != 1 {
		t.Errorf("a key that may not be cut: got %d shards, want 1", len(k.Shards))
	}
}

func TestEqualPlansHaveEqualHashes(t *testing.T) {
	hash := func(names ...string) (h uint64) {
		p := newPlanner(2)
		for _, n := range names {
			h = p.declare(&wire.Declare{Form: wire.FormDense, Rule: 1, Size: uint64(10 * len(n)), Name: n}, "w", 1).(*wire.KeyPlan).Hash
		}
		return h
	}
	if again, first := hash("a", "bb", "a"), hash("a"); again != first {
		t.Errorf("a key that is declared again: got hash %x, want %x as at first", again, first)
	}
	first := hash("a", "bb")
	for range 10 {
		if got := hash("a", "bb"); got != first {
			t.Fatalf("the same declarations: got hash %x, and %x before", got, first)
		}
	}
	if hash("a", "bb") == hash("bb", "a") || hash("b", "cc") == hash("a", "cc") {
		t.Error("other declarations have the same hash")
	}
}

func BenchmarkCoreHeartbeat(b *testing.B) {
	set := Settings{Job: "j", Workers: 1000, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}
	c := NewCore(set, time.Unix(0, 0))
	for i := range 1001 {
		role := wire.RoleWorker
		if i == 1000 {
			role = wire.RoleServer
		}
		c.Step(Event{At: time.Unix(0, 0), Request: uint64(i + 1), Message: &wire.Register{Role: role, Rank: -1, Workers: 1000, Servers: 1, Nonce: uint64(i), Job: "j", Addr: "a:1"}})
	}
	m := &wire.Heartbeat{Node: 5}
	for b.Loop() {
		c.Step(Event{At: time.Unix(1, 0), Request: 1, Message: m})
	}
}
