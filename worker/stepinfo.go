package worker

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// A stepClock measures the time from one report of a step to the next, without what lies between
// two divisions: evaluation, changes of the membership. What follows the last report of a division,
// such as the wait for the last values, belongs to the first step of the next.
type stepClock struct {
	at    time.Time
	times Times         // of the epoch until then
	took  time.Duration // of the divisions before, since the last report
	parts Times         // of took

	missed, values uint64 // Staleness.Missed until then: its sum, of so many values
}

// begin begins before the first step of a division.
func (c *stepClock) begin(r *run, info *EpochInfo) {
	c.at, c.times = time.Now(), r.timesOf(info)
	c.missed, c.values = r.trainer.missed()
}

// pause ends the measuring with a division.
func (c *stepClock) pause(r *run, info *EpochInfo) {
	c.took += time.Since(c.at)
	c.parts.Add(r.timesOf(info).since(c.times))
}

// beginSteps says that a step begins now, after something else than steps.
func (r *run) beginSteps(info *EpochInfo) {
	r.clock.begin(r, info)
	r.trainer.trace.recorder.BeginStep(r.trainer.Steps())
}

// lap fills in what has passed since the last lap.
func (c *stepClock) lap(r *run, info *EpochInfo, s *StepInfo) {
	before := *c
	c.begin(r, info)
	s.Took, s.Times = before.took+c.at.Sub(before.at), before.parts
	s.Times.Add(c.times.since(before.times))
	c.took, c.parts = 0, Times{}
	s.Staleness = math.NaN()
	if n := c.values - before.values; n > 0 {
		s.Staleness = float64(c.missed-before.missed) / float64(n)
	}
}

// since is what was added to before.
func (t Times) since(before Times) Times {
	return Times{Compute: t.Compute - before.Compute, Wait: t.Wait - before.Wait, Data: t.Data - before.Data, Save: t.Save - before.Save}
}

// timesOf is where the time of the epoch went so far.
func (r *run) timesOf(info *EpochInfo) Times {
	t := info.Times
	t.Add(r.trainer.times)
	t.Save += r.saver.spent
	return t
}

// missed sums up what values have missed since TakeStaleness.
func (t *Trainer) missed() (sum, values uint64) {
	if !t.async() {
		return 0, 0
	}
	return t.ages.missed()
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

// stepInfo tells of the step that was done last, which r.step does not count yet.
func (r *run) stepInfo(info *EpochInfo, loss float64, examples int) StepInfo {
	s := StepInfo{
		Epoch: r.numEpoch(), Step: r.stepOfEpoch(), Steps: r.stepsOfEpoch(), Done: r.trainer.Steps(), Loss: loss, Examples: examples, Batch: r.global, Workers: r.workers,
		LearningRate: r.trainer.learningRate(), GradientNorm: r.trainer.norm.tell(),
	}
	if r.trainer.async() || r.workers == 1 {
		s.Batch = examples
	}
	if r.adapt != nil {
		s.Step--
	}
	r.clock.lap(r, info, &s)
	return s
}

// report tells the store of a step, for the scheduler.
func (r *run) report(s StepInfo) {
	r.trainer.cfg.Store.ReportStep(kvstore.StepReport{
		Epoch: uint64(s.Epoch), Examples: s.Examples, GlobalBatch: s.Batch, Total: s.Took, Compute: s.Times.Compute, Wait: s.Times.Wait, Data: s.Times.Data, Save: s.Times.Save,
		Loss: s.Loss, LearningRate: s.LearningRate, GradientNorm: s.GradientNorm,
	})
}
