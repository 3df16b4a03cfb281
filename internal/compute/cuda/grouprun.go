package cuda

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// Run takes a step on all members: as Executor.Run, but a parameter is waited for once and its
// gradient ready once, the sum over the members in the first one's memory. Of Float16 a gradient
// that is not finite on one member makes the step count for nothing on all. After an error of a GPU
// or of what joins them the group is of no more use, and neither may the executors be.
func (g *Group) Run(ctx context.Context, hooks plan.Hooks) error {
	switch {
	case g.closed:
		return errors.New("cuda: run on a group: it is closed")
	case g.failed != nil:
		return fmt.Errorf("cuda: run on %v: an earlier error has made it unusable: %w", g, g.failed)
	}
	for _, e := range g.members {
		if e.failed != nil {
			return fmt.Errorf("cuda: run on %v: an earlier error has made %s unusable: %w", g, e.gpu.Name(), e.failed)
		}
		if err := e.inputs.take(e.examples); err != nil {
			return fmt.Errorf("%s: %w", e.gpu.Name(), err)
		}
	}
	fresh := g.schedules
	if err := g.prepare(); err != nil {
		return fmt.Errorf("cuda: run on %v: %w", g, err)
	}
	if len(fresh) == 0 || &fresh[0] != &g.schedules[0] {
		if err := g.prepareLink(); err != nil {
			return fmt.Errorf("cuda: run on %v: %w", g, err)
		}
	}
	watch := g.watchExchange()
	err := g.launch(ctx, hooks, watch)
	if err == nil {
		err = g.collect(ctx, hooks, watch)
	}
	watch.end()
	if err != nil {
		return fmt.Errorf("cuda: run on %v: %w", g, g.breakOff(err))
	}
	for _, e := range g.members {
		e.store.step++
		e.fresh.took(e.schedules.full)
	}
	return nil
}

// stopped is an error of the caller's: the devices are well.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// launch gives all of a step to the devices, segment by segment, so that each exchange is asked of
// all.
func (g *Group) launch(ctx context.Context, hooks plan.Hooks, watch *exchangeWatch) error {
	if err := g.link.err(); err != nil {
		return err
	}
	err := onAll(g.ranks, func(i int) error {
		e := g.members[i]
		seed, factor := e.factors()
		return e.begin(true, seed, factor)
	})
	if err != nil {
		return err
	}
	segments := g.schedules[0].segments
	for k, s := range segments {
		if hooks.Wait != nil {
			for _, n := range s.waits {
				hooks.Wait(n)
			}
		}
		if err := ctx.Err(); err != nil {
			return stopped{fmt.Errorf("stopped before segment %d of %d: %w", k, len(segments), err)}
		}
		watch.calls(true)
		err := g.launchSegment(k)
		watch.calls(false)
		if broken := watch.saw(); broken != nil {
			// What the call says is a consequence of it.
			err = broken
		}
		if err != nil {
			return fmt.Errorf("segment %d of %d: %w", k, len(segments), err)
		}
	}
	return nil
}

// launchSegment puts a segment on all ranks: its parameters, gathered from the ranks' parts where
// the link can, its ops, and the sum of its gradients. A gather comes between all ranks' parts and
// any rank's ops, so it divides the ranks' work in two.
func (g *Group) launchSegment(k int) error {
	x := &g.exchanges[k]
	gathers := len(x.gathered) > 0 && g.link.gathers()
	err := onAll(g.ranks, func(i int) error {
		if err := g.bring(k, i, gathers); err != nil || gathers {
			return err
		}
		return g.compute(k, i)
	})
	if err == nil && gathers {
		if err = g.link.gather(x.gathered); err == nil {
			err = onAll(g.ranks, func(i int) error { return g.compute(k, i) })
		}
	}
	if err == nil && len(x.reduced) > 0 {
		err = g.link.reduce(x.reduced)
	}
	if err != nil {
		return err
	}
	return onAll(g.ranks, func(i int) error { return g.take(k, i) })
}

// bring copies a rank's part of a segment's parameters, or all of them, to it.
func (g *Group) bring(k, i int, part bool) error {
	r, spans := g.ranks[i], g.schedules[i].segments[k].up
	if part {
		spans = g.exchanges[k].up[i]
	}
	for _, p := range spans {
		if err := p.up(r.up); err != nil {
			return err
		}
	}
	if k > 0 && len(spans) == 0 {
		return nil
	}
	return order(r.context, r.up, r.event, r.stream)
}

// compute launches a segment's work behind what has come for it.
func (g *Group) compute(k, i int) error {
	e, r, s := g.members[i], g.ranks[i], g.schedules[i].segments[k]
	if s.packs != nil {
		if err := r.kernels.Pack(r.stream, s.packs); err != nil {
			return err
		}
	}
	if k == 0 || len(s.up) > 0 {
		if err := order(r.context, r.stream, s.arrived, r.GPU.compute); err != nil {
			return err
		}
	}
	if err := e.work(s); err != nil {
		return err
	}
	if err := order(r.context, r.GPU.compute, s.computed, r.down); err != nil || len(s.down) == 0 {
		return err
	}
	return r.context.WaitEvent(r.stream, s.computed)
}

