package kvstore

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/exact"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// stepOf is a step of one key with a shard for each answer.
func stepOf(answers ...wire.Clipped) *clipStep {
	k := &key{name: "w", shards: make([]wire.ShardPlace, len(answers))}
	return &clipStep{keys: []*key{k}, heads: make([]wire.Clip, len(answers)), answers: answers, op: newOp(nil, "", "", 0)}
}

// digits are those of a sum of squares.
func digits(x float64) []uint32 {
	var s exact.Sum
	s.Add(x)
	return s.Digits()
}

func TestAStepsFactor(t *testing.T) {
	limit := &optim.Config{Name: "sgd", ClipGlobalNorm: 1}
	decided := wire.Clipped{Decided: true, Norm: 8, Factor: 0.125, Rank: 3}
	closed := wire.Clipped{Closed: true}
	held := wire.Clipped{Squares: digits(16)}
	for _, tt := range []struct {
		name         string
		step         *clipStep
		known        bool
		norm, factor float64
		asks         int
	}{
		{"all held", stepOf(held, wire.Clipped{Squares: digits(9)}), true, 5, 0.2, 2},
		{"one decided", stepOf(held, decided), true, 8, 0.125, 1},
		{"one closed, one decided", stepOf(closed, decided), true, 8, 0.125, 0},
		{"one closed", stepOf(closed, held), true, 4, 0.25, 1},
		{"all closed", stepOf(closed, closed), false, 0, 0, 0},
		{"not finite", stepOf(held, wire.Clipped{}), true, math.NaN(), 0, 2},
	} {
		known, err := tt.step.find("clip", limit)
		if err != nil || known != tt.known {
			t.Errorf("%s: got known %v, error %v; want %v", tt.name, known, err, tt.known)
		}
		if s := tt.step; s.factor != tt.factor || s.norm != tt.norm && !(math.IsNaN(s.norm) && math.IsNaN(tt.norm)) {
			t.Errorf("%s: got norm %v and factor %v, want %v and %v", tt.name, s.norm, s.factor, tt.norm, tt.factor)
		}
		if tt.step.open(); len(tt.step.asked) != tt.asks {
			t.Errorf("%s: %d shards are asked again, want %d", tt.name, len(tt.step.asked), tt.asks)
		}
	}
}

// Two factors of one step are an error that names both and who brought the other one.
func TestTwoFactorsAreAConflict(t *testing.T) {
	s := stepOf(wire.Clipped{Decided: true, Norm: 8, Factor: 0.125, Rank: 3}, wire.Clipped{Decided: true, Norm: 4, Factor: 0.25, Rank: 1})
	if known, err := s.find("clip", &optim.Config{Name: "sgd", ClipGlobalNorm: 1}); !known || err != nil {
		t.Fatalf("got known %v, error %v", known, err)
	}
	err := s.compare("clip")
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "found the factor 0.25 for a norm of 4, but rank 3 had brought 0.125 for 8") {
		t.Errorf("got %v, want a conflict that names both", err)
	}
}

// The round to clip is that of the push that has ended, or of one that is under way.
func TestTheRoundToClip(t *testing.T) {
	var p keyPushes
	want := func(when string, round uint64) {
		t.Helper()
		if got := p.clipRound(); got != round {
			t.Errorf("%s: got round %d, want %d", when, got, round)
		}
	}
	want("before the first push has ended", 0)
	p.pushed(nil)
	want("after the first push", 0)
	p.clipped(0)
	want("after the first clipping", 1)
	p.pushed(nil)
	want("after the second push", 1)
	// This step names other keys.
	p.pushed(nil)
	want("after a push that was not clipped here", 2)
	p.set(9)
	want("after a load", 9)
}
