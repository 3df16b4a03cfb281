package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/nn"
	"golang.org/x/sync/errgroup"
)

// Step runs forward and backward once on every device, whose inputs the caller has filled, and
// passes the gradients to the store as they become final. counts has the number of examples of each
// device, the first ones of its inputs, those with label -1 included. The weight of this worker in
// the mean is what its losses were divided by (nn.Program.LossWeight): the labels that count, or
// the examples where there are no labels; with 0 the worker takes part in the round and contributes
// nothing. A program whose loss would count the padding of a short batch refuses it before anything
// is done (see nn.Program.SetExamples). Where Accumulate has begun the step, Step takes its last
// micro-batch. Step returns when all gradients are final. Their exchange continues in the
// background, also when ctx has ended, and the next Step waits for the values that it needs.
//
// The loss is read from the programs (Program.Loss). After an error the Trainer can only be closed.
func (t *Trainer) Step(ctx context.Context, counts []int) error { return t.run(ctx, counts, closing) }

// run runs forward and backward on every device.
func (t *Trainer) run(ctx context.Context, counts []int, kind runKind) error {
	if err := t.devices.check(counts); err != nil {
		return fmt.Errorf("worker: step %d: %w", t.steps, err)
	}
	examples, err := t.devices.begin(counts, t.steps+uint64(t.sums.runs)<<runShift)
	if err != nil {
		return fmt.Errorf("worker: step %d: %w", t.steps, err)
	}
	begin := time.Now()
	t.final.begin()
	t.sums.prepare(kind)
	var waited time.Duration
	if len(t.devices.units) == 1 {
		waited, err = t.runOn(ctx, 0, kind)
	} else {
		waited, err = t.runOnAll(ctx, kind)
	}
	if err != nil {
		return err
	}
	counted := t.sums.amount.plus(t.devices.counted())
	t.newcomer = t.newcomer && examples == 0
	t.times.Wait += waited
	t.times.Compute += time.Since(begin) - waited
	if kind == accumulating {
		t.sums.accumulated(counted, t.devices)
		return nil
	}
	t.steps++
	t.sums.drop()
	if t.local != nil {
		t.local.stepped(counted)
	}
	return nil
}

// runShift makes the numbers of all runs different, by which dropout draws: the first run of a step
// has the step's own number.
const runShift = 40

// runOnAll makes a run on all units at the same time, and returns how long the forward pass of the
// first one waited for new values. It is a function of its own so that a run on one unit allocates
// nothing of it.
func (t *Trainer) runOnAll(ctx context.Context, kind runKind) (waited time.Duration, err error) {
	group, running := errgroup.WithContext(ctx)
	for u := range t.devices.units {
		group.Go(func() error {
			w, err := t.runOn(running, u, kind)
			if u == 0 {
				waited = w
			}
			return err
		})
	}
	return waited, group.Wait()
}

// runOn makes a run on one unit and returns how long its forward pass waited for new values. A
// failed wait ends it: the rest of the pass reads values that no trip may write any more.
func (t *Trainer) runOn(ctx context.Context, u int, kind runKind) (waited time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	keep := func(err error) {
		if err != nil && failed == nil {
			failed = err
			cancel()
			t.exchange.end(err)
		}
	}
	wait := func(i int) {
		if failed == nil {
			begin := time.Now()
			keep(t.exchange.wait(ctx, i))
			waited += time.Since(begin)
			if u == 0 && t.trace.on() {
				t.trace.waited(t.trace.recorder.At(begin), t.keys[i])
			}
		}
	}
	ready := func(i int) {
		if failed == nil {
			t.sums.take(u, i, t.devices.countedOn(u).weight, kind)
			keep(t.gradientReady(ctx, i, kind))
		}
	}
	unit, pass := &t.devices.units[u], &t.trace.passes[u]
	pass.started(t.devices.programs[unit.first])
	err = unit.step(ctx, wait, ready)
	pass.ended()
	if failed != nil {
		err = failed
	}
	if err != nil {
		return waited, fmt.Errorf("worker: step %d on device %d: %w", t.steps, unit.first, err)
	}
	return waited, nil
}

// gradientReady counts one more unit on which the gradient of parameter i is final. In a closing
// run the last unit submits it to the exchange.
func (t *Trainer) gradientReady(ctx context.Context, i int, kind runKind) error {
	t.final.mu.Lock()
	defer t.final.mu.Unlock()
	if !t.final.add(i) {
		return nil
	}
	if kind == accumulating {
		t.deliver()
		return nil
	}
	counted := t.sums.amount.plus(t.devices.counted())
	if l := t.local; l != nil {
		if err := l.update(t.steps, i, counted.weight); err != nil || !l.last() {
			return err
		}
		counted = counted.plus(l.amount)
		l.difference(i, counted.weight)
	}
	if t.final.phase == computing {
		if err := t.beginExchange(ctx, counted); err != nil {
			return err
		}
		t.deliver()
	}
	t.sums.push(i)
	t.exchange.submit(i)
	return nil
}

