package shardserver

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// wantRecord checks some values of what a server has recorded, and its blames.
func (r *rig) wantRecord(what string, want map[telemetry.Metric]float64, blames ...telemetry.Blame) {
	r.t.Helper()
	wantRecord(r.t, what, r.s.cfg.Recorder, want, blames...)
}

func wantRecord(t testing.TB, what string, r *telemetry.Recorder, want map[telemetry.Metric]float64, blames ...telemetry.Blame) {
	t.Helper()
	rec := r.Record()
	got := map[telemetry.Metric]float64{}
	for _, s := range rec.Samples {
		got[s.Metric] += s.Value
	}
	for m, x := range want {
		if v, ok := got[m]; !ok || v-x > 1e-9 || x-v > 1e-9 {
			t.Errorf("%s: %v: got %v, want %v", what, m, v, x)
		}
	}
	if !slices.Equal(rec.Blames, blames) {
		t.Errorf("%s: blames: got %v, want %v", what, rec.Blames, blames)
	}
}

// A server records its rounds, who waits, what it holds, and whom the others waited for.
func TestServerRecordsRoundsAndBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.init(1, make([]float32, 16)...)
		r.initRows(2, 4, 4)
		r.wantRecord("before the first round", map[telemetry.Metric]float64{telemetry.Shards: 2, telemetry.ValueBytes: 128, telemetry.HeldBytes: 0, telemetry.Waiting: 0})
		for round := range uint64(4) {
			var waiting sync.WaitGroup
			m, b := push(1, 1, round, make([]float32, 16)...)
			r.must(m, b)
			waiting.Go(func() { r.must(pull(1, 1, round+1), nil) })
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if round == 0 { // rank 1's contribution waits for rank 0's
				r.wantRecord("in a round", map[telemetry.Metric]float64{telemetry.HeldBytes: 64, telemetry.Waiting: 1})
			}
			m, b = push(0, 1, round, make([]float32, 16)...)
			r.must(m, b)
			time.Sleep(30 * time.Millisecond)
			m, b = push(2, 1, round, make([]float32, 16)...)
			r.must(m, b)
			waiting.Wait()
			for _, rank := range []int{2, 0, 1} { // rows are late in the last round only
				m := &wire.PushRows{Origin: origin(rank, 2, round+1), Round: round, Weight: 1, WaitMillis: 1000}
				if rank == 1 && round == 3 {
					time.Sleep(500 * time.Millisecond)
				}
				r.must(m, nil)
			}
		}
		r.wantRecord("after 8 rounds", map[telemetry.Metric]float64{telemetry.Rounds: 8, telemetry.RoundSeconds: 4*.05 + .5, telemetry.RoundBuckets: 8,
			telemetry.ApplySeconds: 0, telemetry.HeldBytes: 0, telemetry.Waiting: 0},
			telemetry.Blame{Node: 11, Rounds: 1, Seconds: .5}, telemetry.Blame{Node: 12, Rounds: 4, Seconds: .12})

		r.setMembers(2, wire.Membership{}, []uint64{10, 11}) // 12 has left: its blame is told for a minute
		time.Sleep(time.Minute)
		r.wantRecord("a minute later", nil, telemetry.Blame{Node: 11, Rounds: 1, Seconds: .5}, telemetry.Blame{Node: 12, Rounds: 4, Seconds: .12})
		time.Sleep(time.Second)
		r.wantRecord("another second later", nil, telemetry.Blame{Node: 11, Rounds: 1, Seconds: .5})
		r.setMembers(3, wire.Membership{}, []uint64{10, 11, 12})
		r.wantRecord("it is back", nil, telemetry.Blame{Node: 11, Rounds: 1, Seconds: .5})
	})
}

// A contribution counts as having come when it came first, also if it had to wait for its turn or
// was sent again.
func TestBlameIsOfTheFirstArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(1, 0)
		var early sync.WaitGroup
		for round := range uint64(3) { // round 2 has to wait until round 0 has closed
			early.Go(func() {
				m, b := push(0, 1, round, 1)
				m.WaitMillis = 60_000
				r.must(m, b)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		m, b := push(0, 1, 0, 1)
		r.must(m, b) // again
		for round := range uint64(3) {
			time.Sleep(time.Second)
			m, b := push(1, 1, round, 1)
			r.must(m, b)
			synctest.Wait()
		}
		early.Wait()
		r.wantRecord("three rounds", map[telemetry.Metric]float64{telemetry.Rounds: 3, telemetry.RoundSeconds: 4}, telemetry.Blame{Node: 11, Rounds: 3, Seconds: 4})
	})
}

// A contribution that waits until the server knows its generation has come before that.
func TestBlameDoesNotCountTheWaitForAMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(1, 0)
		var early sync.WaitGroup
		early.Go(func() {
			m, b := push(0, 1, 0, 1)
			m.Generation = 2
			r.must(m, b)
		})
		time.Sleep(2 * time.Second)
		r.members(2, 2)
		time.Sleep(time.Second)
		m, b := push(1, 1, 0, 1)
		m.Generation = 2
		r.must(m, b)
		early.Wait()
		r.wantRecord("a round", map[telemetry.Metric]float64{telemetry.RoundSeconds: 3}, telemetry.Blame{Node: 11, Rounds: 1, Seconds: 3})
	})
}

