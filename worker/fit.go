package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// A Feed brings the batches of one worker to its programs' inputs.
type Feed interface {
	// Steps is the number of steps of an epoch: the same on every worker, so that all take part in every round.
	Steps() int
	// Begin starts epoch e at the given step; the order of examples depends on (seed, epoch) alone, so that a resumed run
	// reads what the first one would have.
	Begin(ctx context.Context, epoch, step int) error
	// Next fills the inputs for the next step and returns how many examples count on each device.
	Next(ctx context.Context) (counts []int, err error)
	Close() error
}

// An Evaluator measures the model; Fit calls it after each epoch with all values in place.
type Evaluator interface {
	Evaluate(ctx context.Context) (Scores, error)
}

// Scores of an evaluation.
type Scores struct {
	Loss     float64 // mean over the examples
	Accuracy float64 // share of examples whose highest logit is their label
	Examples int
}

// FitConfig configures Fit.
type FitConfig struct {
	Trainer *Trainer
	Feed    Feed
	// Evaluator; nil: no evaluation.
	Evaluator Evaluator
	// Epochs is how many passes over the data there are in all, those before a resume included.
	Epochs int
	// MaxSteps ends the run after so many steps in all; 0: no limit.
	MaxSteps uint64
	// Checkpoint says where and when to save; the zero value: never.
	Checkpoint CheckpointConfig
	// Stop, when closed, ends the run after a coming step that all workers agree on, with a checkpoint if there is a place
	// for one. Connect it to SIGTERM: signal.NotifyContext(...).Done().
	Stop <-chan struct{}
	// Observers are told of steps and epochs, in order.
	Observers []Observer
}

// Validate names the first field that cannot be.
func (c *FitConfig) Validate() error {
	switch {
	case c.Trainer == nil:
		return errors.New("worker: FitConfig.Trainer is nil, want a trainer of NewTrainer")
	case c.Feed == nil:
		return errors.New("worker: FitConfig.Feed is nil, want a source of batches")
	case c.Epochs < 1:
		return fmt.Errorf("worker: FitConfig.Epochs is %d, want at least 1", c.Epochs)
	case c.Feed.Steps() < 1:
		return errors.New("worker: FitConfig.Feed has no steps in an epoch, want at least 1: are there fewer examples than workers?")
	}
	return c.Checkpoint.Validate()
}

// An Observer follows a run. Its methods are called by Fit's goroutine and hold the training up.
type Observer interface {
	Begin(run Run)
	Step(step StepInfo)
	Epoch(epoch EpochInfo)
	End() // Fit returns, whether all went well or not; only after Begin
}

// Run describes a run at its start.
type Run struct {
	Rank, Workers         int
	Epochs, StepsPerEpoch int
	FirstEpoch, FirstStep int    // where it begins: 0, 0 unless resumed
	ResumedFrom           string // folder of the checkpoint; empty: a new run
}

// StepInfo tells about one step of this worker.
type StepInfo struct {
	Epoch, Step int     // from 0; Step within the epoch
	Loss        float64 // mean over this worker's examples of the step
	Examples    int     // of this worker
}

// EpochInfo tells about one epoch of this worker.
type EpochInfo struct {
	Epoch    int
	First    int       // step with which this run began the epoch: 0 unless resumed
	Loss     float64   // mean over this worker's examples of the epoch
	Losses   []float64 // of each step from First on
	Examples int       // of this worker, in this run
	Train    time.Duration
	Times    Times // of the training part
	// Staleness of the values it trained on; nil with a synchronous store.
	Staleness *Staleness
	Test      *Scores // nil: not evaluated
	TestTime  time.Duration
}

// ErrStopped ends Fit when it was asked to stop; a checkpoint, if there is a place for one, has been written.
var ErrStopped = errors.New("worker: stopped as asked")

// Fit trains for the epochs of cfg, and resumes first if cfg says so. It returns what each epoch brought. All workers of the job
// call it with like configurations.
func Fit(ctx context.Context, cfg FitConfig) ([]EpochInfo, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, trainer: cfg.Trainer}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.end()
	for ; r.epoch < cfg.Epochs && !r.finished(); r.epoch, r.step = r.epoch+1, 0 {
		if err := r.runEpoch(ctx); err != nil {
			return r.epochs, err
		}
	}
	return r.epochs, cfg.Trainer.Flush(ctx)
}

// run is one call of Fit.
type run struct {
	cfg     FitConfig
	trainer *Trainer
	stop    *agreement
	saver   *saver

	epoch, step int // the next step
	epochs      []EpochInfo
}

