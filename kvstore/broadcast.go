package kvstore

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// MaxBroadcast is the most bytes of a value of Broadcast. The scheduler keeps such values for
// workers that ask again.
const MaxBroadcast = 512 << 10

// Broadcast returns on every worker the value that the worker of the lowest rank makes.
//
// The scheduler keeps the first value that is told under the broadcast's name. So a worker that was
// lost after it told does no harm: its successor tells another value, which nobody gets, not even
// itself. All workers return the same one.
func (m *membership) Broadcast(ctx context.Context, make func() (string, error)) (string, error) {
	if m.joining.Load() {
		return "", m.notYet("broadcast")
	}
	tell := func(signal func(ctx context.Context, value string) error) (string, error) {
		value, err := make()
		switch {
		case err != nil:
			return "", err
		case len(value) > MaxBroadcast:
			return "", fmt.Errorf("kvstore: broadcast: got %d bytes, want at most %d; larger values are keys (Init, Pull)", len(value), MaxBroadcast)
		case !utf8.ValidString(value):
			return "", fmt.Errorf("kvstore: broadcast: got %d bytes that are not UTF-8; encode them, such as by base64", len(value))
		}
		return value, m.requests.ask(ctx, "broadcast", func(ctx context.Context) error { return signal(ctx, value) })
	}
	if m.requests.inline {
		return tell(func(ctx context.Context, _ string) error { return ctx.Err() })
	}
	name := m.commonNames.next(broadcastName)
	for {
		leader := m.leader()
		if leader == m.NodeID() {
			if _, err := tell(func(ctx context.Context, value string) error { return m.node.Signal(ctx, name, value) }); err != nil {
				return "", err
			}
		}
		// The leader, too, waits for a value: another one may have told its own before it
		// was lost, and the first value counts.
		value, again, err := m.awaitBroadcast(ctx, name, leader)
		if !again {
			return value, err
		}
	}
}

// awaitBroadcast waits for a value from the worker that is to tell it. again says that this one was
// lost before it did.
func (m *membership) awaitBroadcast(ctx context.Context, name string, leader NodeID) (value string, again bool, err error) {
	lost := func(wire.Membership) bool { return m.leader() != leader }
	err = m.requests.ask(ctx, "broadcast", func(ctx context.Context) error {
		changed, err := m.unlessChanged(ctx, lost, func(ctx context.Context) (err error) {
			value, err = m.node.Await(ctx, name)
			return err
		})
		// The scheduler may have heard of the loss first.
		var refusal *transport.Refusal
		if errors.As(err, &refusal) && refusal.Code == wire.CodeUnavailable {
			changed = true
			err = m.awaitNews(ctx, "broadcast", func(now *wire.Membership) bool { return lost(*now) })
		}
		if changed && err != nil && ctx.Err() == nil {
			err = nil
		}
		again = changed
		return err
	})
	return value, again && err == nil, err
}
