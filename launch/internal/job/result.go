package job

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/member/control"
)

// maxChanges is how many events of the job's membership are kept for the Result: the newest.
const maxChanges = 1000

// maxPlacement bounds the hosts that such an event names; of more none is kept.
const maxPlacement = 100

// maxLastLine bounds the last line of a process in a control.Result, in characters.
const maxLastLine = 500

// A fate is what became of a process while the job went on, for the table and for the Result. The
// zero fate is none.
type fate struct {
	code control.Fate
	note string // for people
}

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

// result is how the job ended.
func (c *core) result() Result {
	r := Result{scales: c.scales, adaptation: c.adaptation, Code: c.code(), Nodes: c.nodes, job: c.set.ID, phase: control.Starting, cancelled: c.cancelled, failure: c.finalFailure(),
		culprit: c.culpritNode(), lostHosts: c.lostHosts, changes: c.changes, leftOut: [2]int{c.forgotten, c.changesLeftOut}}
	if c.interrupt.signal != 0 {
		r.signal, r.culprit = c.interrupt.signal, nil // the signal decides the code
	} else if c.checkpoint.complete() {
		r.culprit = nil
	}
	r.stops, r.final = c.checkpoint.requested(), c.final != nil
	switch {
	case c.start.err != nil:
	case c.formed:
		r.phase = control.Running
	default:
		r.phase = control.Forming
	}
	return r
}

// Report is the result as tools read it. err is what Run or Repeat returned with it, code the exit
// code of launch.
func (r *Result) Report(err error, code int) *control.Result {
	out := &control.Result{Job: r.job, ExitCode: code, Phase: cmp.Or(r.phase, control.Starting), Restarts: r.restarts, Scales: r.scales, Adaptation: r.adaptation, Cancelled: r.cancelled,
		Failure: r.failure, Changes: r.changes, LeftOut: r.leftOut[0], ChangesLeftOut: r.leftOut[1], Processes: []control.ProcessEnd{}}
	if s, ok := r.signal.(syscall.Signal); ok {
		out.Signal = int(s)
		out.Failure = &control.Failure{Code: control.Interrupted, Rank: -1, Cause: control.Cause{Kind: control.CauseSignal, Signal: int(s)}, Text: s.String()}
	}
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
