package shardserver

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

func TestPushedRoundIsPulled(t *testing.T) {
	r := newRig(t, 3)
	r.init(0, 1, 1)
	r.setOptimizer(optim.Config{Name: "test", LearningRate: 2})
	taken := r.s.pool.Taken()
	for round := range uint64(4) {
		for rank := range 3 {
			m, b := push(rank, 0, round, float32(rank+1), 0)
			r.must(m, b)
			r.must(m, b) // a lost answer
		}
		r.wantValue(2, 0, round+1, float32(3*4*(round+1)+1), 1)
	}
	if got := r.s.Rounds(); got != 4 {
		t.Errorf("rounds: got %d, want 4", got)
	}
	r.wantTaken(taken)
}

// Payloads of topk vary in length. One that is not in order is refused as a whole, counts nowhere
// and holds no memory.
func TestTopKPushesAreCheckedBeforeTheyCount(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, make([]float32, 9)...)
	taken := r.s.pool.Taken()
	head := func(rank int, round uint64) *wire.Push {
		return &wire.Push{Origin: origin(rank, 0, round+1), Round: round, Weight: 1, Codec: wire.CodecTopK, N: 9, WaitMillis: 1000}
	}
	code := func(count, form byte, indices []byte, values ...float32) []byte {
		return slices.Concat([]byte{count, 0, 0, 0, form, 0, 0, 0}, floats(values...), indices)
	}
	for _, x := range []struct {
		payload []byte
		want    wire.Code
	}{
		{nil, wire.CodeSize}, {make([]byte, 7), wire.CodeSize}, {make([]byte, 37), wire.CodeSize},
		{code(1, 0, []byte{9}, 1), wire.CodeMalformed}, {code(2, 0, []byte{4}, 1, 1), wire.CodeMalformed},
		{code(1, 2, []byte{4}, 1), wire.CodeMalformed}, {code(1, 1, []byte{1, 0}, 1), wire.CodeMalformed},
	} {
		_, _, err := r.call(t.Context(), head(0, 0), x.payload)
		var refusal *transport.Refusal
		if !errors.As(err, &refusal) || refusal.Code != x.want {
			t.Errorf("push % x: got error %v, want code %d", x.payload, err, x.want)
		}
		r.wantTaken(taken)
	}
	r.must(head(1, 0), code(2, 0, []byte{0, 3}, 1, -2))
	r.must(head(0, 0), code(1, 0, []byte{4}, 5))
	r.must(head(0, 0), code(1, 0, []byte{4}, 5)) // a lost answer
	r.wantValue(0, 0, 1, 1, 0, 0, 0, 3, 0, 0, 0, 0)
	r.wantTaken(taken)
}

func TestPushPullAnswersWhenTheRoundCloses(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 0)
	taken := r.s.pool.Taken()
	var wg sync.WaitGroup
	for rank, codec := range []uint8{wire.CodecFloat32, wire.CodecFloat16} {
		wg.Go(func() {
			for round := range uint64(20) {
				m, b := push(rank, 0, round, float32(round)+float32(rank))
				m.Answer, m.AnswerCodec = true, codec
				answer, out, err := r.call(t.Context(), m, b)
				if err != nil {
					t.Error(err)
					return
				}
				v := answer.(*wire.Value)
				if want := floats(2*float32(round) + 1); rank == 0 && !slices.Equal(out, want) || v.Round != round+1 || v.Generation != 1 || v.Codec != codec {
					t.Errorf("rank %d round %d: got %v, payload %x; want %x of round %d", rank, round, v, out, want, round+1)
				}
				if rank == 1 && len(out) != 2 {
					t.Errorf("float16 answer: got %d bytes, want 2", len(out))
				}
			}
		})
	}
	wg.Wait()
	r.wantTaken(taken + 8) // the value in 16 bits stays until it changes
}

