package trace

import (
	"bytes"
	"testing"
	"time"
)

// A wait is for the other workers until the last contribution has arrived, then for the server
// until the round is closed, then for the value.
func TestBreakdownSaysWhatAWaitIsFor(t *testing.T) {
	names := []string{"", "a", "b"}
	line := &Timeline{Job: "j", Nodes: []Node{
		{ID: 3, Role: Worker, Rank: 0, Host: "h", Names: names, Spans: []Span{
			{Kind: Step, Begin: 0, End: 100 * ms, Step: 1},
			{Kind: Data, Begin: 0, End: 2 * ms, Step: 1},
			{Kind: Forward, Begin: 2 * ms, End: 40 * ms, Step: 1},
			// Key a waits 4 ms for workers, 3 for the server, 3 for the value.
			{Kind: Wait, Begin: 2 * ms, End: 12 * ms, Step: 1, Key: 1},
			// Key b has no pull that is shown.
			{Kind: Wait, Begin: 20 * ms, End: 25 * ms, Step: 1, Key: 2},
			{Kind: Backward, Begin: 40 * ms, End: 90 * ms, Step: 1},
			{Kind: Save, Begin: 90 * ms, End: 95 * ms, Step: 1},
			{Kind: Push, Begin: 80 * ms, End: 85 * ms, Step: 1, Key: 1, Round: 8},
			{Kind: Pull, Begin: 0, End: 5 * ms, Step: 1, Key: 1, Shard: 1, Round: 8}, // the other shard's was there before
			{Kind: Pull, Begin: 0, End: 12 * ms, Step: 1, Key: 1, Round: 8},
		}},
		{ID: 1, Role: Server, Rank: 0, Host: "h", Names: names, Spans: []Span{
			{Kind: Receive, Begin: 0, End: 1 * ms, Key: 1, Round: 7, Peer: 3},
			{Kind: Receive, Begin: 5 * ms, End: 6 * ms, Key: 1, Round: 7, Peer: 4},
			{Kind: Round, Begin: 1 * ms, End: 9 * ms, Key: 1, Round: 7},
			{Kind: Round, Begin: 1 * ms, End: 2 * ms, Key: 1, Shard: 1, Round: 7},
		}},
	}}
	s, err := line.WriteChrome(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	want := Breakdown{Node: "worker 0 on h", Steps: 1, Step: 100 * time.Millisecond, Data: 2 * time.Millisecond, Compute: 73 * time.Millisecond, Wait: 15 * time.Millisecond, Save: 5 * time.Millisecond, Other: 5 * time.Millisecond, Overlaps: 15 * time.Millisecond,
		Workers: 4 * time.Millisecond, Server: 3 * time.Millisecond, Answer: 3 * time.Millisecond, Unknown: 5 * time.Millisecond}
	if len(s.Workers) != 1 || s.Workers[0] != want {
		t.Errorf("got %+v\nwant %+v", s.Workers, want)
	}
}

func TestBreakdownOfSeveralSteps(t *testing.T) {
	s, err := twoByTwo(0).WriteChrome(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Workers) != 2 {
		t.Fatalf("got %+v, want two workers", s.Workers)
	}
	for _, b := range s.Workers {
		sum := b.Data + b.Compute + b.Wait + b.Save + b.Other
		if b.Step != 100*time.Millisecond || sum != b.Step || b.Workers+b.Server+b.Answer+b.Unknown != b.Wait || b.Server == 0 {
			t.Errorf("%+v: want steps of 100 ms whose parts make them up", b)
		}
	}
}
