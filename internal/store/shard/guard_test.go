package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

// watched returns a dense shard of n zeros with a guard, and what it has caught.
func watched(t testing.TB, g Guard, workers, n int, rule uint8) (*Shard, *[]Caught) {
	t.Helper()
	caught := new([]Caught)
	s, err := New(Config{
		Name: "w", Form: wire.FormDense, Rule: rule, Length: uint64(n), Size: uint64(n), Shards: 1,
		Host: &Host{Caught: func(_ *Config, c Caught) { *caught = append(*caught, c) }},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, workers)
	SetGuard([]*Shard{s}, g)
	return s, caught
}

var nan, inf = float32(math.NaN()), float32(math.Inf(1))

// wantWeight checks the sum of the weights in the newest round.
func wantWeight(t *testing.T, s *Shard, want float64) {
	t.Helper()
	v, w, err := s.Pull(Want{Round: s.Rounds(), Staleness: NoBound})
	if err != nil || w != nil {
		t.Fatal(w, err)
	}
	defer v.Release()
	if v.Weight() != want {
		t.Errorf("weight of round %d: got %v, want %v", s.Rounds()-1, v.Weight(), want)
	}
}

// A gradient that is not finite is left out and its round closes; what counts in a mean is what the
// others gave.
func TestWhatIsNotFiniteIsRefusedAndHoldsNobodyUp(t *testing.T) {
	for _, bad := range []float32{nan, inf, -inf} {
		for _, mode := range []uint8{wire.ModeSync, wire.ModeAnyOrder} {
			for order := range 3 {
				s, caught := watched(t, Guard{}, 3, 2, wire.RuleOptimizer)
				if err := s.SetMode(mode); err != nil {
					t.Fatal(err)
				}
				setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Mean})
				for i := range 3 {
					r := (i + order) % 3
					c := contribution(s, r, 0, 4, 8)
					if c.Weight = 2; r == 1 {
						c.Data.Float32s(2)[1] = bad
						c.Weight, c.Examples, c.Counted = 50, 50, true
					}
					mustPush(t, s, c, Held)
					if r == 1 {
						again := contribution(s, 1, 0, 1, 1)
						again.Weight = 50
						mustPush(t, s, again, Repeated)
					}
				}
				wantValue(t, s, 1, 2, 4) // (4+4)/(2+2), (8+8)/4
				wantWeight(t, s, 4)
				if len(*caught) != 1 || (*caught)[0].Node != node(1) || (*caught)[0].Rank != 1 || (*caught)[0].Round != 0 || (*caught)[0].Clipped {
					t.Errorf("caught: got %+v, want rank 1 in round 0, refused", *caught)
				}
				if got := [3]uint64{s.CaughtOf(node(0)), s.CaughtOf(node(1)), s.CaughtOf(node(2))}; got != [3]uint64{0, 1, 0} {
					t.Errorf("caught by rank: got %v, want one of rank 1", got)
				}
				wantCounted(t, s, 1, 50, true) // its examples are used all the same
				wantNothingHeld(t, s)
			}
		}
	}
}

// Where nothing is left of a round it closes, and the value stays.
func TestARoundOfNothingLeavesTheValue(t *testing.T) {
	for _, rule := range []uint8{wire.RuleOptimizer, wire.RuleAverage} {
		for _, name := range []string{"", "adam"} {
			for _, mode := range []uint8{wire.ModeSync, wire.ModeAsync} {
				s, caught := watched(t, Guard{}, 1, 2, rule)
				if err := s.SetMode(mode); err != nil {
					t.Fatal(err)
				}
				if name != "" {
					setOptimizer(t, s, optim.Config{Name: name, LearningRate: 1})
				}
				mustPush(t, s, contribution(s, 0, 0, 3, 5), Held)
				v, _, _ := s.Pull(Want{Round: 1, Staleness: NoBound})
				before := slices.Clone(v.Float32s())
				mustPush(t, s, contribution(s, 0, 1, nan, 1), Held)
				if v.Round() != 1 {
					t.Errorf("the value that is held: got round %d, want 1", v.Round())
				}
				v.Release()
				wantValue(t, s, 2, before...)
				wantWeight(t, s, 0)
				mustPush(t, s, contribution(s, 0, 2, 1, 1), Held)
				if s.Rounds() != 3 || len(*caught) != 1 {
					t.Errorf("rule %d, optimizer %q, mode %d: got %d rounds and %d caught, want 3 and 1", rule, name, mode, s.Rounds(), len(*caught))
				}
				wantValue(t, s, 3, valueOf(s)...)
			}
		}
	}
}

