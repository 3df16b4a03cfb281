package tune

import (
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// An EventKind says what happened.
type EventKind string

const (
	// EventStudy is the first: the study's name, space, metric, mode and seed.
	EventStudy EventKind = "study"
	// EventOpen is a process that resumed the study.
	EventOpen EventKind = "open"
	// EventStart is a new trial, or a further attempt of one.
	EventStart EventKind = "start"
	// EventReport is a report together with its decision.
	EventReport EventKind = "report"
	// EventCheckpoint is a checkpoint that a trial saved; EventDrop one that was removed
	// to stay within the budget.
	EventCheckpoint EventKind = "checkpoint"
	EventDrop       EventKind = "drop"
	// EventEnd is the end of an attempt.
	EventEnd EventKind = "end"
	// EventExhausted says that there will be no new trials.
	EventExhausted EventKind = "exhausted"
	// EventHalt ends the study: by its timeout, its deadline, a pruner or the caller.
	EventHalt EventKind = "halt"
	// EventRequeue queues trials again whose attempts were lost or failed.
	EventRequeue EventKind = "requeue"
	// EventAllocate divides the nodes among the running trials, which are elastic jobs.
	EventAllocate EventKind = "allocate"
	// EventAbandon stops trials whose attempts were lost, or that cannot get on before the
	// deadline.
	EventAbandon EventKind = "abandon"
)

// An Event is one line of the log. Which fields count depends on its kind.
type Event struct {
	// Seq numbers events from 0 without gaps.
	Seq uint64
	// Time is the wall clock, for people. At is how long the study had run, not
	// counting the time between two processes; it never decreases.
	Time time.Time
	At   time.Duration
	Kind EventKind

	// Trial and Attempt of a start, report, checkpoint, drop and end.
	Trial, Attempt int

	// Of a start: New is set for the trial's first attempt, with Params and Origin.
	// Otherwise Restore is the step of the checkpoint it continues from (-1: none), which
	// is trial Donor's, and Params are set if they have changed.
	New     bool
	Params  Params
	Origin  Origin
	Donor   int
	Restore int
	// RestoreOf is the attempt of Donor that saved that checkpoint.
	RestoreOf int

	// Of a report, a checkpoint, a drop.
	Step     int
	Metrics  Metrics
	Decision Decision
	// Bytes is the size of a checkpoint. Kept says that a report has one: it was saved for the
	// same step before, and takes effect with the report.
	Bytes int64
	Kept  bool

	// Outcome of an end.
	Outcome Outcome
	Failure Failure
	Error   string
	// Retry says that the attempt's failure is within its budget.
	Retry bool

	// Rule explains a start, a halt, and that there are no new trials if the deadline is the
	// reason. It says why nodes were divided.
	Rule string
	// Location says where an attempt runs.
	Location string
	// Trials are those of a requeue or an abandon; Fresh says that they start over.
	Trials []int
	Fresh  bool

	// Nodes, Jobs and Shares of an allocation: what it depends on, and what was decided for
	// each of the jobs. A Profile that is as in the trial's allocation before is left out.
	Nodes  []jobs.NodeSlots
	Jobs   []jobs.State
	Shares []jobs.Share

	// Header is that of EventStudy.
	Header *Header
	// Rules are those of EventStudy and EventOpen; nil in logs of older versions.
	Rules *Rules
}

// An Outcome says how an attempt ended.
type Outcome string

const (
	// Returned is an attempt that returned without an error.
	Returned Outcome = "returned"
	// Obeyed is an attempt that returned because it was asked to.
	Obeyed Outcome = "obeyed"
	// Broke is an attempt that failed.
	Broke Outcome = "failed"
	// Interrupted is an attempt that ended with the search: the trial continues when the
	// search is resumed.
	Interrupted Outcome = "interrupted"
)

// An Observer is called for every event, in the order of the log, after the event
// is on disk. The view may already hold later events. It should be quick, since
// reports wait for it, and must not call the study.
type Observer interface {
	Observe(v View, e Event)
}
