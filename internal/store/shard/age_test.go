package shard

import "testing"

// The model: who has made what, kept apart from the shard.
func TestAgeOfAValueIsCountedInRoundsOfOthers(t *testing.T) {
	s := async(t, 3, 0)
	hand := func(rank int, wantMissed, wantLead uint64) {
		t.Helper()
		v, _, err := s.Pull(Want{Node: node(rank), Staleness: NoBound})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Release()
		if missed, lead := s.HandTo(v, node(rank)); missed != wantMissed || lead != wantLead {
			t.Errorf("rank %d after round %d: got missed %d and lead %d, want %d and %d", rank, v.Round(), missed, lead, wantMissed, wantLead)
		}
	}
	push := func(rank int, i uint64) {
		t.Helper()
		mustPush(t, s, contribution(s, rank, i, 1), Held)
	}
	push(0, 0) // from no value at all
	hand(0, 0, 1)
	hand(1, 0, 0)
	push(1, 0) // from a value that had all rounds
	push(2, 0)
	push(0, 1) // from the value before the rounds of ranks 1 and 2
	hand(0, 2, 1)
	push(1, 1) // its own round in between does not count, those of ranks 2 and 0 do
	mustPush(t, s, contribution(s, 1, 1, 1), Repeated)
	hand(1, 2, 1)
	hand(1, 2, 1) // a pull sent again
	push(0, 2)
	push(0, 3)
	push(0, 4)
	hand(0, 1, 4) // rank 1's second; three own ones do not count
	hand(2, 0, 0)
	members(2, s, 0, 1)(t)
	hand(0, 1, 3)
}

// A worker that joins when the others have made many contributions neither makes them wait for as
// many of its own nor runs as far ahead of them.
func TestWorkerThatJoinsLateStartsWithTheSlowest(t *testing.T) {
	s := async(t, 2, 0)
	for i := range uint64(9) {
		mustPush(t, s, contribution(s, 0, i, 1), Held)
	}
	for i := range uint64(7) {
		mustPush(t, s, contribution(s, 1, i, 1), Held)
	}
	members(2, s, 0, 1, 2)(t)
	ends := func(rank int, seq, staleness uint64, want bool) {
		t.Helper()
		v, w, err := s.Pull(Want{Node: node(rank), Seq: seq, Staleness: staleness})
		if err != nil {
			t.Fatal(err)
		}
		if got := v != nil; got != want {
			t.Errorf("rank %d, %d pushes, staleness %d: the pull ends at once: got %v, want %v", rank, seq, staleness, got, want)
		}
		if v != nil {
			v.Release()
		} else {
			w.Cancel()
		}
	}
	ends(0, 9, 2, true) // ranks 1 and 2 are both 2 behind
	ends(0, 9, 1, false)
	mustPush(t, s, at(2, contribution(s, 2, 0, 1)), Held) // 8, as it were
	mustPush(t, s, at(2, contribution(s, 1, 7, 1)), Held)
	ends(0, 9, 1, true)
	ends(2, 1, 0, true)
	mustPush(t, s, at(2, contribution(s, 2, 1, 1)), Held)
	mustPush(t, s, at(2, contribution(s, 2, 2, 1)), Held) // 10
	ends(2, 3, 1, false)                                  // rank 1 has 8
	ends(2, 3, 2, true)
}

func TestSynchronousValuesHaveNoAge(t *testing.T) {
	s := dense(t, 2, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	mustPush(t, s, contribution(s, 1, 0, 1), Held)
	v, _, err := s.Pull(Want{Node: node(0), Round: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	if missed, lead := s.HandTo(v, node(0)); missed != 0 || lead != 0 {
		t.Errorf("got missed %d and lead %d, want 0", missed, lead)
	}
}
