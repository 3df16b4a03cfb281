package job

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// declaredLoss is the timer that tells of a process that the scheduler has declared lost: how it
// ends says more, if it is ending.
type declaredLoss struct {
	node   *Node
	reason string
}

// tellLost tells of a worker or a server that was lost, once. reason is the scheduler's. over says
// that the job does not go on without it.
func (n *Node) tellLost(out *output, reason string, over bool) {
	if n.lossTold {
		return
	}
	n.lossTold = true
	why := reason
	if n.ended && !n.Exit.OK() {
		why = n.Exit.String()
	}
	verb, more := "was lost", "; the job goes on"
	if over {
		more = ""
	}
	switch {
	case n.Role == roleServer:
		more = "; the job goes on with the backups of its shards"
	// Whoever sent the signal wants no replacement, and the others may be about to end, too.
	case n.asked():
		verb, more = "ended", ": it or another worker "+outside
	case n.failedItself():
		verb = "failed"
	}
	text := fmt.Sprintf("%s on %s %s: %s%s", n.Name(), n.Host, verb, why, more)
	if n.Role == roleServer {
		out.warn(text, joblog.ServerLost.Of(n.logged(), "reason", why))
		return
	}
	out.warn(text, joblog.WorkerLost.Of(n.logged(), "reason", why))
}

// tellRestarted tells of a process that ended before the job was complete, and of the one that is
// wanted in its place.
func (n *Node) tellRestarted(out *output, by control.WantedProcess, attempts int) {
	out.warn(fmt.Sprintf("%s on %s ended before the job was complete: %s; starting it again in %s (attempt %d of %d)", n.Name(), n.Host, n.Exit, by.Delay(), by.Attempt, attempts),
		joblog.ProcessRestarting.Of(n.logged(), "attempt", by.Attempt, "wait", by.Delay()))
}

// tellUnjoined tells of a process that ended before it had joined the running job.
func (n *Node) tellUnjoined(out *output) {
	text := fmt.Sprintf("%s on %s ended before it had joined: ", n.Name(), n.Host)
	switch {
	case n.Role == roleWorker && n.Exit.Final():
		text += fmt.Sprintf("exit %d: %s; no restart can mend this, so it is not started again", n.Exit.Code, causeOf(n.Exit).Text)
	case n.Role == roleWorker && n.Exit.Signal == 0 && n.Exit.Err == "" && !n.asked():
		text += fmt.Sprintf("%s; a worker that joins a running job has to call Ready of its store (kvstore.Elastic) before it takes part, as worker.Fit does", n.Exit)
	default:
		text += n.Exit.String()
	}
	out.warn(text, joblog.ProcessUnjoined.Of(n.logged(), "exit", n.Exit.String()))
}
