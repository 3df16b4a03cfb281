package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// dense returns a shard of the values, a part of a dense key, with workers of ranks 0..workers-1 as
// nodes 10, 11, ...
func dense(t testing.TB, workers int, value ...float32) *Shard {
	t.Helper()
	s, err := New(Config{
		Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer,
		Length: uint64(len(value)), Size: uint64(len(value)), Shards: 1,
	}, value)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, workers)
	return s
}

func setWorkers(t testing.TB, s *Shard, generation uint64, workers int) {
	t.Helper()
	var members []Member
	for r := range workers {
		members = append(members, Member{Node: node(r), Rank: uint32(r)})
	}
	if err := s.SetMembers(generation, members); err != nil {
		t.Fatal(err)
	}
}

func node(rank int) uint64 { return uint64(10 + rank) }

// contribution is rank's push for a round, with the sequence number of a worker that has pushed
// every round.
func contribution(s *Shard, rank int, round uint64, grad ...float32) Contribution {
	c := Contribution{Generation: 1, Node: node(rank), Seq: round + 1, Round: round, Weight: 1}
	if len(grad) > 0 {
		c.Data = s.cfg.Pool.Get(4 * len(grad))
		copy(c.Data.Float32s(len(grad)), grad)
	}
	return c
}

func mustPush(t testing.TB, s *Shard, c Contribution, want Status) {
	t.Helper()
	got, err := s.Push(c)
	if err != nil || got != want {
		t.Fatalf("push node %d seq %d round %d: got status %d, error %v; want %d", c.Node, c.Seq, c.Round, got, err, want)
	}
	if got == Ahead {
		c.Data.Release()
	}
}

func refusedPush(t testing.TB, s *Shard, c Contribution, want wire.Code) {
	t.Helper()
	got, err := s.Push(c)
	if code := codeOf(err); got != Refused || code != want {
		t.Fatalf("push node %d seq %d round %d: got status %d, code %d, error %v; want refused with code %d", c.Node, c.Seq, c.Round, got, code, err, want)
	}
	c.Data.Release()
}

func codeOf(err error) wire.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

func wantValue(t testing.TB, s *Shard, round uint64, want ...float32) {
	t.Helper()
	v, w, err := s.Pull(Want{Round: round})
	if err != nil || w != nil {
		t.Fatalf("pull round %d: got wait %v, error %v; %d rounds have closed", round, w != nil, err, s.Rounds())
	}
	defer v.Release()
	if got := v.Float32s(); v.Round() != round || !slices.Equal(got, want) {
		t.Fatalf("value: got %v of %d rounds, want %v of %d", got, v.Round(), want, round)
	}
}

func setOptimizer(t testing.TB, s *Shard, cfg optim.Config) {
	t.Helper()
	opt, err := optim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetOptimizer([]*Shard{s}, opt, NoBound); err != nil {
		t.Fatal(err)
	}
}

// wantNothingHeld checks that all payload memory came back: only the value's own is out.
func wantNothingHeld(t testing.TB, s *Shard) {
	t.Helper()
	_, words := classOf((4*s.cfg.values() + 7) / 8)
	if s.cfg.HasRows() { // whose values are not the pool's
		words = 0
	}
	if got, want := s.cfg.Pool.Taken(), int64(8*words); got != want {
		t.Errorf("memory taken from the pool: got %d bytes, want %d, the value's alone", got, want)
	}
}

func TestRoundClosesWhenEveryMemberHasContributedOnce(t *testing.T) {
	s := dense(t, 3, 1, 1)
	mustPush(t, s, contribution(s, 1, 0, 10, 20), Held)
	mustPush(t, s, contribution(s, 1, 0, 10, 20), Repeated)
	mustPush(t, s, contribution(s, 1, 0, 10, 20), Repeated)
	wantValue(t, s, 0, 1, 1)
	mustPush(t, s, contribution(s, 0, 0, 1, 2), Held)
	wantValue(t, s, 0, 1, 1)
	mustPush(t, s, contribution(s, 2, 0, 100, 200), Held)
	wantValue(t, s, 1, 111, 222)
	mustPush(t, s, contribution(s, 2, 0, 100, 200), Repeated)
	wantValue(t, s, 1, 111, 222)
	wantNothingHeld(t, s)
}

