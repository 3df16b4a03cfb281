package worker

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// A stepReporter tells the store of each step (kvstore.Reporter). A step lasts until the next one begins, so it is told of then, or when the
// division ends.
type stepReporter struct {
	store  kvstore.Reporter
	begun  time.Time
	times  Times // of the epoch, when the step began
	done   bool  // the step has succeeded, and report tells of it
	report kvstore.StepReport
}

// timesOf is where the time of the epoch went so far.
func (r *run) timesOf(e *epochRun) Times {
	t := e.info.Times
	t.Add(r.trainer.times)
	t.Save += r.saver.spent
	return t
}

// beginReport ends the report of the step before, and begins that of the next one.
func (r *run) beginReport(e *epochRun) {
	now := time.Now()
	r.endReport(e, now)
	r.reporter.begun, r.reporter.times = now, r.timesOf(e)
}

// stepDone takes what is known of the step that has just succeeded.
func (r *run) stepDone(loss float64, examples int) {
	s := &r.reporter.report
	s.Epoch, s.Examples, s.GlobalBatch = uint64(r.numEpoch()), examples, r.globalExamples(examples)
	s.Loss, s.LearningRate, s.GradientNorm = loss, r.trainer.learningRate(), r.trainer.norm
	r.trainer.norm = math.NaN()
	r.reporter.done = true
}

// endReport tells the store of the step that is done; it does nothing if there is none.
func (r *run) endReport(e *epochRun, now time.Time) {
	p := &r.reporter
	if !p.done {
		return
	}
	p.done = false
	s, t := &p.report, r.timesOf(e)
	s.Total = now.Sub(p.begun)
	s.Compute, s.Wait, s.Data, s.Save = t.Compute-p.times.Compute, t.Wait-p.times.Wait, t.Data-p.times.Data, t.Save-p.times.Save
	p.store.ReportStep(*s)
}

// globalExamples is how many examples the newest step has on all workers, of which this worker's are given; 0: not known. All workers have as many, but
// in the last step of a division.
func (r *run) globalExamples(examples int) int {
	switch {
	case r.adapt != nil:
		return r.adapt.global
	case r.step+1 == r.cfg.Feed.Steps() && r.step > 0:
		return 0
	}
	return examples * r.workers
}

// learningRate is that of the newest step, before the factors of single parameters; with adaptive training, times the factor of the first group.
func (t *Trainer) learningRate() float64 {
	if t.adapt != nil {
		return t.adapt.rate
	}
	return t.cfg.Optimizer.LearningRateAt(t.steps - 1)
}
