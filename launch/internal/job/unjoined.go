package job

import (
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// joinedReportTime is how long after a worker's end the scheduler's report that it had
	// joined may come.
	joinedReportTime = 3 * time.Second
	// joinWarnTime is how long no worker may join until that is told.
	joinWarnTime = 15 * time.Second
)

// howToJoin says what the workers of a job that does not become complete may lack.
const howToJoin = "workers join with kvstore.Create and a store of type dist; without it, and with --kvstore local, each trains by itself"

// noneJoined says after a while that no worker has joined, if that is so.
type noneJoined struct{}

func (noneJoined) run(c *core) {
	if c.stage == running && !c.formed && !c.anyWorkerPresent() {
		c.warnOnce(fmt.Sprintf("no worker has joined the job for %s; %s", joinWarnTime, howToJoin))
	}
}

// unjoinedCheck looks for workers that ended and have not joined.
type unjoinedCheck struct{}

func (unjoinedCheck) run(c *core) { c.endUnjoined() }

// warnOnce warns that workers do not join.
func (c *core) warnOnce(text string) {
	if !c.warned {
		c.warned = true
		c.warn(text)
	}
}

// hasRegistered reports whether the node of a process has registered and is there.
func (c *core) hasRegistered(process uint32) bool {
	for p := range c.present {
		if p.Process == process {
			return true
		}
	}
	return false
}

// anyWorkerPresent reports whether any worker has registered and is there.
func (c *core) anyWorkerPresent() bool {
	for p := range c.present {
		if p.Role == roleWorker {
			return true
		}
	}
	return false
}

// endUnjoined ends a job that cannot become complete: workers have ended with code 0 and are not in
// it, and others wait for them. If no worker has joined, none of them waits.
func (c *core) endUnjoined() {
	if c.stage != running || c.formed {
		return
	}
	var ended []string
	for _, n := range c.nodes {
		if n.Role == roleWorker && n.ended && n.Exit.OK() && !c.hasRegistered(n.process) && c.now.Sub(n.endedAt()) >= joinedReportTime {
			ended = append(ended, fmt.Sprintf("%s on %s", n.Name(), n.Host))
		}
	}
	switch {
	case len(ended) == 0:
	case c.anyWorkerPresent():
		c.failure = &control.Failure{Code: control.NotJoined, Rank: -1, Waiting: ended}
		c.error(c.failure.String()+"; stopping them", joblog.JobStopping.With())
		c.enter(stopWorkers)
	default:
		c.warnOnce(fmt.Sprintf("%s ended with exit 0 without joining the job; %s", strings.Join(ended, ", "), howToJoin))
	}
}
