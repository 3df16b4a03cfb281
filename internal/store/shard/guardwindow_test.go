package shard

import (
	"math"
	"slices"
	"testing"
)

// judged returns the verdict of a guard about a contribution of a norm.
func judged(g *guard, norm float64) verdict {
	cfg := denseConfig(1)
	x := slotWith(cfg, 0, 0, float32(norm))
	x.norm = norm
	g.judge(cfg, &x, 0)
	return x.verdict
}

// The limit follows the median of the window, and the window changes when a round closes.
func TestTheLimitIsFixedUntilTheRoundCloses(t *testing.T) {
	cfg, x := denseConfig(1), membershipOf(t, 0, 0)
	g := newGuard(Guard{Factor: 3, Window: 4, Warmup: 2})
	if got := judged(g, 1e30); got != accepted {
		t.Errorf("before the warm-up: got verdict %d, want any norm accepted", got)
	}
	g.learn(cfg, []slot{{node: node(0), norm: 1}, {node: node(1), norm: 2}}, x)
	for range 3 {
		if got := judged(g, 2.9); got != accepted {
			t.Errorf("norm 2.9 at a median of 1: got verdict %d, want accepted", got)
		}
		if got := judged(g, 3.1); got != tooLarge {
			t.Errorf("norm 3.1 at a median of 1: got verdict %d, want too large", got)
		}
	}
	if got := judged(g, math.Inf(1)); got != notFinite {
		t.Errorf("an infinite norm: got verdict %d, want not finite", got)
	}
	g.learn(cfg, []slot{{node: node(0), norm: 5}, {node: node(1), norm: 9, verdict: tooLarge}}, x)
	if want := []float64{1, 2, 5}; !slices.Equal(g.sorted, want) || x.of(node(1)).caught != 1 {
		t.Errorf("got the window %v and %d caught, want %v, without the refused one, which is counted", g.sorted, x.of(node(1)).caught, want)
	}
}

func TestTheWindowForgetsItsOldestNorm(t *testing.T) {
	g := newGuard(Guard{Factor: 3, Window: 3, Warmup: 1})
	for _, norm := range []float64{9, 2, 5, 1, 7} {
		g.add(norm)
	}
	if got, want := g.oldestFirst(), []float64{5, 1, 7}; !slices.Equal(got, want) || !slices.Equal(g.sorted, []float64{1, 5, 7}) {
		t.Errorf("got %v, sorted %v, want %v", got, g.sorted, want)
	}
}

// If everything is refused for long the gradients have changed: the window begins anew.
func TestAGuardThatRefusesEverythingBeginsAnew(t *testing.T) {
	cfg, x := denseConfig(1), membershipOf(t, 0)
	g := newGuard(Guard{Factor: 3, Window: 4, Warmup: 1})
	g.add(1)
	for round := range resetAfter {
		if got := judged(g, 10); got != tooLarge {
			t.Fatalf("round %d: got verdict %d, want too large", round, got)
		}
		g.learn(cfg, []slot{{node: node(0), norm: 10, verdict: tooLarge}}, x)
	}
	if got := judged(g, 10); got != accepted {
		t.Errorf("after %d rounds: got verdict %d, want accepted", resetAfter, got)
	}
}
