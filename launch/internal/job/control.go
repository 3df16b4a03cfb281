package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/control"
)

const (
	eventsWait  = 10 * time.Second // how long the scheduler may hold a request for events
	controlTime = 5 * time.Second  // for an answer, besides that
	quietTime   = 15 * time.Second // from a refusal until it is told
	firstPause  = 100 * time.Millisecond
	lastPause   = 2 * time.Second
)

// A Control asks the scheduler at addr; credentials are the variables with the job's secrets. The error of a request that was refused
// has control.ErrRefused in its chain.
type Control func(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error)

// Ask asks the scheduler until it answers, also while it is being started again, or until ctx ends. It returns the answer as it came, too.
func Ask(ctx context.Context, carry Control, addr string, credentials []string, q control.Request, into control.Answer) ([]byte, error) {
	once := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMillis)*time.Millisecond+controlTime)
		defer cancel()
		return control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
			return carry(ctx, addr, credentials, request)
		}, q, into)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		raw, err := once()
		if err == nil || errors.Is(err, control.ErrRefused) {
			return raw, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// ask is Ask of this job's scheduler.
func (r *run) ask(ctx context.Context, q control.Request, into control.Answer) error {
	_, err := Ask(ctx, r.cfg.Elastic.Control, r.addr, r.controls, q, into)
	return err
}

// do asks the scheduler to do something.
func (r *run) do(ctx context.Context, q control.Request) error { return r.ask(ctx, q, &control.Done{}) }

// follow waits for the job to run, then hands over the scheduler's events in their order until ctx ends.
func (r *run) follow(ctx context.Context, to chan<- control.Event) {
	select {
	case <-r.formed.done:
	case <-ctx.Done():
		return
	}
	for after, pause := uint64(0), false; ctx.Err() == nil; {
		if pause { // whoever answers at once that nothing happened is not asked at once again
			select {
			case <-time.After(firstPause):
			case <-ctx.Done():
				return
			}
		}
		var got control.Events
		if err := r.ask(ctx, control.Request{Op: control.OpEvents, After: after, WaitMillis: eventsWait.Milliseconds()}, &got); err != nil {
			select { // the job may be about to end
			case <-time.After(quietTime):
			case <-ctx.Done():
			}
			if ctx.Err() == nil {
				r.cfg.Logger.Error(fmt.Sprintf("launch: follow the changes of the job: %v; hosts can no longer join or leave", err))
			}
			return
		}
		pause = len(got.Events) == 0
		for _, e := range got.Events {
			if e.Number <= after {
				continue
			}
			after = e.Number
			select {
			case to <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}
