package job

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	roleScheduler = "scheduler"
	roleServer    = "server"
	roleWorker    = "worker"
	// rolePrepare is that of a command which prepares a host. It is no process of the job.
	rolePrepare = "prepare"
)

// maxLast bounds the last line that is kept of a process, in bytes.
const maxLast = 8 << 10

// A Node is one process of the job, and how it ended.
//
// Its flags are independent facts, not one state: a worker may be a member, leaving, signalled and
// awaited at once. What is set at each point of a life, and who sets it:
//
//	the job begins with it           member, of a worker                                runner.expect
//	wanted, its host is not ready    arriving, with early or joining; an early worker   runner.arrive
//	                                 is a member at once: it takes another one's place
//	being started                    as before, without arriving; owed is the signal    processes.dropArrival
//	                                 that it gets as soon as it runs
//	runs, has not joined             early or joining
//	a worker has joined              member, not joining                                runner.joined
//	it is to leave                   leaving                                            core.aim, runner.dismiss
//	launch tells it to end           signalled, and stopped if it is not to blame       reaper
//	it has ended                     ended                                              Node.finish, Node.neverRan
//	the scheduler is to judge that   ended and awaited                                  Node.await
//	the job goes on without it       lost, perhaps while it still runs, and then         core.judged, core.takeForLost
//	                                 lossTold when people are told
//	the job has ended                lostMachine, if nobody can tell whether it ended   core.close
//
// Of early and joining at most one is set; nobody clears early, nor joining of a server. An awaited
// node has ended, and an arriving one has neither been started nor ended. A scheduler and a
// preparation have none of the flags about joining, leaving and being lost.
type Node struct {
	// Role is scheduler, server or worker.
	Role string
	// Rank is its present or last rank; of a joining worker its number, until it has a rank.
	Rank int
	Host string
	// PID is 0 if it was never started.
	PID  int
	Exit process.Exit
	// Last is its last line of output.
	Last string

	host hosts.Host
	// process is unique in the job, also among processes that have ended.
	process uint32
	// number is, of a worker, how many workers were created before it; of a server its rank.
	number  int
	machine *machine
	started time.Time
	// attempt is how many times in a row it was started again.
	attempt int

	// arriving nodes are wanted, and their host is being reached and prepared.
	arriving bool
	// goal is what a preparation is for.
	goal *access
	// try is the connection to its host that an arriving node waits for.
	try int
	// prepare says that the host is prepared before the node is started there.
	prepare bool
	// unwanted is the fate of a node that is not wanted any more while it is being started.
	unwanted fate

	// joining is a worker or a server that has not joined yet.
	joining bool
	// early nodes replace one that ended before the job was complete, and have its rank.
	early bool
	// member is a worker that is in the job, or was.
	member bool
	// leaving nodes leave the job, or left it, as asked.
	leaving bool

	// stopped nodes were asked to end by launch, not because they failed.
	stopped bool
	// signalled nodes got a signal from launch.
	signalled bool
	// owed is the signal that a node gets as soon as it has been started; 0: none.
	owed syscall.Signal

	ended bool
	// awaited nodes have ended, and the scheduler has not said yet what that means.
	awaited bool
	// lost nodes were in the job, which goes on without them.
	lost bool
	// lossTold says that people were told of the loss.
	lossTold bool
	// lostMachine says that at the end of the job the connection to its machine was lost.
	lostMachine bool
	fate        fate
}

// A fate is what became of a process while the job went on, for the table and for the Result. The
// zero fate is none.
type fate struct {
	code control.Fate
	// note is for people.
	note string
}

// unneeded is the fate of a process for which the job has no use any more.
var unneeded = fate{code: control.FateUnneeded}

// Name is "worker 0", "server 1" or "scheduler".
func (n *Node) Name() string {
	switch n.Role {
	case roleScheduler:
		return n.Role
	case rolePrepare:
		return n.Role + " " + n.host.Name
	}
	return fmt.Sprintf("%s %d", n.Role, n.Rank)
}

// logged is what the log's events say of the node.
func (n *Node) logged() joblog.Node {
	return joblog.Node{Role: n.Role, Rank: n.Rank, Host: n.host.Name, Process: n.process}
}

// source is the node as its output names it.
func (n *Node) source() lines.Source { return lines.Source{Name: n.Name(), Role: n.Role, Rank: n.Rank} }

// finish takes note of how a process ended.
func (n *Node) finish(e ended) {
	n.ended, n.Exit = true, e.exit
	if n.Last = e.last; len(n.Last) > maxLast {
		n.Last = strings.Clone(n.Last[:maxLast])
	}
}

// neverRan takes note of a process that could not be started.
func (n *Node) neverRan(err error) { n.ended, n.Exit.Code, n.Exit.Err = true, 127, plainText(err) }

// endedAt is when the process ended, by the launcher's clock.
func (n *Node) endedAt() time.Time { return n.started.Add(n.Exit.Elapsed) }

// failedItself reports whether the process ended by itself, with a code other than 0.
func (n *Node) failedItself() bool {
	return n.ended && n.Exit.Signal == 0 && n.Exit.Err == "" && !n.Exit.OK()
}

// terminated reports whether a worker ended with the code of a program that handles SIGTERM.
func (n *Node) terminated() bool {
	return n.Role == roleWorker && n.Exit.Signal == 0 && n.Exit.Err == "" && n.Exit.Code == 128+int(syscall.SIGTERM)
}

// asked reports whether a worker ended because somebody other than the launcher sent it SIGTERM, as
// its exit code says.
func (n *Node) asked() bool { return n.terminated() && n.ended && !n.signalled && !n.stopped }

// needed reports whether the job cannot go on, or become complete, without what this worker does.
// One that joins a running job is not needed.
func (n *Node) needed(complete bool) bool {
	return n.Role == roleWorker && !n.stopped && !n.leaving && (n.member || !complete)
}

// doneAwaited reports whether the scheduler is still to say what a worker's end with code 0 means.
func (n *Node) doneAwaited() bool { return n.Role == roleWorker && n.awaited && n.Exit.OK() }

// done reports whether a worker ended with code 0, and was in the job to its end.
func (n *Node) done() bool {
	return n.Role == roleWorker && n.ended && n.Exit.OK() && n.member && !n.leaving && !n.lost
}

// causeOf is how a process ended.
func causeOf(e process.Exit) control.Cause {
	switch {
	case e.Lost:
		return control.Cause{Kind: control.CauseMachine, Exit: e.Code, Text: e.Err}
	case e.Err != "":
		return control.Cause{Kind: control.CauseStart, Exit: e.Code, Text: e.Err}
	case e.Final() && e.Signal == 0:
		return control.Cause{Kind: control.CauseKind(e.Report.Cause), Exit: e.Code, Text: e.Report.Text}
	case e.Signal != 0:
		return control.Cause{Kind: control.CauseSignal, Signal: int(e.Signal)}
	}
	return control.Cause{Kind: control.CauseExit, Exit: e.Code}
}
