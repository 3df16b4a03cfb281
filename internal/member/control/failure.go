package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A Code says why a job failed.
type Code string

// The codes. Those of a node say by Role, Rank, Host and Process which one it is.
const (
	// NodeLost is of a node that was lost, which the job does not survive. Cause says how that is
	// known.
	NodeLost Code = "lost"
	// NoWorkerLeft is of the last worker, which was lost. Of no node it says that no worker is left.
	NoWorkerLeft Code = "no_worker"
	// TooFewWorkers is of a worker that was lost and left only Left workers: Least are wanted.
	TooFewWorkers Code = "too_few"
	// NotReplaced is of a worker that was lost, and in whose place no other one came within WaitedNS.
	NotReplaced Code = "not_replaced"
	// NoBackup is of a server that was lost or left. Text says whose shards are nowhere else.
	NoBackup Code = "no_backup"
	// NodeError is of a node that says by Cause what went wrong.
	NodeError Code = "error"
	// NodeFinal is of a node that says by Cause what went wrong, and that no restart can mend it.
	NodeFinal Code = "final"
	// NodeLeft is of a server that left while the job was running.
	NodeLeft Code = "left"
	// StartTimeout is of no node: those of Waiting did not come in time.
	StartTimeout Code = "start_timeout"
	// ChangeTimeout is of no node: change Change waited too long for those of Waiting.
	ChangeTimeout Code = "change_timeout"
	// TooManyCuts is of no node: an epoch was divided too often, as Text says.
	TooManyCuts Code = "too_many_cuts"
	// SchedulerEnded is of no node: Text says why the scheduler was stopped.
	SchedulerEnded Code = "scheduler_ended"
	// ProcessFailed is of a process whose end Cause has.
	ProcessFailed Code = "process_failed"
	// NotJoined is of no node: the workers of Waiting ended with code 0 and have not joined, while
	// others wait for them.
	NotJoined Code = "not_joined"
	// NotClosed is of a worker that ended with code 0 and had not closed its store.
	NotClosed Code = "not_closed"
	// StoppedByOthers is of no node: all workers stopped cleanly, because one of them got SIGTERM
	// from outside the launcher.
	StoppedByOthers Code = "stopped_outside"
	// Interrupted is of no node: launch got the signal of Cause.
	Interrupted Code = "interrupted"
	// Checkpointed is of no node: the job stopped as asked, with a complete checkpoint after Step
	// steps, ready to resume. Text says who asked.
	Checkpointed Code = "checkpointed"
	// NoCheckpoint is of no node: the job was to stop with a checkpoint, and none was written. Text
	// says why.
	NoCheckpoint Code = "no_checkpoint"
	// NotStarted is of no node: Text says why the job did not start.
	NotStarted Code = "not_started"
	// LauncherSilent is of no node: the launcher did not run for WaitedNS, longer than hosts wait for
	// it. Text says what they did.
	LauncherSilent Code = "launcher_silent"
	// NotClean is of no node: the job ended, and Text says what could not be cleaned up.
	NotClean Code = "not_clean"
)

var codes = []Code{NodeLost, NoWorkerLeft, TooFewWorkers, NotReplaced, NoBackup, NodeError, NodeFinal, NodeLeft, StartTimeout, ChangeTimeout, TooManyCuts,
	SchedulerEnded, ProcessFailed, NotJoined, NotClosed, StoppedByOthers, Interrupted, Checkpointed, NoCheckpoint, NotStarted, LauncherSilent, NotClean}

// A Failure is why a job failed: a code, and the fields that it needs.
type Failure struct {
	Code Code `json:"code"`
	// Role is that of the node that is to blame; empty: none is.
	Role string `json:"role,omitempty"`
	// Rank is that of the node; -1: it had none.
	Rank int    `json:"rank"`
	Host string `json:"host,omitempty"`
	// Process is the number of the node's process; 0: it is not known, or was started by hand.
	Process uint32 `json:"process,omitempty"`
	// Step is the last one that the node finished, or that a checkpoint has.
	Step  uint64 `json:"step,omitempty"`
	Cause Cause  `json:"cause,omitzero"`
	// Left and Least are the workers that are left, and how many are wanted at least.
	Left   int    `json:"left,omitempty"`
	Least  int    `json:"least,omitempty"`
	Change uint64 `json:"change,omitempty"`
	// WaitedNS is for how long those of Waiting were waited for, in nanoseconds.
	WaitedNS int64    `json:"waited_ns,omitempty"`
	Waiting  []string `json:"waiting,omitempty"`
	Text     string   `json:"text,omitempty"`
}

