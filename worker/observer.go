package worker

import (
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// An Observer follows a run. Its methods are called by Fit's goroutine and hold the training up.
type Observer interface {
	Begin(run Run)
	Step(step StepInfo)
	Epoch(epoch EpochInfo)
	// End is called when Fit returns, whether all went well or not; only after Begin.
	End()
}

// A MembershipObserver is an Observer that is told when workers came or went.
type MembershipObserver interface {
	Observer
	Membership(change MembershipInfo)
}

// An EvaluationObserver is an Observer that is told of evaluations within an epoch
// (FitConfig.EvaluateSteps).
type EvaluationObserver interface {
	Observer
	Evaluated(epoch int, e Evaluation)
}

// An Evaluation is one within an epoch.
type Evaluation struct {
	// Step is the next step of the epoch, and Done the number of steps since the job began.
	Step int
	Done uint64
	// Train is how long this run has trained in the epoch, without evaluations.
	Train  time.Duration
	Scores Scores
	// Time is how long the evaluation took.
	Time time.Duration
}

// MembershipInfo tells about one change of the membership, on a worker that was a member before.
type MembershipInfo struct {
	// Step is the step to come, within Epoch, and Done the number of steps since the job began.
	Epoch, Step int
	Done        uint64
	// Rank is that of this worker from now on.
	Rank int
	// Before and Workers are the numbers of workers before the change and from now on.
	Before, Workers int
	// Span has the steps since the change before, or since the epoch began.
	Span Span
}

// Used says which examples the steps of a division have used.
type Used struct {
	// Epoch is the pass over the data.
	Epoch int
	// Division counts the divisions of the epoch, from 0: how many times it had been divided
	// anew.
	Division int
	// Part is the rank of the worker in that division.
	Part     int
	Examples []int
}

// Run describes a run at its start.
type Run struct {
	Rank, Workers         int
	Epochs, StepsPerEpoch int
	// FirstEpoch and FirstStep are where the run begins: 0 and 0 unless it resumed or joined.
	FirstEpoch, FirstStep int
	// Done is the number of steps since the job began, before this run.
	Done uint64
	// ResumedFrom is the folder of the checkpoint. Empty: a new run.
	ResumedFrom string
	// Joined says that this worker came to a job that runs.
	Joined bool
	// Node is that of this worker in an elastic job; else 0.
	Node kvstore.NodeID
	// Adapt is nil without FitConfig.Adapt.
	Adapt *AdaptInfo
	// Data is what the feed reads. The zero value: it does not say.
	Data DataInfo
}

// StepInfo tells about one step of this worker.
type StepInfo struct {
	// Epoch and Step are from 0, Step within the epoch.
	Epoch, Step int
	// Steps is the number of steps of the epoch, as far as it is known: it changes when workers
	// come or go.
	Steps int
	// Loss is the mean over this worker's examples of the step.
	Loss float64
	// Done is the number of steps since the job began, this one included.
	Done uint64
	// Examples are those of this worker.
	Examples int
	// Batch is the global batch: the examples of all workers, or with dist_async of this one.
	// 0: the Feed is no DividedFeed and does not tell.
	Batch   int
	Workers int

	// Took is the time since the step before was told of, Times where it went. So the wait for
	// the step's own values and a checkpoint behind it are the next step's. Evaluation and
	// changes of the membership are no part of it.
	Took  time.Duration
	Times Times
	// LearningRate is what Config.Optimizer and AdaptConfig.Rule give the step, before the
	// factors of single keys; of the first group with AdaptConfig.Groups. It does not know of
	// Store.SetLearningRate. NaN: not known; the schedules of dist_async go by the updates of
	// all workers.
	LearningRate float64
	// GradientNorm is the norm of the mean gradient of all workers in the step before, if the
	// servers have measured it: one step in 16, or with FitConfig.Adapt all. NaN: they have
	// not, as with one worker and one run a step, Adam's family, local steps or dist_async.
	GradientNorm float64
	// Staleness is how many updates of other workers the values that came since the step before
	// have missed, on average. NaN: none came, or the store is synchronous.
	Staleness float64
}

// A Span is a run of steps of one epoch with the same workers and, with FitConfig.Adapt, the same
// global batch.
type Span struct {
	// Epoch is that of the span, and First its first step.
	Epoch, First int
	Workers      int
	// Batch is the global batch of a full step with FitConfig.Adapt, else 0.
	Batch int
	Steps int
	// Examples are those of this worker.
	Examples int
	Train    time.Duration
}

// goesOn reports whether next has the same workers and batch.
func (s Span) goesOn(next Span) bool { return s.Workers == next.Workers && s.Batch == next.Batch }

// StepsPerSecond is the speed of the span.
func (s Span) StepsPerSecond() float64 { return float64(s.Steps) / max(s.Train.Seconds(), 1e-9) }

// EpochInfo tells about one epoch of this worker.
type EpochInfo struct {
	Epoch int
	// First is the step with which this run began the epoch: 0 unless it resumed or joined.
	First int
	// Done is the number of steps since the job began, those of the epoch included.
	Done uint64
	// Loss is the mean over this worker's examples of the epoch, also of those before a resume
	// by as many workers.
	Loss float64
	// Losses are those of each step from First on.
	Losses []float64
	// Examples are those of this worker in this run.
	Examples int
	// Train is how long the training took, and Times where that time went.
	Train time.Duration
	Times Times
	// Spans of the epoch: more than one if workers came or went in it.
	Spans []Span
	// Staleness of the values it trained on; nil with a synchronous store.
	Staleness *Staleness
	// Caught is how many of this worker's contributions to shards of the parameters the
	// servers' guard (kvstore.WithGuard) has refused or clipped in the epoch, as far as they
	// have told.
	Caught uint64
	// Adapt is as at the epoch's end, and Batches are the examples of all workers in each step
	// from First on. Both are nil without FitConfig.Adapt.
	Adapt   *AdaptInfo
	Batches []int
	// Bad is how many damaged examples all workers have left out of the pass over the data up
	// to the epoch's end. See BadExampleFeed.
	Bad int
	// Test has the scores at the epoch's end. Nil: the model was not evaluated.
	Test     *Scores
	TestTime time.Duration
	// Evaluations within the epoch, besides Test: see FitConfig.EvaluateSteps. Their time is
	// not in Train.
	Evaluations []Evaluation
}
