package job

import (
	"context"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/hosts"
)

const (
	firstBackOff = time.Second // before a process is started again; doubled each time
	lastBackOff  = 30 * time.Second
	longLife     = time.Minute // a process that lived so long was no failed attempt

	// maxRestarts bounds how often a scheduler or a server is started again in a row.
	maxRestarts = 8
	// aloneTime is how long a job may have no worker at all before it is given up, whatever its scheduler waits for.
	aloneTime = 10 * time.Second
)

// backOff is how long to wait before the attempt, from 1 on.
func backOff(attempt int) time.Duration {
	return min(firstBackOff<<min(attempt-1, 10), lastBackOff)
}

// formed reports whether the job was complete.
func (w *watch) formed() bool {
	select {
	case <-w.run.formed.done:
		return true
	default:
		return false
	}
}

// endedWell takes note of a process that ended with code 0.
func (w *watch) endedWell(n *Node) {
	if n.Role != roleScheduler && n.fate.code == "" && n.leaving {
		n.fate = fate{code: control.FateRemoved}
	}
	if n.Role == roleWorker && n.member && !n.leaving && w.stage == running && w.run.cfg.Elastic.Changes() {
		w.sayLeft(n)
	}
	if n.Role == roleWorker && w.stage == running && !w.formed() {
		w.after(joinedWordTime, w.endUnjoined)
	}
	if n.Role == roleScheduler && w.stage == running && w.formed() && w.run.cfg.Elastic.Changes() {
		// All workers that counted have left the job, and may have more to do. Nobody takes in those that did not.
		w.over = true
		for g := range w.guests {
			g.cancel()
		}
		for _, n := range w.run.nodes {
			if n.Role == roleWorker && !n.ended && !n.member {
				w.turnOut(n, fate{code: control.FateUnneeded}, goneTime)
			}
		}
		if w.workers() == 0 {
			w.noWorker()
		}
	}
}

// goesOn reports whether the job survives a process that failed, and does what there is to do for it.
func (w *watch) goesOn(n *Node) bool {
	e := &w.run.cfg.Elastic
	switch {
	case n.lost:
		return true
	case w.stage > running || w.run.report.failed() != nil:
		return false
	case w.run.machineKey(n) == "" && lostMachine(n.machine):
		return false // all that ran beside the launcher is gone, and nothing can be started there
	case n.Role == roleScheduler:
		return e.State != "" && w.restartScheduler(n)
	case n.Role == roleServer && n.leaving:
		n.fate = fate{code: control.FateRemoved}
		return true
	case !w.formed():
		return w.startAgain(n)
	case n.Role == roleServer:
		return e.Backups > 0 && w.restartServer(n)
	case n.leaving:
		n.fate = fate{code: control.FateRemoved}
		w.report(n) // it may not have come as far as that
		return true
	case !n.member: // it has never counted
		n.fate = fate{code: control.FateNotJoined}
		hint := ""
		if n.Exit.Signal == 0 && n.Exit.Err == "" && !n.asked() {
			hint = "; a worker that joins a running job has to call Ready of its store (kvstore.Elastic) before it takes part, as worker.Fit does"
		}
		w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s ended before it counted: %s%s", n.Name(), n.Host, n.Exit, hint))
		w.rejoin(n, n.Exit.String())
		return true
	case e.OnWorkerLoss == LossFail:
		return false
	}
	w.report(n)
	w.lose(n, n.Exit.String())
	return true
}

// sayLeft tells the scheduler of a worker that is done: one that was cut off from it could not say so itself. As a rule the scheduler knows,
// and may have ended with the job.
func (w *watch) sayLeft(n *Node) {
	q := control.Request{Op: control.OpLeft, Process: n.process}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), w.run.cfg.FinishTime)
		defer cancel()
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			w.run.do(ctx, q) // a refusal says that it knows
		}()
		select {
		case <-asked:
		case <-w.run.over:
			cancel()
			<-asked
		}
	}()
}

// report tells the scheduler of a process that ended: it would notice by itself, a little later.
func (w *watch) report(n *Node) {
	w.tell(control.Request{Op: control.OpLost, Process: n.process, Cause: causeOf(n.Exit)}, func(error) {
		// It may know already.
	})
}

// lose takes note of a worker that counted, and without which the job goes on.
func (w *watch) lose(n *Node, why string) {
	n.lost, n.fate = true, fate{code: control.FateLost}
	w.lost, w.changed = n, true
	if n.asked() { // whoever did wants none in its place, and the others may be about to end, too
		w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s ended: %s: it or another worker got SIGTERM from outside the launcher", n.Name(), n.Host, n.Exit))
		return
	}
	w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s was lost: %s; the job goes on", n.Name(), n.Host, why))
	w.rejoin(n, why)
}

