package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

func TestARoundIsMeasuredIfAllAsk(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asks  []bool
		begun bool
		want  measurePhase
	}{
		{"no contribution", nil, false, measureUndecided},
		{"all ask", []bool{true, true}, false, measureOn},
		{"the first does not", []bool{false, true}, false, measureSpoiled},
		{"the last does not", []bool{true, false}, false, measureSpoiled},
		{"others came unmeasured", []bool{true, true}, true, measureSpoiled},
	} {
		var n norms
		for i, asks := range tt.asks {
			if got := n.addition(asks, tt.begun || i > 0); got != (n.phase == measureOn) {
				t.Errorf("%s: contribution %d is measured: %v, in phase %d", tt.name, i, got, n.phase)
			}
		}
		if n.phase != tt.want {
			t.Errorf("%s: got phase %d, want %d", tt.name, n.phase, tt.want)
		}
	}
}

// Two micro-gradients (3, 4) and (0, 1) have the mean square (25 + 1)/2 and the squared mean of
// their sum (3, 5).
func TestNormsOfTwoContributions(t *testing.T) {
	cfg := denseConfig(2)
	s := sum{cfg: cfg}
	for i, grad := range [][]float32{{3, 4}, {0, 1}} {
		x := slotWith(cfg, uint32(i), 0, grad...)
		x.measure = true
		s.add(&x, &addition{last: i == 1})
	}
	s.norms.choose(0, true)
	s.norms.takeSquares(s.values(), 0, 2, addition{}.over, cfg.Pool)
	s.norms.finish()
	if got, want := s.norms.ofNewest(), (wire.Norms{Count: 2, Examples: 2, MeanSqr: 13, SqrMean: 34. / 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.reset()
	if s.norms.phase != measureUndecided || s.norms.ofNewest().Count != 2 {
		t.Errorf("after reset: got phase %d and norms %+v, want an undecided round and the norms of the last", s.norms.phase, s.norms.ofNewest())
	}
}
