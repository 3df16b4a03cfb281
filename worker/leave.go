package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/kvstore"
)

// A parting is how a worker that is told to end leaves a job that goes on. The scheduler is asked, for it alone knows who else leaves and
// whether the whole job is about to stop. That takes no part in any step: this worker goes on until the boundary of the change that its
// leaving is.
type parting struct {
	told   atomic.Bool // it was told to end
	may    atomic.Bool // the job goes on without it
	needed atomic.Bool // the job does not, so all stop

	mu      sync.Mutex
	unready context.CancelFunc // ends what a joining worker does before it says that it is ready; nil: it has said so, or does not join
}

// beforeReady returns the context of what a joining worker does before it says that it is ready. A worker that may leave by then counts nowhere:
// the scheduler has removed it, servers do not know it, and nobody would answer it. ready ends that; its error says that the worker may leave.
func (p *parting) beforeReady(ctx context.Context) (early context.Context, ready func() error) {
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

// granted takes note that the job goes on without this worker.
func (p *parting) granted() {
	p.may.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unready != nil {
		p.unready()
	}
}

// watchLeave asks to leave once the configuration says so. The function it returns ends that.
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
		log.Info("asked to leave; a single worker can not leave this job, so all workers stop")
		r.leave.needed.Store(true)
		return
	}
	switch err := r.elastic.AskLeave(ctx, "it was told to end"); {
	case err == nil:
		log.Info("asked to leave: this worker leaves the job after the next step, the others go on")
		r.leave.granted()
	case errors.Is(err, kvstore.ErrNeeded):
		log.Info("asked to leave, but the job can not go on without this worker: all workers stop", "err", err)
		r.leave.needed.Store(true)
	case ctx.Err() == nil: // the job is over, at least for this worker
		log.Info("told to end", "err", err)
	}
}