// beginExchange gives the pushes of the step under way their weight, when its first gradient is
// whole. The weight belongs to this step's pushes alone, so those of the last one must have left.
func (t *Trainer) beginExchange(ctx context.Context, counted amount) error {
	if _, err := t.exchange.flush(ctx); err != nil {
		return err
	}
	t.weigh(counted)
	t.round.Store(t.steps)
	if t.hooks.weighed != nil {
		t.hooks.weighed()
	}
	return nil
}

// deliver notes that the run's first gradient is whole. The caller holds the lock of final.
func (t *Trainer) deliver() {
	if t.final.phase == computing && t.hooks.gradient != nil {
		t.hooks.gradient()
	}
	t.final.phase = delivering
}

// weigh sets the weight and the examples of this worker's contributions, up to the next step. No
// exchange is under way.
func (t *Trainer) weigh(of amount) {
	t.contribution.makeAgreeing(of.examples)
	if t.plan != nil {
		options := t.contribution.step(of)
		options.Micro = t.sums.micro
		t.exchange.pusher = t.cfg.Store.Step(t.plan.nextStep(options, t.steps))
		return
	}
	t.contribution.weigh(of)
	t.norm.read(t.cfg.Store)
	t.exchange.pusher = t.contribution.plain
	if t.norm.due(t.steps, t.cfg.Store) {
		t.exchange.pusher, t.norm.phase = t.contribution.measuring, measured
	}
}

// clip clips the gradients of the step under way by their norm over all parameters, on the servers.
func (t *Trainer) clip(ctx context.Context) error {
	norm, err := t.cfg.Store.ClipGlobalNorm(ctx, t.keys...)
	if err != nil {
		return fmt.Errorf("worker: clip gradients: %w", err)
	}
	t.norm.global = norm
	return nil
}

// setPlan makes the next steps go by a plan, which needs the norms of runs and units; nil: none.
func (t *Trainer) setPlan(plan stepPlan) {
	t.plan, t.sums.measure = plan, plan != nil
}

// pulled runs after the store has sent parameter i's new value or, with UpdateOnWorker, its
// gradient. In a round of weight 0 there was nothing to learn from.
func (t *Trainer) pulled(i int) error {
	switch {
	case t.async():
		t.ages.add(t.cfg.Store.Staleness(t.keys[i]))
	case t.local != nil:
		copy(t.local.anchors[i], t.devices.params()[i].Value)
	case t.update != nil && t.cfg.Store.RoundWeight(t.keys[i]) > 0:
		if err := t.update.apply(t.round.Load(), i, 1); err != nil {
			return err
		}
	}
	if t.averages != nil {
		t.averages.update(t.round.Load(), i, t.devices.params()[i].Value)
	}
	return nil
}

// Flush waits until the new values of all parameters are there: before an evaluation, a checkpoint
// or the end.
func (t *Trainer) Flush(ctx context.Context) error {
	waited, err := t.exchange.flush(ctx)
	t.times.Wait += waited
	if t.trace.on() {
		t.trace.waited(t.trace.recorder.Now()-int64(waited), "")
	}
	return err
}

// setSteps says how many steps were done before, in a resumed run: schedules and dropout go by it.
func (t *Trainer) setSteps(steps uint64) {
	t.steps = steps
}

// Steps is the number of steps done, those before a resume included.
func (t *Trainer) Steps() uint64 { return t.steps }

// Close ends the background exchange: what was not flushed may be lost. It does not close the
// store.
func (t *Trainer) Close() error {
	t.exchange.close()
	return t.devices.close()
}

// Use makes the next runs with other programs, one for each device: of another batch size, with the
// parameters, gradients and running statistics of Config.Programs (nn.Config.Share). The caller
// closes them, after Use of others. GPUs that are joined keep their programs.
func (t *Trainer) Use(programs []*nn.Program) error {
	if err := t.devices.use(programs); err != nil {
		return fmt.Errorf("worker: use: %w", err)
	}
	return nil
}

// Accumulate runs forward and backward on a micro-batch, as Step does, and adds the gradients on
// this worker. Step follows with the last micro-batch of the step and pushes the sums. So a batch
// that the devices' memory does not hold is taken in several runs, and the update is that of one
// run over all their examples (but batch norm normalises over each micro-batch). counts is as for
// Step; the weight of the worker in the mean is the sum over the runs.
//
// It costs the memory of one more gradient on each device's host. After an error the Trainer can
// only be closed.
func (t *Trainer) Accumulate(ctx context.Context, counts []int) error {
	return t.run(ctx, counts, accumulating)
}

// DropAccumulated forgets the runs since the last Step.
func (t *Trainer) DropAccumulated() { t.sums.drop() }
