package shard

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A shard restored from a state goes on as the one it was read from.
func TestRestoredShardGoesOnBitForBit(t *testing.T) {
	cfg := optim.Config{Name: "adam", LearningRate: 0.1}
	run := func(s *Shard, from, to uint64) {
		for i := from; i < to; i++ {
			for r := range 2 {
				mustPush(t, s, contribution(s, r, i, float32(i+1), float32(r)-0.3), Held)
			}
		}
	}
	a := dense(t, 2, 1, 2)
	setOptimizer(t, a, cfg)
	run(a, 0, 3)
	st, err := a.ReadState()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"mean", "variance"}; !slices.Equal(st.Slots, want) || st.Round != 3 || st.Config == "" {
		t.Fatalf("state: got slots %q, round %d, config %q; want %q, 3 and adam's", st.Slots, st.Round, st.Config, want)
	}
	for _, optimizerFirst := range []bool{true, false} {
		b := dense(t, 2, 0, 0)
		if optimizerFirst {
			setOptimizer(t, b, cfg)
		}
		if err := b.WriteState(st.Round, st.Slots, st.Values.Float32s(6)); err != nil {
			t.Fatal(err)
		}
		if !optimizerFirst {
			setOptimizer(t, b, cfg)
		}
		run(b, 3, 6)
		c := dense(t, 2, 1, 2)
		setOptimizer(t, c, cfg)
		run(c, 0, 6)
		v, _, _ := c.Pull(Want{Round: 6})
		wantValue(t, b, 6, v.Float32s()...)
	}
}

func TestLoadDropsWhatOpenRoundsHold(t *testing.T) {
	s := dense(t, 2, 0)
	mustPush(t, s, contribution(s, 1, 0, 1), Held)
	mustPush(t, s, contribution(s, 1, 1, 1), Held)
	if err := s.WriteState(7, nil, []float32{5}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, 7, 5)
	mustPush(t, s, contribution(s, 1, 0, 1), Repeated)
	mustPush(t, s, contribution(s, 1, 1, 1), Repeated)
	wantNothingHeld(t, s)
	for r := range 2 {
		c := contribution(s, r, 7, 2)
		c.Seq = 3
		mustPush(t, s, c, Held)
	}
	wantValue(t, s, 8, 4)
}

func TestWriteStateRefusesWhatDoesNotFit(t *testing.T) {
	s := dense(t, 1, 0, 0)
	if err := s.WriteState(0, nil, make([]float32, 3)); codeOf(err) != wire.CodeSize {
		t.Errorf("3 values for 2: got %v, want code %d", err, wire.CodeSize)
	}
	setOptimizer(t, s, optim.Config{Name: "adam"})
	if err := s.WriteState(0, []string{"momentum"}, make([]float32, 4)); codeOf(err) != wire.CodeConflict {
		t.Errorf("momentum under adam: got %v, want code %d", err, wire.CodeConflict)
	}
}

func TestOptimizerIsSetOnAllShardsOrNone(t *testing.T) {
	whole := dense(t, 1, 0)
	cut, err := New(Config{Name: "cut", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 1, Size: 2, Shards: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lamb, _ := optim.New(optim.Config{Name: "lamb"})
	if err := SetOptimizer([]*Shard{whole, cut}, lamb, NoBound); codeOf(err) != wire.CodeUnsupported {
		t.Fatalf("lamb on a cut key: got %v, want code %d", err, wire.CodeUnsupported)
	}
	if _, ok := whole.Optimizer(); ok {
		t.Error("the other shard took the optimizer")
	}
}

// A rate that is set for a round takes effect in that round, and keeps the state.
func TestRateTakesEffectAtItsRound(t *testing.T) {
	s := dense(t, 1, 0)
	cfg := optim.Config{Name: "test", LearningRate: 1}
	setOptimizer(t, s, cfg)
	opt, _ := optim.New(cfg.WithLearningRate(2, 100))
	if err := SetOptimizer([]*Shard{s}, opt, 2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{1, 2, 102} {
		mustPush(t, s, contribution(s, 0, uint64(i), 1), Held)
		wantValue(t, s, uint64(i+1), want)
	}
	if err := SetOptimizer([]*Shard{s}, opt, 2); codeOf(err) != wire.CodeConflict {
		t.Errorf("a rate for a closed round: got %v, want code %d", err, wire.CodeConflict)
	}
	if err := SetOptimizer([]*Shard{s}, opt, 3); err != nil {
		t.Errorf("a rate for the open round: got %v", err)
	}
}

func TestKeyFactorsMultiplyByName(t *testing.T) {
	s := dense(t, 1, 0)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1, LearningRateFactors: []optim.Factor{{Keys: "w", Factor: 3}}})
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	wantValue(t, s, 1, 3)
}
