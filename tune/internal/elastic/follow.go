package elastic

import (
	"context"
	"errors"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// follow takes note of what happens to the job's replicas.
func (j *Job) follow(ctx context.Context) {
	after := uint64(0)
	for {
		j.mu.Lock()
		job := j.job
		j.mu.Unlock()
		if job == nil {
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		var got control.Events
		_, err := job.Ask(ctx, control.Request{Op: control.OpEvents, After: after, WaitMillis: eventsWait.Milliseconds()}, &got)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		// Hosts are set aside first: a refused change causes a decision, which must not
		// choose them again. The slots of one that cannot be reached are nobody's.
		for _, x := range got.Events {
			if j.env.Local == "" && (x.Action == control.Lost && x.Role == control.Worker || x.Action == control.HostFailed) {
				j.env.Suspect(x.Host, errors.New(x.Reason))
			}
		}
		for _, x := range got.Events {
			after = max(after, x.Number)
			j.event(x)
		}
		if len(got.Events) > 0 {
			j.awaken()
		}
		if got.Phase == control.Finished || got.Phase == control.Failed {
			return
		}
	}
}

// event takes note of what has happened to an order, or to a host.
func (j *Job) event(x control.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch x.Action {
	case control.Scaled:
		if j.order.state == underWay {
			j.order.state, j.cost = settled, time.Since(j.order.at)
			j.refusals.reached()
		}
	case control.ScaleShort:
		if j.order.state == underWay {
			j.order.state = settled
			j.refused(x.Reason)
		}
	case control.HostFailed:
		j.env.Logger.Warn("tune: a host could not run replicas of a trial", "trial", j.trial, "host", x.Host, "cause", x.Reason)
	}
}

// refresh asks the job for its profile.
func (j *Job) refresh(ctx context.Context) {
	j.mu.Lock()
	job := j.job
	j.mu.Unlock()
	if job == nil {
		return
	}
	var s control.Status
	if _, err := job.Ask(ctx, control.Request{Op: control.OpStatus}, &s); err != nil {
		if ctx.Err() == nil {
			j.env.Logger.Debug("tune: the job of a trial does not answer", "trial", j.trial, "error", err)
		}
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.complete = s.Phase == control.Running
	if s.Adaptation != nil {
		if text, err := control.EncodeAdaptation(*s.Adaptation); err == nil {
			j.profile = text
		}
	}
}
