package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/metrics"
)

// EMA keeps an exponential moving average of the parameters, e ← d·e + (1−d)·value after each step,
// beginning with the first values. It often scores better than the values of the last step. The
// formula is that of tf.train.ExponentialMovingAverage and of timm's ModelEmaV3, with the first
// values as the start in place of zeros; averages of the path of an optimizer go back to Polyak and
// Juditsky, Acceleration of Stochastic Approximation by Averaging (1992).
//
// Each worker has its own copy of the averages. All get the same values after a step, so all copies
// are the same bit for bit. One that joins gets them from the others, and each worker's file in a
// checkpoint has them. Running statistics of batch normalisation are not averaged: those of the
// model are used, which are averages already. What nn.Config.Freeze leaves as it is has no average.
//
// Each evaluation measures the averages, too: its scores have the metrics ema_loss, ema_accuracy
// and ema_NAME for each other one. That takes as long again.
type EMA struct {
	// Decay is d, above 0 and below 1, such as 0.999: about how many steps count is 1/(1−d).
	Decay float64
	// WarmUp makes d in step t, from 0, at most (1+t)/(10+t), so that the first values do not
	// count for long: the rule of tf.train.ExponentialMovingAverage with num_updates.
	WarmUp bool
	// Result gives the programs of all workers the averages when Fit ends, if it ends without
	// an error. The servers keep the parameters.
	Result bool
}

func (c *EMA) validate(t *Trainer, early *EarlyStop) error {
	switch {
	case !(c.Decay > 0 && c.Decay < 1):
		return fmt.Errorf("worker: FitConfig.EMA.Decay is %v, want above 0 and below 1", c.Decay)
	case t.async():
		return errors.New("worker: FitConfig.EMA with store dist_async, want none: its workers have different values")
	case t.local != nil:
		return fmt.Errorf("worker: FitConfig.EMA with a store of %d local steps, want none: the workers have different values between rounds", t.local.length)
	case c.Result && early != nil && early.Restore:
		return errors.New("worker: FitConfig.EMA.Result and EarlyStop.Restore are true, want one of them: each gives the programs other values")
	}
	return nil
}

// averages are the moving averages of a trainer's parameters.
type averages struct {
	cfg    EMA
	values [][]float32 // by parameter
	// keyed says that this worker has made the keys by which workers that join get them.
	keyed bool
}

func newAverages(cfg EMA, t *Trainer) *averages {
	a := &averages{cfg: cfg}
	for _, p := range t.cfg.Programs[0].Params() {
		a.values = append(a.values, slices.Clone(p.Value))
	}
	return a
}

// update takes the value of parameter i after a step, from 0. Different parameters may be updated
// together.
func (a *averages) update(step uint64, i int, value []float32) {
	d := a.cfg.Decay
	if a.cfg.WarmUp {
		d = min(d, (1+float64(step))/(10+float64(step)))
	}
	average, share := a.values[i], float32(1-d)
	for k, v := range value {
		// The conversion rounds the product, so that no machine fuses it with the sum, and
		// all get the same bits.
		average[k] += float32(share * (v - average[k]))
	}
}

// swap exchanges the averages and the values of the programs.
func (a *averages) swap(t *Trainer) {
	for d, program := range t.cfg.Programs {
		for i, p := range program.Params() {
			if d > 0 {
				copy(p.Value, t.cfg.Programs[0].Params()[i].Value)
				continue
			}
			for k, v := range p.Value {
				p.Value[k], a.values[i][k] = a.values[i][k], v
			}
		}
	}
}

// put gives the programs the averages.
func (a *averages) put(t *Trainer) {
	for _, program := range t.cfg.Programs {
		for i, p := range program.Params() {
			copy(p.Value, a.values[i])
		}
	}
}

// beginAverages makes the key by which workers learn who has the averages. A worker that joins has
// it before it is ready.
func (r *run) beginAverages(ctx context.Context) (err error) {
	if r.trainer.averages != nil && r.elastic != nil {
		r.haveAverages, err = newTally(ctx, r.trainer, "averages", 1)
	}
	return err
}

