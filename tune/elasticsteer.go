package tune

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/tune/jobs"
)

const (
	retryPause  = 500 * time.Millisecond // before a question to a job that is forming, or whose scheduler does not answer
	eventsWait  = 10 * time.Second       // how long a job's scheduler may hold a question for events
	stuckAfter  = time.Minute            // after which a decision that waits for slots of others is given up
	mostRefused = 3                      // changes in turn that a job cannot carry out, after which its replicas are left alone
	fixedFor    = 10 * time.Minute       // for so long
)

// steer carries decisions out while the job runs.
func (e *elasticJob) steer(ctx context.Context, least int) {
	if !e.find(ctx) {
		return
	}
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	for {
		changed := e.jobs.nodes.Changed()
		e.mu.Lock()
		e.exchange()
		p := e.next(least)
		send := len(p) > 0 && !p.Equal(e.commanded)
		if !e.held().Equal(e.want) && !send && !e.under && time.Since(e.since) > stuckAfter {
			e.stay("the slots that it was to get are still in use by other trials")
		}
		e.mu.Unlock()
		if send && !e.command(ctx, p) {
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		timer.Reset(stuckAfter)
		select {
		case <-changed:
		case <-e.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// pause waits, and says whether ctx lives on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// find waits until the job is complete: until then it has the replicas that it began with.
func (e *elasticJob) find(ctx context.Context) bool {
	select {
	case pid := <-e.launcher:
		for {
			job, err := jobcontrol.Of(pid)
			if err == nil {
				e.mu.Lock()
				e.job = job
				e.mu.Unlock()
				break
			}
			if !pause(ctx, retryPause) {
				return false
			}
		}
	case <-ctx.Done():
		return false
	}
	for {
		e.refresh(ctx)
		e.mu.Lock()
		running := e.running
		e.mu.Unlock()
		if running {
			e.mu.Lock()
			e.under = false
			e.mu.Unlock()
			return true
		}
		if !pause(ctx, retryPause) {
			return false
		}
	}
}

// command tells the launcher what replicas the job is to have. It returns false if that should be
// tried again.
func (e *elasticJob) command(ctx context.Context, p jobs.Placement) bool {
	q := control.Request{Op: control.OpScale}
	for _, x := range p {
		host := x.Node
		if e.jobs.HostFile == "" {
			host = "localhost"
		}
		q.Placement = append(q.Placement, control.WorkersOnHost{Host: host, Workers: x.Replicas})
	}
	err := e.addHosts(ctx, p)
	if err == nil {
		_, err = e.job.Ask(ctx, q, &control.Done{})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.commanded, e.under, e.told = p, true, time.Now()
		return true
	case ctx.Err() != nil:
		return true
	case errors.Is(err, control.ErrRefused) && !errors.Is(err, control.ErrLater):
		e.refused(err.Error())
		return true
	}
	return false
}

// addHosts adds hosts to the job that the search did not have when the job began.
func (e *elasticJob) addHosts(ctx context.Context, p jobs.Placement) error {
	if e.jobs.HostFile == "" {
		return nil
	}
	for _, x := range p {
		e.mu.Lock()
		_, known := e.hosts[x.Node]
		e.mu.Unlock()
		if known {
			continue
		}
		if _, err := e.job.Ask(ctx, control.Request{Op: control.OpAdd, Host: x.Node, Slots: x.Replicas}, &control.Done{}); err != nil {
			return err
		}
		e.mu.Lock()
		e.hosts[x.Node] = x.Replicas
		e.mu.Unlock()
	}
	return nil
}

// refused takes note of a change that the job does not carry out. e.mu is held.
func (e *elasticJob) refused(why string) {
	why = strings.TrimPrefix(why, control.ErrRefused.Error()+": ")
	if e.shorts++; e.shorts >= mostRefused {
		e.fixed, e.until = why, time.Now().Add(fixedFor)
	}
	e.stay(why)
}

// follow takes note of what happens to the job's replicas.
func (e *elasticJob) follow(ctx context.Context) {
	after := uint64(0)
	for {
		e.mu.Lock()
		job := e.job
		e.mu.Unlock()
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
		// choose them again.
		for _, x := range got.Events {
			if e.jobs.HostFile != "" && (x.Action == control.Lost && x.Role == control.Worker || x.Action == control.HostFailed) {
				e.jobs.suspect(x.Host, errors.New(x.Reason)) // if it cannot be reached, its slots are nobody's
			}
		}
		for _, x := range got.Events {
			after = max(after, x.Number)
			e.event(x)
		}
		if len(got.Events) > 0 {
			e.awaken()
		}
		if got.Phase == control.Finished || got.Phase == control.Failed {
			return
		}
	}
}

func (e *elasticJob) event(x control.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch x.Action {
	case control.Scaled:
		if e.under {
			e.under, e.cost, e.shorts = false, time.Since(e.told), 0
		}
	case control.ScaleShort:
		if e.under {
			e.under = false
			e.refused(x.Reason)
		}
	case control.HostFailed:
		e.jobs.logger().Warn("tune: a host could not run replicas of a trial", "trial", e.trial, "host", x.Host, "cause", x.Reason)
	}
}

// refresh asks the job for its profile.
func (e *elasticJob) refresh(ctx context.Context) {
	e.mu.Lock()
	job := e.job
	e.mu.Unlock()
	if job == nil {
		return
	}
	var s control.Status
	if _, err := job.Ask(ctx, control.Request{Op: control.OpStatus}, &s); err != nil {
		if ctx.Err() == nil {
			e.jobs.logger().Debug("tune: the job of a trial does not answer", "trial", e.trial, "error", err)
		}
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = s.Phase == control.Running
	if s.Adaptation != nil {
		if text, err := control.EncodeAdaptation(*s.Adaptation); err == nil {
			e.profile = text
		}
	}
}
