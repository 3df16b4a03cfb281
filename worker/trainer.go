package worker

import (
	"fmt"
	"sync/atomic"

	"github.com/paragon-train/paragon/kvstore"
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
