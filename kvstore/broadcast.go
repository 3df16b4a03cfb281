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

func (s *store) Broadcast(ctx context.Context, make func() (string, error)) (string, error) {
	if s.joining.Load() {
		return "", s.notYet("broadcast")
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
		return value, s.requests.ask(ctx, "broadcast", func(ctx context.Context) error { return signal(ctx, value) })
	}
	if s.requests.inline {
		return tell(func(ctx context.Context, _ string) error { return ctx.Err() })
	}
	s.mu.Lock()
	s.broadcasts++
	name := fmt.Sprintf("broadcast/%d/%d", s.era, s.broadcasts)
	s.mu.Unlock()
	for {
		leader := s.leader()
		if leader == s.NodeID() {
			if _, err := tell(func(ctx context.Context, value string) error { return s.node.Signal(ctx, name, value) }); err != nil {
				return "", err
			}
		}
		// Also of the one that has told: another one may have done so before it was lost,
		// and the first word counts.
		value, again, err := s.awaitBroadcast(ctx, name, leader)
		if !again {
			return value, err
		}
	}
}

// awaitBroadcast waits for a value from the worker that is to tell it; again: that one was lost
// before it did.
func (s *store) awaitBroadcast(ctx context.Context, name string, leader NodeID) (value string, again bool, err error) {
	lost := func(wire.Membership) bool { return s.leader() != leader }
	err = s.requests.ask(ctx, "broadcast", func(ctx context.Context) error {
		changed, err := s.whileFollowing(ctx, lost, func(ctx context.Context) (err error) {
			value, err = s.node.Await(ctx, name)
			return err
		})
		var refusal *transport.Refusal // the scheduler may have heard of the loss first
		if errors.As(err, &refusal) && refusal.Code == wire.CodeUnavailable {
			changed = true
			err = s.awaitMembership(ctx, "broadcast", func(m *wire.Membership) bool { return lost(*m) })
		}
		if changed && err != nil && ctx.Err() == nil {
			err = nil
		}
		again = changed
		return err
	})
	return value, again && err == nil, err
}