func TestRowsTravelBothWays(t *testing.T) {
	r := newRig(t, 2)
	r.initRows(5, 4, 2)
	taken := r.s.pool.Taken()
	r.must(&wire.PushRows{Origin: origin(0, 5, 1), Weight: 1, Rows: 2, WaitMillis: 1000}, slices.Concat(int64s(0, 3), floats(1, 2, 3, 4)))
	r.must(&wire.PushRows{Origin: origin(1, 5, 1), Weight: 1}, nil)
	_, out := r.must(&wire.PullRows{Origin: origin(1, 5, 1), Round: 1, Rows: 3, WaitMillis: 1000, Staleness: math.MaxUint64}, int64s(3, 1, 3))
	if got, want := unfloats(out), []float32{3, 4, 0, 0, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("rows 3, 1, 3: got %v, want %v", got, want)
	}
	if m, out := r.must(&wire.PullRows{Origin: origin(1, 5, 1), Round: 1, Staleness: math.MaxUint64}, nil); m.(*wire.Value).N != 0 || len(out) != 0 {
		t.Errorf("no rows: got %v and %d bytes", m, len(out))
	}
	r.refused(&wire.PushRows{Origin: origin(0, 5, 2), Round: 1, Rows: 2}, slices.Concat(int64s(3, 3), floats(1, 2, 3, 4)), wire.CodeMalformed)
	r.refused(&wire.PushRows{Origin: origin(0, 5, 2), Round: 1, Rows: 5}, make([]byte, 5*16), wire.CodeSize)
	r.refused(&wire.PullRows{Origin: origin(0, 5, 1), Rows: 1, Staleness: math.MaxUint64}, int64s(4), wire.CodeSize)
	r.refused(&wire.PullRows{Origin: origin(0, 5, 1), Rows: 1 << 40}, int64s(4), wire.CodeSize)
	r.wantTaken(taken)
}

func TestRequestIsRefusedByName(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 1, 2)
	r.initRows(1, 4, 2)
	taken := r.s.pool.Taken()
	type change func(m *wire.Push)
	for _, c := range []struct {
		name    string
		change  change
		payload int
		code    wire.Code
		text    string
	}{
		{"unknown key", func(m *wire.Push) { m.Key = 9 }, 8, wire.CodeUnknownKey, "key 9 shard 0"},
		{"unknown shard", func(m *wire.Push) { m.Shard = 1 }, 8, wire.CodeUnknownKey, "key 0 shard 1"},
		{"number of values", func(m *wire.Push) { m.N = 3 }, 8, wire.CodeSize, `key "w0" shard 0: got 3 values, want 2`},
		{"length of payload", func(m *wire.Push) {}, 12, wire.CodeSize, "got 12 bytes of payload, want 8"},
		{"no payload", func(m *wire.Push) {}, 0, wire.CodeSize, "got 0 bytes"},
		{"codec", func(m *wire.Push) { m.Codec = 9 }, 8, wire.CodeUnsupported, "codec 9"},
		{"codec of the answer", func(m *wire.Push) { m.Answer, m.AnswerCodec = true, wire.Codec2Bit }, 8, wire.CodeUnsupported, "codec 3"},
		{"dense push of rows", func(m *wire.Push) { m.Key = 1 }, 8, wire.CodeUnsupported, "has rows"},
		{"stale generation", func(m *wire.Push) { m.Generation = 0 }, 8, wire.CodeStaleGeneration, "sender's 0, ours 1"},
		{"unknown node", func(m *wire.Push) { m.Node = 77 }, 8, wire.CodeUnknownNode, "node 77"},
		{"another's rank", func(m *wire.Push) { m.Rank = 1 }, 8, wire.CodeConflict, "node 10 is rank 0"},
		{"closed round", func(m *wire.Push) { m.Weight = float32(math.NaN()) }, 8, wire.CodeMalformed, "weight NaN"},
		{"too far ahead, no time", func(m *wire.Push) { m.Round, m.WaitMillis = 2, 0 }, 8, wire.CodeTooFarAhead, "got round 2 after 0 closed rounds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := push(0, 0, 0, 1, 2)
			c.change(m)
			if text := (&rig{t, r.s}).refused(m, make([]byte, c.payload), c.code); !strings.Contains(text, c.text) {
				t.Errorf("text: got %q, want %q in it", text, c.text)
			}
		})
	}
	r.refused(&wire.Register{}, nil, wire.CodeUnsupported)
	r.refused(&wire.InitShard{Origin: origin(1, 3, 0), Form: 1, Rule: 1, Length: 1, Size: 1, Shards: 1, Name: "x"}, floats(1), wire.CodeBusy)
	r.wantTaken(taken)
}

