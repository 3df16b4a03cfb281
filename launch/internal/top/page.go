package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// An order is one in which workers stand.
type order int

// The orders, as the key s goes through them.
const (
	byBlame order = iota
	byRank
	byStepTime
	byExamples
	byHost
	orders
)

// orderNames are the orders as the screen names them.
var orderNames = [orders]string{byBlame: "blame", byRank: "rank", byStepTime: "step time", byExamples: "examples/s", byHost: "host"}

// A page is what is shown. Its text depends on it alone.
type page struct {
	width, height int
	styles        styles
	now, started  time.Time

	history History

	// snapshot has workers in the order that is shown.
	snapshot Snapshot

	why    *control.Why
	events []control.Event

	// phase is as events have it; empty: it is not known.
	phase string

	// reason is why the job failed; empty: it has not.
	reason string

	// answered is when the newest values were asked for; zero: there are none.
	answered time.Time

	// failure is that of the newest question; nil: it was answered.
	failure error

	// over says that the launcher has ended.
	over bool

	incarnation uint64

	// restarted is when another scheduler was first seen; zero: none was.
	restarted time.Time

	paused, help, details bool
	order                 order

	// cursor is the node of the worker that is chosen.
	cursor uint64

	// first is the index of the worker in the first row.
	first int

	// workerRows is how many were shown.
	workerRows int
}

// take takes an answer.
func (p *page) take(a answerMsg) {
	p.failure, p.answered = nil, a.asked
	if p.incarnation != 0 && p.incarnation != a.telemetry.Incarnation {
		p.restarted = a.asked
	}
	p.incarnation = a.telemetry.Incarnation
	p.history.Add(a.telemetry)
	p.snapshot = p.history.Snapshot()
	if a.why != nil {
		p.why = a.why
	}
	p.sort()
}

// ended reports whether the job has ended: no more values come.
func (p *page) ended() bool { return p.phase == control.Finished || p.phase == control.Failed }

// sort puts the workers in order and keeps the chosen one.
func (p *page) sort() {
	workers := p.snapshot.Workers
	slices.SortFunc(workers, func(a, b Worker) int { return a.compare(b.Process) })
	slices.SortStableFunc(workers, func(a, b Worker) int {
		switch p.order {
		case byBlame:
			return cmp.Or(yesFirst(a.Slow, b.Slow), cmp.Compare(share(b), share(a)))
		case byStepTime:
			return cmp.Compare(b.StepTime, a.StepTime)
		case byExamples:
			// The slowest come first, as in the other orders, and unknown ones last.
			return cmp.Compare(-b.Examples, -a.Examples)
		case byHost:
			return cmp.Compare(a.Host, b.Host)
		}
		return 0
	})
	if p.chosen() < 0 && len(workers) > 0 {
		p.cursor = workers[0].Node
	}
}

// share is a worker's share of last contributions in steps of 5 %, so that rows of about the same
// share stay where they are.
func share(w Worker) int {
	if x := float64(w.Last); x > 0 {
		return int(20*x + .5)
	}
	return 0
}

// yesFirst compares for an order in which those stand first of whom something is true.
func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// chosen is the row of the chosen worker; -1: it is gone.
func (p *page) chosen() int {
	return slices.IndexFunc(p.snapshot.Workers, func(w Worker) bool { return w.Node == p.cursor })
}

// move chooses another worker.
func (p *page) move(by int) {
	if n := len(p.snapshot.Workers); n > 0 {
		p.cursor = p.snapshot.Workers[min(n-1, max(0, max(0, p.chosen())+by))].Node
	}
}

// scroll keeps the chosen worker among so many rows.
func (p *page) scroll(rows int) {
	at, n := max(0, p.chosen()), len(p.snapshot.Workers)
	p.workerRows = max(1, rows)
	if at < p.first {
		p.first = at
	}
	if at >= p.first+rows {
		p.first = at - rows + 1
	}
	p.first = max(0, min(p.first, n-rows))
}
