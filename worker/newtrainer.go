package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// NewTrainer sets the optimizer and compression, gives every parameter its first value (rank 0's
// counts) and copies it to all devices. Every worker calls it, also one that joins a running job:
// it gets the job's values.
func NewTrainer(ctx context.Context, cfg Config) (*Trainer, error) {
	t, err := newTrainer(ctx, cfg)
	// Other workers have other settings.
	for _, refused := range []error{kvstore.ErrConflict, kvstore.ErrDuplicateInit, kvstore.ErrSize, kvstore.ErrUnsupported} {
		if errors.Is(err, refused) {
			err = exitreport.Final(exitreport.Usage, err)
		}
	}
	if errors.Is(err, kvstore.ErrFinal) {
		err = kvstore.Final(err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newTrainer is NewTrainer without telling launch of an error.
func newTrainer(ctx context.Context, cfg Config) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, exitreport.Final(exitreport.Usage, err)
	}
	cfg.complete()
	cfg.warn()
	devices, err := newDevices(cfg.Programs, cfg.Logger)
	if err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg, devices: devices, contribution: contribution{store: cfg.Store}}
	for _, p := range devices.params() {
		t.keys = append(t.keys, p.Name)
	}
	t.final = newFinalGradients(len(devices.units), len(t.keys))
	t.sums = newAccumulator(devices.units, t.keys)
	t.trace = newStepTrace(traceOf(cfg.Store), devices.units)
	if err := t.enterStore(ctx); err != nil {
		return nil, errors.Join(err, devices.close())
	}
	cfg.Logger.Info("trainer ready", "store", cfg.Store.Type(), "rank", cfg.Store.Rank(), "workers", cfg.Store.NumWorkers(), "devices", len(cfg.Programs), "parameters", len(t.keys), "divides", t.Divides())
	return t, nil
}

// enterStore makes the keys of the model, whose values come to all devices, and begins the
// exchange.
func (t *Trainer) enterStore(ctx context.Context) error {
	if err := t.chooseUpdates(ctx); err != nil {
		return err
	}
	if c := t.cfg.Compression; c != (kvstore.Compression{}) {
		if err := t.cfg.Store.SetCompression(ctx, c); err != nil {
			return fmt.Errorf("worker: set compression %v: %w", c, err)
		}
	}
	for i, p := range t.devices.params() {
		if err := t.initParam(ctx, i, p); err != nil {
			return err
		}
	}
	if err := t.initState(ctx); err != nil {
		return err
	}
	if err := t.initFrozen(ctx); err != nil {
		return err
	}
	t.norm = newGradientNorm(t.keys, t.update == nil && normIsCheap(t.cfg.Optimizer))
	grads, outs := t.exchanged()
	var clip func(context.Context) error
	if t.norm.clips = t.cfg.clips(); t.norm.clips {
		clip = t.clip
	}
	t.exchange = newExchange(ctx, t.cfg.Store, t.keys, grads, outs, t.pulled, clip)
	return nil
}

// chooseUpdates lets the servers or this worker apply the optimizer.
func (t *Trainer) chooseUpdates(ctx context.Context) (err error) {
	switch {
	case t.cfg.Store.LocalSteps() > 0:
		return t.beginLocalSteps(ctx)
	case t.cfg.UpdateOnWorker:
		t.update, err = newLocalUpdate(t.cfg.Optimizer, t.devices.holders())
		return err
	}
	if err := t.cfg.Store.SetOptimizer(ctx, t.cfg.Optimizer); err != nil {
		return fmt.Errorf("worker: set optimizer %s: %w", t.cfg.Optimizer.Name, err)
	}
	return nil
}

// initParam makes the key of parameter i, and brings its first value to all units.
func (t *Trainer) initParam(ctx context.Context, i int, p nn.Param) error {
	initialise := t.cfg.Store.Init
	if t.cfg.UpdateOnWorker && t.cfg.Optimizer.Reduction == optim.Mean {
		// Without an optimizer the servers replace a key's value by the sum of
		// contributions, for a mean over the sum of weights.
		initialise = t.cfg.Store.InitAverage
	}
	if err := initialise(ctx, p.Name, p.Value); err != nil {
		return fmt.Errorf("worker: init %s: %w", p.Name, err)
	}
	if err := t.cfg.Store.SetShape(p.Name, p.Shape...); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	var values [][]float32
	for _, program := range t.devices.holders() {
		values = append(values, program.Params()[i].Value)
	}
	if err := t.cfg.Store.Pull(ctx, p.Name, values...); err != nil {
		return fmt.Errorf("worker: pull first value of %s: %w", p.Name, err)
	}
	if t.local != nil {
		copy(t.local.anchors[i], p.Value)
	}
	return nil
}

// exchanged are the arrays that a step pushes and those that it pulls into, by parameter and unit.
// With UpdateOnWorker the mean gradient comes back in place of the sum that was pushed. With local
// steps the units have one difference together.
func (t *Trainer) exchanged() (grads, outs [][][]float32) {
	grads, outs = make([][][]float32, len(t.keys)), make([][][]float32, len(t.keys))
	for i := range t.keys {
		for _, program := range t.devices.holders() {
			own := program.Params()[i]
			grads[i] = append(grads[i], own.Gradient)
			outs[i] = append(outs[i], own.Value)
		}
		switch {
		case t.local != nil:
			grads[i] = grads[i][:1]
		case t.cfg.UpdateOnWorker:
			outs[i] = grads[i]
		}
	}
	return grads, outs
}
