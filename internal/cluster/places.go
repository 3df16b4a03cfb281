package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// ErrMoved: the scheduler has placed the shards elsewhere; the membership is about to say so.
var ErrMoved = errors.New("shards were placed elsewhere")

// Places asks where the shards of keys are, from key from on. All of them are of the placement that the answer names.
func (n *Node) Places(ctx context.Context, from uint64) (wire.Places, error) {
	var all wire.Places
	for next := from; ; {
		var got wire.Places
		if _, err := n.ask(ctx, 0, &wire.ReadPlaces{Node: uint64(n.id), From: next}, &got, true); err != nil {
			return wire.Places{}, fmt.Errorf("cluster: read places from key %d on: %w", next, err)
		}
		if next != from && got.Placement != all.Placement { // it changed between two answers
			all, next = wire.Places{}, from
			continue
		}
		got.Places = append(all.Places, got.Places...)
		all = got
		if got.Next >= got.Keys {
			return all, nil
		}
		if got.Next <= next {
			return wire.Places{}, fmt.Errorf("cluster: read places from key %d on: the answer goes to key %d of %d, want it to get on", next, got.Next, got.Keys)
		}
		next = got.Next
	}
}

// Filled tells the scheduler that backups of this server's shards have the whole state, or no longer have it. ErrMoved is in the
// chain of the error where another server is their backup, or primary, by now.
func (n *Node) Filled(ctx context.Context, m wire.Filled) error {
	m.Node = uint64(n.id)
	_, err := n.ask(ctx, 0, &m, &wire.Ack{}, true)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeMoved {
		return fmt.Errorf("cluster: tell of %d filled shards: %w: %w", len(m.Shards), ErrMoved, err)
	}
	if err != nil {
		return fmt.Errorf("cluster: tell of %d filled shards: %w", len(m.Shards), err)
	}
	return nil
}
