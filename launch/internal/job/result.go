package job

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/member/control"
)

// maxLastLine bounds the last line of a process in a control.Result, in characters.
const maxLastLine = 500

// words describe the fate of a process in the table.
func (f fate) words(n *Node) string {
	text := map[control.Fate]string{
		control.FateRemoved:   "removed",
		control.FateLost:      "lost, the job went on",
		control.FateRestarted: "started again",
		control.FateNotJoined: "ended before it had joined",
		control.FateUnneeded:  "stopped before it had joined",
	}[f.code]
	switch {
	case f.code == control.FateLost && n.Role == roleServer:
		text = "lost, its backups took over"
	case f.code == control.FateLost && n.failedItself():
		text = "the job went on"
	}
	switch {
	case text == "":
		return f.note
	case f.note != "":
		return text + ", " + f.note
	}
	return text
}

// A Result is how a job ended.
type Result struct {
	// Code is the exit code: 0, that of the first process that failed, or 128 + the signal that
	// stopped the job.
	Code  int
	Nodes []*Node

	job string
	// phase is control.Starting, Forming or Running.
	phase string
	// notStarted is why the job was not started; nil: it was.
	notStarted error
	// signal stopped it.
	signal os.Signal
	// cancelled says that its context ended.
	cancelled bool
	// stops says that it was to stop with a checkpoint, and savedSteps after how many steps
	// there is one; 0: there is none.
	stops      bool
	savedSteps uint64
	// final says that a worker says that no restart can mend its error.
	final bool
	// failure is nil if the job ended well, was cancelled, or failed for the culprit.
	failure *control.Failure
	// culprit is the process whose exit decided the code.
	culprit *Node
	// text is the last line of a job that did not end well.
	text string

	// lostHosts are those that were not reached.
	lostHosts  []control.LostHost
	changes    []control.Event
	restarts   int
	scales     int
	adaptation *control.Adaptation
	// processesLeftOut and changesLeftOut are how many were forgotten.
	processesLeftOut, changesLeftOut int
}

// result is how the job ended. It is asked for when all connections are closed: ends that nobody has
// seen are known as that by then.
func (c *core) result() Result {
	e, procs := &c.ending, &c.procs
	x := circumstances{notStarted: c.start.err, saved: c.checkpoint.complete(),
		stop: c.checkpoint.failure(procs, c.start.err), silent: c.standstill.failure(procs, c.set.HostTimeout)}
	note := ""
	if e.first != nil {
		note = c.present.beforeComplete(e.first, &c.set)
	}
	r := Result{
		Code: e.code(x, procs), Nodes: procs.nodes, job: c.set.ID, phase: control.Forming, notStarted: c.start.err,
		cancelled: e.cancelled, stops: c.checkpoint.requested(), final: e.final != nil,
		failure: e.cause(x, procs), culprit: e.blamed(), text: e.explain(x, procs, note, c.set.ResumeCommand),
		lostHosts: c.start.lostHosts, changes: c.history.changes, scales: c.history.scales, adaptation: c.history.adaptation,
		processesLeftOut: procs.forgotten, changesLeftOut: c.history.leftOut,
	}
	// A signal decides the code, and so does a checkpoint with which the job was to stop.
	if e.interrupt.signal != 0 {
		r.signal, r.culprit = e.interrupt.signal, nil
	} else if x.saved {
		r.savedSteps, r.culprit = c.checkpoint.stopped.Steps, nil
	}
	switch {
	case c.start.err != nil:
		r.phase = control.Starting
	case c.present.complete:
		r.phase = control.Running
	}
	return r
}

// Report is the result as tools read it. err is what Run or Repeat returned with it, code the exit
// code of launch: that is not 0 for a job that ended well and left a host that could not be closed.
// A code other than 0 always has a failure, the strongest reason that is known: the signal, what the
// scheduler or the launcher found out, the process that is to blame, or else the error.
func (r *Result) Report(err error, code int) *control.Result {
	out := &control.Result{Job: r.job, ExitCode: code, Phase: cmp.Or(r.phase, control.Starting), Restarts: r.restarts, Scales: r.scales, Adaptation: r.adaptation, Cancelled: r.cancelled,
		Failure: r.failure, Changes: r.changes, LeftOut: r.processesLeftOut, ChangesLeftOut: r.changesLeftOut, Processes: []control.ProcessEnd{}}
	if s, ok := r.signal.(syscall.Signal); ok {
		out.Signal = int(s)
		out.Failure = &control.Failure{Code: control.Interrupted, Rank: -1, Cause: control.Cause{Kind: control.CauseSignal, Signal: int(s)}, Text: s.String()}
	}
	// A host is named once, with the first that is known of its loss: that it was not reached,
	// how one of its processes was lost, or that its connection was.
	lost := slices.Clone(r.lostHosts)
	for _, n := range r.Nodes {
		end := n.end()
		out.Processes = append(out.Processes, end)
		if end.HostLost || n.lostMachine {
			lost = append(lost, control.LostHost{Host: n.Host, Reason: cmp.Or(n.Exit.Err, "connection lost")})
		}
		if n == r.culprit && code != 0 {
			out.Culprit = &end
			if out.Failure == nil {
				out.Failure = &control.Failure{Code: control.ProcessFailed, Role: n.Role, Rank: n.Rank, Host: n.Host, Process: n.process, Cause: end.Cause}
			}
		}
	}
	slices.SortFunc(out.Processes, func(a, b control.ProcessEnd) int { return cmp.Compare(a.Process, b.Process) })
	for _, l := range lost {
		if !slices.ContainsFunc(out.LostHosts, func(o control.LostHost) bool { return o.Host == l.Host }) {
			out.LostHosts = append(out.LostHosts, l)
		}
	}
	switch {
	case code == 0:
		out.Failure = nil
	case out.Failure != nil || err == nil:
	case out.Phase == control.Starting:
		out.Failure = &control.Failure{Code: control.NotStarted, Rank: -1, Text: plainText(err)}
	default:
		out.Failure = &control.Failure{Code: control.NotClean, Rank: -1, Text: plainText(err)}
	}
	return out
}

// Stopped is the result of a job that a signal stopped before it began.
func Stopped(s os.Signal) Result {
	if s == syscall.SIGUSR1 {
		return Result{Code: 1, failure: &control.Failure{Code: control.NoCheckpoint, Rank: -1, Text: "SIGUSR1: the job had not been started"}}
	}
	return Result{Code: SignalCode(s), signal: s}
}

// plainText is an error without the program's name.
func plainText(err error) string { return strings.TrimPrefix(err.Error(), "launch: ") }

// end is how the process ended.
func (n *Node) end() control.ProcessEnd {
	e := control.ProcessEnd{Process: n.process, Role: n.Role, Rank: n.Rank, Host: n.Host, PID: n.PID, Fate: n.fate.code,
		HostLost: n.Exit.Lost, Seconds: n.Exit.Elapsed.Seconds(), LastLine: cut(n.Last, maxLastLine)}
	if n.PID != 0 || n.Exit.Err != "" {
		e.Cause = causeOf(n.Exit)
	}
	switch {
	case n.asked():
		e.Fate = control.FateOutside
	case e.Fate != "":
	case n.PID == 0:
		e.Fate = control.FateNotStarted
	case n.stopped || n.signalled:
		e.Fate = control.FateStopped
	default:
		e.Fate = control.FateEnded
	}
	return e
}
