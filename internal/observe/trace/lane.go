package trace

import (
	"container/heap"
	"fmt"
)

// laneKinds are the kinds of spans in the order of their lanes, from the top down, with the lanes'
// names. Spans that overlap are in lanes of their own.
var laneKinds = []struct {
	name  string
	kinds []Kind
}{
	{"step", []Kind{Step}},
	{"data", []Kind{Data}},
	{"forward", []Kind{Forward}},
	{"backward", []Kind{Backward}},
	{"forward and backward", []Kind{Compute}},
	{"pull wait", []Kind{Wait}},
	{"push", []Kind{Push}},
	{"pull", []Kind{Pull}},
	{"evaluate", []Kind{Evaluate}},
	{"save", []Kind{Save}},
	{"round", []Kind{Round}},
	{"update", []Kind{Apply}},
	{"receive", []Kind{Receive}},
	{"answer", []Kind{Answer}},
	{"membership", []Kind{Change, Join}},
	{"other", []Kind{Other}},
}

// groupOf has the place in laneKinds of each kind.
var groupOf = func() (at [numKinds]int) {
	for i, g := range laneKinds {
		for _, k := range g.kinds {
			at[k] = i
		}
	}
	return at
}()

// A lane is a row of spans that do not overlap.
type lane struct{ name string }

// findLanes puts each span into the first lane of its group that is free.
func (n *mergedNode) findLanes() {
	groups := make([]laneGroup, len(laneKinds))
	for i := range n.spans {
		s := &n.spans[i]
		s.lane = groups[groupOf[s.Kind]].take(s.Begin, s.End)
	}
	first := make([]int, len(groups))
	for i, g := range groups {
		first[i] = len(n.lanes)
		for k := range g.lanes {
			name := laneKinds[i].name
			if g.lanes > 1 {
				name = fmt.Sprintf("%s %d", name, k+1)
			}
			n.lanes = append(n.lanes, lane{name})
		}
	}
	for i := range n.spans {
		n.spans[i].lane += first[groupOf[n.spans[i].Kind]]
	}
}

// A laneGroup has the lanes of one group: those that are busy, by their end, and those that are
// free, by their number.
type laneGroup struct {
	lanes int
	busy  laneHeap
	free  laneHeap
}

// take finds a lane for a span; spans come by begin.
func (g *laneGroup) take(begin, end int64) int {
	for len(g.busy) > 0 && g.busy[0].order <= begin {
		l := heap.Pop(&g.busy).(busyLane)
		heap.Push(&g.free, busyLane{int64(l.lane), l.lane})
	}
	l := g.lanes
	if len(g.free) > 0 {
		l = heap.Pop(&g.free).(busyLane).lane
	} else {
		g.lanes++
	}
	heap.Push(&g.busy, busyLane{end, l})
	return l
}

type busyLane struct {
	order int64
	lane  int
}

type laneHeap []busyLane

func (h laneHeap) Len() int { return len(h) }
func (h laneHeap) Less(i, j int) bool {
	return h[i].order < h[j].order || h[i].order == h[j].order && h[i].lane < h[j].lane
}
func (h laneHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *laneHeap) Push(x any)   { *h = append(*h, x.(busyLane)) }
func (h *laneHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
