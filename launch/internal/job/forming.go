package job

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/control"
)

// startAgain starts a worker or a server that ended before the job was complete again, if the job survives losses. It is started as the same one:
// it has done nothing that others know of, and they wait for it. The scheduler is told first: then the job cannot become complete with the process
// that is gone, and if it has, the answer says so.
func (w *watch) startAgain(n *Node) bool {
	attempt, most := n.attempt+1, w.run.cfg.Elastic.attempts(n)
	if n.Exit.Elapsed >= longLife {
		attempt = 1
	}
	if attempt > most || n.asked() {
		return false
	}
	wait, begun := backOff(attempt), time.Now()
	w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s ended before the job was complete: %s; starting it again in %s (attempt %d of %d)",
		n.Name(), n.Host, n.Exit, wait, attempt, most))
	q := control.Request{Op: control.OpLost, Process: n.process, Cause: causeOf(n.Exit)}
	w.comes(n, 1)
	w.start(func(ctx context.Context) func() {
		var told control.Done
		w.run.ask(ctx, q, &told) // a refusal says that the process had not registered, and in which phase the job is
		return func() {
			w.comes(n, -1)
			switch {
			case w.stage > running || ctx.Err() != nil:
			case told.Phase == control.Forming:
				n.lost, n.told, n.fate = true, true, fate{code: control.FateRestarted}
				again := w.run.newNode(n.Role, n.Rank, n.host)
				again.early, again.member, again.attempt = true, n.member, attempt
				w.replace(n, again, max(0, wait-time.Since(begun)))
			case n.lost: // the scheduler's word of it came first
			case told.Phase == control.Running && n.Role == roleWorker:
				w.lose(n, n.Exit.String())
			case told.Phase == control.Running && w.run.cfg.Elastic.Backups > 0 && w.restartServer(n):
			default:
				w.failed(n)
			}
		}
	})
	return true
}

// attempts is how often a process that ended before the job was complete is started again.
func (e *Elastic) attempts(n *Node) int {
	switch {
	case n.Role == roleServer && e.Backups > 0:
		return maxRestarts
	case e.OnWorkerLoss == LossFail:
		return 0
	}
	return e.Rejoin
}

// beforeComplete says of a process that failed in a job which survives losses why it did not survive this one: not all had joined.
func (w *watch) beforeComplete(n *Node) string {
	e := &w.run.cfg.Elastic
	switch {
	case n.Role == roleScheduler || w.formed() || !e.Changes():
		return ""
	case n.attempt > 0:
		return fmt.Sprintf(", before the job was complete, %d times in a row", n.attempt+1)
	case e.OnWorkerLoss != LossFail && e.Rejoin == 0 && !n.asked():
		return ", before the job was complete; with --rejoin 1 or more it is started again"
	}
	return ", before the job was complete"
}
