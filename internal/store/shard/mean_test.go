package shard

import (
	"math"
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

// A mean has the bits of the sum, in the order of ranks, divided by the sum of the weights, in
// whichever way the gradients come; also where the last one to come is not the last in order.
func TestMeansHaveTheBitsOfSumAndQuotient(t *testing.T) {
	const n = 2*lentPart + 77
	weights := []float32{3, 0, 2.5}
	grads := make([][]float32, len(weights))
	want := make([]float32, n)
	for rank := range grads {
		grads[rank] = make([]float32, n)
		for i := range grads[rank] {
			grads[rank][i] = weights[rank] * (float32(i%101)*0.37 - float32(rank))
			want[i] += grads[rank][i]
		}
	}
	for i := range want {
		want[i] /= 5.5
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}} {
		for _, lends := range []string{"none", "all", "first", "last"} {
			s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleAverage, Length: n, Size: n, Shards: 1}, make([]float32, n))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SetMembers(1, []Member{{Node: node(0), Rank: 0}, {Node: node(1), Rank: 1}, {Node: node(2), Rank: 2}}); err != nil {
				t.Fatal(err)
			}
			for _, rank := range order {
				c := contribution(s, rank, 0, grads[rank]...)
				if lends == "all" || lends == "first" && rank == 0 || lends == "last" && rank == 2 {
					c.Data.Release()
					c, _ = lent(t, s, rank, 0, grads[rank]...)
				}
				c.Weight = weights[rank]
				mustPush(t, s, c, Held)
			}
			for i, got := range s.readers.current.Float32s() {
				if math.Float32bits(got) != math.Float32bits(want[i]) {
					t.Fatalf("order %v, lent: %s: value %d is %v, want %v", order, lends, i, got, want[i])
				}
			}
		}
	}
}
