package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// verdictTold is how long the scheduler may be silent before people are told that the job
	// waits for it. A scheduler that runs answers the watch sooner than that, though nothing has
	// changed.
	verdictTold = 20 * time.Second
	// verdictTime is how long the scheduler may be silent when it alone keeps the job from ending.
	verdictTime = time.Minute
)

// A verdictWait is the timer that bounds how long a job without workers waits for a scheduler that
// runs and does not answer.
type verdictWait struct{ told bool }

func isVerdictWait(what event) bool {
	_, is := what.(verdictWait)
	return is
}

// tell tells once that the job waits.
func (v verdictWait) tell(out *output, s *Node, silent time.Duration) {
	if !v.told {
		out.warn(fmt.Sprintf("no worker is left, and the scheduler on %s does not say whether the job goes on: it has not answered for %s; the job ends if it stays silent for %s",
			s.Host, silent.Round(time.Second), verdictTime), joblog.JobStopping.With())
	}
}

// await takes note of a worker or a server whose end the scheduler is to judge.
func (n *Node) await(out *output) {
	n.awaited = true
	if !out.timers.any(isVerdictWait) {
		out.after(verdictTold, verdictWait{})
	}
}

// silentSince is since when the scheduler has not answered: since it was heard last, since it was
// started, or since the last end that it is to judge.
func (p *processes) silentSince(heard time.Time) time.Time {
	since := heard
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	later(p.scheduler().started)
	for _, n := range p.nodes {
		if n.awaited {
			later(n.endedAt())
		}
	}
	return since
}

// anyWorkerLeft reports whether a worker runs or is about to.
func (p *processes) anyWorkerLeft() bool {
	for _, n := range p.launching {
		if n.Role == roleWorker {
			return true
		}
	}
	lives := func(n *Node) bool { return n.Role == roleWorker && !n.ended }
	return p.any(lives) || slices.ContainsFunc(p.arrivals, lives)
}
