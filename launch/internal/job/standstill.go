package job

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// afterStandstill is how long after a standstill a launcher finds the connections lost that ended
// for it.
const afterStandstill = time.Minute

// A standstill is the newest time for which the launcher did not run for longer than the host
// timeout, since something made its whole process stand still: SIGSTOP, Ctrl-Z, a machine that was
// suspended. Hosts have given the launcher up meanwhile and have ended their processes.
type standstill struct {
	lasted time.Duration
	over   time.Time
	// failed says that the job's first failure came soon after it.
	failed bool
}

// look takes note of a look at the clock, after the last one at out.now. The shell looks several
// times within a host timeout.
func (s *standstill) look(out *output, now time.Time, timeout time.Duration) {
	gap := now.Sub(out.now)
	if timeout == 0 || gap <= timeout {
		return
	}
	*s = standstill{lasted: gap, over: now}
	out.warn(fmt.Sprintf("launch itself did not run for %s (it was stopped, or its machine was suspended): hosts that heard nothing from it for %s (--host-timeout) have ended their processes",
		control.Seconds(gap), timeout), joblog.LauncherSilent.With("for", gap))
}

// failedAt takes note of the job's first failure. Whether hosts were lost is known a moment later.
func (s *standstill) failedAt(now time.Time) {
	s.failed = s.lasted > 0 && now.Before(s.over.Add(afterStandstill))
}

// failure is that of a job whose hosts had given the launcher up; nil: it did not fail for that.
func (s *standstill) failure(procs *processes, timeout time.Duration) *control.Failure {
	if !s.failed || !procs.any(func(n *Node) bool { return n.Exit.Lost }) {
		return nil
	}
	return &control.Failure{Code: control.LauncherSilent, Rank: -1, WaitedNS: int64(s.lasted),
		Text: fmt.Sprintf("its hosts heard nothing from it for %s (--host-timeout) and ended their processes", timeout)}
}
