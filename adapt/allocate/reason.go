package allocate

import (
	"fmt"
	"slices"
	"strings"
)

func (d *division) decisions() []Decision {
	out := make([]Decision, len(d.input))
	for i, w := range d.input {
		a := Allocation{}
		for n, r := range w.given {
			if r > 0 {
				a[d.nodes[n].Name] = r
			}
		}
		out[i] = Decision{ID: w.ID, Allocation: a, Changed: len(w.lost) > 0 || !slices.Equal(w.given, w.current), Reason: d.reason(w, a)}
	}
	return out
}

func (d *division) reason(w *work, a Allocation) string {
	var s strings.Builder
	had := w.have
	switch {
	case w.pinned:
		return "keeps its allocation: it is not preemptible"
	case len(w.lost) > 0 && w.got == 0:
		return fmt.Sprintf("waits: %s its slots, and none are left for it", noLonger(w.lost))
	case len(w.lost) > 0:
		fmt.Fprintf(&s, "gets %s: %s its slots", replicasOn(w.got, a), noLonger(w.lost))
	case w.got == 0 && had == 0:
		return "waits: the slots are worth more to other jobs"
	case w.got == 0:
		return fmt.Sprintf("stops %s: the slots are worth more to other jobs", replicas(had))
	case had == 0 && w.Goodput == nil:
		fmt.Fprintf(&s, "starts %s: it has no profile yet", replicasOn(w.got, a))
	case had == 0:
		fmt.Fprintf(&s, "starts %s", replicasOn(w.got, a))
	case slices.Equal(w.given, w.current):
		return "keeps its allocation: no other is worth a change"
	case w.got == had:
		fmt.Fprintf(&s, "moves %s: another job needs its slots", replicasOn(w.got, a))
	case w.got > had:
		fmt.Fprintf(&s, "grows from %d to %s: %s", had, replicasOn(w.got, a), d.times(w))
	default:
		fmt.Fprintf(&s, "shrinks from %d to %s: %s, and the slots are worth more to other jobs", had, replicasOn(w.got, a), d.times(w))
	}
	if w.evicted && w.got != had {
		s.WriteString("; another job needs the slots it had")
	}
	return s.String()
}

// times compares the goodput with that of before.
func (d *division) times(w *work) string {
	if w.Goodput == nil {
		return "it has no profile yet"
	}
	before, after := d.rateOver(w, spans(w.current), w.have), d.rateOver(w, spans(w.given), w.got)
	if !(before > 0) {
		return "its goodput before is not known"
	}
	return fmt.Sprintf("%.2f times the goodput", after/before)
}

func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

func replicasOn(n int, a Allocation) string {
	names := sortedNames(a)
	if len(names) == 1 {
		return replicas(n) + " on " + names[0]
	}
	return fmt.Sprintf("%s on %d nodes", replicas(n), len(names))
}

func noLonger(names []string) string {
	if len(names) == 1 {
		return "node " + names[0] + " no longer has"
	}
	return "nodes " + strings.Join(names, ", ") + " no longer have"
}