// evaluateAverages adds the scores of the averages to those of the parameters.
func (r *run) evaluateAverages(ctx context.Context, scores *Scores) error {
	a := r.trainer.averages
	if a == nil {
		return nil
	}
	a.swap(r.trainer)
	of, err := r.measure(ctx)
	a.swap(r.trainer)
	if err != nil {
		return err
	}
	add := func(name string, value float64) {
		scores.Metrics = append(scores.Metrics, metrics.Measured{Name: "ema_" + name, Value: value})
	}
	scores.Metrics = slices.Clip(scores.Metrics)
	add("loss", of.Loss)
	if !math.IsNaN(of.Accuracy) {
		add("accuracy", of.Accuracy)
	}
	for _, m := range of.Metrics {
		add(m.Name, m.Value)
	}
	return nil
}

// handAverages gives workers that have joined the averages of the others. All call it after a
// change of the membership; joined: this one has none.
func (r *run) handAverages(ctx context.Context, joined bool) error {
	a, store := r.trainer.averages, r.trainer.cfg.Store
	lost := errors.New("worker: averages of weights: all workers that had them were lost; resume from a checkpoint")
	switch {
	case a == nil:
		return nil
	case store.NumWorkers() < 2 && joined:
		return lost
	case store.NumWorkers() < 2:
		return nil
	}
	own := []float64{1}
	if joined {
		own[0] = 0
	}
	for {
		rank := store.Rank()
		rows, err := r.haveAverages.exchange(ctx, rank, store.NumWorkers(), own)
		if err != nil {
			return err
		}
		from := slices.IndexFunc(rows, func(row []float64) bool { return row != nil && row[0] == 1 })
		missing := slices.IndexFunc(rows, func(row []float64) bool { return row != nil && row[0] == 0 })
		if missing < 0 {
			return nil
		}
		if from < 0 {
			return lost
		}
		values, err := r.trainer.giveAverages(ctx, from == rank)
		if err != nil {
			return err
		}
		if rows, err = r.haveAverages.exchange(ctx, rank, store.NumWorkers(), own); err != nil {
			return err
		}
		// A worker whose row is in this round has pushed its averages in all rounds before,
		// so the values are its averages. One that was lost meanwhile may have pushed a
		// part of them: then another one gives its own.
		if rows[from] != nil {
			if joined {
				a.values = values
			}
			return nil
		}
	}
}

// giveAverages brings one worker's averages to all: it alone has a weight.
func (t *Trainer) giveAverages(ctx context.Context, own bool) ([][]float32, error) {
	weight := float32(0)
	if own {
		weight = 1
	}
	pusher, keyed := t.cfg.Store.Weighted(weight, false), t.averages.keyed
	t.averages.keyed = true
	shared := make([][]float32, len(t.keys))
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range t.averages.values {
		shared[i] = make([]float32, len(a))
		if own {
			copy(shared[i], a)
		}
		group.Go(func() error {
			key := fmt.Sprintf("paragon/ema/%d", i)
			if !keyed {
				if err := t.cfg.Store.InitAverage(ctx, key, make([]float32, len(a))); err != nil {
					return fmt.Errorf("worker: averages of weights: init %s: %w", key, err)
				}
			}
			if err := pusher.PushPull(ctx, key, [][]float32{shared[i]}, [][]float32{shared[i]}); err != nil {
				return fmt.Errorf("worker: averages of weights: %w", err)
			}
			return nil
		})
	}
	return shared, group.Wait()
}

// tensors lists the averages as a worker's file has them.
func (a *averages) tensors(t *Trainer) (list []workerTensor) {
	for i, p := range t.cfg.Programs[0].Params() {
		list = append(list, workerTensor{checkpoint.OwnAverage + p.Name, p.Shape, a.values[i]})
	}
	return list
}
