package worker

import (
	"math"

	"github.com/paragon-train/paragon/kvstore"
)

// beginSteps says that a step begins now, after something else than steps.
func (r *run) beginSteps(info *EpochInfo) {
	r.clock.begin(r.counts(info))
	r.trainer.trace.recorder.BeginStep(r.trainer.Steps())
}

// counts are the sums of the epoch so far.
func (r *run) counts(info *EpochInfo) (c stepCounts) {
	c.times = r.timesOf(info)
	if r.trainer.async() {
		c.missed, c.values = r.trainer.ages.missed()
	}
	return c
}

// timesOf is where the time of the epoch went so far.
func (r *run) timesOf(info *EpochInfo) Times {
	t := info.Times
	t.Add(r.trainer.times)
	t.Save += r.saver.spent
	return t
}

// learningRate is that of the newest step; NaN: not known.
func (t *Trainer) learningRate() float64 {
	c := &t.cfg.Optimizer
	switch {
	case t.plan != nil:
		return t.plan.learningRate()
	case t.async() && (c.Schedule.Kind != "" || c.Schedule.Warmup > 0 || len(c.Changes) > 0):
		return math.NaN()
	}
	return c.LearningRateAt(t.steps - 1)
}

// gradientNorm is the norm of the newest step that was measured, once; else NaN.
func (t *Trainer) gradientNorm() float64 {
	if t.plan != nil {
		return t.plan.gradientNorm()
	}
	return t.norm.tell()
}

// stepInfo tells of the step that was done last, which the division does not count yet, and the
// adaptation does. global is how many examples it had on all workers; 0: not known.
func (r *run) stepInfo(info *EpochInfo, loss float64, examples, global int) StepInfo {
	s := StepInfo{
		Epoch: r.epochs.number(), Step: r.epochs.step(), Steps: r.epochs.steps(), Done: r.trainer.Steps(), Loss: loss, Examples: examples, Batch: global, Workers: r.division.seat.workers,
		LearningRate: r.trainer.learningRate(), GradientNorm: r.trainer.gradientNorm(),
	}
	if r.trainer.async() || s.Workers == 1 {
		s.Batch = examples
	}
	if r.adapt != nil {
		s.Step--
	}
	r.clock.lap(r.counts(info), &s)
	return s
}

// reported is what the store is told of a step, for the scheduler.
func (s *StepInfo) reported() kvstore.StepReport {
	return kvstore.StepReport{
		Epoch: uint64(s.Epoch), Examples: s.Examples, GlobalBatch: s.Batch, Total: s.Took, Compute: s.Times.Compute, Wait: s.Times.Wait, Data: s.Times.Data, Save: s.Times.Save,
		Loss: s.Loss, LearningRate: s.LearningRate, GradientNorm: s.GradientNorm,
	}
}
