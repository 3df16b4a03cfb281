package worker

import (
	"errors"
	"fmt"
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