func valueOf(s *Shard) []float32 {
	v, _, _ := s.Pull(Want{Staleness: NoBound})
	defer v.Release()
	return slices.Clone(v.Float32s())
}

// In async mode an average keeps a member's newest good contribution.
func TestAnAverageKeepsTheNewestGoodContribution(t *testing.T) {
	s, _ := watched(t, Guard{}, 2, 1, wire.RuleAverage)
	if err := s.SetMode(wire.ModeAsync); err != nil {
		t.Fatal(err)
	}
	mustPush(t, s, contribution(s, 0, 0, 2), Held)
	mustPush(t, s, contribution(s, 1, 0, 4), Held)
	mustPush(t, s, contribution(s, 0, 1, nan), Held)
	wantValue(t, s, 3, 3)
	mustPush(t, s, contribution(s, 1, 1, 8), Held)
	wantValue(t, s, 4, 5)
}

func TestNormsFarOutsideAreRefusedOrClipped(t *testing.T) {
	for _, c := range []struct {
		name  string
		guard Guard
		rule  uint8
		grads []float32 // of one worker, one a round
		sum   float32
		caught,
		clipped int
	}{
		{"off by default", Guard{}, wire.RuleOptimizer, []float32{1, 1, 1, 1, 1e9}, 1e9 + 4, 0, 0},
		{"refused", Guard{Factor: 10, Warmup: 3}, wire.RuleOptimizer, []float32{1, 2, 3, 21, 20, 1}, 27, 1, 0},
		{"clipped", Guard{Factor: 10, Warmup: 3, Clip: true}, wire.RuleOptimizer, []float32{1, 2, 3, -400, 2}, -12, 1, 1},
		{"not before there are enough", Guard{Factor: 2, Warmup: 4}, wire.RuleOptimizer, []float32{1, 100, 1, 1, 100}, 103, 1, 0},
		{"refused ones are not remembered", Guard{Factor: 2, Warmup: 1, Window: 2}, wire.RuleOptimizer, []float32{1, 9, 9, 9, 2}, 3, 3, 0},
		{"clipped ones are, at the limit", Guard{Factor: 2, Warmup: 1, Window: 1, Clip: true}, wire.RuleOptimizer, []float32{1, 100, 100, 100}, 1 + 2 + 4 + 8, 3, 3},
		{"only the window's", Guard{Factor: 2, Warmup: 1, Window: 2}, wire.RuleOptimizer, []float32{1, 2, 4, 8, 16}, 1 + 2, 3, 0},
		{"zeros are neither judged nor remembered", Guard{Factor: 2, Warmup: 1}, wire.RuleOptimizer, []float32{0, 0, 1, 0, 0, 0, 2}, 3, 0, 0},
		{"not finite is never clipped", Guard{Factor: 2, Warmup: 1, Clip: true}, wire.RuleOptimizer, []float32{1, inf, 1}, 2, 1, 0},
		{"averages are flags and statistics", Guard{Factor: 2, Warmup: 1}, wire.RuleAverage, []float32{1, 1, 1e6}, 1e6, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.guard.Validate(); err != nil {
				t.Fatal(err)
			}
			s, caught := watched(t, c.guard, 1, 1, c.rule)
			setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
			for round, g := range c.grads {
				mustPush(t, s, contribution(s, 0, uint64(round), g), Held)
			}
			wantValue(t, s, uint64(len(c.grads)), c.sum)
			clipped := 0
			for _, x := range *caught {
				if x.Clipped {
					clipped++
				}
			}
			if len(*caught) != c.caught || clipped != c.clipped {
				t.Errorf("caught: got %d, %d of them clipped, want %d and %d: %+v", len(*caught), clipped, c.caught, c.clipped, *caught)
			}
			wantNothingHeld(t, s)
		})
	}
}

// A worker with more examples has a larger gradient; that is not what the guard is after.
func TestNormsAreHeldAgainstTheWeight(t *testing.T) {
	s, caught := watched(t, Guard{Factor: 2, Warmup: 1}, 1, 1, wire.RuleOptimizer)
	for round, weight := range []float32{1, 64, 8, 3} {
		c := contribution(s, 0, uint64(round), weight)
		c.Weight = weight
		mustPush(t, s, c, Held)
	}
	if len(*caught) != 0 {
		t.Errorf("got %+v caught, want none", *caught)
	}
}

