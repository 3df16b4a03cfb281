package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRequests is the most requests under way.
	maxRequests = 64
	// maxUnread is the most requests under way with the urgent ones, and those whose answers
	// Python has not read.
	maxUnread = 1024
)

// requests are the requests under way.
type requests struct {
	mu sync.Mutex
	// cancels has what ends the wait of each request, by its number.
	cancels map[uint64]context.CancelCauseFunc
	// running counts those that are not urgent.
	running int
	wg      sync.WaitGroup
	// pushing counts those that push. idle is closed when none does any more; nil: none has.
	pushing int
	idle    chan struct{}

	// unanswered counts those that were not answered.
	unanswered atomic.Int32
}

// enter counts a request in, and gives it a context that cancel ends.
func (r *requests) enter(ctx context.Context, q request) (context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancels[q.ID] != nil && q.ID != 0 {
		return nil, usage("bridge: request %d (%s): a request of that number is under way", q.ID, q.Op)
	}
	if !urgent[q.Op] {
		if r.running >= maxRequests {
			return nil, fmt.Errorf("bridge: request %d (%s): %w: %d are under way, which is the most; wait for one", q.ID, q.Op, errFull, maxRequests)
		}
		r.running++
	}
	if pushes[q.Op] {
		if r.pushing == 0 {
			r.idle = make(chan struct{})
		}
		r.pushing++
	}
	if q.ID == 0 {
		return ctx, nil
	}
	if r.cancels == nil {
		r.cancels = map[uint64]context.CancelCauseFunc{}
	}
	ctx, r.cancels[q.ID] = context.WithCancelCause(ctx)
	return ctx, nil
}

// leave counts a request out.
func (r *requests) leave(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !urgent[q.Op] {
		r.running--
	}
	if pushes[q.Op] {
		if r.pushing--; r.pushing == 0 {
			close(r.idle)
		}
	}
	if cancel := r.cancels[q.ID]; cancel != nil {
		delete(r.cancels, q.ID)
		cancel(nil)
	}
}

// awaitPushes waits until no request that pushes is under way. Python waits for each, unless
// Ctrl-C came out of that wait.
func (r *requests) awaitPushes(ctx context.Context) error {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancel ends the wait of a request. One that has ended is no error: its answer is on its way.
func (r *requests) cancel(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.cancels[id]; cancel != nil {
		cancel(errCancelled)
	}
}

// startRequest begins a request. Only the reader of packets calls it; an error is of the packet.
func (s *session) startRequest(args json.RawMessage) error {
	var q request
	if err := json.Unmarshal(args, &q); err != nil {
		return fmt.Errorf("bridge: %w: a request that is no JSON object with id and op: %w", errProtocol, err)
	}
	if n := s.requests.unanswered.Add(1); n > maxUnread {
		return fmt.Errorf("bridge: %w: request %d came, and %d before have no answer that was read", errProtocol, q.ID, n-1)
	}
	ctx, err := s.requests.enter(s.ctx, q)
	if err != nil {
		s.requests.wg.Go(func() { s.answer(q, nil, err) })
		return nil
	}
	if inline[q.Op] {
		result, err := s.perform(ctx, q, args)
		// The reader goes on where Python does not take the answer.
		s.requests.wg.Go(func() { s.finishRequest(q, result, err) })
		return nil
	}
	s.requests.wg.Go(func() {
		result, err := s.perform(ctx, q, args)
		s.finishRequest(q, result, err)
	})
	return nil
}

// finishRequest answers a request that was carried out.
func (s *session) finishRequest(q request, result any, err error) {
	s.requests.leave(q)
	s.answer(q, result, err)
	if leaves[q.Op] {
		s.end(errClosed)
	}
}

// perform carries out a request.
func (s *session) perform(ctx context.Context, q request, args json.RawMessage) (any, error) {
	op := s.operations[q.Op]
	if op == nil {
		return nil, usage("bridge: request %d: unknown op %q", q.ID, shorten(q.Op, 64))
	}
	if waits[q.Op] {
		defer s.reports.waited(time.Now())
	}
	result, err := op(ctx, s, args)
	if err != nil && errors.Is(context.Cause(ctx), errCancelled) {
		return nil, &classError{errCancelled, err}
	}
	return result, err
}

// answer answers a request. That the other end is gone is noticed by the reader.
func (s *session) answer(q request, result any, err error) {
	defer s.requests.unanswered.Add(-1)
	if q.ID == 0 {
		if err != nil {
			s.log.Warn("a request failed for which Python awaits no answer", "op", q.Op, "error", err)
		}
		return
	}
	a, fd := answer{ID: q.ID, Result: result}, -1
	if f, ok := result.(withFile); ok {
		a.Result, fd = f.result, f.fd
		defer runtime.KeepAlive(f.of)
	}
	if err != nil {
		a.Result, a.Error, fd = nil, errorOf(err), -1
	} else if a.Result == nil {
		a.Result = noResult{}
	}
	packet, err := encode(headJSON, a)
	if err != nil {
		packet, err = encode(headJSON, answer{ID: q.ID, Error: errorOf(err)})
	}
	if err == nil {
		err = s.conn.send(packet, fd)
	}
	if err != nil {
		s.log.Debug("an answer could not be sent", "op", q.Op, "error", err)
	}
}

// cancelRequest is the operation cancel.
func cancelRequest(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Request uint64 `json:"request"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	s.requests.cancel(a.Request)
	return nil, nil
}
