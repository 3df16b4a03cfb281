package scheduler

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// mostWatchWait bounds how long a watch is held.
const mostWatchWait = time.Minute

// watches has the nodes' requests for the membership beyond a revision. A node has one open nearly
// all the time: it is how nodes hear of changes, and its end is how the scheduler hears that a
// node's connection broke. (The launcher's request for the wanted state is in wanted.go.)
type watches struct {
	list []watch
	// told has the nodes that were sent the end of the job.
	told map[uint64]bool
}

// A watch is a request for the membership beyond a revision.
type watch struct {
	request  uint64
	node     *node
	deadline time.Time
}

func newWatches() watches { return watches{told: make(map[uint64]bool)} }

// add takes a Watch. membership is made only if it is needed now.
func (w *watches) add(out *output, request uint64, n *node, m *wire.Watch, membership func() *wire.Membership) {
	if m.Revision < out.job.revision {
		w.tell(out, request, n, membership())
		return
	}
	wait := min(time.Duration(m.WaitMillis)*time.Millisecond, mostWatchWait)
	w.list = append(w.list, watch{request, n, out.now.Add(wait)})
}

// wake answers all watches: the membership has a new revision. All get the same message, which
// nobody changes afterwards.
func (w *watches) wake(out *output, membership func() *wire.Membership) {
	if len(w.list) == 0 {
		return
	}
	m := membership()
	for _, x := range w.list {
		w.tell(out, x.request, x.node, m)
	}
	w.list = nil
}

// pass answers the watches whose time is over, although nothing has changed.
func (w *watches) pass(out *output, membership func() *wire.Membership) {
	w.list = slices.DeleteFunc(w.list, func(x watch) bool {
		over := !out.now.Before(x.deadline)
		if over {
			w.tell(out, x.request, x.node, membership())
		}
		return over
	})
}

// tell answers a watch, and remembers who has heard of the job's end: the scheduler stays until all
// have.
func (w *watches) tell(out *output, request uint64, n *node, m *wire.Membership) {
	if !out.job.open() {
		w.told[n.Node] = true
	}
	out.answer(request, m)
}

// cut drops the watch of a request whose sender is gone, and returns its node if that has lost its
// only connection. A node that watches through another one has come back already.
func (w *watches) cut(request uint64) (n *node) {
	i := slices.IndexFunc(w.list, func(x watch) bool { return x.request == request })
	if i < 0 {
		return nil
	}
	n = w.list[i].node
	w.list = slices.Delete(w.list, i, i+1)
	if slices.ContainsFunc(w.list, func(x watch) bool { return x.node == n }) {
		return nil
	}
	return n
}

func (w *watches) next(bool) (t time.Time) {
	for _, x := range w.list {
		t = sooner(t, x.deadline)
	}
	return t
}
