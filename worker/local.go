package worker

import (
	"fmt"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// localUpdate applies the optimizer on the worker. With Config.UpdateOnWorker the store hands back
// mean gradients (or sums), the same on every worker, so all workers compute the same values.
type localUpdate struct {
	optimizer *optim.Optimizer
	// factors and states are by parameter. All devices share device 0's state, since all have
	// the same values.
	factors  []optim.Factors
	states   []*optim.State
	programs []*nn.Program
}

func newLocalUpdate(cfg optim.Config, programs []*nn.Program) (*localUpdate, error) {
	optimizer, err := optim.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("worker: update on worker: %w", err)
	}
	u := &localUpdate{optimizer: optimizer, programs: programs}
	for _, p := range programs[0].Params() {
		u.factors = append(u.factors, optimizer.Factors(p.Name))
		u.states = append(u.states, optimizer.NewState(len(p.Value)))
	}
	return u, nil
}

// apply runs update number step, from 0, on parameter i of every device, by scale times the first
// device's gradient.
func (u *localUpdate) apply(step uint64, i int, scale float64) error {
	first := u.programs[0].Params()[i]
	pass := u.optimizer.At(step, scale, u.factors[i])
	if err := pass.Update(first.Value, first.Gradient, u.states[i]); err != nil {
		return fmt.Errorf("worker: update %s: %w", first.Name, err)
	}
	for _, program := range u.programs[1:] {
		copy(program.Params()[i].Value, first.Value)
	}
	return nil
}