func (r *run) begin(ctx context.Context) error {
	var err error
	if r.stop, err = newAgreement(ctx, r.trainer); err != nil {
		return err
	}
	r.saver = newSaver(r.cfg.Checkpoint, r.trainer, r.cfg.Feed.Steps())
	position, from, err := r.saver.resume(ctx)
	if err != nil {
		return err
	}
	r.epoch, r.step = position.Epoch, position.Step
	if r.step >= r.cfg.Feed.Steps() {
		r.epoch, r.step = r.epoch+1, 0
	}
	info := Run{
		Rank: r.trainer.cfg.Store.Rank(), Workers: r.trainer.cfg.Store.NumWorkers(),
		Epochs: r.cfg.Epochs, StepsPerEpoch: r.cfg.Feed.Steps(), FirstEpoch: r.epoch, FirstStep: r.step,
		ResumedFrom: from,
	}
	for _, o := range r.cfg.Observers {
		o.Begin(info)
	}
	return nil
}

func (r *run) end() {
	r.stop.close()
	for _, o := range r.cfg.Observers {
		o.End()
	}
}

// finished reports whether the limit of steps is reached.
func (r *run) finished() bool { return r.cfg.MaxSteps > 0 && r.trainer.Steps() >= r.cfg.MaxSteps }

// runEpoch trains what is left of the epoch, averages the running statistics, evaluates and saves.
func (r *run) runEpoch(ctx context.Context) error {
	if err := r.cfg.Feed.Begin(ctx, r.epoch, r.step); err != nil {
		return err
	}
	info := EpochInfo{Epoch: r.epoch, First: r.step}
	r.saver.spent = 0
	begin := time.Now()
	var mean metrics.Mean
	for ; r.step < r.cfg.Feed.Steps() && !r.finished(); r.step++ {
		loss, examples, err := r.runStep(ctx, &info)
		if err != nil {
			return err
		}
		if examples > 0 {
			mean.Add(loss, float64(examples))
		}
		info.Examples += examples
		info.Losses = append(info.Losses, loss)
		waiting := time.Now()
		stopping, err := r.stop.end()
		info.Times.Wait += time.Since(waiting)
		if err != nil {
			return err
		}
		if stopping {
			r.step++
			return r.stopNow(ctx)
		}
		if err := r.saver.afterStep(ctx, r.position(1), r.step+1 == r.cfg.Feed.Steps()); err != nil {
			return err
		}
	}
	if err := r.trainer.AverageState(ctx); err != nil {
		return err
	}
	info.Times.Add(r.trainer.TakeTimes())
	info.Staleness = r.trainer.TakeStaleness()
	info.Times.Save, info.Train = r.saver.spent, time.Since(begin)
	info.Loss = mean.Value()
	if r.cfg.Evaluator != nil {
		begin := time.Now()
		scores, err := r.cfg.Evaluator.Evaluate(ctx)
		if err != nil {
			return fmt.Errorf("worker: evaluate after epoch %d: %w", r.epoch, err)
		}
		info.Test, info.TestTime = &scores, time.Since(begin)
	}
	r.epochs = append(r.epochs, info)
	for _, o := range r.cfg.Observers {
		o.Epoch(info)
	}
	return r.saver.afterEpoch(ctx, r.position(0))
}

// runStep does one step and tells the observers.
func (r *run) runStep(ctx context.Context, info *EpochInfo) (loss float64, examples int, err error) {
	select {
	case <-r.cfg.Stop:
		r.stop.ask()
	default:
	}
	begin := time.Now()
	counts, err := r.cfg.Feed.Next(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("worker: epoch %d step %d: next batch: %w", r.epoch, r.step, err)
	}
	info.Times.Data += time.Since(begin)
	if r.trainer.roundEnds() || r.step+1 == r.cfg.Feed.Steps() { // workers that step by themselves meet here
		r.stop.begin(ctx)
	}
	if err := r.trainer.Step(ctx, counts); err != nil {
		return 0, 0, err
	}
	for d, n := range counts {
		if n > 0 { // the loss of nothing may be NaN
			loss += r.trainer.cfg.Programs[d].Loss() * float64(n)
			examples += n
		}
	}
	if examples > 0 {
		loss /= float64(examples)
	}
	for _, o := range r.cfg.Observers {
		o.Step(StepInfo{Epoch: r.epoch, Step: r.step, Loss: loss, Examples: examples})
	}
	return loss, examples, nil
}

// position is where the run is after done more steps.
func (r *run) position(done int) position {
	return position{Epoch: r.epoch, Step: r.step + done, Steps: r.trainer.Steps()}
}

// stopNow saves, if there is a place for it, and ends the run. After the last step of an epoch it does first what the epoch's
// end does to the model, which the resumed run does not come to any more.
func (r *run) stopNow(ctx context.Context) error {
	if r.step == r.cfg.Feed.Steps() && !r.trainer.async() {
		if err := r.trainer.AverageState(ctx); err != nil {
			return err
		}
	}
	if err := r.trainer.Flush(ctx); err != nil {
		return err
	}
	save := r.saver.save
	if r.trainer.async() {
		save = r.saver.saveAlone
	}
	if err := save(ctx, r.position(0)); err != nil {
		return err
	}
	return ErrStopped
}
