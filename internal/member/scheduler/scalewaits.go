package scheduler

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// reportTime is how long a request waits for the launcher's first report.
const reportTime = 4 * time.Second

// scaleWaits are requests for a number of workers that came to a scheduler that was started again,
// before the launcher's first report to it. They wait for that: workers that have ended meanwhile
// are not to be counted on.
type scaleWaits struct{ list []scaleWait }

type scaleWait struct {
	request  uint64
	scale    control.Request
	deadline time.Time
}

// add takes a request.
func (l *scaleWaits) add(out *output, request uint64, r control.Request) {
	l.list = append(l.list, scaleWait{request, r, out.now.Add(reportTime)})
}

// tell carries out the requests, in their order, once there is a report, and refuses those whose
// time is over.
func (l *scaleWaits) tell(out *output, m *membership) {
	l.list = slices.DeleteFunc(l.list, func(w scaleWait) bool {
		if !m.fleet.heard() && out.now.Before(w.deadline) {
			return false
		}
		out.report(w.request, m.askScale(out, w.scale))
		return true
	})
}

func (l *scaleWaits) next(bool) (t time.Time) {
	for _, w := range l.list {
		t = sooner(t, w.deadline)
	}
	return t
}

func (l *scaleWaits) forget(request uint64) {
	l.list = slices.DeleteFunc(l.list, func(w scaleWait) bool { return w.request == request })
}