// A CauseKind says how the end of a node came about, or is known.
type CauseKind string

const (
	// CauseExit: the process ended with code Exit.
	CauseExit CauseKind = "exit"
	// CauseSignal: Signal ended the process.
	CauseSignal CauseKind = "signal"
	// CauseMachine: the machine is out of reach, as Text says.
	CauseMachine CauseKind = "machine"
	// CauseStart: the process could not be started. Text says why.
	CauseStart CauseKind = "start"
	// CauseSilence: no heartbeat came for SilenceNS.
	CauseSilence CauseKind = "silence"
	// CauseError: Text is what the node says itself.
	CauseError CauseKind = "error"
	// CauseUnsaid: the process ended with code 0, and its leave request did not arrive.
	CauseUnsaid CauseKind = "unsaid"
	// CauseOther: the connection broke, and another process took the node's place.
	CauseOther CauseKind = "other"
	// CauseLeft: the node left by itself. Text says why.
	CauseLeft CauseKind = "left"
	// CauseRemoved: the node was removed as asked.
	CauseRemoved CauseKind = "removed"

	// The other kinds are those of a process that ended with code Exit, and said before that no
	// restart can mend what went wrong (package exitreport). Text is what it says itself.

	// CauseUsage: a flag, a variable or a setting has a value that cannot be.
	CauseUsage CauseKind = "usage"
	// CauseOtherRun: the folder has checkpoints of another run.
	CauseOtherRun CauseKind = "other_run"
	// CauseNoResume: the checkpoint to resume from is not there, or does not fit this run.
	CauseNoResume CauseKind = "no_resume"
	// CauseDamaged: the checkpoint to resume from is damaged.
	CauseDamaged CauseKind = "damaged"
	// CauseMissingFile: a file is not there.
	CauseMissingFile CauseKind = "missing_file"
	// CauseProgram: the program has another reason, by its own decision.
	CauseProgram CauseKind = "program"
)

var causeKinds = []CauseKind{CauseExit, CauseSignal, CauseMachine, CauseStart, CauseSilence, CauseError, CauseUnsaid, CauseOther, CauseLeft, CauseRemoved,
	CauseUsage, CauseOtherRun, CauseNoResume, CauseDamaged, CauseMissingFile, CauseProgram}

// A Cause is why a node was lost, or how its process ended. The zero Cause is none.
type Cause struct {
	Kind      CauseKind `json:"kind"`
	Exit      int       `json:"exit,omitempty"`
	Signal    int       `json:"signal,omitempty"`
	SilenceNS int64     `json:"silence_ns,omitempty"`
	Text      string    `json:"text,omitempty"`
}

// OfLoss reports whether the node was lost: it neither said that it leaves nor what went wrong.
func (f *Failure) OfLoss() bool {
	switch f.Code {
	case NodeLost, NoWorkerLeft, TooFewWorkers, NotReplaced:
		return f.Role != ""
	case NoBackup:
		return f.Cause.Kind != CauseLeft && f.Cause.Kind != CauseRemoved
	}
	return false
}

// maxCode bounds exit codes and signals, on any system.
const maxCode = 1 << 16

func (f *Failure) check(of string) error {
	switch {
	case !slices.Contains(codes, f.Code):
		return fmt.Errorf("control: %s: failure code %q is not known", of, f.Code)
	case f.Role != "" && f.Role != Worker && f.Role != Server && f.Role != Scheduler:
		return fmt.Errorf("control: %s: failure: role %q: want worker, server or scheduler", of, f.Role)
	case f.Rank < -1 || f.Rank > maxRank:
		return fmt.Errorf("control: %s: failure: rank %d, want -1 to %d", of, f.Rank, maxRank)
	case f.Left < 0 || f.Least < 0 || f.WaitedNS < 0:
		return fmt.Errorf("control: %s: failure: left %d, least %d, waited_ns %d: want none below 0", of, f.Left, f.Least, f.WaitedNS)
	}
	return f.Cause.check(of)
}

func (c *Cause) check(of string) error {
	switch {
	case *c == Cause{}:
	case !slices.Contains(causeKinds, c.Kind):
		return fmt.Errorf("control: %s: cause kind %q is not known", of, c.Kind)
	case c.Exit < -maxCode || c.Exit > maxCode || c.Signal < 0 || c.Signal > maxCode:
		return fmt.Errorf("control: %s: cause: exit %d, signal %d: one is out of range", of, c.Exit, c.Signal)
	case (c.Kind == CauseSignal) != (c.Signal > 0):
		return fmt.Errorf("control: %s: cause %q has signal %d", of, c.Kind, c.Signal)
	case c.SilenceNS < 0:
		return fmt.Errorf("control: %s: cause: silence_ns %d, want 0 or more", of, c.SilenceNS)
	}
	return nil
}

