package scheduler

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// wantedWatches are the launcher's requests for the wanted state beyond a revision, or for events
// after a number: one, unless an answer was lost.
type wantedWatches struct{ list []wantedWatch }

type wantedWatch struct {
	request  uint64
	revision uint64
	after    uint64
	deadline time.Time
}

// add takes a request.
func (l *wantedWatches) add(out *output, request uint64, r control.Request) {
	l.list = append(l.list, wantedWatch{request, r.Revision, r.After, out.now.Add(time.Duration(r.WaitMillis) * time.Millisecond)})
}

// tell answers the requests for which there is news, or whose time is over.
func (l *wantedWatches) tell(out *output, m *membership) {
	l.list = slices.DeleteFunc(l.list, func(w wantedWatch) bool {
		if m.fleet.revision <= w.revision && out.events.last <= w.after && m.job.open() && out.now.Before(w.deadline) {
			return false
		}
		answer := m.wanted()
		answer.Events = out.events.after(out.job, w.after).Events
		out.report(w.request, answer)
		return true
	})
}

func (l *wantedWatches) next(bool) (t time.Time) {
	for _, w := range l.list {
		t = sooner(t, w.deadline)
	}
	return t
}

func (l *wantedWatches) forget(request uint64) {
	l.list = slices.DeleteFunc(l.list, func(w wantedWatch) bool { return w.request == request })
}

// reconcile brings what is wanted up to what has happened.
func (m *membership) reconcile(out *output) {
	if !m.job.open() {
		return
	}
	if m.job.dirty || len(m.roster.changed) > 0 || m.fleet.revision != m.reconciled {
		m.fleet.takeRanks(&m.roster, m.job.running())
		m.scale.goOn(out, m.scaleEnv(out))
	}
	m.passWish(out)
	if m.departing.any() {
		m.departing.goOn(out, m.departingEnv(out))
	}
	if m.sites.relisted && m.fleet.Adopted { // before, the wanted state names no process
		m.sites.relisted, m.fleet.dirty = false, true
		m.fleet.revision++
	}
	m.reconciled = m.fleet.revision
}

// wanted is all that should be, but for the events.
func (m *membership) wanted() *control.Wanted {
	w := &control.Wanted{Revision: m.fleet.revision, Phase: phaseNames[m.job.phase], Hosts: m.sites.wanted(), Dismissed: m.hosts.dismissed()}
	for _, p := range m.fleet.list {
		w.Processes = append(w.Processes, p.WantedProcess)
	}
	return w
}
