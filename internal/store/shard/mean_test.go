package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A round of weight 0 leaves an average as it is, also where its contributions are lent.
func TestLentContributionsOfNoWeightLeaveTheAverage(t *testing.T) {
	first := []float32{3, 4}
	s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleAverage, Length: 2, Size: 2, Shards: 1}, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMembers(1, []Member{{Node: node(0)}}); err != nil {
		t.Fatal(err)
	}
	for round, weight := range []float32{0, 4} {
		c, l := lent(t, s, 0, uint64(round), 8, 16)
		c.Weight = weight
		mustPush(t, s, c, Held)
		want := first
		if weight > 0 {
			want = []float32{2, 4}
		}
		if got := s.readers.current.Float32s(); got[0] != want[0] || got[1] != want[1] {
			t.Errorf("weight %v: got %v, want %v", weight, got, want)
		}
		if l.claimed {
			t.Errorf("weight %v: the loan is still claimed", weight)
		}
	}
}
