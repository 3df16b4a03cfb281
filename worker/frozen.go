package worker

import (
	"context"
	"fmt"
)

// otherFreeze is what to do where a checkpoint has not what this run needs.
const otherFreeze = "a run resumes with the model and the frozen parameters (nn.Config.Freeze) that it had; to train others from its values, begin a new run with ImportPart"

// initFrozen gives what nn.Config.Freeze leaves as it is a place on the servers: rank 0's values
// count, and all devices get them. The keys are those of averages, so no optimizer touches them,
// with its weight decay neither; nobody pushes to them.
func (t *Trainer) initFrozen(ctx context.Context) error {
	for i, p := range t.cfg.Programs[0].Frozen() {
		if err := t.cfg.Store.InitAverage(ctx, p.Name, p.Value); err != nil {
			return fmt.Errorf("worker: init %s, which is frozen: %w", p.Name, err)
		}
		if err := t.cfg.Store.SetShape(p.Name, p.Shape...); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		if err := t.cfg.Store.Pull(ctx, p.Name, t.devices.frozenValues(i)...); err != nil {
			return fmt.Errorf("worker: pull first value of %s: %w", p.Name, err)
		}
	}
	return nil
}

// pullFrozen brings the servers' values to all devices: after a load, and on a worker that has
// joined.
func (t *Trainer) pullFrozen(ctx context.Context) error {
	for i, p := range t.cfg.Programs[0].Frozen() {
		if err := t.cfg.Store.Pull(ctx, p.Name, t.devices.frozenValues(i)...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", p.Name, err)
		}
	}
	return nil
}
