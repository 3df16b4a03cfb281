package job

import (
	"fmt"
	"slices"
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

// looked takes note of the time between two looks at the clock; the shell looks several times
// within a host timeout.
func (c *core) looked(now time.Time) {
	gap := now.Sub(c.now)
	if c.set.HostTimeout == 0 || gap <= c.set.HostTimeout || c.stage < running {
		return
	}
	c.standstill = standstill{lasted: gap, over: now}
	c.warn(fmt.Sprintf("launch itself did not run for %s (it was stopped, or its machine was suspended): hosts that heard nothing from it for %s (--host-timeout) have ended their processes",
		control.Seconds(gap), c.set.HostTimeout), joblog.LauncherSilent.With("for", gap))
}

// failedAfter takes note of the job's first failure. Whether hosts were lost is known a moment
// later.
func (s *standstill) failedAfter(now time.Time) {
	s.failed = s.lasted > 0 && now.Before(s.over.Add(afterStandstill))
}

// standstillFailure is the failure of a job whose hosts had given the launcher up; nil: it did not
// fail for that.
func (c *core) standstillFailure() *control.Failure {
	if !c.standstill.failed || !slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Exit.Lost }) {
		return nil
	}
	return &control.Failure{Code: control.LauncherSilent, Rank: -1, WaitedNS: int64(c.standstill.lasted),
		Text: fmt.Sprintf("its hosts heard nothing from it for %s (--host-timeout) and ended their processes", c.set.HostTimeout)}
}
