package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/nn"
)

// EarlyStop ends a run that gets no better: after Patience evaluations in a row without a better
// score. All workers stop after the same step. With CheckpointConfig.Dir each better model is
// saved, and the best one's checkpoint stays, whatever Keep says.
type EarlyStop struct {
	// Metric is the score that is watched: "loss", "accuracy" or the name of a metric. Empty:
	// "loss".
	Metric string
	// Mode is "min", where less is better, or "max". Empty: min for names that end in "loss"
	// and for "perplexity", else max.
	Mode string
	// Patience is how many evaluations in a row may be no better before the run ends; at least 1.
	Patience int
	// MinDelta is how much better a score has to be.
	MinDelta float64
	// Restore gives the programs of all workers the values of the best evaluation when Fit
	// ends, if it ends without an error. The servers keep the last ones.
	Restore bool
}

func (c *EarlyStop) validate(t *Trainer, e Evaluator) error {
	switch {
	case e == nil:
		return errors.New("worker: FitConfig.EarlyStop without an Evaluator, want one")
	case c.Patience < 1:
		return fmt.Errorf("worker: FitConfig.EarlyStop.Patience is %d, want at least 1", c.Patience)
	case c.Mode != "" && c.Mode != "min" && c.Mode != "max":
		return fmt.Errorf("worker: FitConfig.EarlyStop.Mode is %q, want min, max, or empty", c.Mode)
	case !(c.MinDelta >= 0) || math.IsInf(c.MinDelta, 0):
		return fmt.Errorf("worker: FitConfig.EarlyStop.MinDelta is %v, want at least 0", c.MinDelta)
	case t.async():
		return errors.New("worker: FitConfig.EarlyStop with store dist_async, want none: its workers have no step in common")
	}
	return nil
}

// A stopState is what early stopping remembers; it is in checkpoints.
type stopState struct {
	Known bool    `json:"known"` // there was an evaluation
	Best  float64 `json:"best"`
	Steps uint64  `json:"steps"` // after which it was
	Worse int     `json:"worse"` // evaluations since that were no better
}

// An earlyStop follows the evaluations of one run.
type earlyStop struct {
	cfg     EarlyStop
	state   stopState
	tally   *tally
	values  [][]float32 // of the best evaluation, with Restore; nil: this worker was not there
	better  bool        // the last evaluation was
	stopped bool
}

// What a worker tells of itself: see tally.
const (
	tellScore = iota
	tellKnown // 1: what follows is known
	tellBest
	tellSteps
	tellWorse
	tellValues // 1: it has the values of the best evaluation
	tellWidth
)

// beginEarlyStop makes what early stopping needs. A worker that joins has it before it is ready.
func (r *run) beginEarlyStop(ctx context.Context) (err error) {
	if r.cfg.EarlyStop == nil {
		return nil
	}
	e := &earlyStop{cfg: *r.cfg.EarlyStop}
	if e.cfg.Metric == "" {
		e.cfg.Metric = "loss"
	}
	if e.cfg.Mode == "" {
		if e.cfg.Mode = "max"; strings.HasSuffix(e.cfg.Metric, "loss") || e.cfg.Metric == "perplexity" {
			e.cfg.Mode = "min"
		}
	}
	r.early = e
	e.tally, err = newTally(ctx, r.trainer, "early_stop", tellWidth)
	return err
}

// tell gives what this worker knows to all, and returns what all of them use: what the first one
// that knows anything has said.
func (e *earlyStop) tell(ctx context.Context, r *run, score float64) (float64, error) {
	if r.workers < 2 {
		return score, nil
	}
	own := make([]float64, tellWidth)
	own[tellScore] = score
	if s := e.state; s.Known {
		own[tellKnown], own[tellBest], own[tellSteps], own[tellWorse] = 1, s.Best, float64(s.Steps), float64(s.Worse)
	}
	rows, err := e.tally.exchange(ctx, r.rank, r.workers, own)
	if err != nil {
		return score, err
	}
	there := slices.IndexFunc(rows, func(row []float64) bool { return row != nil })
	score = rows[there][tellScore]
	if knows := slices.IndexFunc(rows, func(row []float64) bool { return row != nil && row[tellKnown] == 1 }); knows >= 0 {
		row := rows[knows]
		e.state = stopState{true, row[tellBest], uint64(row[tellSteps]), int(row[tellWorse])}
	}
	return score, nil
}