func TestInitKeepsTheFirstValue(t *testing.T) {
	r := newRigConfig(t, 1, Config{MaxShards: 2, MaxBytes: 1000})
	r.init(0, 1, 2)
	r.init(0, 8, 9)
	r.wantValue(0, 0, 0, 1, 2)
	other := wire.InitShard{Origin: origin(0, 0, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 3, Size: 3, Shards: 1, Name: "w0"}
	if text := r.refused(&other, floats(1, 2, 3), wire.CodeSize); !strings.Contains(text, `"w0"`) {
		t.Errorf("text: got %q, want the key's name in it", text)
	}
	other.Length, other.Size, other.Rule = 2, 2, wire.RuleAverage
	r.refused(&other, floats(1, 2), wire.CodeDuplicateInit)
	other.Key, other.Length, other.Size, other.Zeros = 1, 1<<20, 1<<20, true
	r.refused(&other, nil, wire.CodeFull)
	r.init(1, 1)
	other.Key, other.Length, other.Size = 2, 1, 1
	r.refused(&other, nil, wire.CodeFull)
}

func TestAwaitEndsWhenRankZeroHasInitialised(t *testing.T) {
	r := newRig(t, 2)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, _, err := r.call(t.Context(), &wire.AwaitShard{Origin: origin(1, 4, 0), WaitMillis: 60_000}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	r.init(4, 1)
	wg.Wait()
	r.refused(&wire.AwaitShard{Origin: origin(1, 5, 0), WaitMillis: 1}, nil, wire.CodeTimeout)
	if len(r.s.awaited) != 0 {
		t.Errorf("shards awaited: got %d, want none left", len(r.s.awaited))
	}
}

func TestOptimizerIsOneForAll(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 0)
	sgd := optim.Config{Name: "sgd", LearningRate: 1, Momentum: 0.5}
	r.setOptimizer(sgd)
	m, b := push(0, 0, 0, 1)
	r.must(m, b)
	m, b = push(1, 0, 0, 1)
	r.must(m, b)
	r.must(setOptimizer(t, 1, wire.ModeSync, sgd), nil) // the same keeps all state
	for rank := range 2 {
		m, b = push(rank, 0, 1, 0)
		r.must(m, b)
	}
	r.wantValue(0, 0, 2, -3) // -2, then half of it again
	text := r.refused(setOptimizer(t, 1, wire.ModeSync, optim.Config{Name: "adam"}), nil, wire.CodeConflict)
	for _, want := range []string{"worker 1 on b", `"adam"`, "worker 0 on a", `"sgd"`} {
		if !strings.Contains(text, want) {
			t.Errorf("text: got %q, want %q in it", text, want)
		}
	}
	text = r.refused(setOptimizer(t, 1, wire.ModeAsync, sgd), nil, wire.CodeConflict)
	if !strings.Contains(text, "worker 1 on b (node 11, pid 101) set dist_async, but worker 0 on a (node 10, pid 100) had set dist_sync") {
		t.Errorf("text: got %q, want both workers and modes in it", text)
	}
	bad := setOptimizer(t, 1, wire.ModeSync, sgd)
	bad.Config = `{"name":"sgd","code":"import os"}`
	r.refused(bad, nil, wire.CodeMalformed)
	bad.Mode = 7
	r.refused(bad, nil, wire.CodeMalformed)
}

func TestRateHoldsFromItsRoundOnForKeysOldAndNew(t *testing.T) {
	r := newRig(t, 1)
	r.refused(&wire.SetRate{Origin: origin(0, 0, 0), Round: 1, Rate: 3}, nil, wire.CodeConflict)
	test := optim.Config{Name: "test", LearningRate: 1}
	r.setOptimizer(test)
	r.init(0, 0)
	rate := &wire.SetRate{Origin: origin(0, 0, 0), Round: 1, Rate: 100}
	r.must(rate, nil)
	r.init(1, 0)
	for key := range uint64(2) {
		for round := range uint64(2) {
			m, b := push(0, key, round, 1)
			r.must(m, b)
		}
		r.wantValue(0, key, 2, 101)
	}
	r.must(rate, nil)    // sent again after a lost answer
	r.setOptimizer(test) // says the same optimizer again, and keeps the rate
	rate.Rate = 5
	r.refused(rate, nil, wire.CodeConflict)
	rate.Rate = math.Inf(1)
	r.refused(rate, nil, wire.CodeMalformed)
	for round := uint64(2); round < 60; round++ { // a rate for each round does not pile up
		r.must(&wire.SetRate{Origin: origin(0, 0, 0), Round: round, Rate: float64(round)}, nil)
		for key := range uint64(2) {
			m, b := push(0, key, round, 0)
			r.must(m, b)
		}
		if n := len(r.s.settings.opt.Config().Changes); n > 3 {
			t.Fatalf("round %d: got %d changes of rate kept, want at most 3", round, n)
		}
	}
}

func TestStateMovesToAnotherServer(t *testing.T) {
	a, b := newRig(t, 1), newRig(t, 1)
	a.init(0, 1, 2)
	a.setOptimizer(optim.Config{Name: "adam", LearningRate: 0.1})
	for round := range uint64(3) {
		m, p := push(0, 0, round, 1, -1)
		a.must(m, p)
	}
	m, values := a.must(&wire.ReadState{Origin: origin(0, 0, 0), Round: 3, WaitMillis: 1000}, nil)
	st := m.(*wire.State)
	if len(values) != 4*2*3 || st.Round != 3 || st.N != 2 || !slices.Equal(st.Slots, []string{"mean", "variance"}) {
		t.Fatalf("state: got %+v with %d bytes, want 3 rounds, 2 values, mean and variance", st, len(values))
	}
	cfg := &wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: wire.ModeSync, Config: st.Config}
	b.must(cfg, nil)
	b.must(&wire.WriteState{
		Init:  wire.InitShard{Origin: origin(0, 0, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Name: "w0"},
		Round: st.Round, Slots: st.Slots,
	}, values)
	for _, r := range []*rig{a, b} {
		m, p := push(0, 0, 3, 0.5, 0.25)
		r.must(m, p)
	}
	_, want := a.must(pull(0, 0, 4), nil)
	b.wantValue(0, 0, 4, unfloats(want)...)
	b.refused(&wire.WriteState{
		Init:  wire.InitShard{Origin: origin(0, 0, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Name: "w0"},
		Slots: []string{"momentum"},
	}, make([]byte, 16), wire.CodeConflict)
	b.refused(&wire.WriteState{
		Init:  wire.InitShard{Origin: origin(0, 0, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: math.MaxUint64, Size: math.MaxUint64, Shards: 1, Name: "w0"},
		Slots: st.Slots,
	}, make([]byte, 16), wire.CodeSize)
}

// Many workers and keys at once, with lost answers, end in the numbers of a quiet run.
func TestWorkersAndKeysAtOnceEndInTheRightSums(t *testing.T) {
	const workers, keys, rounds = 4, 5, 30
	r := newRig(t, workers)
	for key := range uint64(keys) {
		r.init(key, 1, 1, 1)
	}
	r.setOptimizer(optim.Config{Name: "test", LearningRate: 2})
	taken := r.s.pool.Taken()
	var wg sync.WaitGroup
	for rank := range workers {
		for key := range uint64(keys) {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(rank), key))
				for round := range uint64(rounds) {
					m, b := push(rank, key, round, float32(rank+1), float32(key), 0)
					m.WaitMillis = 60_000
					for {
						m.Answer = random.IntN(2) == 0
						if _, _, err := r.call(context.Background(), m, b); err != nil {
							t.Errorf("rank %d key %d round %d: %v", rank, key, round, err)
							return
						}
						if random.IntN(3) > 0 {
							break
						}
					}
				}
			})
		}
	}
	wg.Wait()
	for key := range uint64(keys) {
		r.wantValue(0, key, rounds, workers*(workers+1)*rounds+1, 2*workers*float32(key)*rounds+1, 1)
	}
	r.wantTaken(taken)
}

