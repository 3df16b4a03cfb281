package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// A Trainer runs training steps of one worker. Its methods are called by one goroutine at a time.
//
// A step passes through its parts in this order: devices compute, final finds out which gradients
// are whole, sums adds up the runs of the step, contribution weighs what is pushed, and exchange
// pushes it and pulls the new values, behind the compute of the other layers. The hooks of the
// devices and the pulls run on other goroutines. What they share has its own lock.
type Trainer struct {
	cfg Config
	// keys are the parameters' names. A number i of a parameter is its place in keys.
	keys     []string
	devices  *devices
	exchange *exchange

	// update applies the optimizer on this worker, with UpdateOnWorker or local steps. It is
	// nil where the servers do, and local is nil without local steps.
	update *localUpdate
	local  *localSteps
	// plan gives each step its own learning rate. It is nil where all have the configured one.
	plan stepPlan
	// averages are those of FitConfig.EMA, or nil.
	averages *averages

	final        finalGradients
	sums         accumulator
	contribution contribution
	norm         gradientNorm
	hooks        stepHooks
	ages         ages
	caught       caughtCount
	trace        stepTrace
	times        Times

	// steps counts the steps done. round is the step whose gradients are exchanged, which pulls
	// read on their goroutines: it follows steps when the exchanges of the step before are
	// over.
	steps uint64
	round atomic.Uint64
	// newcomer says that this worker came to a running job and has used no example yet, so that
	// its running statistics are not its own.
	newcomer bool
	// fitted says that Fit was called: a second run would begin with the first one's rounds.
	fitted bool
}

// A stepPlan says what the contributions of a step have in common, where that changes from step to
// step.
type stepPlan interface {
	// nextStep completes what the store is told of the step after so many steps. All exchanges
	// of those have returned.
	nextStep(options kvstore.PushOptions, steps uint64) kvstore.PushOptions
	// learningRate is that of the newest step.
	learningRate() float64
	// gradientNorm is the norm of the mean gradient of the newest step that was measured, once.
	gradientNorm() float64
}

// stepHooks are called at most once each time. Any may be nil.
type stepHooks struct {
	// weighed is called in a step, when the store has the weight of its gradients.
	weighed func()
	// gradient is called in a run, when its first gradient is whole.
	gradient func()
}

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
	t.exchange = newExchange(ctx, t.cfg.Store, t.keys, grads, outs, t.pulled)
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

// Divides says in words what the sum of gradients is divided by.
func (t *Trainer) Divides() string {
	if t.local != nil {
		return fmt.Sprintf("the change of each worker's values over %d local steps, weighted by its labels or examples and summed over workers, by the number of all of these; in a local step, the sum of the worker's own gradients by the number of its own", t.local.length)
	}
	if t.cfg.Optimizer.Reduction == optim.Mean {
		return "the sum of gradients over all workers by the number of all labels that count or, of losses without labels, of all examples"
	}
	return "nothing: the sum of gradients over all workers goes to the optimizer"
}

// async reports whether the store applies each worker's push by itself, so that workers have no
// step in common.
func (t *Trainer) async() bool { return t.cfg.Store.Type() == asyncStore }

// asyncStore is the type of a store without rounds.
const asyncStore = "dist_async"