// goneTime is how long the process of a worker that the scheduler no longer counts has to end by itself.
const goneTime = 5 * time.Second

// gone takes note of a worker that the scheduler holds for lost. Its process may live, stopped or cut off: it is of no use any
// more, and another one takes its place.
func (w *watch) gone(h hosts.Host, e control.Event) {
	it := w.run.nodeOf(e.Process)
	if it != nil {
		it.told = true
		if !it.lost && !it.leaving { // it may also have ended with 0, and never left the job
			w.lose(it, e.Reason)
			if !it.ended {
				w.turnOut(it, fate{}, goneTime)
			}
		}
	}
	living := slices.DeleteFunc(w.on(h), func(n *Node) bool { return !n.member || n.lost || n == it })
	if len(living) == 0 {
		w.present(h, false, e)
	}
}

// goneServer takes note of a server that the scheduler holds for lost. Should its process live, stopped say, it is made to end:
// then another one takes its place.
func (w *watch) goneServer(e control.Event) {
	n := w.run.nodeOf(e.Process)
	if n == nil || n.ended {
		return
	}
	w.start(func(ctx context.Context) func() {
		if !within(ctx, n, goneTime) {
			n.signal(syscall.SIGKILL) // it has nothing left to do in order
		}
		return func() {}
	})
}

// noWorker decides what becomes of a job in which no worker runs that counts.
func (w *watch) noWorker() {
	done := false
	for _, n := range w.run.nodes {
		done = done || n.Role == roleWorker && n.ended && n.Exit.OK() && n.member && !n.leaving && !n.lost
	}
	switch {
	case done && !w.formed() && w.comingAny():
		return // a worker that failed is being started again, and how that ends counts
	case done:
		for _, n := range w.run.nodes {
			if n.Role == roleWorker && !n.ended {
				n.stopped, n.fate = true, fate{code: control.FateUnneeded}
				n.signal(syscall.SIGTERM)
			}
		}
		w.enter(finishing)
		return
	case !w.run.cfg.Elastic.Changes():
		w.enter(finishing)
		return
	}
	// The scheduler says whether that is the end; others may be about to join.
	wait := aloneTime
	if w.over { // it has: those who counted have all left in order
		wait = 0
	}
	w.start(func(ctx context.Context) func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return func() {
			if w.stage > running || ctx.Err() != nil || w.workers() > 0 || !w.over && (len(w.guests) > 0 || w.comingAny()) {
				return
			}
			for _, n := range w.run.nodes {
				if n.Role == roleWorker && !n.ended {
					return // the scheduler gives it its time
				}
			}
			w.failure, w.first = &control.Failure{Code: control.NoWorkerLeft, Rank: -1}, w.lost
			if w.over && w.lost != nil && w.lost.asked() {
				w.failure.Code = control.StoppedByOthers
			}
			w.run.cfg.Logger.Error(w.failure.String() + "; stopping servers and scheduler")
			w.enter(stopWorkers)
		}
	})
}

// rejoin starts a lost worker again where it was, after a while.
func (w *watch) rejoin(n *Node, why string) {
	attempt := n.attempt + 1
	if n.member && time.Since(n.started) >= longLife {
		attempt = 1
	}
	if e := &w.run.cfg.Elastic; e.Rejoin > 0 && attempt > e.Rejoin {
		n.fate.note = fmt.Sprintf("not started again after %d attempts", e.Rejoin)
	}
	w.bringAgain(n.host, attempt, fmt.Errorf("%s ended: %s", n.Name(), why), n.member)
}

// bringAgain starts another worker on a host where one has ended, because of why, or could not be started. After the last attempt
// the host has failed, unless it has counted.
func (w *watch) bringAgain(h hosts.Host, attempt int, why error, counted bool) {
	e := &w.run.cfg.Elastic
	if w.leaving[h.String()] || w.over || w.working.Err() != nil {
		return
	}
	if attempt > e.Rejoin {
		if !counted {
			w.fail(h, why)
		}
		return
	}
	wait, wave := backOff(attempt), w.waves[h.String()]
	w.run.cfg.Logger.Info(fmt.Sprintf("starting a worker on %s again in %s (attempt %d of %d)", h, wait, attempt, e.Rejoin))
	w.coming[h.String()]++
	w.start(func(ctx context.Context) func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return func() {
			if w.coming[h.String()]--; ctx.Err() == nil && !w.over && w.waves[h.String()] == wave {
				w.bring(h, 1, attempt)
			}
		}
	})
}