func TestSteadyPushPullAllocatesNothing(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, make([]float32, 1000)...)
	r.setOptimizer(optim.Config{Name: "adam"})
	m, payload := push(0, 0, 0, make([]float32, 1000)...)
	m.Answer = true
	req := newRequest(m)
	round := uint64(0)
	step := func() {
		m.Round, m.Seq = round, round+1
		req.Head = wire.AppendHead(req.Head[:0], m)
		req.Value = nil
		b, err := r.s.Buffer(req, len(payload))
		if err != nil {
			t.Fatal(err)
		}
		copy(b, payload)
		resp, err := r.s.Serve(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
		round++
	}
	step()
	if got := alloctest.PerRun(100, step); got != 0 {
		t.Errorf("allocations of a push-pull: got %v, want 0", got)
	}
}

// A fault of ours is an answer too.
func TestPanicIsAnAnswer(t *testing.T) {
	r := newRig(t, 1)
	r.s.entries[shardID{3, 0}] = &entry{cfg: &shard.Config{Form: wire.FormDense, Length: 1}} // without a shard
	r.refused(pull(0, 3, 0), nil, wire.CodeInternal)
	m, b := push(0, 3, 0, 1)
	r.refused(m, b, wire.CodeInternal)
	if got := r.s.panics.Load(); got != 2 {
		t.Errorf("panics counted: got %d, want 2", got)
	}
	delete(r.s.entries, shardID{3, 0})
	r.wantTaken(0)
}
