package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/attempt"
)

// A requests is the way of all requests of a store to servers and to the scheduler. Requests to
// servers are ops, of which each has one call for each server or shard:
//
//	op.run      sends all calls, and waits for them
//	call.start  makes the first attempt at once, where the request is small
//	call.run    repeats the request (attempt.Loop), by its route, until it is settled
//	opWatcher   ends ops: by their timeout, their context, the job's end and Close
type requests struct {
	cfg  *settings
	node member
	// inline says that the servers are in this process, and none but this worker asks them.
	inline bool
	// holds says that servers hold rounds until ClipGlobalNorm: then no request is answered at
	// once.
	holds    atomic.Bool
	trace    *trace.Recorder
	flight   *inFlight
	pool     *callPool
	watcher  *opWatcher
	attempts attempt.Env
	// host leads to sums within the host. It is nil where no call goes that way.
	host hostRoute
}

// newRequests returns the requests of a member of a job. removed and movable are attempt.Env's.
func newRequests(cfg *settings, node member, removed, movable func() bool) *requests {
	_, inline := node.(*inProcess)
	r := &requests{cfg: cfg, node: node, inline: inline, trace: node.Trace(), flight: newInFlight(), pool: newCallPool()}
	r.attempts = attempt.Env{Ended: node.Done(), EndError: r.jobEndError, Explain: r.explain, Unconfirmed: explainUnconfirmed, Removed: removed, Movable: movable, LeaderPatience: cfg.noteEvery}
	r.watcher = newOpWatcher(watcherEnv{timeout: cfg.timeout, noteEvery: cfg.noteEvery, note: r.noteWait,
		jobEnded: node.Done(), jobEndError: r.jobEndError, closing: r.flight.closing})
	return r
}

// atOnce reports whether requests are answered at once, on the caller's goroutine.
func (r *requests) atOnce() bool { return r.inline && !r.holds.Load() }

// close ends what runs. No call is under way, and none comes.
func (r *requests) close() {
	r.pool.close()
	r.watcher.close()
}

// noteWait writes a line about a long wait.
func (r *requests) noteWait(o *op, waited time.Duration) {
	why := o.waiting()
	r.cfg.logger.Info("waiting: "+why, "call", o.verb, "key", o.key, "round", o.round, "seconds", int(waited.Seconds()), joblog.Waiting.With("waiting_for", why))
}

// toEveryServer returns an op with a request to every server, which fill makes.
func (r *requests) toEveryServer(verb string, fill func(c *call)) *op {
	o := newOp(r, verb, "", int(r.node.Membership().Servers))
	for i := range o.calls {
		o.calls[i].to.server = i
		fill(&o.calls[i])
	}
	return o
}

// everyServer sends a request to every server.
func (r *requests) everyServer(ctx context.Context, verb string, fill func(c *call)) error {
	return r.toEveryServer(verb, fill).run(ctx)
}

// background returns an op with one request about a shard, which the store makes by itself for a
// sum of its host.
func (r *requests) background(k *key, shard int) *op {
	o := newOp(r, "push-pull of this host's sum", k.name, 1)
	o.background = true
	o.calls[0].aim(k, shard)
	return o
}

// shardsAtOnce is how many shards of a key are initialised, read or written at one time: enough to
// keep servers and connections busy, few enough to bound the memory.
const shardsAtOnce = 16

// everyShard sends a request to every shard of a key, shardsAtOnce at a time: fill makes shard i's
// request, done (which may be nil) handles its answer.
func (r *requests) everyShard(ctx context.Context, verb string, k *key, fill, done func(c *call, i int) error) error {
	for from := 0; from < len(k.shards); from += shardsAtOnce {
		o := newOp(r, verb, k.name, min(shardsAtOnce, len(k.shards)-from))
		_, o.round = k.pushes.wanted()
		for j := range o.calls {
			c := &o.calls[j]
			c.aim(k, from+j)
			if err := fill(c, from+j); err != nil {
				return err
			}
		}
		if err := o.run(ctx); err != nil {
			return err
		}
		if done == nil {
			continue
		}
		for j := range o.calls {
			if err := done(&o.calls[j], from+j); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask runs a request to the scheduler within the store's timeout.
func (r *requests) ask(ctx context.Context, verb string, question func(context.Context) error) error {
	if !r.flight.enter(false) {
		return fmt.Errorf("kvstore: %s: %w", verb, ErrClosed)
	}
	defer r.flight.leave(false)
	ctx, cancel := r.callContext(ctx)
	defer cancel(nil)
	err := question(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("kvstore: %s: %w", verb, r.explain(err))
}

// callContext returns a context that also ends with the store's timeout, the end of the job, and
// Close.
func (r *requests) callContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if err := context.Cause(ctx); err != nil {
		return ctx, cancel
	}
	ended := r.watcher.context()
	stop := context.AfterFunc(ended, func() { cancel(context.Cause(ended)) })
	var timer *time.Timer
	if r.cfg.timeout > 0 {
		timer = time.AfterFunc(r.cfg.timeout, func() { cancel(fmt.Errorf("%w: waited %v", ErrUnavailable, r.cfg.timeout)) })
	}
	return ctx, func(cause error) {
		stop()
		if timer != nil {
			timer.Stop()
		}
		cancel(cause)
	}
}

// jobEndError is why the job has ended for this node. Every call returns this error, whichever
// notices the end first.
func (r *requests) jobEndError() error {
	if err := r.node.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, ErrFinished)
}

// explain wraps an error of cluster or transport in this package's errors.
func (r *requests) explain(err error) error {
	var refusal *transport.Refusal
	switch {
	case errors.As(err, &refusal):
		return &refused{is: meaning(refusal.Code), ours: uint64(r.node.Generation()), refusal: refusal}
	case errors.Is(err, transport.ErrConnection), errors.Is(err, transport.ErrAuth), errors.Is(err, transport.ErrClosed):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	over := attempt.IsClosed(r.node.Done())
	for _, end := range []error{cluster.ErrLost, cluster.ErrFailed, cluster.ErrFinished, cluster.ErrScheduler} {
		over = over || errors.Is(err, end)
	}
	if over && !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// explainUnconfirmed adds what to do when a server has refused this worker's membership for so long
// and the scheduler has not said why.
func explainUnconfirmed(err error, waited time.Duration) error {
	var r *refused
	if errors.As(err, &r) && (r.refusal.Code == wire.CodeUnknownNode || r.refusal.Code == wire.CodeStaleGeneration && r.refusal.Generation > r.ours) {
		return fmt.Errorf("%w; the scheduler has not confirmed this for %v: this worker may be cut off from the scheduler and declared lost; %s", err, waited, cluster.HowToComeBack)
	}
	return err
}

// stamp writes the membership of this moment into a request.
func stamp(node member, o *wire.Origin) {
	for {
		g := node.Generation()
		o.Node, o.Rank = uint64(node.ID()), uint32(node.Rank())
		// The rank read above belongs to generation g only if g has not passed meanwhile.
		if o.Generation = uint64(g); node.Generation() == g {
			return
		}
	}
}