// String is the cause in words.
func (c Cause) String() string {
	switch c.Kind {
	case CauseExit:
		return fmt.Sprintf("exit %d", c.Exit)
	case CauseSignal:
		return fmt.Sprintf("signal %d (%s)", c.Signal, syscall.Signal(c.Signal))
	case CauseSilence:
		return "no heartbeat for " + Seconds(time.Duration(c.SilenceNS))
	case CauseUnsaid:
		return "its process ended with code 0, and its leave request did not arrive"
	case CauseOther:
		return "its connection broke, and another process took its place"
	case CauseLeft:
		return "left: " + cmp.Or(c.Text, "no reason given")
	case CauseRemoved:
		return "was removed as requested"
	}
	return c.Text
}

// name is "worker 1 on d2".
func (f *Failure) name() string {
	if f.Rank < 0 {
		return f.Role + " on " + f.Host
	}
	return fmt.Sprintf("%s %d on %s", f.Role, f.Rank, f.Host)
}

// loss says who was lost, and why.
func (f *Failure) loss() string {
	switch {
	case f.Cause.Kind == CauseLeft || f.Cause.Kind == CauseRemoved:
		return f.name() + " " + f.Cause.String()
	}
	verb, last := "lost", ""
	if f.Cause.Kind == CauseError || f.Cause.Kind == CauseExit {
		// The program ended by itself.
		verb = "failed"
	}
	if f.Step > 0 {
		last = fmt.Sprintf(" (last step %d)", f.Step)
	}
	return fmt.Sprintf("%s %s: %s%s", f.name(), verb, f.Cause, last)
}

// final says why the job is not started again.
func (f *Failure) final() string {
	what := map[CauseKind]string{
		CauseUsage:       "change the command line or the setting",
		CauseOtherRun:    "the checkpoints are left as they are",
		CauseNoResume:    "the checkpoint does not fit this run",
		CauseDamaged:     "the checkpoint is damaged",
		CauseMissingFile: "bring the file there, or name another one",
		CauseProgram:     "the program says so",
	}[f.Cause.Kind]
	return fmt.Sprintf("exit %d; no restart can mend this: %s", f.Cause.Exit, what)
}

// String is the sentence of a failure. Nothing else makes one.
func (f Failure) String() string {
	waited, waiting := time.Duration(f.WaitedNS), strings.Join(f.Waiting, ", ")
	switch f.Code {
	case NodeLost:
		return f.loss()
	case NoWorkerLeft:
		if f.Role == "" {
			return "no worker is left"
		}
		return f.loss() + "; no worker is left"
	case TooFewWorkers:
		return fmt.Sprintf("%s; %d left, want at least %s", f.loss(), f.Left, plural.Of(f.Least, "worker"))
	case NotReplaced:
		return fmt.Sprintf("%s; no replacement has joined within %v", f.loss(), waited)
	case NoBackup:
		return f.loss() + "; " + f.Text
	case NodeError:
		return f.name() + ": " + f.Cause.String()
	case NodeFinal:
		return fmt.Sprintf("%s: %s (%s)", f.name(), f.Cause, f.final())
	case NodeLeft:
		return f.name() + " left while the job was running"
	case StartTimeout:
		return fmt.Sprintf("start: after %v still waiting for %s", waited, waiting)
	case ChangeTimeout:
		return fmt.Sprintf("change %d: after %v still waiting for %s", f.Change, waited, waiting)
	case ProcessFailed:
		return fmt.Sprintf("%s failed: %s", f.name(), f.Cause)
	case NotJoined:
		return waiting + " ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create"
	case NotClosed:
		return f.name() + " ended with exit 0 without closing its store, while others trained; call Close before the program ends"
	case StoppedByOthers:
		return "all workers stopped cleanly: one of them got SIGTERM from outside the launcher"
	case Interrupted:
		return "stopped by " + f.Text
	case Checkpointed:
		return fmt.Sprintf("stopped with a checkpoint after %s, ready to resume: %s", plural.Of(f.Step, "step"), f.Text)
	case LauncherSilent:
		return fmt.Sprintf("launch itself did not run for %s (it was stopped, or its machine was suspended): %s", Seconds(waited), f.Text)
	case NoCheckpoint:
		return "stopped without a checkpoint: " + f.Text
	}
	return f.Text
}

// Seconds prints a time as people say it in a log.
func Seconds(d time.Duration) string {
	if d < 10*time.Second && d%time.Second != 0 {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}
