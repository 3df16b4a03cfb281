package scheduler

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// wishTime is how long a wish must last before it is carried out.
	wishTime = 3 * time.Second
	// wishPause is how long no worker may have come or gone before a wish is carried out: a new
	// number must have been measured.
	wishPause = 20 * time.Second
	// wishRetry is how often that is looked at.
	wishRetry = time.Second
)

// A wish is the number of workers that rank 0 wants the job to have, as its adaptation says
// (adaptation.go). It is carried out once, by askScale, as what people ask for with launch ctl scale
// is: an operator may choose another number, which stays until rank 0 wishes for a new one. The zero
// wish is none. The journal has only that there is one: rank 0 says it again.
type wish struct {
	workers int
	reason  string
	due     time.Time
}

// passWish carries a wish out. At most one change is under way at a time.
func (m *membership) passWish(out *output) {
	w := m.wish
	switch {
	case w.workers == 0 || out.now.Before(w.due):
		return
	case !m.job.running() || m.job.stop != notStopping || !m.fleet.Adopted:
		m.wish = wish{}
		return
	case m.scale.underWay() || m.fleet.changing() || !m.fleet.heard() || !m.cameOrWent.IsZero() && out.now.Sub(m.cameOrWent) < wishPause:
		m.wish.due = out.now.Add(wishRetry)
		return
	}
	m.wish = wish{}
	e, have := m.set.Elastic, m.sites.inAll(m.fleet.staying)
	room := m.sites.most(max(w.workers, have), m.fleet.staying)
	wanted := max(min(w.workers, room, e.MaxWorkers), e.MinWorkers, 1)
	if wanted == have {
		return
	}
	text := fmt.Sprintf("rank 0 asks for %s instead of %d", control.ScaleText(w.workers, nil), have)
	if wanted != w.workers {
		text += fmt.Sprintf(", limited to %d", wanted)
	}
	text += because(w.reason)
	out.note("%s", text).Event = joblog.Scale.With("action", control.Wish, "workers", wanted, "reason", w.reason)
	if done := m.askScale(out, control.Request{Op: control.OpScale, Workers: wanted}); done.Error != "" {
		out.warn("the job cannot scale as rank 0 asks: %s", done.Error).Event = joblog.ScaleShort.With("reason", done.Error)
	}
}

// next is when the wish is looked at.
func (w *wish) next(open bool) time.Time {
	if !open {
		return time.Time{}
	}
	return w.due
}
