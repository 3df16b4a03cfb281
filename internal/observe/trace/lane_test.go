package trace

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Spans have as many lanes as there are at one time, and as few.
func TestSpansOfALaneDoNotOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := mergedNode{Node: &Node{Names: []string{""}}}
		for range 100 {
			begin := rng.Int64N(100)
			n.Spans = append(n.Spans, Span{Kind: []Kind{Push, Change, Join}[rng.IntN(3)], Begin: begin, End: begin + rng.Int64N(20)})
		}
		n.align(0)
		n.findLanes()
		ends := make([]int64, len(n.lanes))
		most := map[int]int{}
		for _, s := range n.spans {
			if s.Begin < ends[s.lane] {
				t.Fatalf("%+v overlaps another one of lane %q", s, n.lanes[s.lane].name)
			}
			ends[s.lane] = s.End
			group, now := groupOf[s.Kind], 0
			for _, x := range n.spans {
				if groupOf[x.Kind] == group && x.Begin <= s.Begin && s.Begin < x.End {
					now++
				}
			}

			// It is in its own lane, too.
			if s.Begin == s.End {
				now++
			}
			most[group] = max(most[group], now)
		}
		if want := most[groupOf[Push]] + most[groupOf[Change]]; len(n.lanes) != want {
			t.Fatalf("got %d lanes, want %d", len(n.lanes), want)
		}
	}
}

func TestEveryKindHasALane(t *testing.T) {
	for k := Kind(1); k < numKinds; k++ {
		if !slices.Contains(laneKinds[groupOf[k]].kinds, k) {
			t.Errorf("%v has no lane", k)
		}
	}
}
