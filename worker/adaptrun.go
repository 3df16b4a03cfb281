package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
)

// An adapting run goes through passes over the data, which scheduler and sampler call epochs, and
// through epochs of progress, which users see. Without Adapt the two are the same.

// numEpoch is the current epoch.
func (r *run) numEpoch() int {
	if r.adapt != nil {
		return r.adapt.epochs
	}
	return r.division.pass
}

// stepOfEpoch is the next step within the epoch.
func (r *run) stepOfEpoch() int {
	if r.adapt != nil {
		return r.adapt.step
	}
	return r.division.stepOfPass()
}

// stepsOfEpoch is how many steps the epoch has, as far as is known.
func (r *run) stepsOfEpoch() int {
	if r.adapt != nil {
		return r.adapt.stepsOfEpoch(r.division.seat.workers)
	}
	return r.division.before + r.cfg.Feed.Steps()
}

// epochOver reports whether all steps of the epoch are done.
func (r *run) epochOver() bool {
	if r.adapt != nil {
		return r.adapt.epochDone()
	}
	return r.division.over()
}

// beginAdapting begins with a state that a checkpoint had; nil: anew. joined: it is that of workers
// that run, whose batch fits already.
func (r *run) beginAdapting(ctx context.Context, state *adaptState, joined bool) error {
	workers := r.store.NumWorkers()
	a, err := newAdaptation(r.cfg.Adapt, r.trainer, r.cfg.Feed.(BatchFeed), workers, state)
	if err != nil {
		return err
	}
	if state != nil {
		r.division.segments = state.Segments
	}
	if !joined {
		a.fitTo(workers)
		if err := a.agreeAtStart(ctx); err != nil {
			return err
		}
	}
	a.beginBatch()
	r.adapt, r.division.state = a, feedOutdated
	return nil
}

// beginBatch begins with the batch that fits the workers: after they have changed, and at the
// start.
func (a *adaptation) beginBatch() {
	if b, ok := a.decider.replay(); ok {
		a.batch = b
	}
	a.decider.changed()
}

// planStep notes that a step with so many examples on all workers begins, and returns when.
func (a *adaptation) planStep(global int) time.Time {
	a.global, a.runs = global, a.runs[:0]
	return a.decider.now()
}

// runBegin notes when a run of the step begins, and how long the trainer had waited for values
// until then.
func (r *run) runBegin() (begin time.Time, waited time.Duration) {
	if r.adapt == nil {
		return begin, 0
	}
	return r.adapt.decider.now(), r.trainer.times.Wait
}

// runEnd notes how long it took, but for what it waited for: that belongs to the exchange.
func (r *run) runEnd(begin time.Time, waited time.Duration) {
	if r.adapt != nil {
		took := r.adapt.decider.now().Sub(begin) - (r.trainer.times.Wait - waited)
		r.adapt.runs = append(r.adapt.runs, max(0, took))
	}
}

// timed takes note of a step that took until now, and chooses.
func (a *adaptation) timed(begin time.Time, examples int, store kvstore.Store) error {
	workers := store.NumWorkers()
	hosts := store.Topology().WorkerHosts
	if examples == a.batch.perStep() && a.global == examples*workers {
		rest := a.decider.now().Sub(begin)
		for _, d := range a.runs {
			rest -= d
		}
		a.decider.profile.add(hosts, workers, a.runOf(), a.runs, max(0, rest))
	}
	if err := a.decider.choose(hosts, workers); err != nil {
		return err
	}
	a.decider.report(hosts, workers)
	return nil
}

// runOf is how many examples a run has in a full step.
func (a *adaptation) runOf() int { return runsOf(a.batch.perStep(), a.feed.PerRun())[0] }

// resize changes the batch, if all workers have agreed on that after the step, or the configuration
// says so.
func (r *run) resize(e *epochRun, agreed verdict) (bool, error) {
	a := r.adapt
	if a == nil {
		return false, nil
	}
	to, ok := a.decider.replay()
	if !ok && agreed.wish {
		to, ok = agreed.batch, true
		a.decider.wishing = false
	}
	if !ok || to == a.batch {
		return false, nil
	}
	if err := to.check(); err != nil {
		return false, fmt.Errorf("worker: epoch %d step %d: agree on a batch: %w", r.numEpoch(), r.stepOfEpoch(), err)
	}
	r.closeSpan(e)
	before := a.batch
	a.batch = to
	i := a.info(r.division.seat.workers)
	r.logger.Info("the batch changes", "steps", r.trainer.Steps(), "from", before.String(), "to", to.String(), "local batch", to.LocalBatch, "accumulation", to.Accumulation,
		"global", i.Batch, "scale", i.Scale, "gain", i.Gain, "noise scale", i.NoiseScale, joblog.BatchChanged.With())
	a.decider.changed()
	e.openSpan(r.newSpan())
	return true, a.feed.Resize(r.division.step, to.perStep())
}

// begin prepares the feed and the programs for steps of the present batch; the feed's Begin
// follows.
func (a *adaptation) begin() error {
	a.decider.profile.changed()
	return a.programs.use(a.batch.LocalBatch)
}

// nextEpoch moves on to the next epoch.
func (a *adaptation) nextEpoch() {
	a.epochs++
	a.step = 0
	a.from = a.progress.Steps
}

// end gives the trainer and the feed their own programs back.
func (a *adaptation) end() error {
	a.trainer.follow(nil)
	return a.programs.close()
}

// An AdaptInfo says how an adapting run does.
type AdaptInfo struct {
	InitialBatch int     // M0
	Batch        int     // global, of a full step
	LocalBatch   int     // examples of a worker's run
	Accumulation int     // runs of a step before its last one
	Scale        float64 // Batch / InitialBatch
	Gain         float64 // scale-invariant steps that a full step is worth, in [1, Scale]
	// NoiseScale is φ in examples, as far as the measurements bear it out: it is at least so
	// large, with a confidence of 95 %. Gain follows from it. NaN: it is not measured yet, and
	// Gain is 1.
	NoiseScale float64
	Biased     bool    // the newest measurements are differences of steps, which do not count for NoiseScale
	Progress   float64 // in scale-invariant steps, since the job began
	Goodput    float64 // of the epoch so far, in examples a second at the initial batch
}

func (a *adaptation) info(workers int) AdaptInfo {
	noise, bounded := a.estimators.Bound()
	i := AdaptInfo{
		InitialBatch: a.progress.InitialBatch, Batch: a.batch.perStep() * workers, LocalBatch: a.batch.LocalBatch, Accumulation: a.batch.Accumulation,
		Scale: a.scale(workers), Gain: noise.Gain(a.scale(workers)), NoiseScale: noise.Scale(a.progress.InitialBatch), Biased: a.estimators.Biased(), Progress: a.progress.Steps,
	}
	if !bounded {
		i.NoiseScale = math.NaN()
	}
	return i
}

// epochInfo is info at the end of an epoch whose training took so long.
func (a *adaptation) epochInfo(workers int, train time.Duration) *AdaptInfo {
	i := a.info(workers)
	i.Goodput = (a.progress.Steps - a.from) * float64(a.progress.InitialBatch) / max(train.Seconds(), 1e-9)
	return &i
}
