package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

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
	// Known says that there was an evaluation.
	Known bool `json:"known"`
	// Best is the best score, and Steps the number of steps after which it was measured.
	Best  float64 `json:"best"`
	Steps uint64  `json:"steps"`
	// Worse counts the evaluations since that were no better.
	Worse int `json:"worse"`
}

// An earlyStop follows the evaluations of one run. All workers come to the same state after the
// same evaluation, by telling each other theirs: a worker that has joined knows nothing before.
type earlyStop struct {
	cfg    EarlyStop
	logger *slog.Logger
	tally  *tally
	state  stopState
	// values are those of the best evaluation, with Restore; nil: this worker was not there.
	values [][]float32
	// better says that the last evaluation was the best so far.
	better bool
	// stopped says that the run ends early.
	stopped bool
	// handover gives the best values to all at the end.
	handover arrayHandover
}

// What a worker tells of itself: see tally.
const (
	tellScore = iota
	// tellKnown is 1 where the next three are known.
	tellKnown
	tellBest
	tellSteps
	tellWorse
	// tellValues is 1 where it has the values of the best evaluation.
	tellValues
	tellWidth
)

// newEarlyStop makes what early stopping needs. A worker that joins has it before it is ready.
func newEarlyStop(ctx context.Context, cfg EarlyStop, store handoverStore, logger *slog.Logger) (*earlyStop, error) {
	if cfg.Metric == "" {
		cfg.Metric = "loss"
	}
	if cfg.Mode == "" {
		if cfg.Mode = "max"; strings.HasSuffix(cfg.Metric, "loss") || cfg.Metric == "perplexity" {
			cfg.Mode = "min"
		}
	}
	t, err := newTally(ctx, store, "early_stop", tellWidth)
	if err != nil {
		return nil, err
	}
	return &earlyStop{cfg: cfg, logger: logger, tally: t, handover: arrayHandover{
		store: store, tally: t, what: "restore the best model", prefix: "paragon/best",
		has: func(row []float64) bool { return row[tellValues] == 1 },
	}}, nil
}

// resume goes on with the state of a checkpoint.
func (e *earlyStop) resume(state stopState) {
	e.state = state
	e.check()
}

// tell gives what this worker knows to all, and returns what all of them use: what the first one
// that knows anything has said.
func (e *earlyStop) tell(ctx context.Context, at seat, score float64) (float64, error) {
	if at.workers < 2 {
		return score, nil
	}
	own := make([]float64, tellWidth)
	own[tellScore] = score
	if s := e.state; s.Known {
		own[tellKnown], own[tellBest], own[tellSteps], own[tellWorse] = 1, s.Best, float64(s.Steps), float64(s.Worse)
	}
	rows, err := e.tally.exchange(ctx, at, own)
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

// judge takes the scores of an evaluation after so many steps of a model with these values. All
// workers come to the same result.
func (e *earlyStop) judge(ctx context.Context, at seat, steps uint64, scores *Scores, model [][]float32) error {
	score, ok := scores.Get(e.cfg.Metric)
	if !ok {
		names := []string{"loss", "accuracy"}
		for _, m := range scores.Metrics {
			names = append(names, m.Name)
		}
		return fmt.Errorf("worker: FitConfig.EarlyStop.Metric is %q, want one of %q", e.cfg.Metric, names)
	}
	score, err := e.tell(ctx, at, score)
	if err != nil {
		return err
	}
	gain := score - e.state.Best
	if e.cfg.Mode == "min" {
		gain = -gain
	}
	e.better = !math.IsNaN(score) && (!e.state.Known || gain > e.cfg.MinDelta)
	if e.better {
		e.state, e.values = stopState{Known: true, Best: score, Steps: steps}, nil
		if e.cfg.Restore {
			for _, a := range model {
				e.values = append(e.values, slices.Clone(a))
			}
		}
		return nil
	}
	e.state.Worse++
	if e.check(); e.stopped && at.rank == 0 {
		e.logger.Info(fmt.Sprintf("no better %s in %s: the run ends early; the best was %.6g after %s",
			e.cfg.Metric, plural.Of(e.state.Worse, "evaluation"), e.state.Best, plural.Of(e.state.Steps, "step")))
	}
	return nil
}

// check finds out whether the run ends.
func (e *earlyStop) check() { e.stopped = e.state.Known && e.state.Worse >= e.cfg.Patience }

// restore gives all programs the values of the best evaluation. They come from the first worker
// that has them: it was there, or it reads them from the checkpoint of that step in dir.
func (e *earlyStop) restore(ctx context.Context, at seat, steps uint64, on *devices, dir string) (err error) {
	if !e.cfg.Restore || !e.state.Known || e.state.Steps == steps {
		return nil
	}
	if e.values == nil && dir != "" {
		e.values = readModel(ctx, on.own[0], checkpoint.Join(dir, checkpoint.StepFolder(e.state.Steps)))
	}
	if at.workers > 1 {
		row := make([]float64, tellWidth)
		if e.values != nil {
			row[tellValues] = 1
		}
		if e.values, _, err = e.handover.run(ctx, at, row, e.values, on.modelArrays(0)); err != nil {
			return err
		}
	}
	if e.values == nil {
		e.logger.Warn("the values of the best evaluation are not there any more: the model is that of the last step; with FitConfig.Checkpoint they are kept", "after steps", e.state.Steps)
		return nil
	}
	for d := range on.own {
		for i, a := range on.modelArrays(d) {
			copy(a, e.values[i])
		}
	}
	return nil
}

// readModel reads a program's model from a checkpoint; nil: it is not there.
func readModel(ctx context.Context, program *nn.Program, from string) (values [][]float32) {
	var into []checkpoint.Array
	for _, list := range [][]nn.Param{program.Params(), program.State()} {
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
