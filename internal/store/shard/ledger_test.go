package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

func counted(c Contribution, examples uint64) Contribution {
	c.Examples, c.Counted = examples, true
	return c
}

func wantCounted(t *testing.T, s *Shard, rank int, want uint64, wantOK bool) {
	t.Helper()
	if got, ok := s.ExamplesOf(node(rank)); got != want || ok != wantOK {
		t.Errorf("examples of rank %d: got %d, %v; want %d, %v", rank, got, ok, want, wantOK)
	}
}

// What a worker has counted is known after it is lost, until the shard is told that nobody asks for
// it any more.
func TestExamplesOfALostWorkerAreKnownUntilSettled(t *testing.T) {
	for _, mode := range []uint8{wire.ModeSync, wire.ModeAnyOrder, wire.ModeAsync} {
		s := dense(t, 2, 0)
		if err := s.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		wantCounted(t, s, 1, 0, false)
		mustPush(t, s, contribution(s, 1, 0, 1), Held) // it does not say what was used
		mustPush(t, s, counted(contribution(s, 1, 1, 1), 32), Held)
		mustPush(t, s, counted(contribution(s, 1, 1, 1), 32), Repeated)
		mustPush(t, s, counted(contribution(s, 0, 0, 1), 7), Held)
		wantCounted(t, s, 1, 32, true)
		members(2, s, 0)(t)
		wantCounted(t, s, 1, 32, true)
		wantCounted(t, s, 0, 7, true)
		members(3, s, 0, 2)(t)
		wantCounted(t, s, 1, 32, true)
		wantCounted(t, s, 2, 0, true)
		members(4, s, 0, 1, 2)(t)
		wantCounted(t, s, 1, 32, true)
		members(5, s, 0)(t)
		s.ForgetLeft()
		wantCounted(t, s, 1, 0, true)
		wantCounted(t, s, 0, 7, true)
	}
}

// Examples are counted exactly, whatever their contribution weighs.
func TestExamplesAreCountedApartFromWeights(t *testing.T) {
	s := dense(t, 1, 0)
	refusedPush(t, s, counted(contribution(s, 0, 0, 1), 1<<32), wire.CodeMalformed)
	total := uint64(0)
	for round, examples := range []uint64{0, 1, 1 << 24, 1<<24 + 1, 3, 1<<32 - 1} {
		c := counted(contribution(s, 0, uint64(round), 1), examples)
		c.Weight = []float32{0, 0.5, 1e9}[round%3]
		mustPush(t, s, c, Held)
		total += examples
		wantCounted(t, s, 0, total, true)
	}
}

// A table of rows counts as a dense shard does, also with no rows.
func TestRowsCountExamples(t *testing.T) {
	s, err := New(Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: 4, Size: 4, RowLen: 2, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, 1)
	mustPush(t, s, counted(contribution(s, 0, 0), 9), Held)
	wantCounted(t, s, 0, 9, true)
}

// A worker that leaves and comes back goes on with its count; forgetLeft is for those that do not.
func TestExampleCountsFollowAWorkerThatLeaves(t *testing.T) {
	x := membershipOf(t, 0, 0)
	var c exampleCounts
	m := x.of(node(0))
	c.add(m, false, 100)
	if _, ok := c.of(m, m.Node); ok {
		t.Error("a contribution that counts no examples was counted")
	}
	c.add(m, true, 5)
	c.takeBack(m, m.Node, 2)
	c.leave(m)
	if n, ok := c.of(nil, m.Node); n != 3 || !ok {
		t.Errorf("after it has left: got %d, %v, want 3", n, ok)
	}
	again := &member{Member: m.Member}
	c.join(again)
	if n, _ := c.of(again, again.Node); n != 3 || len(c.left) != 0 {
		t.Errorf("after it has come back: got %d and %d that have left, want 3 and none", n, len(c.left))
	}
	c.leave(again)
	c.follow(&Record{Counts: []CountedPush{{Node: node(0), Counted: true, Examples: 4}, {Node: node(1), Counted: true, Examples: 9}}}, x)
	if got := x.of(node(1)).examples; got != 9 {
		t.Errorf("a round of the primary: got %d examples of rank 1, want 9", got)
	}
	c.forgetLeft()
	if len(c.left) != 0 {
		t.Errorf("got %d counts of workers that have left, want none", len(c.left))
	}
}