// judge takes the scores of an evaluation. All workers come to the same result.
func (e *earlyStop) judge(ctx context.Context, r *run, scores *Scores) error {
	score, ok := scores.Get(e.cfg.Metric)
	if !ok {
		names := []string{"loss", "accuracy"}
		for _, m := range scores.Metrics {
			names = append(names, m.Name)
		}
		return fmt.Errorf("worker: FitConfig.EarlyStop.Metric is %q, want one of %q", e.cfg.Metric, names)
	}
	score, err := e.tell(ctx, r, score)
	if err != nil {
		return err
	}
	gain := score - e.state.Best
	if e.cfg.Mode == "min" {
		gain = -gain
	}
	e.better = !math.IsNaN(score) && (!e.state.Known || gain > e.cfg.MinDelta)
	if e.better {
		e.state = stopState{Known: true, Best: score, Steps: r.trainer.Steps()}
		e.values = nil
		if e.cfg.Restore {
			for _, a := range r.trainer.devices.modelArrays(0) {
				e.values = append(e.values, slices.Clone(a))
			}
		}
		return nil
	}
	e.state.Worse++
	if e.check(); e.stopped && r.rank == 0 {
		r.trainer.cfg.Logger.Info(fmt.Sprintf("no better %s in %s: the run ends early; the best was %.6g after %s",
			e.cfg.Metric, plural.Of(e.state.Worse, "evaluation"), e.state.Best, plural.Of(e.state.Steps, "step")))
	}
	return nil
}

// check finds out whether the run ends.
func (e *earlyStop) check() { e.stopped = e.state.Known && e.state.Worse >= e.cfg.Patience }

// restore gives all programs the values of the best evaluation. They come from the first worker
// that has them: it was there, or it reads them from the checkpoint of that step.
func (e *earlyStop) restore(ctx context.Context, r *run) error {
	t := r.trainer
	if !e.cfg.Restore || !e.state.Known || e.state.Steps == t.Steps() {
		return nil
	}
	if e.values == nil && r.cfg.Checkpoint.Dir != "" {
		e.values = t.readModel(ctx, checkpoint.Join(r.cfg.Checkpoint.Dir, checkpoint.StepFolder(e.state.Steps)))
	}
	if r.workers > 1 {
		var err error
		if e.values, err = e.give(ctx, r); err != nil {
			return err
		}
	}
	if e.values == nil {
		t.cfg.Logger.Warn("the values of the best evaluation are not there any more: the model is that of the last step; with FitConfig.Checkpoint they are kept", "after steps", e.state.Steps)
		return nil
	}
	for d := range t.cfg.Programs {
		for i, a := range t.devices.modelArrays(d) {
			copy(a, e.values[i])
		}
	}
	return nil
}

// readModel reads a model from a checkpoint; nil: it is not there.
func (t *Trainer) readModel(ctx context.Context, from string) (values [][]float32) {
	var into []checkpoint.Array
	for _, list := range [][]nn.Param{t.cfg.Programs[0].Params(), t.cfg.Programs[0].State()} {
		for _, p := range list {
			values = append(values, make([]float32, len(p.Value)))
			into = append(into, checkpoint.Array{Name: p.Name, Shape: p.Shape, Values: values[len(values)-1]})
		}
	}
	if _, err := checkpoint.Import(ctx, from, into); err != nil {
		return nil
	}
	return values
}

// give returns the best values of the first worker that has them and lives until all have got them;
// nil: there is none.
func (e *earlyStop) give(ctx context.Context, r *run) ([][]float32, error) {
	own := make([]float64, tellWidth)
	if e.values != nil {
		own[tellValues] = 1
	}
	for begun := false; ; begun = true {
		rows, err := e.tally.exchange(ctx, r.rank, r.workers, own)
		if err != nil {
			return nil, err
		}
		from := slices.IndexFunc(rows, func(row []float64) bool { return row != nil && row[tellValues] == 1 })
		if from < 0 {
			return nil, nil
		}
		values, err := r.trainer.share(ctx, e.values, from == r.rank, begun)
		if err != nil {
			return nil, err
		}
		// A worker whose row counts has got through its rounds before, so they have its
		// values. If it was lost, some are as they were first: zeros.
		if rows, err = e.tally.exchange(ctx, r.rank, r.workers, own); err != nil {
			return nil, err
		}
		if rows[from] != nil {
			return values, nil
		}
	}
}

// share brings one worker's values of the model to all: it alone has a weight. begun: the keys are
// there. If that worker is lost meanwhile, the values that come back are not its.
func (t *Trainer) share(ctx context.Context, values [][]float32, own, begun bool) ([][]float32, error) {
	weight := float32(0)
	if own {
		weight = 1
	}
	pusher := t.cfg.Store.Weighted(weight, false)
	arrays := t.devices.modelArrays(0)
	shared := make([][]float32, len(arrays))
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range arrays {
		pushed := make([]float32, len(a))
		if own {
			copy(pushed, values[i])
		}
		shared[i] = pushed
		group.Go(func() error {
			key := fmt.Sprintf("paragon/best/%d", i)
			if !begun {
				if err := t.cfg.Store.InitAverage(ctx, key, make([]float32, len(pushed))); err != nil {
					return fmt.Errorf("worker: restore the best model: init %s: %w", key, err)
				}
			}
			if err := pusher.PushPull(ctx, key, [][]float32{pushed}, [][]float32{pushed}); err != nil {
				return fmt.Errorf("worker: restore the best model: %w", err)
			}
			return nil
		})
	}
	return shared, group.Wait()
}
