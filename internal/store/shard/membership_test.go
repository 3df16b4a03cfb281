package shard

import (
	"slices"
	"testing"
)

// A list that names a node twice is refused before anything has changed, whether members are few or
// many.
func TestAMembershipThatNamesANodeTwiceChangesNothing(t *testing.T) {
	for _, n := range []int{3, fewMembers + 3} {
		groups := make([]uint32, n)
		x := membershipOf(t, groups...)
		x.of(node(0)).From = 4
		list := ranksIn(groups...)
		list[0].From, list[0].Rank = 9, 77
		list[n-1].Node = node(1)
		if _, _, err := x.replace(denseConfig(1), 2, list, false); err == nil {
			t.Fatalf("%d members, node %d named twice: got no error", n, node(1))
		}
		if m := x.of(node(0)); x.generation != 1 || len(x.ranked) != n || m.Rank != 0 || m.From != 4 {
			t.Errorf("%d members: got generation %d, %d members and node %d as %+v, want all as before", n, x.generation, len(x.ranked), node(0), m.Member)
		}
	}
}

func TestMembersThatStayKeepTheirState(t *testing.T) {
	for _, n := range []int{3, fewMembers + 3} {
		x := membershipOf(t, make([]uint32, n)...)
		for rank := range n {
			x.of(node(rank)).lastSeq = uint64(5 + rank)
		}
		list := ranksIn(make([]uint32, n+1)...)[1:]
		joined, left, err := x.replace(denseConfig(1), 2, list, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0].Node != node(0) || len(joined) != 1 || joined[0].Node != node(n) {
			t.Errorf("%d members: got %d joined and %d left, want node %d and node %d", n, len(joined), len(left), node(n), node(0))
		}
		if got := x.of(node(1)).lastSeq; got != 6 {
			t.Errorf("%d members: node %d has counted %d, want 6", n, node(1), got)
		}
		if x.of(node(0)) != nil {
			t.Errorf("%d members: node %d is still one", n, node(0))
		}
		// The one that joined begins with what the slowest, which has left since, had made.
		if got := x.of(node(n)).progress(); got != 5 {
			t.Errorf("%d members: the one that joined begins with %d contributions, want 5", n, got)
		}
	}
}

// Groups are added in the order of their lowest ranks, members without one by their own.
func TestGroupsComeInTheOrderOfTheirLowestRanks(t *testing.T) {
	x := membershipOf(t, 1, 2, 0, 2, 1)
	var ranks []uint32
	for _, m := range x.ordered() {
		ranks = append(ranks, m.Rank)
	}
	if want := []uint32{0, 4, 1, 3, 2}; !slices.Equal(ranks, want) {
		t.Errorf("order of the sum: got ranks %v, want %v", ranks, want)
	}
}