// When all gradients have become large for long, they are the new measure.
func TestTheGuardGivesInToANewMeasure(t *testing.T) {
	s, caught := watched(t, Guard{Factor: 2, Warmup: 1}, 2, 1, wire.RuleOptimizer)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
	round := uint64(0)
	both := func(a, b float32) {
		mustPush(t, s, contribution(s, 0, round, a), Held)
		mustPush(t, s, contribution(s, 1, round, b), Held)
		round++
	}
	for range 5 {
		both(1, 1)
	}
	for range 100 { // one broken worker is kept out for ever
		both(1, 1000)
	}
	if len(*caught) != 100 {
		t.Fatalf("got %d caught, want 100", len(*caught))
	}
	for range resetAfter {
		both(1000, 1000)
	}
	if before := valueOf(s)[0]; before != 110 {
		t.Fatalf("got %v, want 110", before)
	}
	both(1000, 1000)
	wantValue(t, s, round, 2110)
}

// Every codec's contributions are seen as what they stand for.
func TestTheGuardSeesThroughCodecs(t *testing.T) {
	nanHalf := []byte{0x00, 0x7e}
	for _, c := range []struct {
		name      string
		codec     uint8
		threshold float32
		n         int
		good, bad []byte
		squares   float64 // of good
	}{
		{"fp32", wire.CodecFloat32, 0, 1, []byte{0, 0, 0x80, 0x3f}, []byte{0, 0, 0x80, 0x7f}, 1},
		{"fp16", wire.CodecFloat16, 0, 2, []byte{0x00, 0x3c, 0x00, 0xc0}, slices.Concat([]byte{0, 0}, nanHalf), 5},
		{"bf16", wire.CodecBFloat16, 0, 2, []byte{0x80, 0x3f, 0x00, 0xc0}, []byte{0, 0, 0x80, 0x7f}, 5},
		{"2bit", wire.Codec2Bit, 0.5, 5, []byte{0xe3, 0x80, 0, 0}, nil, 1},
		{"2bit long", wire.Codec2Bit, 2, 48, []byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xaa}, nil, 32},
		{"1bit", wire.Codec1Bit, 0, 9, []byte{0x95, 0x80, 0, 0}, nil, 9},
		{"topk", wire.CodecTopK, 0, 9, []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 2},
			[]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f, 1, 2}, 5},
		{"topk, all", wire.CodecTopK, 0, 2, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, []byte{0, 0, 0x80, 0xff, 0, 0, 0, 0xc0}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, caught := watched(t, Guard{Factor: 2, Warmup: 1, Clip: true}, 1, c.n, wire.RuleOptimizer)
			round := uint64(0)
			push := func(payload []byte, weight float32) {
				x := contribution(s, 0, round)
				x.Codec, x.Threshold, x.Size, x.Weight = c.codec, c.threshold, len(payload), weight
				x.Data = s.cfg.Pool.Get(len(payload))
				copy(x.Data.Bytes(len(payload)), payload)
				mustPush(t, s, x, Held)
				round++
			}
			push(c.good, 1)
			if got, want := s.guard.sorted, []float64{math.Sqrt(c.squares)}; !slices.Equal(got, want) {
				t.Errorf("norms: got %v, want %v", got, want)
			}
			whole := valueOf(s)
			push(c.good, 0.25) // four times the norm: clipped to a half
			for i, v := range valueOf(s) {
				if v != whole[i]/2 {
					t.Fatalf("clipped: got %v, want half of %v", valueOf(s), whole)
				}
			}
			if c.bad != nil {
				push(c.bad, 1)
				if len(*caught) != 2 || (*caught)[1].Clipped {
					t.Errorf("caught: got %+v, want the last one refused", *caught)
				}
			}
			wantNothingHeld(t, s)
		})
	}
}

