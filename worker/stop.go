package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/paragon-train/paragon/kvstore"
)

// stopKey is the key by which the workers agree to stop: each pushes 1 with a step if it was asked to stop and 0 if not,
// and all see after the same step whether anyone was.
const stopKey = "paragon/stop"

// agreement lets all workers stop after the same step, whoever is asked first. begin, end and close are called by one
// goroutine.
type agreement struct {
	trainer *Trainer
	asked   atomic.Bool
	flag    []float32 // pushed
	sum     []float32 // pulled
	done    chan error
	cancel  context.CancelFunc // of the exchange under way; nil: there is none
	alone   bool               // in an asynchronous store there is no common step
}

func newAgreement(ctx context.Context, t *Trainer) (*agreement, error) {
	a := &agreement{trainer: t, flag: make([]float32, 1), sum: make([]float32, 1), done: make(chan error, 1), alone: t.async()}
	if a.alone {
		return a, nil
	}
	err := t.cfg.Store.InitAverage(ctx, stopKey, a.flag)
	if errors.Is(err, kvstore.ErrDuplicateInit) {
		return nil, errors.New("worker: fit: the store has been through Fit before, want a new store and trainer for each run")
	}
	if err != nil {
		return nil, fmt.Errorf("worker: init %s: %w", stopKey, err)
	}
	return a, nil
}

// ask makes this worker, and so all, stop after a coming step. Any goroutine may call it.
func (a *agreement) ask() { a.asked.Store(true) }

// begin starts the exchange of a step.
func (a *agreement) begin(ctx context.Context) {
	if a.alone {
		return
	}
	if a.flag[0] = 0; a.asked.Load() {
		a.flag[0] = 1
	}
	ctx, a.cancel = context.WithCancel(ctx)
	go func() {
		a.done <- a.trainer.cfg.Store.PushPull(ctx, stopKey, [][]float32{a.flag}, [][]float32{a.sum})
	}()
}

// end waits for the exchange that begin started, if it did, and tells whether all stop now.
func (a *agreement) end() (stop bool, err error) {
	switch {
	case a.alone:
		return a.asked.Load(), nil
	case a.cancel == nil:
		return false, nil
	}
	err = <-a.done
	a.cancel()
	a.cancel = nil
	if err != nil {
		return false, fmt.Errorf("worker: agree on stopping: %w", err)
	}
	return a.sum[0] != 0, nil
}

// close cuts short the exchange that begin started and end has not seen, after a step that failed.
func (a *agreement) close() {
	if a.cancel != nil {
		a.cancel()
		<-a.done
	}
}
