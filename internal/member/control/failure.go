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
	NodeLost        Code = "lost"         // Cause says how that is known; the job does not survive it
	NoWorkerLeft    Code = "no_worker"    // and it was the last worker; of no node: there is none
	TooFewWorkers   Code = "too_few"      // and Left workers are too few: Least are wanted
	NotReplaced     Code = "not_replaced" // and no other worker came within WaitedNS
	NoBackup        Code = "no_backup"    // a server was lost or left, and Text says whose shards are nowhere else
	NodeError       Code = "error"        // the node says by Cause what went wrong
	NodeFinal       Code = "final"        // the node says by Cause what went wrong, and that no restart can mend it
	NodeLeft        Code = "left"         // a server left while the job was running
	StartTimeout    Code = "start_timeout"
	ChangeTimeout   Code = "change_timeout" // of change Change; Waiting says for whom
	TooManyCuts     Code = "too_many_cuts"  // Text: an epoch was divided too often
	SchedulerEnded  Code = "scheduler_ended"
	ProcessFailed   Code = "process_failed"  // Cause says how it ended
	NotJoined       Code = "not_joined"      // Waiting are the workers that ended with code 0 and have not joined, while others wait
	NotClosed       Code = "not_closed"      // a worker ended with code 0 and had not closed its store
	StoppedByOthers Code = "stopped_outside" // all workers stopped cleanly, because one of them got SIGTERM from outside the launcher
	Interrupted     Code = "interrupted"     // by the signal of Cause
	Checkpointed    Code = "checkpointed"    // stopped as asked, with a complete checkpoint after Step steps, ready to resume; Text says who asked
	NoCheckpoint    Code = "no_checkpoint"   // it was to stop with a checkpoint, and none was written; Text says why
	NotStarted      Code = "not_started"     // Text says why
	LauncherSilent  Code = "launcher_silent" // the launcher did not run for WaitedNS, longer than hosts wait for it; Text says what they did
	NotClean        Code = "not_clean"       // it ended, and Text says what could not be cleaned up
)

var codes = []Code{NodeLost, NoWorkerLeft, TooFewWorkers, NotReplaced, NoBackup, NodeError, NodeFinal, NodeLeft, StartTimeout, ChangeTimeout, TooManyCuts,
	SchedulerEnded, ProcessFailed, NotJoined, NotClosed, StoppedByOthers, Interrupted, Checkpointed, NoCheckpoint, NotStarted, LauncherSilent, NotClean}

// A Failure is why a job failed: a code, and the fields that it needs.
type Failure struct {
	Code     Code     `json:"code"`
	Role     string   `json:"role,omitempty"` // of the node that is to blame; empty: none is
	Rank     int      `json:"rank"`           // -1: it had none
	Host     string   `json:"host,omitempty"`
	Process  uint32   `json:"process,omitempty"` // 0: not known, or it was started by hand
	Step     uint64   `json:"step,omitempty"`    // the last one that it finished
	Cause    Cause    `json:"cause,omitzero"`
	Left     int      `json:"left,omitempty"`
	Least    int      `json:"least,omitempty"`
	Change   uint64   `json:"change,omitempty"`
	WaitedNS int64    `json:"waited_ns,omitempty"`
	Waiting  []string `json:"waiting,omitempty"`
	Text     string   `json:"text,omitempty"` // of the system
}

// A CauseKind says how the end of a node came about, or is known.
type CauseKind string

const (
	CauseExit    CauseKind = "exit"    // its process ended with code Exit
	CauseSignal  CauseKind = "signal"  // Signal ended its process
	CauseMachine CauseKind = "machine" // Text: its machine is out of reach
	CauseStart   CauseKind = "start"   // Text: its process could not be started
	CauseSilence CauseKind = "silence" // no heartbeat for SilenceNS
	CauseError   CauseKind = "error"   // Text: its own words
	CauseUnsaid  CauseKind = "unsaid"  // its process ended with code 0, and its leave request did not arrive
	CauseOther   CauseKind = "other"   // its connection broke, and another process took its place
	CauseLeft    CauseKind = "left"    // it left by itself; Text: why
	CauseRemoved CauseKind = "removed" // as asked

	// Its process ended with code Exit, and said before that no restart can mend what went
	// wrong (package exitreport). Text: its own words.

	CauseUsage       CauseKind = "usage"        // a flag, a variable or a setting cannot be
	CauseOtherRun    CauseKind = "other_run"    // the folder has checkpoints of another run
	CauseNoResume    CauseKind = "no_resume"    // the checkpoint to resume from is not there, or does not fit this run
	CauseDamaged     CauseKind = "damaged"      // it is damaged
	CauseMissingFile CauseKind = "missing_file" // a file is not there
	CauseProgram     CauseKind = "program"      // another one, by the program's own decision
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

const maxCode = 1 << 16 // of exit codes and signals, on any system

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
	if f.Cause.Kind == CauseError || f.Cause.Kind == CauseExit { // its program ended by itself
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
