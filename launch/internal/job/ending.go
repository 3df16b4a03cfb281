package job

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// outside is what is said of a worker that stopped in order although the launcher had sent it no
// signal.
const outside = "got SIGTERM from outside the launcher"

// An ending is what is known of why the job ends: the signal, the process that is to blame, the
// failure. One process that fails makes others fail, so the first one counts, by the time of its
// end, unless the scheduler blames another one that failed, or a worker says that no restart can
// mend its error.
type ending struct {
	// first is the process that failed first; nil: none has.
	first *Node
	// final is a worker that says that no restart can mend its error.
	final *Node
	// culprit failed, and is the one that the scheduler blames: the others failed because it
	// did, even those that ended earlier.
	culprit *Node
	// lost is the worker that was lost last, while the job went on.
	lost *Node

	// interrupt is the signal that stopped the job; zero: none.
	interrupt signalled
	// cancelled says that the context of Run has ended.
	cancelled bool

	// failure is why the job failed, as the scheduler says, or the launcher found out.
	failure *control.Failure
	// reported is the failure that the present scheduler has reported; nil: none.
	reported *control.Failure
	// accused is the process that an error line has named as the first that failed; 0: none
	// has. Why it failed is told at the end, once.
	accused uint32
}

// circumstances are what else the exit code and the last line of a job depend on.
type circumstances struct {
	// notStarted is why the job was not started; nil: it was.
	notStarted error
	// stop is how a job ended that was to stop with a checkpoint; nil: it was not, or its
	// workers were done before.
	stop *control.Failure
	// saved says that there is a checkpoint from which a job that was to stop can go on.
	saved bool
	// silent is the failure of a job whose hosts had given the launcher up; nil: it did not fail
	// for that.
	silent *control.Failure
}

// blames reports whether the process is the one that the scheduler blames, and failed.
func (e *ending) blames(n *Node) bool {
	return e.failure != nil && e.failure.Process == n.process && n.ended && !n.Exit.OK()
}

// failed takes note of a process whose failure the job does not survive. nodes are those of the job,
// note is what is said of the process in addition.
func (e *ending) failed(out *output, n *Node, nodes []*Node, note string) {
	if e.first == nil {
		// It was reported before anybody ended, so this end follows from it.
		e.failure = e.reported
		text := fmt.Sprintf("%s on %s failed: %s%s", n.Name(), n.Host, n.Exit, note)
		e.accused = n.process
		if f := e.failure; f != nil && f.Code == control.NodeError && f.Process != n.process {
			// Another one's error was told before n ended for it.
			text, e.accused = fmt.Sprintf("%s %d on %s failed", f.Role, f.Rank, f.Host), f.Process
		}
		out.error(text+"; stopping the others", joblog.ProcessFailed.Of(n.logged(), "exit", n.Exit.String()))
		// The culprit may be one without which the job went on at first.
		for _, o := range nodes {
			if (o.lost || o.awaited || o.Role == roleServer) && e.blames(o) {
				e.culprit, o.fate = o, fate{}
			}
		}
	}
	if e.first == nil || n.endedAt().Before(e.first.endedAt()) {
		e.first = n
	}
	if e.blames(n) {
		e.culprit = n
	}
}

// failedFinally takes note of a worker that said that no restart can mend its error. The others'
// ends follow from it, also those that came before. goesOn says that the others still run.
func (e *ending) failedFinally(out *output, n *Node, goesOn bool) {
	e.final, e.culprit = n, n
	e.failure = &control.Failure{Code: control.NodeFinal, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: causeOf(n.Exit)}
	if e.first == nil {
		e.first = n
	}
	n.fate = fate{}
	if e.accused == n.process {
		return
	}
	text := fmt.Sprintf("%s on %s failed: exit %d (no restart can mend this)", n.Name(), n.Host, n.Exit.Code)
	switch {
	case goesOn:
		text += "; stopping the others"
	// The last line is about the signal, so the cause is told here.
	case e.interrupt.signal != 0:
		text = e.failure.String()
	}
	out.error(text, joblog.ProcessFailed.Of(n.logged(), "exit", n.Exit.String()))
}

