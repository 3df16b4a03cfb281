package shard

import (
	"fmt"
	"testing"
)

func TestAProgressSaysWhoMayHaveTheValue(t *testing.T) {
	x := membershipOf(t, 0, 0, 0)
	for rank, made := range []uint64{7, 5, 4} {
		x.of(node(rank)).lastSeq = made
	}
	for _, tt := range []struct {
		name string
		progress
		want Want
		has  bool
		late []uint32
	}{
		{"sync, its round has closed", progress{rounds: 3}, Want{Round: 3}, true, nil},
		{"sync, its round is open", progress{rounds: 3}, Want{Round: 4}, false, []uint32{1}},
		{"sync, the backup lacks the round", progress{rounds: 3, hidden: true}, Want{Round: 3}, false, []uint32{1}},
		{"async, its own contribution is in", progress{async: true}, Want{Node: node(0), Seq: 7, Staleness: NoBound}, true, nil},
		{"async, its own contribution is not in", progress{async: true}, Want{Node: node(0), Seq: 8, Staleness: NoBound}, false, []uint32{0}},
		{"async, the slowest is within the bound", progress{async: true}, Want{Node: node(0), Seq: 7, Staleness: 3}, true, nil},
		{"async, the slowest is beyond the bound", progress{async: true}, Want{Node: node(0), Seq: 7, Staleness: 2}, false, []uint32{2}},
		{"async, two are beyond the bound", progress{async: true}, Want{Node: node(0), Seq: 7, Staleness: 1}, false, []uint32{1, 2}},
	} {
		p := tt.progress
		p.members = x
		open := round{slots: []slot{{node: node(0), seq: 1}, {node: node(1)}, {node: node(2), seq: 1}}}
		if got := p.has(&tt.want); got != tt.has {
			t.Errorf("%s: has the value: got %v, want %v", tt.name, got, tt.has)
		}
		var late []uint32
		for _, l := range p.laggards(&tt.want, &open) {
			late = append(late, l.Rank)
		}
		if fmt.Sprint(late) != fmt.Sprint(tt.late) {
			t.Errorf("%s: waits for ranks %v, want %v", tt.name, late, tt.late)
		}
	}
}