// take copies a rank's part of a segment's sums, and its own results, to the host.
func (g *Group) take(k, i int) error {
	e, r, s := g.members[i], g.ranks[i], g.schedules[i].segments[k]
	if len(s.down) > 0 {
		if err := order(r.context, r.stream, r.event, r.down); err != nil {
			return err
		}
		for _, p := range g.exchanges[k].down[i] {
			if err := p.down(r.down); err != nil {
				return err
			}
		}
	}
	if k == g.schedules[i].outputs {
		if err := e.outputsDown(); err != nil {
			return err
		}
	}
	if e.scaler.on && k == len(g.exchanges)-1 {
		if err := e.numbers.foundDown(r.down); err != nil {
			return err
		}
	}
	return r.context.Record(s.left, r.down)
}

// collect waits for the sums, and hands them to the hooks.
func (g *Group) collect(ctx context.Context, hooks plan.Hooks, watch *exchangeWatch) error {
	first, segments := g.members[0], g.schedules[0].segments

	// No gradient is handed out before all are known to be finite.
	held := first.scaler.on
	from := 0
	for k, s := range segments {
		last := k == len(segments)-1
		if !last && (held || len(s.ready) == 0) {
			continue
		}
		err := g.wait(k)
		if broken := watch.saw(); broken != nil {
			// What was broken off counts as done for the GPUs.
			err = broken
		}
		if err != nil {
			return fmt.Errorf("segment %d of %d: %w", k, len(segments), err)
		}
		if last {
			g.landed()
		}
		for ; from <= k; from++ {
			for _, parts := range g.exchanges[from].down {
				for _, p := range parts {
					p.landed()
				}
			}
		}
		done := segments[k : k+1]
		if held {
			done = segments
		}
		for _, s := range done {
			if err := first.hand(ctx, s, hooks); err != nil {
				return stopped{err}
			}
		}
	}
	return nil
}

// landed takes over the members' own results.
func (g *Group) landed() {
	finite := true
	for _, e := range g.members {
		e.store.statesLanded()
		finite = finite && !(e.scaler.on && e.numbers.wasFound())
	}
	for _, e := range g.members {
		if e.scaler.on {
			e.scaler.stepped(finite)
		}
	}
}

// wait returns when segment k has left all devices. One that fails may leave others waiting for it:
// their exchange is broken off.
func (g *Group) wait(k int) error {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(g.members))
	for i, e := range g.members {
		go func() { answers <- answer{i, e.watch.wait(g.schedules[i].segments[k].left, e.cfg.Timeout)} }()
	}
	var first error
	for range g.members {
		a := <-answers
		if a.err == nil || first != nil {
			continue
		}
		first = fmt.Errorf("%s: %w", g.members[a.i].gpu.Name(), a.err)
		g.fail(first)
	}

	// It hangs perhaps in an exchange, which is broken off now.
	if errors.Is(first, errHangs) {
		for _, e := range g.members {
			e.watch.again(abortLimit)
		}
	}
	return first
}

// fail gives the group up.
func (g *Group) fail(err error) {
	if g.failed != nil {
		return
	}
	g.failed = err
	if broken := within(abortLimit, g.link.abort); broken != nil {
		g.failed = errors.Join(err, broken)
	}
}

// breakOff waits until the devices are at rest after an error.
func (g *Group) breakOff(err error) error {
	var caller stopped
	if !errors.As(err, &caller) {
		g.fail(err)
	}
	err = g.drain(err)
	if g.failed == nil {
		for _, e := range g.members {
			if e.failed != nil {
				g.fail(e.failed)
			}
		}
	}
	return err
}

// drain is each member's, together with the stream between the GPUs.
func (g *Group) drain(err error) error {
	lost := make([]error, len(g.members))
	done := make(chan struct{}, len(g.members))
	for i, e := range g.members {
		go func() {
			defer func() { done <- struct{}{} }()
			r := g.ranks[i]
			if lost[i] = r.context.Do(func() error { return order(r.context, r.stream, r.event, r.down) }); lost[i] == nil {
				lost[i] = e.drain()
			}
		}()
	}
	for range g.members {
		<-done
	}
	for i, e := range g.members {
		if lost[i] == nil {
			continue
		}
		e.gpu.noteLoss(lost[i])
		if e.failed = lost[i]; !errors.Is(err, lost[i]) {
			err = errors.Join(err, fmt.Errorf("%s: %w", e.gpu.Name(), lost[i]))
		}
	}
	return err
}
