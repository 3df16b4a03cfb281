package worker

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Step runs forward and backward once on every device, whose inputs the caller has filled, and passes the gradients to the
// store as they become final. counts has the number of examples of each device, the first ones of its inputs (without rows of label
// -1). Their sum is the weight of this worker in the mean; with 0 the worker takes part in the round and contributes nothing. A program whose loss
// would count the padding of a short batch refuses it before anything is done (see nn.Program.SetExamples). Where
// Accumulate has begun the step, Step takes its last micro-batch. Step returns when all gradients are final. Their exchange continues in the background,
// also when ctx has ended, and the next Step waits for the values that it needs.
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
		program.SetGradScale(float32(n)) // the loss is a mean over the device's examples; the store wants sums
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
	counted := t.sums.examples + t.counted()
	t.fresh = t.fresh && examples == 0
	t.times.Wait += waited
	t.times.Compute += time.Since(begin) - waited
	if !last {
		t.sums.runs++
		t.sums.examples = counted
		for u := range t.units {
			t.sums.added[u] = t.sums.added[u] || t.unitExamples(u) > 0
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

// runShift makes the numbers of all runs different, by which dropout draws: the first run of a step has the step's own number.
const runShift = 40

// runOn makes a run on one unit and returns how long its forward pass waited for new values. A failed wait ends it.
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
			t.take(u, i, t.unitExamples(u), last)
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

// gradientReady counts the units on which the gradient of parameter i is final, and in the last run submits it with the last one.
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
	examples := t.sums.examples + t.counted()
	weight := uint64(examples)
	if l := t.local; l != nil {
		if err := l.update(t.steps, i, examples); err != nil || !l.last() {
			return err
		}
		weight += l.examples
		l.difference(i, weight)
	}
	if !t.begun {
		// The weight belongs to this step's pushes alone: those of the last one must have left.
		if _, err := t.exchange.flush(ctx); err != nil {
			return err
		}
		t.weigh(weight)
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

// counted is how many of a run's examples have a part in its gradients.
func (t *Trainer) counted() (examples int) {
	for u := range t.units {
		examples += t.unitExamples(u)
	}
	return examples
}

// pulled runs after the store has sent parameter i's new value or, with UpdateOnWorker, its gradient.
func (t *Trainer) pulled(i int) error {
	switch {
	case t.async():
		t.aged(i)
	case t.local != nil:
		copy(t.local.anchors[i], t.cfg.Programs[0].Params()[i].Value)
	case t.update != nil:
		return t.update.apply(t.round.Load(), i, 1)
	}
	return nil
}

// Flush waits until the new values of all parameters are there: before an evaluation, a checkpoint or the end.
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

// Close ends the background exchange: what was not flushed may be lost. It does not close the store.
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