// restartScheduler starts the scheduler again, on the same address and with what it has kept.
func (w *watch) restartScheduler(n *Node) bool {
	if w.restarts++; n.Exit.Elapsed >= longLife {
		w.restarts = 1
	}
	if w.restarts > maxRestarts {
		return false
	}
	again := w.run.newNode(roleScheduler, 0, n.host)
	wait := time.Duration(0) // at once, and later where that did not help
	if w.restarts > 1 {
		wait = backOff(w.restarts-1) / 4
	}
	n.fate = fate{code: control.FateRestarted}
	w.run.cfg.Logger.Warn(fmt.Sprintf("scheduler on %s ended: %s; starting it again, training goes on meanwhile", n.Host, n.Exit))
	w.replace(n, again, wait)
	return true
}

// restartServer starts another server in the place of one that was lost.
func (w *watch) restartServer(n *Node) bool {
	attempt := n.attempt + 1
	if n.Exit.Elapsed >= longLife {
		attempt = 1
	}
	if w.asked[n.Rank] != nil {
		n.fate = fate{code: control.FateNotJoined}
		w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s ended before it counted: %s", n.Name(), n.Host, n.Exit))
	} else {
		n.fate = fate{code: control.FateLost}
		w.run.cfg.Logger.Warn(fmt.Sprintf("%s on %s was lost: %s; the job goes on with the backups of its shards", n.Name(), n.Host, n.Exit))
	}
	w.report(n)
	if attempt > maxRestarts {
		n.fate.note = fmt.Sprintf("not started again after %d attempts", maxRestarts)
		if w.asked[n.Rank] != nil {
			w.serverFailed(n.Rank, fmt.Errorf("%s", n.Exit))
		}
		return true
	}
	again := w.run.newNode(roleServer, n.Rank, n.host)
	again.joining, again.attempt = true, attempt
	w.run.cfg.Logger.Info(fmt.Sprintf("starting another server %d on %s in %s", n.Rank, n.Host, backOff(attempt)))
	w.replace(n, again, backOff(attempt))
	return true
}

// replace starts again in the place of n, which ended.
func (w *watch) replace(n, again *Node, wait time.Duration) {
	old := w.run.machines[w.run.machineKey(n)]
	if w.run.machineKey(n) == "" {
		old = n.machine
	}
	report := w.run.report
	if again.Role == roleScheduler {
		report = newReport(w.run.formed, w.run.cfg.Logger)
		w.run.report = report
	} else {
		report = nil
	}
	w.comes(again, 1)
	w.start(func(ctx context.Context) func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		m, fresh, err := old, false, ctx.Err()
		if err == nil && (old == nil || lostMachine(old)) { // nil: nothing was left there, and the connection was given up
			m, fresh, err = w.run.reach(ctx, n.host, old)
		}
		return func() {
			if w.stage > running {
				return
			}
			if fresh && m != nil {
				m = w.adopt(w.run.machineKey(n), m)
			}
			if err != nil {
				w.comes(again, -1)
				again.machine = old
				w.unreplaced(again, err)
				return
			}
			again.machine = m
			w.launch(w.working, again, report, func(err error) {
				w.comes(again, -1)
				if err != nil {
					w.unreplaced(again, err)
				} else if report != nil {
					w.listens(again, report)
				}
			})
		}
	})
}

// unreplaced takes note of a process that could not be started again.
func (w *watch) unreplaced(n *Node, err error) {
	if w.stage > running {
		return
	}
	n.Exit.Code, n.Exit.Err, n.ended = 127, err.Error(), true
	w.run.nodes = append(w.run.nodes, n)
	if !w.goesOn(n) {
		w.failed(n)
	}
}

// listens waits until a scheduler that was started again listens where the first one did.
func (w *watch) listens(n *Node, report *report) {
	w.start(func(ctx context.Context) func() {
		select {
		case addr := <-report.address:
			return func() {
				if _, port, err := net.SplitHostPort(addr); err != nil || port != w.run.port {
					w.run.cfg.Logger.Error(fmt.Sprintf("launch: scheduler on %s reported %q, want port %s as before", n.Host, addr, w.run.port))
				} else {
					w.run.cfg.Logger.Info(fmt.Sprintf("scheduler on %s goes on at %s", n.Host, addr))
				}
			}
		case <-n.handle.Done(): // its end is told elsewhere
		case <-ctx.Done():
		}
		return func() {}
	})
}

// machineKey is how n's machine is called in machines.
func (r *run) machineKey(n *Node) string {
	if n.Role == roleScheduler && r.cfg.SchedulerHost == nil {
		return ""
	}
	return r.key(n.host)
}

// comes counts a worker that will be started again on its host, or with -1 is no longer about to be. Nobody waits for other processes.
func (w *watch) comes(n *Node, more int) {
	if n.Role == roleWorker {
		w.coming[n.host.String()] += more
	}
}

func (w *watch) comingAny() bool {
	for _, n := range w.coming {
		if n > 0 {
			return true
		}
	}
	return false
}
