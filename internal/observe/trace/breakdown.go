package trace

import (
	"cmp"
	"slices"
	"time"
)

// A Breakdown says where the time of a worker's steps went. Durations are means per step, over the
// steps that the timeline shows.
type Breakdown struct {
	Node string

	// Steps is how many are shown.
	Steps int

	Step time.Duration // whole step
	Data time.Duration // wait for batches

	// Compute is forward and backward, without waits within them.
	Compute time.Duration

	// Wait is the time spent for values.
	Wait time.Duration

	Save  time.Duration // checkpoints
	Other time.Duration // the rest of Step

	// Overlaps is the time in which pushes and pulls were under way while the worker computed.
	Overlaps time.Duration

	// Parts of Wait: until the round's last contribution has arrived at the server (Workers),
	// until the server has closed the round (Server), and until the value has come back
	// (Answer).
	Workers, Server, Answer time.Duration

	// Unknown is the part of Wait whose pull or round is not in the timeline.
	Unknown time.Duration
}

// breakdown returns the Breakdown of each worker that has steps.
func (m *merged) breakdown() (list []Breakdown) {
	rounds := m.roundsByKey()
	for i := range m.nodes {
		n := &m.nodes[i]
		if n.Role != Worker {
			continue
		}
		b := Breakdown{Node: n.Node.String()}
		var busy, exchanged []interval
		for k := range n.spans {
			s := &n.spans[k]
			took := time.Duration(s.End - s.Begin)
			switch s.Kind {
			case Step:
				b.Steps++
				b.Step += took
			case Data:
				b.Data += took
			case Save:
				b.Save += took
			case Forward, Backward, Compute:
				b.Compute += took
				busy = append(busy, interval{s.Begin, s.End})
			case Push, Pull:
				exchanged = append(exchanged, interval{s.Begin, s.End})
			}
		}
		if b.Steps == 0 {
			continue
		}
		busy = union(busy)
		for k := range n.spans {
			s := &n.spans[k]
			if s.Kind != Wait {
				continue
			}
			b.Wait += time.Duration(s.End - s.Begin)
			b.Compute -= common([]interval{{s.Begin, s.End}}, busy)
			b.split(n, s, rounds)
		}
		b.Overlaps = common(union(exchanged), busy)
		b.mean()
		list = append(list, b)
	}
	return list
}

// mean divides the sums by the steps.
func (b *Breakdown) mean() {
	b.Other = max(0, b.Step-b.Data-b.Compute-b.Wait-b.Save)
	for _, d := range []*time.Duration{&b.Step, &b.Data, &b.Compute, &b.Wait, &b.Save, &b.Other, &b.Overlaps, &b.Workers, &b.Server, &b.Answer, &b.Unknown} {
		*d /= time.Duration(b.Steps)
	}
}

// A closing is when a round's last contribution had come, and when it was closed.
type closing struct{ arrived, closed int64 }

// roundsByKey finds the closings of all rounds.
func (m *merged) roundsByKey() map[contribution]closing {
	rounds := make(map[contribution]closing)
	arrived := make(map[contribution]int64)
	for i := range m.nodes {
		for _, s := range m.nodes[i].spans {
			if s.Kind == Receive {
				c := contribution{s.key, s.Shard, s.Round, 0}
				arrived[c] = max(arrived[c], s.End)
			}
		}
	}
	for i := range m.nodes {
		for _, s := range m.nodes[i].spans {
			if s.Kind == Round && s.Peer == 0 {
				c := contribution{s.key, s.Shard, s.Round, 0}
				rounds[c] = closing{min(max(arrived[c], s.Begin), s.End), s.End}
			}
		}
	}
	return rounds
}

// split divides a wait by what it was for: it ended with the last pull of its key that ended within
// it.
func (b *Breakdown) split(n *mergedNode, wait *mergedSpan, rounds map[contribution]closing) {
	took := time.Duration(wait.End - wait.Begin)
	var last *mergedSpan
	for k := range n.spans {
		s := &n.spans[k]
		if s.Begin > wait.End {
			// Spans are in the order of their beginnings: the others begin later, too.
			break
		}
		// The goroutine that waits wakes up a little after the pull has ended.
		if s.Kind == Pull && s.Round > 0 && (wait.key == "" || s.key == wait.key) && s.End > wait.Begin && s.End <= wait.End && (last == nil || s.End > last.End) {
			last = s
		}
	}
	if last == nil {
		b.Unknown += took
		return
	}
	c, ok := rounds[contribution{last.key, last.Shard, last.Round - 1, 0}]
	if !ok {
		b.Unknown += took
		return
	}
	within := func(at int64) int64 { return min(max(at, wait.Begin), wait.End) }
	arrived, closed := within(c.arrived), within(c.closed)
	b.Workers += time.Duration(arrived - wait.Begin)
	b.Server += time.Duration(closed - arrived)
	b.Answer += time.Duration(wait.End - closed)
}

type interval struct{ begin, end int64 }

// union joins intervals that touch, in order.
func union(list []interval) (joined []interval) {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.begin, b.begin) })
	for _, x := range list {
		if n := len(joined); n > 0 && x.begin <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, x.end)
			continue
		}
		joined = append(joined, x)
	}
	return joined
}

// common is how long both of two unions last.
func common(a, b []interval) (d time.Duration) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if begin, end := max(a[i].begin, b[j].begin), min(a[i].end, b[j].end); begin < end {
			d += time.Duration(end - begin)
		}
		if a[i].end < b[j].end {
			i++
		} else {
			j++
		}
	}
	return d
}
