package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Declare asks the scheduler for the plan of a key. It fills in Generation and Node.
func (n *Node) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	var plan wire.KeyPlan
	for {
		d.Generation, d.Node = uint64(n.Generation()), uint64(n.id)
		_, err := n.ask(ctx, 0, &d, &plan, true)
		if n.isStale(err, d.Generation) {
			err = n.awaitNewer(ctx, d.Generation)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return wire.KeyPlan{}, fmt.Errorf("cluster: declare key %q: %w", d.Name, explainRemoval(err))
		}
		return plan, nil
	}
}

// Barrier returns when every worker has called it with the same name. A name is used once in a job.
// Waits of more than a few seconds are logged with the names of the workers that have not called
// it. If the membership changes meanwhile, it waits for the new members.
func (n *Node) Barrier(ctx context.Context, name string) error {
	return n.waitAtScheduler(ctx, fmt.Sprintf("barrier %q", name), &wire.Ack{}, func(generation uint64, wait uint32) wire.Message {
		return &wire.Barrier{Generation: generation, Node: uint64(n.id), WaitMillis: wait, Name: name}
	})
}

// Signal ends all present and future Awaits of this name, which return the value. The first signal
// of a name counts.
func (n *Node) Signal(ctx context.Context, name, value string) error {
	if _, err := n.ask(ctx, 0, &wire.Signal{Node: uint64(n.id), Name: name, Value: value}, &wire.Ack{}, true); err != nil {
		return fmt.Errorf("cluster: signal %q: %w", name, err)
	}
	return nil
}

// Await returns the value of a name when some node has signalled it.
func (n *Node) Await(ctx context.Context, name string) (value string, err error) {
	var signalled wire.Signalled
	err = n.waitAtScheduler(ctx, fmt.Sprintf("await %q", name), &signalled, func(_ uint64, wait uint32) wire.Message {
		return &wire.Await{Node: uint64(n.id), WaitMillis: wait, Name: name}
	})
	return signalled.Value, err
}

// waitAtScheduler repeats a request that the scheduler answers when other nodes have done
// something, and logs whom it waits for. Each attempt carries the newest generation.
func (n *Node) waitAtScheduler(ctx context.Context, what string, answer wire.Message, request func(generation uint64, wait uint32) wire.Message) error {
	missing := ""
	for {
		generation := uint64(n.Generation())
		text, err := n.ask(ctx, logEvery, request(generation, uint32(logEvery/time.Millisecond)), answer, true)
		if n.isStale(err, generation) {
			if err = n.awaitNewer(ctx, generation); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return nil
		case text != "" && ctx.Err() == nil:
			missing = text
			n.cfg.Logger.Info("waiting at "+missing, joblog.Waiting.With("waiting_for", missing))
		case ctx.Err() != nil && missing != "":
			return fmt.Errorf("cluster: %s: %w (%s)", what, err, missing)
		default:
			return fmt.Errorf("cluster: %s: %w", what, err)
		}
	}
}

// isStale reports whether the scheduler refused a request because its generation is old.
func (n *Node) isStale(err error, generation uint64) bool {
	var refusal *transport.Refusal
	return errors.As(err, &refusal) && refusal.Code == wire.CodeStaleGeneration && refusal.Generation > generation
}

// awaitNewer waits until the node knows a newer generation.
func (n *Node) awaitNewer(ctx context.Context, generation uint64) error {
	return n.awaitMembership(ctx, func(m *wire.Membership) bool { return m.Generation > generation })
}

// awaitMembership waits until the membership satisfies ok.
func (n *Node) awaitMembership(ctx context.Context, ok func(*wire.Membership) bool) error {
	for {
		changed := n.Changed()
		if m := n.Membership(); ok(&m) {
			return nil
		}
		select {
		case <-changed:
		case <-n.life.done:
			return n.life.over()
		case <-ctx.Done():
			return fmt.Errorf("wait for a newer membership: %w", ctx.Err())
		}
	}
}

// ask repeats a request to the scheduler, which may be unreachable for a while, until it is
// answered, ctx ends or (alive) the node ends. An attempt may take wait, which the request asks
// for, and askTimeout. For a CodeTimeout it also returns the refusal's text, which says whom the
// scheduler waits for.
func (n *Node) ask(ctx context.Context, wait time.Duration, request, answer wire.Message, alive bool) (timeout string, err error) {
	var over <-chan struct{}
	if alive {
		over = n.life.ctx.Done()
	}
	begun, said := time.Now(), time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err = n.attempt(ctx, wait, request, answer, alive)
		var refusal *transport.Refusal
		switch {
		case err == nil:
			return "", nil
		case alive && n.life.ctx.Err() != nil:
			return "", n.life.over()
		case errors.As(err, &refusal):
			return n.refused(ctx, refusal, err, alive)
		case ctx.Err() != nil:
			return "", err
		case !errors.Is(err, transport.ErrConnection) && !errors.Is(err, context.DeadlineExceeded):
			return "", err
		}
		if time.Since(said) >= logEvery {
			said = time.Now()
			n.cfg.Logger.Info(fmt.Sprintf("waiting for the scheduler at %s (%d s)", n.cfg.Scheduler, int(time.Since(begun).Seconds())), "err", err,
				joblog.SchedulerUnreachable.With("silent", time.Since(begun)))
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return "", fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-over:
			t.Stop()
			return "", n.life.over()
		}
	}
}

// attempt makes one attempt of ask.
func (n *Node) attempt(ctx context.Context, wait time.Duration, request, answer wire.Message, alive bool) error {
	attempt, cancel := context.WithTimeout(ctx, wait+askTimeout)
	defer cancel()
	if alive {
		defer context.AfterFunc(n.life.ctx, cancel)()
	}
	_, err := n.sched.Call(attempt, request, answer, nil)
	return err
}

// refused is the result of ask when the scheduler has refused the request.
func (n *Node) refused(ctx context.Context, refusal *transport.Refusal, err error, alive bool) (timeout string, _ error) {
	switch {
	case refusal.Code == wire.CodeTimeout:
		return refusal.Text, err
	case refusal.Code == wire.CodeUnknownNode && alive:
		// The next heartbeat would be refused the same way.
		n.end(&LostError{refusal.Text})
		return "", n.life.over()
	case refusal.Code == wire.CodeUnavailable && alive:
		// The job has ended, and watch will learn how.
		return "", n.awaitEnd(ctx, err)
	}
	return "", err
}

// awaitEnd waits a second for watch to learn how the job ended, and returns that, or known.
func (n *Node) awaitEnd(ctx context.Context, known error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-n.life.done:
		return n.life.over()
	case <-t.C:
	case <-ctx.Done():
	}
	return known
}