func TestSecondPushOfOneWorkerIsNeverSummedAsAnothers(t *testing.T) {
	s := dense(t, 2, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	again := contribution(s, 0, 0, 1)
	again.Seq = 2 // another contribution, for the round it is already in
	refusedPush(t, s, again, wire.CodeConflict)
	mustPush(t, s, contribution(s, 0, 1, 5), Held)  // one ahead: held
	mustPush(t, s, contribution(s, 0, 2, 7), Ahead) // further ahead: its turn has not come
	wantValue(t, s, 0, 0)
	mustPush(t, s, contribution(s, 1, 0, 10), Held)
	wantValue(t, s, 1, 11)
	mustPush(t, s, contribution(s, 0, 2, 7), Held)
	mustPush(t, s, contribution(s, 1, 1, 10), Held)
	wantValue(t, s, 2, 15)
	mustPush(t, s, contribution(s, 1, 2, 10), Held)
	wantValue(t, s, 3, 17)
	wantNothingHeld(t, s)
}

func TestPushIsRefusedByName(t *testing.T) {
	s := dense(t, 2, 0)
	for _, c := range []struct {
		name   string
		change func(*Contribution)
		want   wire.Code
	}{
		{"stale generation", func(c *Contribution) { c.Generation = 0 }, wire.CodeStaleGeneration},
		{"unknown node", func(c *Contribution) { c.Node = 99 }, wire.CodeUnknownNode},
		{"no sequence number", func(c *Contribution) { c.Seq = 0 }, wire.CodeMalformed},
		{"negative weight", func(c *Contribution) { c.Weight = -1 }, wire.CodeMalformed},
		{"unknown codec", func(c *Contribution) { c.Codec = 77 }, wire.CodeUnsupported},
		{"2bit without threshold", func(c *Contribution) { c.Codec = wire.Codec2Bit }, wire.CodeMalformed},
		{"rows of a dense key", func(c *Contribution) { c.Rows = 1 }, wire.CodeUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			push := contribution(s, 0, 0, 1)
			c.change(&push)
			refusedPush(t, s, push, c.want)
		})
	}
	wantNothingHeld(t, s)
}

// A contribution for the round ahead may overtake the one for the open round.
func TestContributionAheadMayArriveFirst(t *testing.T) {
	s := dense(t, 2, 0)
	mustPush(t, s, contribution(s, 0, 1, 100), Held)
	mustPush(t, s, contribution(s, 1, 1, 200), Held)
	mustPush(t, s, contribution(s, 1, 0, 2), Held)
	wantValue(t, s, 0, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	wantValue(t, s, 2, 300)
	mustPush(t, s, contribution(s, 0, 0, 1), Repeated)
	mustPush(t, s, contribution(s, 0, 1, 1), Repeated)
	wantNothingHeld(t, s)
}

func TestValueFollowsRule(t *testing.T) {
	t.Run("test optimizer", func(t *testing.T) {
		s := dense(t, 2, 1)
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 2})
		for i := range uint64(3) {
			mustPush(t, s, contribution(s, 0, i, 1), Held)
			mustPush(t, s, contribution(s, 1, i, 2), Held)
			wantValue(t, s, i+1, float32(6*(i+1)+1))
		}
	})
	t.Run("mean divides by the weights that counted", func(t *testing.T) {
		s := dense(t, 2, 0)
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Mean})
		a, b := contribution(s, 0, 0, 30), contribution(s, 1, 0, 10)
		a.Weight, b.Weight = 3, 1
		mustPush(t, s, b, Held)
		mustPush(t, s, a, Held)
		wantValue(t, s, 1, 10)
	})
	t.Run("average", func(t *testing.T) {
		s, err := New(Config{Name: "m", Form: wire.FormDense, Rule: wire.RuleAverage, Length: 1, Size: 1, Shards: 1}, []float32{9})
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, 3)
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 2}) // leaves it alone
		for r := range 3 {
			c := contribution(s, r, 0, float32(6*r))
			c.Weight = float32(r)
			mustPush(t, s, c, Held)
		}
		wantValue(t, s, 1, 6)
		for r := range 3 {
			c := contribution(s, r, 1, 1)
			c.Weight = 0
			mustPush(t, s, c, Held)
		}
		wantValue(t, s, 2, 6)
	})
}

func TestWaitEndsWithTheRound(t *testing.T) {
	s := dense(t, 2, 0)
	_, w, err := s.Pull(Want{Node: node(0), Round: 1})
	if w == nil || err != nil {
		t.Fatalf("pull: got wait %v, error %v; want a wait", w, err)
	}
	if got := s.Laggards(Want{Round: 1}); len(got) != 2 {
		t.Fatalf("laggards: got %v, want both", got)
	}
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	if got, want := fmt.Sprint(s.Laggards(Want{Round: 1})), "[{11 1 0}]"; got != want {
		t.Fatalf("laggards: got %s, want %s", got, want)
	}
	mustPush(t, s, contribution(s, 1, 0, 2), Held)
	select {
	case <-w.Done():
	default:
		t.Fatal("the wait goes on after its round closed")
	}
	v, err := w.Result()
	if err != nil || v.Float32s()[0] != 3 {
		t.Fatalf("result: got %v, error %v; want 3", v, err)
	}
	v.Release()

	_, w, _ = s.Pull(Want{Node: node(0), Round: 2})
	w.Cancel()
	s.Fail(context.Canceled)
	if _, err := await(t.Context(), s, Want{Round: 9}); !errors.Is(err, context.Canceled) {
		t.Fatalf("await after the end: got %v, want what ended the shard", err)
	}
	if len(s.readers.waits) != 0 {
		t.Fatalf("queue: got %d waits, want none", len(s.readers.waits))
	}
}

