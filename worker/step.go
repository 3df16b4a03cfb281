package worker

import (
	"context"
	"fmt"
	"time"

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
func (t *Trainer) Step(ctx context.Context, counts []int) error { return t.run(ctx, counts, true) }

// run runs forward and backward; last: it ends the step.
func (t *Trainer) run(ctx context.Context, counts []int, last bool) error {
	if err := t.checkCounts(counts); err != nil {
		return err
	}
	examples := 0
	t.counts = counts
	for d, n := range counts {
		program := t.programs[d]
		if err := program.SetExamples(n); err != nil {
			return fmt.Errorf("worker: step %d: device %d: %w", t.steps, d, err)
		}
		t.weights[d] = program.LossWeight()
		program.SetGradScale(float32(t.weights[d])) // the loss is a mean over the device's labels or examples; the store wants sums
		program.SetStep(t.steps + uint64(t.sums.runs)<<runShift)
		examples += n
	}
	begin := time.Now()
	t.begun = false
	clear(t.ready)
	t.sums.prepare(t, last)
	var waited time.Duration
	var err error
	if len(t.units) == 1 {
		waited, err = t.runOn(ctx, 0, last)
	} else {
		group, ctx := errgroup.WithContext(ctx)
		for u := range t.units {
			group.Go(func() error {
				w, err := t.runOn(ctx, u, last)
				if u == 0 {
					waited = w
				}
				return err
			})
		}
		err = group.Wait()
	}
	if err != nil {
		return err
	}
	counted := t.sums.amount.plus(t.counted())
	t.fresh = t.fresh && examples == 0
	t.times.Wait += waited
	t.times.Compute += time.Since(begin) - waited
	if !last {
		t.sums.runs++
		t.sums.amount = counted
		for u := range t.units {
			t.sums.added[u] = t.sums.added[u] || t.unitTally(u).weight > 0
		}
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

// runOn makes a run on one unit and returns how long its forward pass waited for new values. A
// failed wait ends it.
func (t *Trainer) runOn(ctx context.Context, u int, last bool) (waited time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	keep := func(err error) {
		if err != nil && failed == nil {
			failed = err
			cancel()
			t.exchange.end(err) // the rest of the pass reads values that no trip may write any more
		}
	}
	wait := func(i int) {
		if failed == nil {
			begin := time.Now()
			keep(t.exchange.wait(ctx, i))
			waited += time.Since(begin)
			if u == 0 && t.trace.On() {
				t.waited(t.trace.At(begin), i)
			}
		}
	}
	ready := func(i int) {
		if failed == nil {
			t.take(u, i, t.unitTally(u).weight, last)
			keep(t.gradientReady(ctx, i, last))
		}
	}
	pass := &t.passes[u]
	pass.started(t.programs[t.units[u].first])
	err = t.units[u].step(ctx, wait, ready)
	pass.ended()
	if failed != nil {
		err = failed
	}
	if err != nil {
		return waited, fmt.Errorf("worker: step %d on device %d: %w", t.steps, t.units[u].first, err)
	}
	return waited, nil
}

// gradientReady counts the units on which the gradient of parameter i is final, and in the last run
// submits it with the last one.
func (t *Trainer) gradientReady(ctx context.Context, i int, last bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready[i]++; t.ready[i] < len(t.units) {
		return nil
	}
	if !last {
		t.began()
		return nil
	}
	counted := t.sums.amount.plus(t.counted())
	if l := t.local; l != nil {
		if err := l.update(t.steps, i, counted.weight); err != nil || !l.last() {
			return err
		}
		counted = counted.plus(l.amount)
		l.difference(i, counted.weight)
	}
	if !t.begun {
		// The weight belongs to this step's pushes alone: those of the last one must have
		// left.
		if _, err := t.exchange.flush(ctx); err != nil {
			return err
		}
		t.weigh(counted)
		t.round.Store(t.steps)
		if t.onWeight != nil {
			t.onWeight()
		}
		t.began()
	}
	t.micro[i] = t.sums.micro(i)
	t.exchange.submit(i)
	return nil
}

// began tells that the run's first gradient is there.
func (t *Trainer) began() {
	if !t.begun && t.onGradient != nil {
		t.onGradient()
	}
	t.begun = true
}

// An amount is of what gradients are the sum: some examples, and what they weigh in a mean, which
// is the number of their labels that count, or theirs. With several labels for an example the
// weight may be far the larger one; with labels that are ignored the smaller.
//
// With weights of classes it is the sum of those of the labels.
type amount struct {
	examples int
	weight   float64
}

func (a amount) plus(b amount) amount { return amount{a.examples + b.examples, a.weight + b.weight} }

// counted is what of a run has a part in its gradients.
func (t *Trainer) counted() (sum amount) {
	for u := range t.units {
		sum = sum.plus(t.unitTally(u))
	}
	return sum
}

// pulled runs after the store has sent parameter i's new value or, with UpdateOnWorker, its
// gradient.
func (t *Trainer) pulled(i int) error {
	switch {
	case t.async():
		t.aged(i)
	case t.local != nil:
		copy(t.local.anchors[i], t.cfg.Programs[0].Params()[i].Value)
	case t.update != nil && t.cfg.Store.RoundWeight(t.keys[i]) > 0: // else there is nothing to learn from
		if err := t.update.apply(t.round.Load(), i, 1); err != nil {
			return err
		}
	}
	if t.averages != nil {
		t.averages.update(t.round.Load(), i, t.cfg.Programs[0].Params()[i].Value)
	}
	return nil
}

// Flush waits until the new values of all parameters are there: before an evaluation, a checkpoint
// or the end.
func (t *Trainer) Flush(ctx context.Context) error {
	waited, err := t.exchange.flush(ctx)
	t.times.Wait += waited
	if t.trace.On() {
		t.waited(t.trace.Now()-int64(waited), -1)
	}
	return err
}

// setSteps says how many steps were done before, in a resumed run: schedules and dropout go by it.
func (t *Trainer) setSteps(steps uint64) {
	t.steps = steps
}

// Steps is the number of steps done, those before a resume included.
func (t *Trainer) Steps() uint64 { return t.steps }

// TakeTimes returns where the time of the steps since the last call went.
func (t *Trainer) TakeTimes() Times {
	times := t.times
	t.times = Times{}
	return times
}

// Close ends the background exchange: what was not flushed may be lost. It does not close the
// store.
func (t *Trainer) Close() error {
	t.exchange.close()
	return t.closeGroup()
}

func (t *Trainer) closeGroup() error {
	if t.group == nil {
		return nil
	}
	return t.group.Close()
}
