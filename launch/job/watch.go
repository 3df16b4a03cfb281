package job

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// A stage is how far the job is on its way to its end; it only grows.
type stage int

const (
	running     stage = iota
	finishing         // all workers ended well; servers and scheduler are ending by themselves
	settling          // something failed; what else did?
	stopWorkers       // workers have SIGTERM
	stopAll           // everybody has SIGTERM
	killing           // everybody has SIGKILL
)

// A watch follows a job that runs.
type watch struct {
	run       *run
	stage     stage
	timer     *time.Timer
	deadline  time.Time // of the processes that were asked to stop
	first     *Node     // that failed, by the time of its end
	culprit   *Node     // that failed and whom the reason names: the others' failures follow from its, even if they ended first
	interrupt os.Signal // that stopped the job
	cancelled bool      // the context ended
	reason    string    // the scheduler's, why the job failed
}

// loop returns the exit code once all processes have ended, or cannot be waited for any longer.
func (w *watch) loop(ctx context.Context) int {
	w.timer = time.NewTimer(0)
	if !w.timer.Stop() {
		<-w.timer.C
	}
	defer w.timer.Stop()
	done := ctx.Done()
	for left := len(w.run.nodes); left > 0; {
		select {
		case n := <-w.run.ended:
			left--
			w.end(n)
		case s := <-w.run.cfg.Interrupts:
			w.signal(s)
		case names := <-w.run.report.waiting:
			w.wait(names)
		case <-done:
			done = nil
			w.cancelled = true
			w.enter(stopWorkers)
		case <-w.timer.C:
			if w.stage == killing {
				return w.code() // closing the machines makes sure
			}
			w.next()
		}
	}
	return w.code()
}

func (w *watch) code() int {
	switch {
	case w.interrupt != nil:
		return SignalCode(w.interrupt)
	case w.first != nil:
		if w.culprit != nil {
			return w.culprit.Exit.Status()
		}
		return w.first.Exit.Status()
	case w.cancelled, w.reason != "":
		return 1
	}
	return 0
}

// blames reports whether the scheduler's reason names the process.
func (w *watch) blames(n *Node) bool {
	return strings.HasPrefix(w.reason, fmt.Sprintf("%s on %s", n.Name(), n.host.Name))
}

// end takes note of the end of a process.
func (w *watch) end(n *Node) {
	n.finish()
	switch {
	case n.Exit.OK(): // servers and scheduler may end before the last worker does, once all have left the job
	case w.stage <= settling && !n.stopped:
		if w.first == nil {
			w.reason = w.run.report.failed() // before anybody ended: so this end follows from it
			w.run.cfg.Logger.Error(fmt.Sprintf("%s on %s failed: %s; stopping the others", n.Name(), n.Host, n.Exit))
			w.enter(settling)
		}
		if w.first == nil || n.endedAt().Before(w.first.endedAt()) {
			w.first = n
		}
		if w.blames(n) {
			w.culprit = n
		}
	}
	if w.workers() == 0 {
		switch w.stage {
		case running:
			w.enter(finishing)
		case stopWorkers:
			w.enter(stopAll)
		}
	}
}

// wait takes note of whom a job that is not complete waits for, and ends one that never will be.
func (w *watch) wait(names []string) {
	if w.stage > running {
		return
	}
	if w.reason = w.run.never(names); w.reason != "" {
		w.run.cfg.Logger.Error(w.reason + "; stopping them")
		w.enter(stopWorkers)
	}
}

// signal takes an interrupt: the first asks the processes to stop, the second kills them.
func (w *watch) signal(s os.Signal) {
	if w.interrupt == nil {
		w.interrupt = s
		if w.stage < stopWorkers {
			w.run.cfg.Logger.Warn(fmt.Sprintf("%s: stopping all processes; once more kills them", s))
			w.enter(stopWorkers)
		}
		return
	}
	w.enter(killing)
}

// next goes on to what follows when the time of a stage is over.
func (w *watch) next() {
	switch w.stage {
	case finishing:
		w.run.cfg.Logger.Info("all workers are done; stopping servers and scheduler, which did not end by themselves")
		for _, n := range w.run.nodes {
			n.stopped = true
		}
		w.send(syscall.SIGTERM, roleServer, roleScheduler)
		w.stage = stopAll
		w.timer.Reset(w.run.cfg.StopTimeout)
	case settling:
		w.enter(stopWorkers)
	case stopWorkers:
		w.enter(stopAll)
	case stopAll:
		w.enter(killing)
	}
}

func (w *watch) enter(s stage) {
	if s <= w.stage {
		return
	}
	w.stage = s
	switch s {
	case finishing:
		w.timer.Reset(w.run.cfg.FinishTime)
	case settling:
		w.timer.Reset(settle)
	case stopWorkers:
		w.deadline = time.Now().Add(w.run.cfg.StopTimeout)
		if w.workers() == 0 {
			w.enter(stopAll)
			return
		}
		w.send(syscall.SIGTERM, roleWorker)
		w.timer.Reset(w.run.cfg.StopTimeout)
	case stopAll:
		w.send(syscall.SIGTERM, roleServer, roleScheduler)
		w.timer.Reset(max(time.Until(w.deadline), killTime))
	case killing:
		w.send(syscall.SIGKILL, roleWorker, roleServer, roleScheduler)
		w.timer.Reset(killTime)
	}
}

func (w *watch) send(sig syscall.Signal, roles ...string) {
	for _, n := range w.run.nodes {
		for _, role := range roles {
			if n.Role == role && !n.ended {
				n.handle.Signal(sig)
			}
		}
	}
}

// workers is how many workers run.
func (w *watch) workers() int {
	n := 0
	for _, node := range w.run.nodes {
		if node.Role == roleWorker && !node.ended {
			n++
		}
	}
	return n
}
