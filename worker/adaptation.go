package worker

import (
	"log/slog"
	"math"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
)

// adaptation is what an adapting run knows beyond one that does not adapt: its batch, what its
// steps are worth and how the next batch is chosen. But for what rank 0 chooses by and for the
// programs it is the same on all workers.
type adaptation struct {
	cfg     AdaptConfig
	feed    BatchFeed
	devices *devices
	store   adaptingStore
	logger  *slog.Logger

	batch    batch
	scaling  scaling
	epochs   progressEpochs
	programs *programSets

	// Rank 0 chooses by what follows. The others keep the profile that they got.
	decider decider
	wish    workerWish
	reports adaptReports
	// runs are the times that the runs of the step under way took, but for the last one.
	runs []time.Duration
	// bytes is the size of a step's gradients.
	bytes int
}

// progressEpochs are epochs of progress.
type progressEpochs struct {
	// finished is their number, and step that of the next step within the current one.
	finished, step int
	// from is the progress at the epoch's begin, or when this worker came.
	from float64
}

// initial is the initial batch of all workers.
func (a *adaptation) initial() int { return a.scaling.progress.InitialBatch }

// limits bound the batch, by what the programs that there are, or can be, take.
func (a *adaptation) limits() batchLimits {
	most := maxLocalBatch
	if a.cfg.MaxLocal > 0 {
		most = a.cfg.MaxLocal
	}
	return batchLimits{a.cfg.limits(), a.initial(), min(most, a.programs.most())}
}

// now is the time by which steps are timed.
func (a *adaptation) now() time.Time {
	if a.cfg.now != nil {
		return a.cfg.now()
	}
	return time.Now()
}

// nextStep implements stepPlan.
func (a *adaptation) nextStep(options kvstore.PushOptions, steps uint64) kvstore.PushOptions {
	return a.scaling.plan(options, steps, len(a.devices.own) == 1 && a.batch.Accumulation == 0)
}

// learningRate implements stepPlan: that of the first group.
func (a *adaptation) learningRate() float64 { return a.scaling.step.rate }

// gradientNorm implements stepPlan.
func (a *adaptation) gradientNorm() float64 { return a.scaling.tellNorm() }

// planStep notes that a step with so many examples on all workers begins, and returns when.
func (a *adaptation) planStep(global int) time.Time {
	a.scaling.step.global, a.runs = global, a.runs[:0]
	return a.now()
}

// ranUntilNow notes how long a run of the step took that is not its last one, but for what it
// waited for: that belongs to the exchange.
func (a *adaptation) ranUntilNow(begin time.Time, waited time.Duration) {
	a.runs = append(a.runs, max(0, a.now().Sub(begin)-waited))
}

// stepped counts the step.
func (a *adaptation) stepped() {
	a.scaling.stepped()
	a.epochs.step++
}

// timed takes note of a step that took until now, the last of so many, and lets rank 0 choose. own
// are its examples on this worker.
func (a *adaptation) timed(begin time.Time, own int, steps uint64) error {
	s := a.situation(steps)
	if global := a.scaling.step.global; own == a.batch.perStep() && global == own*s.workers {
		rest := a.now().Sub(begin)
		for _, d := range a.runs {
			rest -= d
		}
		a.decider.profile.add(s.nodes, s.workers, s.perRun, a.runs, max(0, rest))
	}
	if a.decider.ready(s, a.scaling.step.global) {
		if err := a.choose(s); err != nil {
			return err
		}
	}
	a.report(s)
	return nil
}

// choose makes rank 0 wish for other workers and for another batch, where they promise more. A fit
// may fail where a clock stands: then nothing is chosen.
func (a *adaptation) choose(s situation) error {
	if err := a.decider.refit(a.now(), a.fit); err != nil {
		return nil
	}
	s = a.withNoise(s)
	a.wish.choose(a.store, s, &a.decider)
	return a.decider.choose(s, a.programs)
}