func TestTheGuardLooksAtRows(t *testing.T) {
	for _, form := range []uint8{wire.FormRows, wire.FormOpen} {
		caught := 0
		cfg := Config{Name: "e", Form: form, Rule: wire.RuleOptimizer, RowLen: 2, Shards: 1, Host: &Host{Caught: func(*Config, Caught) { caught++ }}}
		if form == wire.FormRows {
			cfg.Length, cfg.Size = 8, 8
		}
		s, err := New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, 2)
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
		SetGuard([]*Shard{s}, Guard{Factor: 4, Warmup: 2, Clip: true})
		push := func(rank int, round uint64, row int64, x, y float32) {
			c := contribution(s, rank, round)
			c.Rows, c.Data = 1, s.cfg.Pool.Get(16)
			c.Data.Int64s(1)[0] = row
			copy(c.Data.Float32s(4)[2:], []float32{x, y})
			mustPush(t, s, c, Held)
		}
		push(0, 0, 1, 3, 4) // norm 5
		push(1, 0, 2, 3, 4)
		push(0, 1, 1, nan, 0)
		push(1, 1, 1, 1, 1)
		push(0, 2, 2, 300, 400) // clipped to 20: 12, 16
		push(1, 2, 2, 0, 0)
		got := make([]float32, 4)
		if _, _, err := s.PullRows([]int64{1, 2}, got); err != nil {
			t.Fatal(err)
		}
		if want := []float32{4, 5, 15, 20}; !slices.Equal(got, want) || caught != 2 {
			t.Errorf("form %d: got rows %v and %d caught, want %v and 2", form, got, caught, want)
		}
		wantNothingHeld(t, s)
	}
}

// Whatever order contributions arrive in, also a round ahead, the same ones are caught and the
// values are the same bit for bit.
func TestTheGuardDecidesAlikeInEveryOrder(t *testing.T) {
	const workers, rounds, n = 4, 60, 8
	run := func(seed uint64) ([]float32, string) {
		s, caught := watched(t, Guard{Factor: 3, Warmup: 5, Window: 16, Clip: true}, workers, n, wire.RuleOptimizer)
		setOptimizer(t, s, optim.Config{Name: "adam", LearningRate: 0.1})
		order := rand.New(rand.NewPCG(seed, 1))
		var next [workers]uint64
		for s.Rounds() < rounds {
			r := order.IntN(workers)
			if next[r] > s.Rounds()+1 || next[r] == rounds {
				continue
			}
			random := rand.New(rand.NewPCG(uint64(r), next[r]))
			scale := float32(1)
			if random.IntN(8) == 0 {
				scale = 100
			}
			grad := make([]float32, n)
			for i := range grad {
				grad[i] = scale * random.Float32()
			}
			mustPush(t, s, contribution(s, r, next[r], grad...), Held)
			next[r]++
		}
		slices.SortFunc(*caught, func(a, b Caught) int { return int(int64(a.Round*100+a.Node) - int64(b.Round*100+b.Node)) })
		return valueOf(s), fmt.Sprint(*caught)
	}
	want, wantCaught := run(0)
	if !strings.Contains(wantCaught, "true") {
		t.Fatalf("got %s caught, want some", wantCaught)
	}
	for seed := range uint64(30) {
		if got, caught := run(seed); !slices.Equal(got, want) || caught != wantCaught {
			t.Fatalf("order %d: got %v and %s, want %v and %s", seed, got, caught, want, wantCaught)
		}
	}
}

func TestGuardSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		guard Guard
		text  string
	}{
		{Guard{Factor: 1}, "Factor: got 1"},
		{Guard{Factor: -2}, "Factor: got -2"},
		{Guard{Factor: math.NaN()}, "Factor: got NaN"},
		{Guard{Factor: math.Inf(1)}, "Factor: got +Inf"},
		{Guard{Clip: true}, "without a Factor"},
		{Guard{Window: 9}, "without a Factor"},
		{Guard{Warmup: 3}, "without a Factor"},
		{Guard{Factor: 2, Window: -1}, "Window: got -1"},
		{Guard{Factor: 2, Window: 1 << 20}, "Window: got 1048576"},
		{Guard{Factor: 2, Window: 4, Warmup: 5}, "Warmup: got 5"},
		{Guard{Factor: 2, Warmup: 200}, "Warmup: got 200"},
	} {
		if _, err := c.guard.Encode(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: got error %v, want %q in it", c.guard, err, c.text)
		}
	}
	for _, text := range []string{"", "{", `{"factor":1}`, `{"factr":3}`, `{} {}`} {
		if g, err := DecodeGuard(text); err == nil {
			t.Errorf("decode %q: got %+v, want an error", text, g)
		}
	}
	for _, g := range []Guard{{}, {Factor: 10, Clip: true, Window: 9, Warmup: 3}, {Factor: 2, Window: 3}} {
		text, err := g.Encode()
		if got, err2 := DecodeGuard(text); err != nil || err2 != nil || got != g {
			t.Errorf("%+v as %s: got %+v, errors %v and %v", g, text, got, err, err2)
		}
	}
}

