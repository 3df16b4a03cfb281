package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
)

// A leaveRequest is the state of one worker's wish to leave while the job goes on. The scheduler
// decides, since it alone knows who else leaves and whether the whole job is being stopped. It is
// asked beside the steps: this worker trains on until the step at which its departure takes effect.
type leaveRequest struct {
	told   atomic.Bool // this worker was told to end
	may    atomic.Bool // granted: the job goes on without it
	needed atomic.Bool // refused: the job cannot go on without it, so all workers stop

	mu      sync.Mutex
	unready context.CancelFunc // cancels the preparations of a joining worker; nil: it has reported ready, or does not join
}

// untilReady returns the context of a joining worker's preparations. A grant cancels it: the
// scheduler has then removed the worker, and servers would not answer it. ready ends the
// preparations; its error says that the worker may leave.
func (p *leaveRequest) untilReady(ctx context.Context) (early context.Context, ready func() error) {
	early, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.unready = cancel
	p.mu.Unlock()
	if p.may.Load() {
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

// granted records that this worker may leave.
func (p *leaveRequest) granted() {
	p.may.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unready != nil {
		p.unready()
	}
}

// watchLeave asks to leave when FitConfig.Leave is closed. The function it returns ends that.
func (r *run) watchLeave(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-r.cfg.Leave:
			r.leave.told.Store(true)
			r.askLeave(ctx)
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *run) askLeave(ctx context.Context) {
	log := r.trainer.cfg.Logger
	if r.elastic == nil || r.divided == nil && r.cfg.OnMembership == nil {
		r.leave.needed.Store(true)
		return
	}
	switch err := r.elastic.AskLeave(ctx, "it was told to end"); {
	case err == nil:
		log.Info("asked to leave: this worker leaves the job after the next step, the others go on", joblog.LeaveAsked.With())
		r.leave.granted()
	case errors.Is(err, kvstore.ErrNeeded):
		log.Debug("asked to leave; this worker cannot leave alone", "err", err)
		r.leave.needed.Store(true)
	case ctx.Err() == nil: // the job has ended, at least for this worker
		log.Info("told to end", "err", err, joblog.LeaveAsked.With())
	}
}

// tellStop logs that all workers stop, if this worker was told to end.
func (r *run) tellStop() {
	if !r.leave.told.Load() {
		return
	}
	step := fmt.Sprintf("step %d", r.trainer.Steps())
	if r.trainer.async() {
		step = "a step of their own, this one after " + step
	}
	with := "with a checkpoint in " + r.cfg.Checkpoint.Dir
	if r.cfg.Checkpoint.Dir == "" {
		with = "without a checkpoint, as there is no folder for one"
	}
	r.trainer.cfg.Logger.Info(fmt.Sprintf("told to end: all workers stop after %s, %s", step, with), joblog.LeaveAsked.With())
}
