package kvstore

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// pulledAt returns the answers of two shards after so many rounds.
func pulledAt(round uint64) []wire.Value {
	norms := wire.Norms{Count: 2, Examples: float64(round), MeanSqr: 1, SqrMean: 0.5}
	return []wire.Value{{Round: round, Weight: float64(round), Examples: round, Limit: float64(round), Norms: norms, Missed: 1, Caught: 1},
		{Round: round, Weight: 1, Examples: 1, Limit: 2 * float64(round), Norms: norms, Missed: 3, Lead: round}}
}

// Pulls may end in another order than they began: what belongs to a round is that of the newest one,
// and the staleness that of the value which came last.
func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	a := &answers{}
	a.pulled(pulledAt(5), true)
	news := a.pulled(pulledAt(4), true)
	if weight, examples := a.newestRound(); weight != 5 || examples != 5 {
		t.Errorf("newest round: got weight %v and %d examples, want those of round 5", weight, examples)
	}
	if n, ok := a.newestNorms(); !ok || n.Rounds != 5 || n.Examples != 5 || n.MeanSqr != 2 || n.SqrMean != 1 {
		t.Errorf("norms: got %+v, %v, want those of round 5, added up over two shards", n, ok)
	}
	if got, want := a.newest(), (Staleness{Round: 4, Missed: 3, Lead: 4}); got != want || news.missed != 3 {
		t.Errorf("staleness: got %+v and news of %d missed, want %+v and 3", got, news.missed, want)
	}
	if a.allows(0, 5.5) || !a.allows(0, 5) || !a.allows(1, 10) {
		t.Error("limits are not those of round 5")
	}
}

// Norms of shards that are not of the same contributions are not added up.
func TestNormsOfDifferentContributionsAreNone(t *testing.T) {
	for what, change := range map[string]func(v []wire.Value){
		"a shard that was not measured":   func(v []wire.Value) { v[1].Norms = wire.Norms{} },
		"a shard of an earlier round":     func(v []wire.Value) { v[1].Round-- },
		"one contribution refused in one": func(v []wire.Value) { v[1].Norms.Count-- },
		"other examples":                  func(v []wire.Value) { v[1].Norms.Examples++ },
	} {
		a, v := &answers{}, pulledAt(5)
		change(v)
		a.pulled(v, false)
		if n, ok := a.newestNorms(); ok {
			t.Errorf("%s: got norms %+v, want none", what, n)
		}
	}
}

// What the guard has caught is news once.
func TestWhatTheGuardCaughtIsNewsOnce(t *testing.T) {
	a := &answers{}
	for i, want := range []int{1, 0} {
		if news := a.pulled(pulledAt(1), false); len(news.caught) != want {
			t.Errorf("pull %d: got news of %d shards, want %d", i, len(news.caught), want)
		}
	}
	more := pulledAt(2)
	more[0].Caught = 4
	if news := a.pulled(more, false); len(news.caught) != 1 || news.caught[0] != (caughtNews{shard: 0, round: 2, gradients: 3}) || a.caughtInAll() != 4 {
		t.Errorf("got news %+v and %d in all, want 3 more and 4", news.caught, a.caughtInAll())
	}
}

// The guard's limits serve a bounded number of pushes, and end with the rounds they are of.
func TestLimitsGrowOld(t *testing.T) {
	a := &answers{}
	if a.limitsUsable() || !a.allows(0, 1e9) {
		t.Error("limits that are not known are usable, or refuse")
	}
	a.pulled(pulledAt(1), true)
	for i := range maxLimitAge {
		if !a.limitsUsable() {
			t.Errorf("after %d pushes the limits are not usable, want %d", i, maxLimitAge)
		}
		a.pushed()
	}
	if a.limitsUsable() {
		t.Errorf("after %d pushes the limits are usable", maxLimitAge)
	}
	a.pulled(pulledAt(2), true)
	if !a.limitsUsable() {
		t.Error("after a pull the limits are not usable")
	}
	a.forget()
	if _, ok := a.newestNorms(); a.limitsUsable() || ok {
		t.Error("after a load there are limits or norms")
	}
}
