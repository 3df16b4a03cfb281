package job

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/control"
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

// A watch follows a job that runs. All that it has belongs to the goroutine of loop.
type watch struct {
	run       *run
	stage     stage
	timer     *time.Timer
	deadline  time.Time        // of the processes that were asked to stop
	first     *Node            // that failed, by the time of its end
	culprit   *Node            // that failed and whom the scheduler blames: the others' failures follow from its, even if they ended first
	interrupt os.Signal        // that stopped the job
	cancelled bool             // the context ended
	failure   *control.Failure // why the job failed, as the scheduler says, or the launcher found out

	// What is under way besides the processes: each ends by a function that loop calls.
	working context.Context // ends when the job no longer changes
	rest    context.CancelFunc
	results chan func()
	pending int

	// Of jobs that change.
	guests   map[*guest]bool
	coming   map[string]int                  // hosts on which workers will be started again after a while, and how many
	leaving  map[string]bool                 // hosts that are being removed, or were
	lost     *Node                           // the worker that was lost last, while the job went on
	waves    map[string]int                  // by host: goes up when it is added or removed, which ends what was meant for it before
	here     map[string]bool                 // hosts with workers that count
	requests []request                       // to the scheduler, in order; the first is under way
	restarts int                             // of the scheduler in a row
	asked    map[int]*Node                   // servers that were asked for and do not count yet, by rank
	bringing map[int]context.CancelCauseFunc // ends the work for servers that are being started, by rank
	changed  bool                            // a worker was lost, left or joined
	over     bool                            // the scheduler has ended well: nobody joins any more
	warned   bool                            // that workers do not join

	membership        []control.Event // the newest
	membershipLeftOut int

	ranking, rankAgain bool // the scheduler is being asked for the workers' ranks, and will be once more
}

func newWatch(r *run) *watch {
	w := &watch{run: r, results: make(chan func()), guests: make(map[*guest]bool), coming: make(map[string]int), waves: make(map[string]int),
		leaving: make(map[string]bool), here: make(map[string]bool), asked: make(map[int]*Node), bringing: make(map[int]context.CancelCauseFunc)}
	for _, h := range r.cfg.Workers {
		w.here[h.String()] = true
	}
	w.working, w.rest = context.WithCancel(context.Background())
	return w
}

// loop returns the exit code once all processes have ended, or cannot be waited for any longer.
func (w *watch) loop(ctx context.Context) int {
	w.timer = time.NewTimer(0)
	if !w.timer.Stop() {
		<-w.timer.C
	}
	defer w.timer.Stop()
	events, edits, stop := w.changes()
	defer stop()
	for _, n := range w.run.nodes {
		if !n.ended {
			w.run.attend(n)
		}
	}
	for _, n := range w.run.unstarted {
		if !w.goesOn(n) {
			w.failed(n)
		}
	}
	w.watchJoining()
	done := ctx.Done()
	for w.alive() > 0 || w.pending > 0 {
		select {
		case n := <-w.run.ended:
			w.end(n)
		case s := <-w.run.cfg.Interrupts:
			w.signal(s)
		case <-w.run.formed.news:
			w.endUnjoined()
		case f := <-w.results:
			w.pending--
			f()
		case e := <-events:
			w.event(e)
		case c := <-edits:
			w.edit(c)
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
	w.departed()
	return w.code()
}

// start does work beside the loop, which calls what it returns. The work ends soon after its context.
func (w *watch) start(work func(ctx context.Context) func()) {
	w.pending++
	go func() {
		f := work(w.working)
		select {
		case w.results <- f:
		case <-w.run.over:
		}
	}()
}

// alive is how many processes run.
func (w *watch) alive() int {
	count := 0
	for _, n := range w.run.nodes {
		if !n.ended {
			count++
		}
	}
	return count
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
	case w.cancelled, w.failure != nil:
		return 1
	}
	return 0
}

// blames reports whether the process is the one that the scheduler blames, and failed.
func (w *watch) blames(n *Node) bool {
	return w.failure != nil && w.failure.Process == n.process && n.ended && !n.Exit.OK()
}

// blame looks for the culprit among those without which the job went on at first.
func (w *watch) blame() {
	for _, n := range w.run.nodes {
		if (n.lost || n.Role == roleServer) && w.blames(n) {
			w.culprit, n.fate = n, fate{}
		}
	}
}

// end takes note of the end of a process.
func (w *watch) end(n *Node) {
	n.finish()
	switch {
	case n.Exit.OK(): // servers and scheduler may end before the last worker does, once all have left the job
		w.endedWell(n)
	case w.stage > settling || n.stopped:
	case w.goesOn(n):
	default:
		w.failed(n)
	}
	if w.workers() == 0 {
		switch w.stage {
		case running:
			w.noWorker()
		case stopWorkers:
			w.enter(stopAll)
		}
	}
	w.leave(n.host)
	w.forget()
}

// failed takes note of a process whose failure the job does not survive.
func (w *watch) failed(n *Node) {
	if w.first == nil {
		w.failure = w.run.report.failed() // before anybody ended: so this end follows from it
		w.run.cfg.Logger.Error(fmt.Sprintf("%s on %s failed: %s%s; stopping the others", n.Name(), n.Host, n.Exit, w.beforeComplete(n)))
		w.enter(settling)
		w.blame()
	}
	if w.first == nil || n.endedAt().Before(w.first.endedAt()) {
		w.first = n
	}
	if w.blames(n) {
		w.culprit = n
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
		if len(w.run.cfg.Workers) > 1 && !w.formed() && !w.run.formed.anyWorker() {
			w.warnOnce("all workers are done, and none has joined the job; " + howToJoin)
		}
		w.run.cfg.Logger.Info("all workers are done; stopping servers and scheduler, which did not end by themselves")
		for _, n := range w.run.nodes {
			n.stopped = n.stopped || !n.ended
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
	w.rest()
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
		w.timer.Reset(w.run.cfg.StopTimeout)
		w.stopTogether()
	case stopAll:
		w.send(syscall.SIGTERM, roleServer, roleScheduler)
		w.timer.Reset(max(time.Until(w.deadline), killTime))
	case killing:
		w.send(syscall.SIGKILL, roleWorker, roleServer, roleScheduler)
		w.timer.Reset(killTime)
	}
}

// tellTime bounds what a scheduler that is out of reach may take of the time to stop.
const tellTime = 300 * time.Millisecond

// stopTogether sends all workers SIGTERM. Where one that gets it would leave the job alone the scheduler is told first that all are to stop;
// should it not hear, workers who are all told agree to stop by themselves.
func (w *watch) stopTogether() {
	terminate := func() {
		if w.stage < killing {
			w.send(syscall.SIGTERM, roleWorker)
		}
	}
	if !w.run.cfg.Elastic.Enabled || !w.formed() || w.over || w.run.report.failed() != nil {
		terminate()
		return
	}
	w.pending++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellTime)
		defer cancel()
		w.run.do(ctx, control.Request{Op: control.OpStop})
		select {
		case w.results <- terminate:
		case <-w.run.over:
		}
	}()
}

func (w *watch) send(sig syscall.Signal, roles ...string) {
	for _, n := range w.run.nodes {
		for _, role := range roles {
			if n.Role == role && !n.ended && n.handle != nil {
				n.signal(sig)
			}
		}
	}
}

// workers is how many workers run. While the job does, those that do not count yet are none of them: nobody will take them in when
// all others are done.
func (w *watch) workers() int {
	count := 0
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && !n.ended && (n.member || w.stage > running) {
			count++
		}
	}
	return count
}
