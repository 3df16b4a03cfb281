package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// askTimeout is how long one attempt may take beyond the wait that the request asks for.
const askTimeout = 5 * time.Second

// Declare asks for the plan of a key. Generation and Node are filled in.
func (n *Node) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	var plan wire.KeyPlan
	for {
		d.Generation, d.Node = uint64(n.Generation()), uint64(n.id)
		_, err := n.ask(ctx, 0, &d, &plan, true)
		if n.stale(err, d.Generation) {
			err = n.newer(ctx, d.Generation)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return wire.KeyPlan{}, fmt.Errorf("cluster: declare key %q: %w", d.Name, asRemoved(err))
		}
		return plan, nil
	}
}

// Barrier returns when every worker that counts has called it with the same name. A name is used once in a job. Waits of some
// seconds are logged with the names of those who are not there yet. It goes on when the membership changes: over those who
// count then.
func (n *Node) Barrier(ctx context.Context, name string) error {
	return n.meet(ctx, fmt.Sprintf("barrier %q", name), &wire.Ack{}, func(generation uint64, wait uint32) wire.Message {
		return &wire.Barrier{Generation: generation, Node: uint64(n.id), WaitMillis: wait, Name: name}
	})
}

// Signal marks a name as happened.
func (n *Node) Signal(ctx context.Context, name string) error {
	if _, err := n.ask(ctx, 0, &wire.Signal{Node: uint64(n.id), Name: name}, &wire.Ack{}, true); err != nil {
		return fmt.Errorf("cluster: signal %q: %w", name, err)
	}
	return nil
}

// Await returns once the name was signalled.
func (n *Node) Await(ctx context.Context, name string) error {
	return n.meet(ctx, fmt.Sprintf("await %q", name), &wire.Ack{}, func(_ uint64, wait uint32) wire.Message {
		return &wire.Await{Node: uint64(n.id), WaitMillis: wait, Name: name}
	})
}

// meet repeats a request that the scheduler answers when others have done their part, and logs whom it waits for. Each attempt
// is made for the newest generation.
func (n *Node) meet(ctx context.Context, what string, answer *wire.Ack, request func(generation uint64, wait uint32) wire.Message) error {
	missing := ""
	for {
		generation := uint64(n.Generation())
		text, err := n.ask(ctx, sayAfter, request(generation, uint32(sayAfter/time.Millisecond)), answer, true)
		if n.stale(err, generation) {
			if err = n.newer(ctx, generation); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return nil
		case text != "" && ctx.Err() == nil:
			missing = text
			n.cfg.Logger.Info("waiting at " + missing)
		case ctx.Err() != nil && missing != "":
			return fmt.Errorf("cluster: %s: %w (%s)", what, err, missing)
		default:
			return fmt.Errorf("cluster: %s: %w", what, err)
		}
	}
}

// stale says that the scheduler refused a request since it was made for a generation that has passed.
func (n *Node) stale(err error, generation uint64) bool {
	var refusal *transport.Refusal
	return errors.As(err, &refusal) && refusal.Code == wire.CodeStaleGeneration && refusal.Generation > generation
}

// newer waits until the node knows a newer generation.
func (n *Node) newer(ctx context.Context, generation uint64) error {
	return n.until(ctx, func(m *wire.Membership) bool { return m.Generation > generation })
}

// until waits until the membership is as wanted.
func (n *Node) until(ctx context.Context, ok func(*wire.Membership) bool) error {
	for {
		changed := n.Changed()
		if m := n.Membership(); ok(&m) {
			return nil
		}
		select {
		case <-changed:
		case <-n.done:
			return n.why()
		case <-ctx.Done():
			return fmt.Errorf("wait for the news of the membership: %w", ctx.Err())
		}
	}
}

// ask sends a request to the scheduler until it is answered, ctx ends or (alive) the node does; the scheduler may be out
// of reach for a while. An attempt may take the wait that the request asks for and a little more. Of a CodeTimeout the text
// is returned, too.
func (n *Node) ask(ctx context.Context, wait time.Duration, request, answer wire.Message, alive bool) (timeout string, err error) {
	if alive {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(n.ctx, cancel)()
	}
	begun, said := time.Now(), time.Now()
	for pause := firstWait; ; pause = min(2*pause, lastWait) {
		attempt, cancel := context.WithTimeout(ctx, wait+askTimeout)
		_, err = n.sched.Call(attempt, request, answer, nil)
		cancel()
		var refusal *transport.Refusal
		switch {
		case err == nil:
			return "", nil
		case alive && n.ctx.Err() != nil:
			return "", n.why()
		case errors.As(err, &refusal):
			if refusal.Code == wire.CodeTimeout {
				return refusal.Text, err
			}
			if refusal.Code == wire.CodeUnknownNode && alive { // what the next heartbeat would bring
				n.end(&LostError{refusal.Text})
				return "", n.why()
			}
			if refusal.Code == wire.CodeUnavailable && alive { // the job has ended; the watch is about to say so
				return "", n.ending(ctx, err)
			}
			return "", err
		case ctx.Err() != nil:
			return "", err
		case !errors.Is(err, transport.ErrConnection) && !errors.Is(err, context.DeadlineExceeded):
			return "", err
		}
		if time.Since(said) >= sayAfter {
			said = time.Now()
			n.cfg.Logger.Info(fmt.Sprintf("waiting for the scheduler at %s (%d s)", n.cfg.Scheduler, int(time.Since(begun).Seconds())), "err", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return "", fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// ending waits a moment for the node to learn how the job ended, and says that, or what was known.
func (n *Node) ending(ctx context.Context, known error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-n.done:
		return n.why()
	case <-t.C:
	case <-ctx.Done():
	}
	return known
}