// fit makes a model of the time of steps.
func (a *adaptation) fit(timings []adapt.Timing) (adapt.Model, error) {
	switch {
	case a.cfg.Model != nil:
		return a.cfg.Model, nil
	case a.cfg.model != nil:
		return a.cfg.model(timings)
	}
	at := a.store.Topology()
	return adapt.FitParameterServer(timings, adapt.Cluster{Bytes: max(1, int64(a.bytes)), Servers: max(1, at.Servers), SharedMemory: at.Together})
}

// situation is what choices are made by, after so many steps.
func (a *adaptation) situation(steps uint64) situation {
	e := a.scaling.estimators
	return situation{
		nodes: a.store.Topology().WorkerHosts, workers: a.store.NumWorkers(), leads: a.store.Rank() == 0, steps: steps, batch: a.batch,
		perRun: a.perRun(), examples: a.scaling.progress.Examples, limits: a.limits(), measured: e.Measured(), blocks: e.Blocks(),
	}
}

// withNoise adds the noise, which takes memory to find out: most steps choose nothing.
func (a *adaptation) withNoise(s situation) situation {
	s.noise, s.bounded = a.scaling.estimators.Bound()
	return s
}

// perRun is how many examples a run has in a full step.
func (a *adaptation) perRun() int { return runsOf(a.batch.perStep(), a.feed.PerRun())[0] }

// fitTo changes the batch if it is outside of the limits for so many workers.
func (a *adaptation) fitTo(workers int) { a.batch = a.limits().fit(a.batch, workers) }

// beginBatch begins with the batch that fits the workers, after so many steps: after they have
// changed, and at the start.
func (a *adaptation) beginBatch(steps uint64) {
	if b, ok := a.decider.replay(steps); ok {
		a.batch = b
	}
	a.decider.changed(a.scaling.estimators.Blocks())
}

// resizeTo is the batch that all take from the next step on: what the configuration says is due
// after so many steps, or what all workers have agreed on. ok is false if it stays.
func (a *adaptation) resizeTo(steps uint64, agreed verdict) (to batch, ok bool) {
	to, ok = a.decider.replay(steps)
	if !ok && agreed.wish {
		to, ok = agreed.batch, true
		a.decider.wish = nil
	}
	return to, ok && to != a.batch
}

// take takes another batch.
func (a *adaptation) take(to batch) {
	a.batch = to
	a.decider.changed(a.scaling.estimators.Blocks())
}

// workersChanged makes the next choices soon: the last ones were for another number of workers.
func (a *adaptation) workersChanged() {
	a.wish.drop()
	a.decider.workersChanged(a.scaling.progress.Examples)
}

// begin prepares the feed and the programs for steps of the present batch; the feed's Begin
// follows.
func (a *adaptation) begin() error {
	a.decider.profile.changed()
	return a.programs.use(a.batch.LocalBatch)
}

// epochDone reports whether the current epoch ends here.
func (a *adaptation) epochDone() bool { return a.scaling.progress.Done(a.epochs.finished) }

// nextEpoch moves on to the next epoch.
func (a *adaptation) nextEpoch() {
	a.epochs = progressEpochs{finished: a.epochs.finished + 1, from: a.scaling.progress.Steps}
}

// stepsOfEpoch guesses how many steps the current epoch has.
func (a *adaptation) stepsOfEpoch(workers int) int {
	gain := a.scaling.step.gain
	if gain == 0 {
		gain = a.scaling.gainOf(a.scale(workers))
	}
	p := &a.scaling.progress
	left := math.Ceil((p.EpochEnd(a.epochs.finished) - p.Steps) / max(gain, 1e-9))
	return a.epochs.step + int(min(max(left, 0), 1<<30))
}

// scale of a step of so many workers.
func (a *adaptation) scale(workers int) float64 {
	return a.scaling.scaleOf(a.batch.perStep() * workers)
}

// end gives the feed and the devices their own programs back.
func (a *adaptation) end() error { return a.programs.close() }