// A store within a process records as a server does. Asynchronous rounds charge nobody.
func TestLocalAndAsynchronousRoundsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocal(t)
		call := func(m wire.Message, answer wire.Message, payload []byte) {
			if _, err := l.Call(t.Context(), m, answer, nil, payload); err != nil {
				t.Fatal(err)
			}
		}
		call(&wire.InitShard{Origin: origin(0, 1, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 1, Size: 1, Shards: 1, Name: "w"}, &wire.Ack{}, floats(1))
		for round := range uint64(5) {
			m, b := push(0, 1, round, 1)
			call(m, &wire.Ack{}, b)
		}
		wantRecord(t, "local", l.s.cfg.Recorder, map[telemetry.Metric]float64{telemetry.Rounds: 5, telemetry.Shards: 1, telemetry.ValueBytes: 4})

		r := newRig(t, 2)
		r.must(setOptimizer(t, 0, wire.ModeAsync, optim.Config{Name: "sgd", LearningRate: 1}), nil)
		r.init(1, 0)
		for round := range uint64(5) {
			for rank := range 2 {
				m, b := push(rank, 1, round, 1)
				r.must(m, b)
				time.Sleep(time.Second)
			}
		}
		r.wantRecord("asynchronous", map[telemetry.Metric]float64{telemetry.Rounds: 10, telemetry.RoundSeconds: 0})
	})
}

// A Record has the workers whose blame grew most. The others are in it from time to time, and all
// of them if there is room.
func TestRecordsHaveTheBlamesThatGrewMost(t *testing.T) {
	const nodes, slow = 200, 77
	table := blameTable{nodes: map[uint64]*blame{}}
	add := func(node uint64, rounds uint64, d time.Duration) {
		b := table.of(node)
		b.rounds.Add(rounds)
		b.nanos.Add(int64(d))
	}
	table.of(1) // was never last
	told, seen := map[uint64]telemetry.Blame{}, 0
	const records = 20
	for i := range records {
		for node := range uint64(nodes) {
			add(node+1, 1, time.Millisecond)
		}
		add(slow, 100, time.Second)
		list := table.newest(0)
		if len(list) != telemetry.MaxBlames || !slices.IsSortedFunc(list, func(a, b telemetry.Blame) int { return int(a.Node) - int(b.Node) }) {
			t.Fatalf("record %d has %d blames: %v, want %d by node", i, len(list), list, telemetry.MaxBlames)
		}
		r := telemetry.Record{Blames: list}
		if _, err := telemetry.Decode(r.Append(nil)); err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			told[b.Node] = b
			if b.Node == slow {
				seen++
			}
		}
	}
	if len(told) != nodes || seen != records {
		t.Errorf("%d of %d workers were told of, the slow one in %d of %d records; want all", len(told), nodes, seen, records)
	}
	for node, b := range told {
		if node != slow && b.Rounds < records-2*nodes/telemetry.MaxBlames {
			t.Errorf("worker %d: %v was told last, want it to be at most some records old", node, b)
		}
	}
	isMember := func(node uint64) bool { return node == slow }
	table.leave(isMember, 5)
	table.leave(isMember, 6+forgetBlame)
	if len(table.nodes) != 1 {
		t.Errorf("%d workers are known, want 1: the others have left", len(table.nodes))
	}
	for range 2 { // also if nothing has changed: the record before may be lost
		if list := table.newest(0); len(list) != 1 || list[0] != (telemetry.Blame{Node: slow, Rounds: records * 101, Seconds: records * 1.001}) {
			t.Errorf("got %v, want the slow worker with its totals", list)
		}
	}
}

// A record is made, and with it a heartbeat, while a call holds the server's table of shards:
// setting an optimizer may take long. The number of shards is then that of the record before.
func TestARecordWaitsForNoCall(t *testing.T) {
	r := newRig(t, 1)
	r.init(1, 0)
	shards := map[telemetry.Metric]float64{telemetry.Shards: 1}
	wantRecord(t, "at first", r.s.cfg.Recorder, shards)
	r.s.mu.Lock()
	made := make(chan telemetry.Record, 1)
	go func() { made <- r.s.cfg.Recorder.Record() }()
	select {
	case rec := <-made:
		if !slices.Contains(rec.Samples, telemetry.Sample{Metric: telemetry.Shards, Value: 1}) {
			t.Errorf("got %v, want one shard", rec.Samples)
		}
	case <-time.After(10 * time.Second):
		t.Error("no record was made within 10 s")
	}
	r.s.mu.Unlock()
}

// Records are made while rounds close, and shards come.
func TestRecordsAreMadeAtAnyTime(t *testing.T) {
	r := newRig(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var recording sync.WaitGroup
	recording.Go(func() {
		for ctx.Err() == nil {
			r.s.cfg.Recorder.Record()
		}
	})
	for key := range uint64(8) {
		r.init(key, 0)
		for round := range uint64(20) {
			for rank := range 2 {
				m, b := push(rank, key, round, 1)
				r.must(m, b)
			}
		}
	}
	cancel()
	recording.Wait()
	rec := r.s.cfg.Recorder.Record()
	charged := uint64(0)
	for _, b := range rec.Blames {
		charged += b.Rounds
	}
	if charged == 0 || charged > 160 {
		t.Errorf("blames %v: %d rounds are charged, want 1 to 160", rec.Blames, charged)
	}
	wantRecord(t, "160 rounds", r.s.cfg.Recorder, map[telemetry.Metric]float64{telemetry.Rounds: 160, telemetry.Shards: 8}, rec.Blames...)
}
