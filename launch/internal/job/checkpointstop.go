package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A checkpointStop is the orderly end of a job that is to go on later: all workers write a
// checkpoint after a step that they agree on, and end. The scheduler tells them and reports what
// came of it. The job changes no more meanwhile, but it survives the losses that it would survive
// else.
type checkpointStop struct {
	// why says who asked for it; empty: nobody did.
	why string
	// asked says that the scheduler was asked, or told of it by itself.
	asked bool
	// limit is how long it may take, and by when that is over.
	limit time.Duration
	by    time.Time
	// late says that it took longer.
	late bool
	// stopped is what a worker says came of it; nil: none has.
	stopped *control.Stopped
}

// checkpointLimit is the timer that ends what takes too long.
type checkpointLimit struct{}

// requested reports whether the job is to stop with a checkpoint.
func (s *checkpointStop) requested() bool { return s.why != "" }

// complete reports whether there is a checkpoint from which the job can go on.
func (s *checkpointStop) complete() bool {
	return s.requested() && s.stopped != nil && s.stopped.Steps > 0
}

// bound sets when the checkpoint must be complete.
func (s *checkpointStop) bound(out *output, limit time.Duration) {
	s.limit, s.by = limit, out.now.Add(limit)
	s.arm(out)
}

// arm sets the timer.
func (s *checkpointStop) arm(out *output) {
	out.afterAnew(max(0, s.by.Sub(out.now)), checkpointLimit{})
}

// boundBy sets that the checkpoint must be complete by a time, if that comes sooner.
func (s *checkpointStop) boundBy(out *output, by time.Time) {
	if s.requested() && by.Before(s.by) {
		s.bound(out, max(by.Sub(out.now), 0))
	}
}

// withdraw forgets that the job is to stop.
func (s *checkpointStop) withdraw(out *output) {
	*s = checkpointStop{}
	out.timers.cancel(checkpointLimit{})
}

// stoppedWell reports whether a worker ended as one does that stops and has no better code than
// that of SIGTERM. With code 0 it has also finished.
func (s *checkpointStop) stoppedWell(n *Node) bool { return s.asked && n.terminated() }

// failure says how a job ended that was to stop with a checkpoint; nil: it was not, or its workers
// were done before. notStarted is why the job was not started.
func (s *checkpointStop) failure(procs *processes, notStarted error) *control.Failure {
	f := &control.Failure{Code: control.NoCheckpoint, Rank: -1, Text: s.why}
	switch {
	case !s.requested(), notStarted != nil && !s.late:
		return nil
	case s.complete():
		f.Code, f.Step = control.Checkpointed, s.stopped.Steps
	case s.stopped != nil:
		f.Text += ": " + s.stopped.Reason
	case s.late && !s.asked:
		f.Text += fmt.Sprintf(": the job was not complete %s later (--checkpoint-timeout)", s.limit)
	case s.late:
		f.Text += fmt.Sprintf(": none was complete %s later (--checkpoint-timeout); workers must train with worker.Fit, or do what kvstore.Stopper says (Python: ElasticSampler with checkpoint=)", s.limit)
	case procs.any((*Node).done) && !procs.any(s.stoppedWell):
		return nil
	default:
		f.Text += ": all workers ended, and none reported a checkpoint"
	}
	return f
}
