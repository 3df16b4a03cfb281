package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Places asks the scheduler where the shards of keys are, beginning with key from. The answer is of
// one placement.
func (n *Node) Places(ctx context.Context, from uint64) (wire.Places, error) {
	var all wire.Places
	for next := from; ; {
		var got wire.Places
		if _, err := n.ask(ctx, 0, &wire.ReadPlaces{Node: uint64(n.id), From: next}, &got, true); err != nil {
			return wire.Places{}, fmt.Errorf("cluster: read placement from key %d: %w", next, err)
		}
		if err := checkPlaces(&got, next); err != nil {
			return wire.Places{}, fmt.Errorf("cluster: read placement from key %d: %w", next, err)
		}
		if next != from && got.Placement != all.Placement {
			// It changed between two answers.
			all, next = wire.Places{}, from
			continue
		}
		got.Places = append(all.Places, got.Places...)
		all = got
		if got.Next >= got.Keys {
			return all, nil
		}
		if got.Next <= next {
			return wire.Places{}, fmt.Errorf("cluster: read placement from key %d: the answer ends at key %d of %d, want a later key", next, got.Next, got.Keys)
		}
		next = got.Next
	}
}

// checkPlaces checks that an answer has the places of all keys from one on to its Next, in order:
// each key has shards, which are numbered from 0. Then no table of them is larger than what has
// come, whatever keys the answer names.
func checkPlaces(got *wire.Places, from uint64) error {
	// key and shard are those of the place that may come next.
	key, shard := from, uint32(0)
	for i, p := range got.Places {
		if p.Key == key+1 && shard > 0 {
			key, shard = p.Key, 0
		}
		if p.Key != key || p.Shard != shard {
			return fmt.Errorf("place %d of the answer: got key %d shard %d, want key %d shard %d", i, p.Key, p.Shard, key, shard)
		}
		shard++
	}
	if shard > 0 {
		key++
	}
	if got.Next != key {
		return fmt.Errorf("the answer ends before key %d, want before key %d: it has no places of others", got.Next, key)
	}
	return nil
}

// Filled reports to the scheduler that backups of this server's shards have the whole state, or no
// longer have it. ErrMoved is in the error's chain if another server is their backup or primary
// now.
func (n *Node) Filled(ctx context.Context, m wire.Filled) error {
	m.Node = uint64(n.id)
	_, err := n.ask(ctx, 0, &m, &wire.Ack{}, true)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeMoved {
		return fmt.Errorf("cluster: report %d filled backups: %w: %w", len(m.Shards), ErrMoved, err)
	}
	if err != nil {
		return fmt.Errorf("cluster: report %d filled backups: %w", len(m.Shards), err)
	}
	return nil
}
