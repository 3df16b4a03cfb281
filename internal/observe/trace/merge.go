package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A merged is a Timeline on one clock: the scheduler's.
type merged struct {
	// begin and end bound what is shown.
	begin, end int64

	asked int
	whole bool

	// workers has the ranks of workers by their nodes.
	workers map[uint64]int

	// first and last are the steps that are shown on all workers; first > last: the workers have
	// none in common, and all are shown.
	first, last uint64

	median time.Duration
	nodes  []mergedNode // workers, then servers, by rank
	arrows []arrow

	// pushes is how many are shown.
	pushes int

	warnings []string // what a reader has to know
}

type mergedNode struct {
	*Node

	// spans are by begin.
	spans []mergedSpan

	lanes []lane
}

// A mergedSpan is one span on the scheduler's clock, cut to what is shown.
type mergedSpan struct {
	Span
	key  string
	lane int
	cut  bool
}

// A place is a span of a node, by index.
type place struct{ node, span int }

// An arrow is one contribution: from a push through its round to the pull of the round's value.
type arrow struct {
	push, round, pull place

	// arrived is when the contribution had come for the round.
	arrived int64

	// pulled says that the round's value was pulled.
	pulled bool
}

// A ClockError says that a node's clock is too uncertain for a timeline: its bound is more than
// half of the median step.
type ClockError struct {
	Node string

	// Bound says how wrong the node's clock may be.
	Bound time.Duration

	Step time.Duration // the median step
}

// Error names the node, the bound and the step, and says what to do.
func (e *ClockError) Error() string {
	return fmt.Sprintf("trace: the clock of %s is known to ±%v only, more than half of a step (%v), so spans of two nodes could be shown in the wrong order; "+
		"the bound is half of the shortest round trip of its heartbeats: check the network between it and the scheduler, or try again when it is less busy", e.Node, e.Bound, e.Step)
}

// merge puts all on one clock, cuts it to the steps that all workers have, and finds the arrows.
func (t *Timeline) merge() (*merged, error) {
	m := &merged{asked: t.Steps, whole: t.Whole, workers: t.Workers}
	for i := range t.Nodes {
		m.nodes = append(m.nodes, mergedNode{Node: &t.Nodes[i]})
	}
	slices.SortStableFunc(m.nodes, func(a, b mergedNode) int {
		// Workers stand before servers.
		return cmp.Or(-cmp.Compare(a.Role, b.Role), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	offsets := t.offsets()
	for i := range m.nodes {
		m.nodes[i].align(offsets[m.nodes[i].ID])
	}
	m.findSteps()
	if err := m.checkClocks(); err != nil {
		return nil, err
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		n.cut(m.begin, m.end)
		n.findLanes()
		m.warn(n.Node)
	}
	m.findArrows()
	return m, nil
}

// offsets has the offset of each node's clock. Processes of one host share its clock, so all take
// the offset with the smallest bound, unless the bounds show that they differ: then the system time
// was set between the starts of the processes.
func (t *Timeline) offsets() map[uint64]time.Duration {
	best := map[string]*Node{}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if b := best[n.Host]; len(n.Spans) > 0 && (b == nil || n.Bound < b.Bound || n.Bound == b.Bound && n.ID < b.ID) {
			best[n.Host] = n
		}
	}
	offsets := make(map[uint64]time.Duration, len(t.Nodes))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		offsets[n.ID] = n.Offset
		if b := best[n.Host]; b != nil && (n.Offset-b.Offset).Abs() <= n.Bound+b.Bound {
			offsets[n.ID] = b.Offset
		}
	}
	return offsets
}

// align puts a node's spans on the scheduler's clock, in order.
func (n *mergedNode) align(offset time.Duration) {
	n.spans = make([]mergedSpan, 0, len(n.Spans))
	for _, s := range n.Spans {
		s.Begin = max(0, s.Begin+int64(offset))
		s.End = max(s.Begin, s.End+int64(offset))
		x := mergedSpan{Span: s}
		if int(s.Key) < len(n.Names) {
			x.key = n.Names[s.Key]
		}
		n.spans = append(n.spans, x)
	}
	slices.SortStableFunc(n.spans, func(a, b mergedSpan) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.End, a.End), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.key, b.key), cmp.Compare(a.Shard, b.Shard),
			cmp.Compare(a.Round, b.Round), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Bytes, b.Bytes))
	})
}

// findSteps finds what is shown: the steps that all workers have, at most as many as were asked
// for. Workers of an asynchronous store do not make their steps together: all are shown, and so are
// all where there are none in common.
func (m *merged) findSteps() {
	m.first, m.last = 0, 0

	// known says that a worker has steps, and whole that one does of those that have sent
	// everything.
	known, whole := false, false
	asynchronous := false
	for i := range m.nodes {
		n := &m.nodes[i]
		var first, last uint64
		steps := 0
		for _, s := range n.spans {
			switch s.Kind {
			case Step:
				if steps == 0 {
					first, last = s.Step, s.Step
				}
				first, last = min(first, s.Step), max(last, s.Step)
				steps++
			case Round:
				asynchronous = asynchronous || s.Peer != 0
			}
		}

		// A worker that ended early does not make the others end early.
		complete := n.Missing == "" && steps >= m.asked
		switch {
		case steps == 0:
		case !known || complete && !whole:
			m.first, m.last, known, whole = first, last, true, complete
		case complete || !whole:
			m.first, m.last = max(m.first, first), min(m.last, last)
		}
		if steps > 0 && steps < m.asked && n.Missing == "" {
			m.warnings = append(m.warnings, fmt.Sprintf("%v: it made %d of %d steps in the window: it left the job, or the window's time was over", n.Node, steps, m.asked))
		}
	}
	if known && m.asked > 0 && m.last >= m.first && !asynchronous {
		m.last = min(m.last, m.first+uint64(m.asked)-1)
	}
	if !known || asynchronous {
		m.first, m.last = 1, 0
	}
	m.findTimes(known && !m.whole)
}

