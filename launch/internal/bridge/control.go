package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// strictly reads a configuration, in which every name must be known.
func strictly(what string, text json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return usage("bridge: %s: %w", what, err)
	}
	return nil
}

// configuration reads the argument of set_optimizer or set_compression, and returns the store that
// it is for.
func configuration(s *session, what string, args json.RawMessage, into interface{ Validate() error }) (kvstore.Store, error) {
	var a struct {
		Config json.RawMessage `json:"config"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	if err := strictly(what, a.Config, into); err != nil {
		return nil, err
	}
	if err := into.Validate(); err != nil {
		return nil, usage("bridge: %s: %w", what, err)
	}
	return store, nil
}

// setOptimizer is the operation set_optimizer.
func setOptimizer(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var cfg optim.Config
	store, err := configuration(s, "set optimizer", args, &cfg)
	if err != nil {
		return nil, err
	}
	if cfg.ClipGlobalNorm > 0 {
		return nil, usage("bridge: set optimizer: clip_global_norm is %v, want 0: a Python worker cannot clip by the norm over all keys on the servers; clip_norm is the norm of each key", cfg.ClipGlobalNorm)
	}
	return nil, store.SetOptimizer(ctx, cfg)
}

// setCompression is the operation set_compression.
func setCompression(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var c kvstore.Compression
	store, err := configuration(s, "set compression", args, &c)
	if err != nil {
		return nil, err
	}
	return nil, store.SetCompression(ctx, c)
}

// setLearningRate is the operation set_learning_rate.
func setLearningRate(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Round uint64  `json:"round"`
		Rate  float64 `json:"rate"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	if !(a.Rate >= 0) || math.IsInf(a.Rate, 0) {
		return nil, usage("bridge: set learning rate: got %v, want a number of 0 or more", a.Rate)
	}
	return nil, store.SetLearningRate(ctx, a.Round, a.Rate)
}

// file is the operation save or load.
func file(op string, call func(store kvstore.Store, ctx context.Context, uri string) error) operation {
	return func(ctx context.Context, s *session, args json.RawMessage) (any, error) {
		var a struct {
			URI string `json:"uri"`
		}
		if err := arguments(args, &a); err != nil {
			return nil, err
		}
		store, err := s.member.get()
		if err != nil {
			return nil, err
		}
		if a.URI == "" {
			return nil, usage("bridge: %s: got no uri, want the path of a file or a bucket's URL", op)
		}
		return nil, call(store, ctx, a.URI)
	}
}

// broadcast is the operation broadcast: the text lies in the slot, and the one that counts comes
// there.
func broadcast(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Region uint32 `json:"region"`
		Slot   int    `json:"slot"`
		Bytes  int    `json:"bytes"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	uses := slotUses{s: s}
	defer uses.done()
	values, err := uses.slot(a.Region, a.Slot)
	if err != nil {
		return nil, err
	}
	room := bytesOf(values)
	if a.Bytes < 0 || a.Bytes > len(room) || a.Bytes > kvstore.MaxBroadcast {
		return nil, usage("bridge: broadcast: got %d bytes, want at most %d, and the slot has %d", a.Bytes, kvstore.MaxBroadcast, len(room))
	}
	text, err := store.Broadcast(ctx, func() (string, error) { return string(room[:a.Bytes]), nil })
	if err != nil {
		return nil, err
	}
	if len(text) > len(room) {
		return nil, &classError{kvstore.ErrSize, fmt.Errorf("bridge: broadcast: the text has %d bytes, and slot %d of region %d has room for %d", len(text), a.Slot, a.Region, len(room))}
	}
	return map[string]int{"bytes": copy(room, text)}, nil
}

// serverUsage is what one server holds, in bytes.
type serverUsage struct {
	Server int    `json:"server"`
	Shards uint64 `json:"shards"`
	Rows   uint64 `json:"rows"`
	Values uint64 `json:"values"`
	State  uint64 `json:"state"`
	Index  uint64 `json:"index"`
}

// usageOf is the operation usage.
func usageOf(ctx context.Context, s *session, _ json.RawMessage) (any, error) {
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	list, err := store.Usage(ctx)
	if err != nil {
		return nil, err
	}
	servers := make([]serverUsage, len(list))
	for i, u := range list {
		servers[i] = serverUsage{u.Server, u.Shards, u.Rows, u.Values, u.State, u.Index}
	}
	return map[string]any{"servers": servers}, nil
}