func TestWatchedRoundsAllocateNothing(t *testing.T) {
	s, _ := watched(t, Guard{Factor: 10, Window: 20, Clip: true}, 2, 1000, wire.RuleOptimizer)
	setOptimizer(t, s, optim.Config{Name: "adam"})
	s.cfg.Caught = nil
	round := uint64(0)
	step := func() {
		for r := range 2 {
			c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4000)}
			values := c.Data.Float32s(1000)
			for i := range values {
				values[i] = 1
			}
			if r == 1 && round%5 == 4 {
				values[7] = 1e6
			}
			if status, err := s.Push(c); status != Held || err != nil {
				t.Fatal(status, err)
			}
		}
		round++
	}
	for range 30 {
		step()
	}
	if got := alloctest.PerRun(50, step); got != 0 {
		t.Errorf("allocations of a round: got %v, want 0", got)
	}
	if s.CaughtOf(node(1)) == 0 {
		t.Error("nothing was clipped")
	}
}

// What a look at every contribution costs: go test ./internal/store/shard -bench Guard
func BenchmarkGuard(b *testing.B) {
	for _, n := range []int{256, 1 << 18, 1 << 22} {
		for _, guard := range []string{"none", "finite", "norms"} {
			b.Run(fmt.Sprintf("floats=%d/guard=%s", n, guard), func(b *testing.B) {
				s := dense(b, 2, make([]float32, n)...)
				setOptimizer(b, s, optim.Config{Name: "sgd", Momentum: 0.9})
				switch guard {
				case "finite":
					SetGuard([]*Shard{s}, Guard{})
				case "norms":
					SetGuard([]*Shard{s}, Guard{Factor: 100})
				}
				b.SetBytes(int64(2 * 4 * n))
				round := uint64(0)
				for b.Loop() {
					for r := range 2 {
						c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4 * n)}
						if status, err := s.Push(c); status != Held || err != nil {
							b.Fatal(status, err)
						}
					}
					round++
				}
			})
		}
	}
}

// What a worker has judged before it compressed it is looked at for what is not finite only, and
// its gradient's norm, not the code's, is remembered. The value tells the limit for the next round.
func TestJudgedContributionsAreTakenWithTheirNorms(t *testing.T) {
	for _, mode := range []uint8{wire.ModeSync, wire.ModeAsync, wire.ModeAnyOrder} {
		s, caught := watched(t, Guard{Factor: 4, Warmup: 2}, 1, 2, wire.RuleOptimizer)
		if err := s.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
		limits := []float64{}
		for round, x := range []struct {
			values []float32
			norm   float64 // 0: not judged
		}{{[]float32{3, 4}, 0}, {[]float32{300, 400}, 7}, {[]float32{30, 40}, 6}, {[]float32{inf, 1}, 6}, {[]float32{30, 40}, 0}, {[]float32{nan, 1}, 5},
			{[]float32{1, 1}, 1000}} { // its worker had an older limit
			c := contribution(s, 0, uint64(round), x.values...)
			c.Judged, c.Norm = x.norm > 0, x.norm
			mustPush(t, s, c, Held)
			v, _, _ := s.Pull(Want{Staleness: NoBound})
			limits = append(limits, v.Limit())
			v.Release()
		}
		wantValue(t, s, 7, 334, 445)
		if want := []float64{0, 20, 24, 24, 24, 24, 24}; !slices.Equal(limits, want) {
			t.Errorf("mode %d: limits after each round: got %v, want %v", mode, limits, want)
		}
		var rounds []uint64
		for _, x := range *caught {
			rounds = append(rounds, x.Round)
		}
		if want := []uint64{3, 4, 5}; !slices.Equal(rounds, want) {
			t.Errorf("mode %d: caught in rounds %v, want %v", mode, rounds, want)
		}
		for _, bad := range []Contribution{{Judged: true, Norm: math.NaN()}, {Judged: true, Norm: math.Inf(1)}, {Judged: true, Norm: -1}, {Norm: 3}} {
			c := contribution(s, 0, 7, 1, 1)
			c.Judged, c.Norm = bad.Judged, bad.Norm
			if status, err := s.Push(c); status != Refused || err == nil || !strings.Contains(err.Error(), "got norm") {
				t.Errorf("norm %v, judged %v: got %v and error %v, want it refused", bad.Norm, bad.Judged, status, err)
			}
			c.Data.Release()
		}
		wantNothingHeld(t, s)
	}
}
