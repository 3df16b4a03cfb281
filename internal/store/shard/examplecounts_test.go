package shard

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A value that a reader holds keeps the examples of its own round while the next round closes, and
// the next value has those of the next, whether gradients were copied or lent and whichever rule
// makes the value.
func TestEachValueHasTheExamplesOfItsRound(t *testing.T) {
	for _, tt := range lentCases {
		if tt.backup || tt.measured {
			continue
		}
		for _, copied := range []bool{true, false} {
			if !copied && tt.mode == wire.ModeAsync && tt.rule == wire.RuleAverage {
				continue // such a contribution is kept, and cannot be lent
			}
			t.Run(fmt.Sprintf("%s/copied=%t", tt.name, copied), func(t *testing.T) {
				const n = 2*lentPart + 77
				s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: cmp.Or(tt.rule, wire.RuleOptimizer), Length: n, Size: n, Shards: 1}, make([]float32, n))
				if err != nil {
					t.Fatal(err)
				}
				setWorkers(t, s, 1, 1)
				if tt.opt.Name != "" {
					opt, err := optim.New(tt.opt)
					if err != nil {
						t.Fatal(err)
					}
					if err := SetOptimizer([]*Shard{s}, opt, NoBound); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.SetMode(cmp.Or(tt.mode, wire.ModeSync)); err != nil {
					t.Fatal(err)
				}
				grad := make([]float32, n)
				grad[0] = 1
				var held []*Version
				for round := range uint64(3) {
					var c Contribution
					if copied {
						c = contribution(s, 0, round, grad...)
					} else {
						c, _ = lent(t, s, 0, round, grad...)
					}
					mustPush(t, s, counted(c, 10+round), Held)
					v, w, err := s.Pull(Want{Round: s.Rounds(), Staleness: NoBound})
					if err != nil || w != nil {
						t.Fatal(w, err)
					}
					held = append(held, v)
				}
				for round, v := range held {
					if got, want := v.Examples(), 10+uint64(round); got != want {
						t.Errorf("value of round %d: got %d examples, want %d", round, got, want)
					}
					v.Release()
				}
			})
		}
	}
}

// A value that a reader holds keeps its examples when its shard's contributions are dropped: the
// reader reads without the shard's lock.
func TestAHeldValueKeepsItsExamplesWhenTheShardIsForgotten(t *testing.T) {
	s := dense(t, 1, 0)
	mustPush(t, s, counted(contribution(s, 0, 0, 1), 7), Held)
	v, w, err := s.Pull(Want{Round: 1})
	if err != nil || w != nil {
		t.Fatal(w, err)
	}
	s.Forget(errors.New("moved"))
	if got := v.Examples(); got != 7 {
		t.Errorf("examples of the held value: got %d, want 7", got)
	}
	v.Release()
}
