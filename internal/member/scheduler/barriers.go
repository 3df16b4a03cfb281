package scheduler

import (
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// barriers lets workers wait for each other: a barrier opens when every worker that counts has
// called it.
//
// Arrivals are not in the journal: after a restart the workers call again. That a barrier has
// opened is, so that a worker whose answer was lost is not left waiting for the others.
type barriers struct {
	waits waitList
	// at has the nodes that have arrived, by name. A node whose connection is gone still counts
	// as being there: it calls again.
	at     map[string]map[uint64]bool
	opened nameLog
}

func newBarriers() barriers {
	return barriers{at: make(map[string]map[uint64]bool), opened: nameLog{kind: "barrier"}}
}

// call takes a worker's Barrier. workers are those that count.
func (b *barriers) call(out *output, request uint64, n *node, m *wire.Barrier, workers []*node) {
	if n.Role != wire.RoleWorker {
		out.refuse(request, wire.CodeUnsupported, "barrier %s: %v is not a worker", wire.Shown(m.Name), n)
		return
	}
	if !n.Counts() {
		out.refuse(request, wire.CodeUnsupported, "barrier %s: %v does not count yet", wire.Shown(m.Name), n)
		return
	}
	if _, opened := b.opened.happened(m.Name); opened {
		out.ack(request)
		return
	}
	if b.at[m.Name] == nil {
		b.at[m.Name] = make(map[uint64]bool)
	}
	b.at[m.Name][n.Node] = true
	b.waits.add(newWait(out.now, request, m.Node, m.Name, m.WaitMillis))
	b.check(out, workers)
}

// check opens the barriers at which all of these workers have arrived. It is called when they have
// become other ones.
func (b *barriers) check(out *output, workers []*node) {
	full := func(w wait) bool {
		return !slices.ContainsFunc(workers, func(n *node) bool { return !b.at[w.name][n.Node] })
	}
	for {
		// Opening one changes the waits.
		i := slices.IndexFunc(b.waits, full)
		if i < 0 {
			return
		}
		b.open(out, b.waits[i].name)
	}
}

// open opens a barrier for good, and answers those who wait at it.
func (b *barriers) open(out *output, name string) {
	b.opened.add(out, name, "")
	delete(b.at, name)
	for _, w := range b.waits.remove(func(w wait) bool { return w.name == name }) {
		out.ack(w.request)
	}
}

// missing names those of the workers that have not arrived at a barrier.
func (b *barriers) missing(name string, workers []*node, now time.Time) string {
	var names []string
	for _, n := range workers {
		if !b.at[name][n.Node] {
			names = append(names, n.describe(now))
		}
	}
	return strings.Join(names, ", ")
}

// pass refuses those who have waited too long. workers lists those that count.
func (b *barriers) pass(out *output, workers func() []*node) {
	late := b.waits.late(out.now)
	for _, w := range late {
		out.refuse(w.request, wire.CodeTimeout, "barrier %s: waited %s for %s", wire.Shown(w.name), w.waited(out.now), b.missing(w.name, workers(), out.now))
	}
	// Only now are they no longer at the barrier: who waited with them did not wait for them.
	for _, w := range late {
		delete(b.at[w.name], w.node)
	}
}

// end refuses all who wait: the job has ended.
func (b *barriers) end(out *output) {
	b.waits.end(out, func(w wait) string { return "barrier " + wire.Shown(w.name) })
}
