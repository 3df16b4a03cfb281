package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/transport"
	"github.com/paragon-train/paragon/wire"
)

// askTimeout is how long one attempt may take beyond the wait that the request asks for.
const askTimeout = 5 * time.Second

// Declare asks for the plan of a key. Generation and Node are filled in.
func (n *Node) Declare(ctx context.Context, d wire.Declare) (wire.KeyPlan, error) {
	d.Generation, d.Node = uint64(n.Generation()), uint64(n.id)
	var plan wire.KeyPlan
	if _, err := n.ask(ctx, 0, &d, &plan, true); err != nil {
		return wire.KeyPlan{}, fmt.Errorf("cluster: declare key %q: %w", d.Name, err)
	}
	return plan, nil
}

// Barrier returns when every worker has called it with the same name. A name is used once in a job. Waits of some seconds
// are logged with the names of those who are not there yet.
func (n *Node) Barrier(ctx context.Context, name string) error {
	generation := uint64(n.Generation())
	return n.meet(ctx, fmt.Sprintf("barrier %q", name), func(wait uint32) wire.Message {
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
	return n.meet(ctx, fmt.Sprintf("await %q", name), func(wait uint32) wire.Message {
		return &wire.Await{Node: uint64(n.id), WaitMillis: wait, Name: name}
	})
}

// meet repeats a request that the scheduler answers when others have done their part, and logs whom it waits for.
func (n *Node) meet(ctx context.Context, what string, request func(wait uint32) wire.Message) error {
	missing := ""
	for {
		text, err := n.ask(ctx, sayAfter, request(uint32(sayAfter/time.Millisecond)), &wire.Ack{}, true)
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
			if why := n.Err(); why != nil {
				return "", why
			}
			return "", errors.New("the job has finished")
		case errors.As(err, &refusal):
			if refusal.Code == wire.CodeTimeout {
				return refusal.Text, err
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
		if err := n.Err(); err != nil {
			return err
		}
	case <-t.C:
	case <-ctx.Done():
	}
	return known
}
