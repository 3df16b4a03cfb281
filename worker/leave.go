package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
)

// A leaveRequest is one worker's wish to leave while the job goes on. The scheduler decides, since
// it alone knows who else leaves and whether the whole job is being stopped. It is asked beside the
// steps: this worker trains on until the step at which its departure takes effect.
type leaveRequest struct {
	// state is a leaveState.
	state atomic.Int32

	mu sync.Mutex
	// unready cancels the preparations of a joining worker. It is nil once the worker has
	// reported ready, or where it does not join.
	unready context.CancelFunc
}

// A leaveState is how far a leaveRequest has come. It only ever rises.
type leaveState int32

const (
	// leaveNotAsked: this worker was not told to end.
	leaveNotAsked leaveState = iota
	// leaveAsked: it was told to end, and the scheduler has not answered, or the job has ended.
	leaveAsked
	// leaveGranted: the job goes on without it.
	leaveGranted
	// leaveRefused: the job cannot go on without it, so all workers stop.
	leaveRefused
)

// told reports whether this worker was told to end.
func (p *leaveRequest) told() bool { return p.is() != leaveNotAsked }

// granted reports whether this worker may leave.
func (p *leaveRequest) granted() bool { return p.is() == leaveGranted }

// refused reports whether all workers stop because of the request.
func (p *leaveRequest) refused() bool { return p.is() == leaveRefused }

func (p *leaveRequest) is() leaveState { return leaveState(p.state.Load()) }

func (p *leaveRequest) set(state leaveState) { p.state.Store(int32(state)) }

// untilReady returns the context of a joining worker's preparations. A grant cancels it: the
// scheduler has then removed the worker, and servers would not answer it. ready ends the
// preparations; its error says that the worker may leave.
func (p *leaveRequest) untilReady(ctx context.Context) (early context.Context, ready func() error) {
	early, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.unready = cancel
	p.mu.Unlock()
	if p.granted() {
		cancel()
	}
	return early, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		defer cancel()
		p.unready = nil
		return early.Err()
	}
}

// grant records that this worker may leave.
func (p *leaveRequest) grant() {
	p.set(leaveGranted)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unready != nil {
		p.unready()
	}
}

// watch asks to leave when leave is closed. The function it returns ends that. ask asks the
// scheduler; nil: the examples of this worker could not go to the others, so it is not asked.
func (p *leaveRequest) watch(ctx context.Context, leave <-chan struct{}, ask func(ctx context.Context) error, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-leave:
			p.set(leaveAsked)
			p.ask(ctx, ask, log)
		case <-ctx.Done():
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// ask asks the scheduler, and records its answer. After another error than ErrNeeded the job has
// ended for this worker, and nothing is left to leave.
func (p *leaveRequest) ask(ctx context.Context, ask func(ctx context.Context) error, log *slog.Logger) {
	if ask == nil {
		p.set(leaveRefused)
		return
	}
	switch err := ask(ctx); {
	case err == nil:
		log.Info("asked to leave: this worker leaves the job after the next step, the others go on", joblog.LeaveAsked.With())
		p.grant()
	case errors.Is(err, kvstore.ErrNeeded):
		log.Debug("asked to leave; this worker cannot leave alone", "err", err)
		p.set(leaveRefused)
	case ctx.Err() == nil:
		log.Info("told to end", "err", err, joblog.LeaveAsked.With())
	}
}
