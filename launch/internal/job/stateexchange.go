package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A stateExchange is the launcher's side of the two states that it and the scheduler tell each other: it
// asks for what is wanted, and reports what is observed. Of each one request is under way at a time.
// Both are whole states, so that only the newest counts and a lost one does no harm.
type stateExchange struct {
	out      *output
	requests *requests
	// begun says that the scheduler is asked and told. A job whose processes cannot change
	// begins when there is something that the scheduler must be told of.
	begun bool
	// files says that edits of host_worker are handed over.
	files bool
	// reporting says that a report is under way.
	reporting bool
	// reports counts them.
	reports uint64
}

// Timers of the watch: the next look, and when it is told that there is none.
type (
	watchAgain struct{}
	watchLost  struct{ err error }
)

// begin begins to exchange states.
func (x *stateExchange) begin(want *wantedState) {
	if !x.begun {
		x.begun, x.out.changed = true, true
		x.ask(want)
	}
}

// handOverEdits hands over edits of host_worker from now on.
func (x *stateExchange) handOverEdits() {
	if !x.files {
		x.files = true
		x.out.do(follow{})
	}
}

// ask asks for what is wanted.
func (x *stateExchange) ask(want *wantedState) {
	x.requests.ask(control.Request{Op: control.OpWanted, Revision: want.revision, After: want.after, WaitMillis: eventsWait.Milliseconds()}, 0, watchRequest{})
}

// again asks for what is wanted again: at once if there was news. A scheduler that answers at once
// that nothing happened is not asked again at once, and of a job that is over nothing more comes.
func (x *stateExchange) again(want *wantedState, news, over bool) {
	switch {
	case news:
		x.ask(want)
	case over:
		x.out.after(overPause, watchAgain{})
	default:
		x.out.after(firstPause, watchAgain{})
	}
}

// lost tells that the job cannot change any more.
func (x *stateExchange) lost(err error) {
	x.out.error(fmt.Sprintf("launch: follow the changes of the job: %v; hosts can no longer join or leave", err))
}

// anew reports to a scheduler that was started again: it knows less of the processes than the one
// before. A report that is still under way is older than it, and is given up.
func (x *stateExchange) anew() {
	x.requests.drop(reportRequest{}, "there is a newer report")
	x.reporting, x.out.changed = false, true
}

// due reports whether there is something to report.
func (x *stateExchange) due() bool { return x.begun && x.out.changed && !x.reporting }

// report reports what is observed. With a limit it is the last report: usually the scheduler knows,
// and may have ended with the job, so no answer is wanted.
func (x *stateExchange) report(o *control.Observed, want *wantedState, limit time.Duration) {
	x.out.changed = false
	x.reports++
	o.Number, o.Revision = x.reports, want.revision
	q := control.Request{Op: control.OpReport, Observed: o}
	if limit > 0 {
		x.out.do(ask{0, q, limit})
		return
	}
	x.reporting = true
	x.requests.ask(q, 0, reportRequest{})
}
