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
