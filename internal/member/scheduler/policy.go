package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A policy is what the settings say of a job's members: how many there must be, which losses the
// job survives, who may leave. It has no state, and only reads that of others.
type policy struct{ set *Settings }

// admitted lists the ready workers that would count after a change.
func (p policy) admitted(r *roster) []*node { return r.admitted(p.set.mostWorkers()) }

// fatal is the failure of a job that does not survive the loss of a worker; nil: it does. While the
// job stops with a checkpoint any number of workers is enough: the checkpoint has what those who
// stay know, and another number of workers goes on from it.
func (p policy) fatal(n *node, loss control.Failure, r *roster, job *jobState) *control.Failure {
	e, stay := p.set.Elastic, r.staying()
	switch {
	case e.OnWorkerLoss == cluster.LossFail:
	case stay == 0:
		loss.Code = control.NoWorkerLeft
	case job.stop == stoppingWithCheckpoint:
		return nil
	case p.tooFewWithout(n, stay, r):
		loss.Code, loss.Left, loss.Least = control.TooFewWorkers, stay, e.MinWorkers
	default:
		return nil
	}
	return &loss
}

// tooFewWithout reports whether the loss of a worker would leave fewer than the job needs, with
// those that are ready. stay is how many members would stay. A worker that is leaving was not
// counted on.
func (p policy) tooFewWithout(n *node, stay int, r *roster) bool {
	e := p.set.Elastic
	return e.OnWorkerLoss == cluster.LossShrink && n.State != wire.MemberLeaving && stay+len(p.admitted(r)) < e.MinWorkers
}

// mustCountWithout is how many workers must count after the change that the loss of one makes; 0:
// any number, and the change waits for nobody.
func (p policy) mustCountWithout(n *node, r *roster, job *jobState) int {
	e, stay := p.set.Elastic, r.staying()
	switch {
	case n.State == wire.MemberLeaving, job.stop != notStopping:
		// No replacement comes.
		return 0
	case e.OnWorkerLoss == cluster.LossWait:
		return stay + 1
	case stay < e.MinWorkers:
		// Others are ready.
		return e.MinWorkers
	}
	return 0
}

// needs says why the job cannot go on without a worker; empty: it can.
func (p policy) needs(n *node, r *roster, job *jobState) string {
	if !n.Counts() {
		return ""
	}
	stay, ready := r.staying()-1, r.ready()
	if most := p.set.mostWorkers(); most > 0 {
		// Its own place becomes free.
		ready = min(ready, most-stay)
	}
	switch least := p.set.Elastic.MinWorkers; {
	case !p.set.Elastic.Enabled:
		return "the job's members cannot change: it was not started with --elastic-training-enabled"
	case job.stop != notStopping:
		return "the whole job is being stopped"
	case stay == 0:
		// Those who are ready know nothing of how far training is.
		return "no other member would be left"
	case stay+ready < least:
		return fmt.Sprintf("it would leave %d, want at least %s", stay+ready, plural.Of(least, "worker"))
	}
	return ""
}

// mayBeDropped reports whether a node is dropped when its time to join is over. One that is ready
// is not while a change is pending, which takes it in.
func (p policy) mayBeDropped(n *node, change *changer) bool {
	if n.life != living || n.joinBy.IsZero() {
		return false
	}
	return n.State == wire.MemberJoining || n.State == wire.MemberReady && !change.isPending()
}

// tooSlow says why a worker did not manage to join in time.
func (p policy) tooSlow(n *node, r *roster) string {
	limit := p.set.Elastic.JoinTimeout
	if n.State == wire.MemberReady {
		return fmt.Sprintf("no place became free within %v: the job has its maximum of %s", limit, plural.Of(r.staying(), "worker"))
	}
	return fmt.Sprintf("not ready within %v: a worker that joins has to call Ready of its store, as worker.Fit does", limit)
}

// attempts is how often a process that ended before the job was complete is started again.
func (p policy) attempts(x *wantedProcess) int {
	switch e := p.set.Elastic; {
	case !x.isWorker() && e.Backups > 0:
		return maxRestarts
	case e.OnWorkerLoss == cluster.LossFail:
		return 0
	default:
		return e.Rejoin
	}
}

// exhausted says of a process that it is not started again, if that is so.
func (p policy) exhausted(attempt int) string {
	if most := p.set.Elastic.Rejoin; most > 0 && attempt > most {
		return "not started again after " + plural.Of(most, "attempt")
	}
	return ""
}