func TestReadersNeverSeeAChangingValue(t *testing.T) {
	s := dense(t, 1, 1, 2)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
	v0, _, _ := s.Pull(Want{})
	mustPush(t, s, contribution(s, 0, 0, 1, 1), Held)
	v1, _, _ := s.Pull(Want{Round: 1})
	mustPush(t, s, contribution(s, 0, 1, 1, 1), Held)
	for _, c := range []struct {
		v    *Version
		want []float32
	}{{v0, []float32{1, 2}}, {v1, []float32{2, 3}}} {
		if got := c.v.Float32s(); !slices.Equal(got, c.want) {
			t.Errorf("held version of round %d: got %v, want %v", c.v.Round(), got, c.want)
		}
		c.v.Release()
	}
	wantValue(t, s, 2, 3, 4)
	wantNothingHeld(t, s)
}

// A value that many pull in 16 bits is encoded once, and never served after it has changed.
func TestValueInHalvesIsThatOfItsVersion(t *testing.T) {
	s := dense(t, 1, 1)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
	encoded := func(v *Version, codec uint8) []byte {
		b, err := v.Encoded(codec)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v0, _, _ := s.Pull(Want{})
	one := encoded(v0, wire.CodecFloat16)
	if again := encoded(v0, wire.CodecFloat16); &one[0] != &again[0] {
		t.Error("the second reader's value was encoded anew")
	}
	for round, read := range []bool{true, false, false} { // changed beside a reader, then in place
		mustPush(t, s, contribution(s, 0, uint64(round), 1), Held)
		if read {
			if want := []byte{0x00, 0x3c}; !slices.Equal(one, want) {
				t.Errorf("held version: got %x, want %x", one, want)
			}
			v0.Release()
		}
		v, _, _ := s.Pull(Want{Round: uint64(round + 1)})
		want := [][]byte{{0x00, 0x40}, {0x00, 0x42}, {0x00, 0x44}}[round]
		if got := encoded(v, wire.CodecFloat16); !slices.Equal(got, want) {
			t.Errorf("float16 after round %d: got %x, want %x", round, got, want)
		}
		if got, want := encoded(v, wire.CodecBFloat16), []byte{0x00, 0x40}; round == 0 && !slices.Equal(got, want) {
			t.Errorf("bfloat16 after round %d: got %x, want %x", round, got, want)
		}
		if _, err := v.Encoded(wire.Codec2Bit); codeOf(err) != wire.CodeUnsupported {
			t.Errorf("2bit value: got %v, want code %d", err, wire.CodeUnsupported)
		}
		v.Release()
	}
	mustPush(t, s, contribution(s, 0, 3, 1), Held)
	wantNothingHeld(t, s)
}

// Pieces of shared memory come back for use, however many are idle: the memory of one is free only
// with that of its neighbours.
func TestPiecesOfSharedMemoryAreKept(t *testing.T) {
	p := &Pool{Shared: true, MaxIdle: 1}
	buffers := []*Buffer{p.Get(100_000), p.Get(100_000), p.Get(4 << 20)}
	for _, b := range buffers {
		b.Release()
	}
	for i := len(buffers) - 1; i >= 0; i-- {
		n := 100_000
		if i == 2 {
			n = 4 << 20
		}
		if b := p.Get(n); !slices.Contains(buffers, b) {
			t.Errorf("a buffer of %d bytes: got new memory, want some that was given back", n)
		}
	}
}

// A value that is being read stays as it is when a round closes in which nobody had examples.
func TestReadersKeepTheirValueInARoundWithoutWeight(t *testing.T) {
	const n = 64
	pool := &Pool{}
	s, err := New(Config{Name: "w", Form: wire.FormDense, Length: n, Size: n, Shards: 1, Rule: wire.RuleAverage, Host: &Host{Pool: pool}}, slices.Repeat([]float32{1}, n))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMembers(1, []Member{{Node: 7}}); err != nil {
		t.Fatal(err)
	}
	v, _, err := s.Pull(Want{Node: 7})
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Encoded(wire.CodecFloat16)
	if err != nil {
		t.Fatal(err)
	}
	want, round := bytes.Clone(b), v.Round()
	data := pool.Get(4 * n)
	clear(data.Bytes(4 * n))
	if st, err := s.Push(Contribution{Generation: 1, Node: 7, Seq: 1, Codec: wire.CodecFloat32, Data: data}); st != Held {
		t.Fatal(st, err)
	}
	for range 4 {
		b := pool.Get(2 * n)
		clear(b.Bytes(2 * n))
	}
	if !bytes.Equal(b, want) || v.Round() != round {
		t.Errorf("a value under way: its bytes changed: %v, its round went from %d to %d", !bytes.Equal(b, want), round, v.Round())
	}
}

// Readers of one version ask for its codes, and for what was measured, at once.
func TestReadersShareAVersion(t *testing.T) {
	s := dense(t, 1, 1)
	v, _, err := s.Pull(Want{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			v.Norms()
			if _, err := v.Encoded(wire.CodecFloat16); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
}

// await returns the value once it is there.
func await(ctx context.Context, s *Shard, want Want) (*Version, error) {
	v, w, err := s.Pull(want)
	if w == nil {
		return v, err
	}
	return w.Await(ctx)
}
