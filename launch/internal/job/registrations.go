package job

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

const (
	// joinedReportTime is how long after a worker's end the scheduler's report that it had
	// joined may come.
	joinedReportTime = 3 * time.Second
	// joinWarnTime is how long no worker may join until that is told.
	joinWarnTime = 15 * time.Second
)

// howToJoin says what the workers of a job that does not become complete may lack.
const howToJoin = "workers join with kvstore.Create and a store of type dist, in Python with paragon.torch.init(); without it, and with --kvstore local, each trains by itself"

// registrations are the nodes that have registered at the scheduler, as that reports while the job
// is forming. Of a running job the wanted state says who is in it.
type registrations struct {
	// complete says that all have: the job runs. It stays so.
	complete bool
	// nodes are those that have registered and are there.
	nodes map[control.Presence]bool
	// warned says that people were told that workers do not join.
	warned bool
}

// has reports whether a node as asked has registered and is there.
func (a *registrations) has(is func(control.Presence) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(a.nodes)), is)
}

// any reports whether any worker has registered and is there.
func (a *registrations) any() bool {
	return a.has(func(p control.Presence) bool { return p.Role == roleWorker })
}

// warn warns once that workers do not join.
func (a *registrations) warn(out *output, text string) {
	if !a.warned {
		a.warned = true
		out.warn(text + "; " + howToJoin)
	}
}

// unjoined names the workers that ended well a while ago and are not in the job, which waits for
// them.
func (a *registrations) unjoined(nodes []*Node, now time.Time) (names []string) {
	for _, n := range nodes {
		there := func(p control.Presence) bool { return p.Process == n.process }
		if n.Role == roleWorker && n.ended && n.Exit.OK() && !a.has(there) && now.Sub(n.endedAt()) >= joinedReportTime {
			names = append(names, fmt.Sprintf("%s on %s", n.Name(), n.Host))
		}
	}
	return names
}

// attempts is how often a process that ended before the job was complete is started again. The
// scheduler decides that, by the same options (policy.attempts).
func (s *settings) attempts(n *Node) int {
	switch {
	case n.Role == roleServer && s.Backups > 0:
		return maxServerRestarts
	case s.OnWorkerLoss == LossFail:
		return 0
	}
	return s.Rejoin
}

// beforeComplete says of a process that failed in a job which survives losses why it did not
// survive this one: not all had joined.
func (a *registrations) beforeComplete(n *Node, set *settings) string {
	switch {
	case n.Role == roleScheduler || a.complete || !set.Changes():
		return ""
	case n.attempt > 0:
		return fmt.Sprintf(", before the job was complete, %d times in a row", n.attempt+1)
	case set.OnWorkerLoss != LossFail && set.Rejoin == 0 && !n.asked():
		return ", before the job was complete; with --rejoin 1 or more it is started again"
	}
	return ", before the job was complete"
}