// noWorkerLeft takes note that no worker is left in the job. done says that all have sent a leave request.
func (e *ending) noWorkerLeft(out *output, done bool) {
	e.failure, e.first = &control.Failure{Code: control.NoWorkerLeft, Rank: -1}, e.lost
	if done && e.lost != nil && e.lost.asked() {
		e.failure.Code = control.StoppedByOthers
	}
	out.error(e.failure.String()+"; stopping servers and scheduler", joblog.JobStopping.With())
}

// blamed is the process whose exit decides the code; nil: none does.
func (e *ending) blamed() *Node {
	if e.first != nil && e.culprit != nil {
		return e.culprit
	}
	return e.first
}

// code is the exit code of the job.
func (e *ending) code(x circumstances, procs *processes) int {
	switch n := e.blamed(); {
	case e.interrupt.signal != 0:
		return SignalCode(e.interrupt.signal)
	case x.saved:
		return control.ExitCheckpointed
	case x.notStarted != nil:
		return 1
	case n != nil:
		return n.Exit.Status()
	case e.cancelled, e.cause(x, procs) != nil:
		return 1
	}
	return 0
}

// cause is why the job failed, as it is told; nil: it ended well, was cancelled, or the exit of the
// process that is to blame says all. A worker that the scheduler declared lost may have ended with
// code 0.
func (e *ending) cause(x circumstances, procs *processes) *control.Failure {
	switch {
	case x.saved || e.failure == nil && e.first == nil:
		return x.stop
	case x.silent != nil:
		return x.silent
	case e.failure == nil:
		return nil
	}
	f := *e.failure
	if n := procs.find(f.Process); n != nil && n.Role == roleWorker && n.ended && n.Exit.OK() && f.OfLoss() {
		f = control.Failure{Code: control.NotClosed, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: causeOf(n.Exit)}
	}
	return &f
}

// explain is the last line of a job that did not end well: what happened first, not what followed
// from it. note is what is said in addition of the process that failed first, resume the command
// that starts the job again.
func (e *ending) explain(x circumstances, procs *processes, note, resume string) string {
	cause := e.cause(x, procs)
	switch {
	case e.interrupt.signal != 0:
		text := fmt.Sprintf("launch: stopped by %s", e.interrupt.signal)
		if steps := procs.savedSteps(); steps > 0 && resume != "" {
			text += fmt.Sprintf(", with a checkpoint after %s; to resume:\n%s", plural.Of(steps, "step"), resume)
		}
		return text
	case x.saved:
		return "launch: " + cause.String()
	case x.silent == nil && e.failure == nil && e.first != nil:
		return e.explainFirst(note)
	case cause == nil:
		return ""
	case x.silent == nil && e.failure != nil && e.failure.Code == control.StoppedByOthers:
		return "launch: the job has ended: " + e.failure.String()
	}
	text := "launch: the job failed: " + cause.String()
	if n := e.culprit; x.silent == nil && e.failure != nil && n != nil && n.asked() {
		text += "; it " + outside
	}
	return text
}

// explainFirst is the last line of a job of which nothing is known but which process failed first.
func (e *ending) explainFirst(note string) string {
	n := e.first
	text := fmt.Sprintf("launch: %s on %s failed: %s%s", n.Name(), n.Host, n.Exit, note)
	last := cut(n.Last, 500)
	switch x := n.Exit; {
	case n.asked():
		text += "; it or another worker " + outside
	case x.Signal == syscall.SIGKILL:
		text += "; if nobody killed it, its host may have run out of memory (see dmesg)"
	case x.Signal == 0 && x.Err == "" && last != "" && !strings.Contains(last, " INFO "):
		text += ": " + last
	}
	return text
}