// findTimes finds from when to when spans are shown, and the median step.
func (m *merged) findTimes(known bool) {
	var steps []time.Duration
	found := false
	for i := range m.nodes {
		for _, s := range m.nodes[i].spans {
			if known && (s.Kind != Step || m.first <= m.last && (s.Step < m.first || s.Step > m.last)) {
				continue
			}
			if !found {
				m.begin, m.end, found = s.Begin, s.End, true
			}
			m.begin, m.end = min(m.begin, s.Begin), max(m.end, s.End)
			if s.Kind == Step {
				steps = append(steps, time.Duration(s.End-s.Begin))
			}
		}
	}
	if len(steps) > 0 {
		slices.Sort(steps)
		m.median = steps[len(steps)/2]
	}
}

// checkClocks refuses a timeline that would mislead. The spans of one process alone have one clock.
func (m *merged) checkClocks() error {
	if len(m.nodes) == 1 {
		return nil
	}
	for i := range m.nodes {
		if n := &m.nodes[i]; m.median > 0 && len(n.spans) > 0 && n.Bound > m.median/2 {
			return &ClockError{n.String(), n.Bound, m.median}
		}
	}
	return nil
}

// cut leaves what is between two times.
func (n *mergedNode) cut(begin, end int64) {
	n.spans = slices.DeleteFunc(n.spans, func(s mergedSpan) bool {
		return s.End < begin || s.Begin > end || s.Begin < s.End && (s.End == begin || s.Begin == end)
	})
	for i := range n.spans {
		s := &n.spans[i]
		s.cut = s.Begin < begin || s.End > end
		s.Begin, s.End = max(s.Begin, begin), min(s.End, end)
	}
}

func (m *merged) warn(n *Node) {
	if n.Missing != "" {
		what := "some of its spans are missing"
		if len(n.Spans) == 0 {
			what = "it has no spans here"
		}
		m.warnings = append(m.warnings, fmt.Sprintf("%v: %s: %s", n, what, n.Missing))
	}
	if n.Dropped > 0 {
		m.warnings = append(m.warnings, fmt.Sprintf("%v: %d spans at the end were dropped: it had room for %d", n, n.Dropped, len(n.Spans)))
	}
}

// A contribution identifies what a push, a round and a pull have in common.
type contribution struct {
	key   string
	shard uint32
	round uint64

	// node is the worker; 0: a round has several contributions.
	node uint64
}

// findArrows connects each push with its round on a server and with the pull of the round's value
// by the same worker.
func (m *merged) findArrows() {
	rounds, pulls := make(map[contribution][]place), make(map[contribution]place)
	arrivals := make(map[contribution]int64)
	for i := range m.nodes {
		for k, s := range m.nodes[i].spans {
			c := contribution{s.key, s.Shard, s.Round, s.Peer}
			switch s.Kind {
			case Round:
				rounds[c] = append(rounds[c], place{i, k})
			case Receive:
				if _, ok := arrivals[c]; !ok {
					arrivals[c] = s.End
				}
			case Pull:
				// The first value is of no round.
				if s.Round == 0 {
					continue
				}
				c.node, c.round = m.nodes[i].ID, s.Round-1
				if _, ok := pulls[c]; !ok {
					pulls[c] = place{i, k}
				}
			}
		}
	}
	for i := range m.nodes {
		for k, s := range m.nodes[i].spans {
			if s.Kind != Push {
				continue
			}
			m.pushes++
			of := contribution{s.key, s.Shard, s.Round, m.nodes[i].ID}

			// An asynchronous store has a round for each contribution, by its worker.
			candidates := rounds[of]
			if len(candidates) == 0 {
				candidates = rounds[contribution{s.key, s.Shard, s.Round, 0}]
			}
			round, ok := m.roundOf(candidates, s.Peer)
			if !ok {
				continue
			}
			a := arrow{push: place{i, k}, round: round}
			a.arrived, ok = arrivals[of]
			if r := m.at(round); !ok {
				a.arrived = r.Begin
			}
			if a.pull, a.pulled = pulls[of]; a.pulled {
				// Of a push that was repeated the first one has the arrow.
				delete(pulls, of)
			}
			m.arrows = append(m.arrows, a)
		}
	}
}

// roundOf chooses among the rounds of a contribution: a shard that was moved may have them on two
// servers.
func (m *merged) roundOf(rounds []place, rank uint64) (place, bool) {
	for _, r := range rounds {
		if uint64(m.nodes[r.node].Rank) == rank {
			return r, true
		}
	}
	if len(rounds) == 0 {
		return place{}, false
	}
	return rounds[0], true
}

func (m *merged) at(p place) *mergedSpan { return &m.nodes[p.node].spans[p.span] }
