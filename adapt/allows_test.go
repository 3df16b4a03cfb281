package adapt

import "testing"

// Allows is true for the batches that every rule of Limits allows, and for no other.
func TestLimitsAllowWhatTheRulesSay(t *testing.T) {
	limits := []Limits{
		{MaxBatch: 24}, {MaxBatch: 24, Accumulation: true}, {MaxBatch: 25, MinLocal: 3, Accumulation: true}, {MaxBatch: 40, MaxLocal: 5, Accumulation: true},
		{MaxBatch: 40, MinLocal: 2, MaxLocal: 7}, {MaxBatch: 8}, {MaxBatch: 9, Accumulation: true},
	}
	for _, l := range limits {
		for replicas := 1; replicas <= 5; replicas++ {
			for m := range 45 {
				for s := -1; s < 12; s++ {
					least, perReplica := (8-1)/replicas+1, m*(s+1)
					want := m >= max(1, l.MinLocal) && s >= 0 && (l.MaxLocal == 0 || m <= l.MaxLocal) && (s == 0 || l.Accumulation) &&
						perReplica >= least && perReplica*replicas <= l.MaxBatch && !(replicas == 1 && s == 0 && perReplica > least)
					if got := l.Allows(8, replicas, m, s); got != want {
						t.Fatalf("%+v with %d replicas: local batch %d and %d accumulated: got %t, want %t", l, replicas, m, s, got, want)
					}
				}
			}
		}
	}
	if (Limits{MaxBatch: 4}).Allows(8, 1, 4, 0) || (Limits{MaxBatch: 8}).Allows(8, 0, 8, 0) {
		t.Error("limits that cannot be, and no replicas, allow a batch")
	}
}

// Nearest is, of the batches that Allows allows, the one with the fewest accumulated batches whose
// examples are the nearest.
func TestNearestIsTheNearestOfAllThatAreAllowed(t *testing.T) {
	for _, l := range []Limits{
		{MaxBatch: 24}, {MaxBatch: 24, Accumulation: true}, {MaxBatch: 25, MinLocal: 3, Accumulation: true}, {MaxBatch: 40, MaxLocal: 5, Accumulation: true},
		{MaxBatch: 40, MinLocal: 2, MaxLocal: 7}, {MaxBatch: 8}, {MaxBatch: 9, Accumulation: true}, {}, {MaxLocal: 3, Accumulation: true}, {MaxBatch: 4},
	} {
		for replicas := 0; replicas <= 5; replicas++ {
			type batch struct{ m, s int }
			var allowed []batch
			for s := range 45 {
				for m := range 45 {
					if l.Allows(8, replicas, m, s) {
						allowed = append(allowed, batch{m, s})
					}
				}
			}
			for examples := range 50 {
				off, want := -1, 0 // the least distance, with so many accumulated batches
				for _, b := range allowed {
					if d := max(b.m*(b.s+1)-examples, examples-b.m*(b.s+1)); off < 0 || d < off {
						off, want = d, b.s
					}
				}
				m, s, ok := l.Nearest(8, replicas, examples)
				if ok != (off >= 0) || ok && (!l.Allows(8, replicas, m, s) || s != want || max(m*(s+1)-examples, examples-m*(s+1)) != off) {
					t.Fatalf("%+v with %d replicas, %d examples: got %d and %d accumulated, %t; want a distance of %d with %d", l, replicas, examples, m, s, ok, off, want)
				}
			}
		}
	}
}

// What At and Limits take has the bounds that they say, and each is looked at by itself.
func TestEachNumberOfAGoodputIsChecked(t *testing.T) {
	g := Goodput{Model: constant(2), Noise: Noise{Sqr: 1, Var: 1}, InitialBatch: 1}
	if got := g.At(1, 1, 1, 0); got != .5 {
		t.Errorf("one example in 2 s: got %g, want 0.5", got)
	}
	if got := (Goodput{Noise: g.Noise, InitialBatch: 1}).At(1, 1, 1, 0); got != 0 {
		t.Errorf("without a model: got %g, want 0", got)
	}
	if got := (Goodput{Model: g.Model, Noise: g.Noise}).At(1, 1, 1, 0); got != 0 {
		t.Errorf("without an initial batch: got %g, want 0", got)
	}
	for _, l := range []Limits{{MaxBatch: 1}, {MinLocal: 1, MaxLocal: 1}, {MaxServers: 1}} {
		if err := l.Validate(1); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
