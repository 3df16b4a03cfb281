package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
)

// leave is the operation leave. Where nobody awaits its answer this worker was told to end: if it
// cannot leave alone all stop together, or, where Python knows of no stop, its next turn fails.
func leave(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		ID     uint64 `json:"id"`
		Reason string `json:"reason"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	err = store.AskLeave(ctx, shorten(a.Reason, 512))
	if a.ID == 0 && errors.Is(err, kvstore.ErrNeeded) {
		s.turns.cannotLeave(err)
		return nil, nil
	}
	return nil, err
}

// cannotLeave makes all workers stop, or the next turn fail.
func (t *turns) cannotLeave(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil || !t.begun.Stops {
		t.needed = err
		return
	}
	if t.told = true; t.sampler != nil {
		t.sampler.AskStop()
	}
}

// stopped is the operation stopped: Python says what came of the turn of kind turnStop.
func stopped(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		// Saved says that there is a checkpoint, Reason why there is none.
		Saved  bool   `json:"saved"`
		Reason string `json:"reason"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	stop, steps := s.turns.stopped()
	if !a.Saved {
		steps = 0
	}
	switch {
	case stop == kvstore.StopCheckpoint:
		return nil, store.ReportStopped(ctx, steps, shorten(a.Reason, 512))
	case stop == kvstore.StopEnd && a.Saved:
		exitreport.TellCheckpoint(s.getenv, steps)
	case stop == kvstore.NoStop:
		return nil, usage("bridge: stopped: the workers have not all stopped; want it after a turn of kind %q", turnStopped)
	}
	return nil, nil
}

// stopped is why all workers have stopped, and after how many steps; NoStop: they have not.
func (t *turns) stopped() (stop kvstore.SamplerStop, steps uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.newest; n != nil && n.isMade() && n.result.Stopped {
		return n.result.Stop, n.result.Steps
	}
	return kvstore.NoStop, 0
}
