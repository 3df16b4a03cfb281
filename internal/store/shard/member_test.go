package shard

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

func members(generation uint64, s *Shard, ranks ...int) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		var list []Member
		for i, r := range ranks {
			list = append(list, Member{Node: node(r), Rank: uint32(i)})
		}
		if err := s.SetMembers(generation, list); err != nil {
			t.Fatal(err)
		}
	}
}

func at(generation uint64, c Contribution) Contribution {
	c.Generation = generation
	return c
}

// A worker that dies before it contributed must not hang the round, and what it never sent must not
// count.
func TestRoundClosesOverSurvivors(t *testing.T) {
	s := dense(t, 3, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	mustPush(t, s, contribution(s, 2, 0, 100), Held)
	_, w, _ := s.Pull(Want{Node: node(1), Round: 1})
	members(2, s, 0, 2)(t)
	wantValue(t, s, 1, 101)
	<-w.Done()
	if _, err := w.Result(); codeOf(err) != wire.CodeUnknownNode {
		t.Errorf("wait of the node that left: got %v, want code %d", err, wire.CodeUnknownNode)
	}
	refusedPush(t, s, contribution(s, 1, 0, 10), wire.CodeStaleGeneration)
	refusedPush(t, s, at(2, contribution(s, 1, 0, 10)), wire.CodeUnknownNode)
	mustPush(t, s, at(2, contribution(s, 0, 1, 2)), Held)
	mustPush(t, s, at(2, contribution(s, 2, 1, 200)), Held)
	wantValue(t, s, 2, 202)
	wantNothingHeld(t, s)
}

// What was acknowledged counts in its round, also when its worker left after it, and also when that
// was a round ahead.
func TestContributionOutlivesItsWorker(t *testing.T) {
	for _, aggregated := range []bool{true, false} {
		s := dense(t, 3, 0)
		lost := 1
		if aggregated {
			lost = 0
		}
		mustPush(t, s, contribution(s, lost, 0, 10), Held)
		mustPush(t, s, contribution(s, lost, 1, 1000), Held)
		survivors := slices.DeleteFunc([]int{0, 1, 2}, func(r int) bool { return r == lost })
		members(2, s, survivors...)(t)
		wantValue(t, s, 0, 0)
		for _, r := range survivors {
			mustPush(t, s, at(2, contribution(s, r, 0, 1)), Held)
		}
		wantValue(t, s, 1, 12)
		for _, r := range survivors {
			mustPush(t, s, at(2, contribution(s, r, 1, 1)), Held)
		}
		wantValue(t, s, 2, 1002)
		for _, r := range survivors {
			mustPush(t, s, at(2, contribution(s, r, 2, 1)), Held)
		}
		wantValue(t, s, 3, 2)
		wantNothingHeld(t, s)
	}
}

// Survivors need not send again what the shard holds, and sending it again under the new generation
// counts once.
func TestContributionsOutliveAChangeOfMembers(t *testing.T) {
	s := dense(t, 3, 0)
	mustPush(t, s, contribution(s, 2, 0, 100), Held)
	mustPush(t, s, contribution(s, 2, 1, 200), Held)
	members(2, s, 1, 2)(t)
	mustPush(t, s, at(2, contribution(s, 2, 0, 100)), Repeated)
	mustPush(t, s, at(2, contribution(s, 1, 0, 10)), Held)
	wantValue(t, s, 1, 110)
	mustPush(t, s, at(2, contribution(s, 2, 0, 100)), Repeated)
	mustPush(t, s, at(2, contribution(s, 1, 1, 20)), Held)
	wantValue(t, s, 2, 220)
	wantNothingHeld(t, s)
}

func TestNewMemberCountsFromItsRound(t *testing.T) {
	s := dense(t, 1, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	list := []Member{{Node: node(0), Rank: 0}, {Node: node(1), Rank: 1, From: 3}}
	if err := s.SetMembers(2, list); err != nil {
		t.Fatal(err)
	}
	refusedPush(t, s, at(2, contribution(s, 1, 1, 10)), wire.CodeConflict)
	mustPush(t, s, at(2, contribution(s, 0, 1, 2)), Held)
	wantValue(t, s, 2, 2)
	first := at(2, contribution(s, 1, 3, 10))
	first.Seq = 1
	mustPush(t, s, first, Held) // one ahead
	mustPush(t, s, at(2, contribution(s, 0, 2, 3)), Held)
	wantValue(t, s, 3, 3)
	mustPush(t, s, at(2, contribution(s, 0, 3, 4)), Held)
	wantValue(t, s, 4, 14)
	wantNothingHeld(t, s)
}

func TestMeanIsOverThoseThatCounted(t *testing.T) {
	s := dense(t, 3, 0)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Mean})
	for r := range 2 {
		c := contribution(s, r, 0, 64)
		c.Weight = 64
		mustPush(t, s, c, Held)
	}
	members(2, s, 0, 1)(t)
	wantValue(t, s, 1, 1)
}

func TestEmptyMembershipClosesNothing(t *testing.T) {
	s := dense(t, 2, 7)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	members(2, s)(t)
	members(3, s, 4)(t)
	wantValue(t, s, 0, 7)
	c := at(3, contribution(s, 4, 0, 5))
	mustPush(t, s, c, Held)
	wantValue(t, s, 1, 6)
}
