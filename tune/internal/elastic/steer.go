package elastic

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/tune/jobs"
)

const (
	// retryPause is the time before another question to a job that is forming, or whose
	// scheduler does not answer.
	retryPause = 500 * time.Millisecond
	// eventsWait is how long a job's scheduler may hold a question for events.
	eventsWait = 10 * time.Second
	// stuckAfter is the time after which a decision that waits for slots of others is given up.
	stuckAfter = time.Minute
)

// Run carries decisions out while the job runs, until ctx ends.
func (j *Job) Run(ctx context.Context, least int) {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { j.steer(ctx, least) })
	both.Go(func() { j.follow(ctx) })
}

// steer tells the launcher what replicas to have, whenever that changes.
func (j *Job) steer(ctx context.Context, least int) {
	if !j.find(ctx) || !j.awaitComplete(ctx) {
		return
	}
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	for {
		changed := j.env.Alloc.Changed()
		if p := j.nextOrder(least); len(p) > 0 && !j.command(ctx, p) {
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		timer.Reset(stuckAfter)
		select {
		case <-changed:
		case <-j.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// nextOrder is what the launcher is to be told now; empty: nothing new. A decision that has waited
// too long for slots of others is given up.
func (j *Job) nextOrder(least int) jobs.Placement {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exchange()
	p := j.next(least)
	if len(p) > 0 && !p.Equal(j.order.placement) {
		return p
	}
	if !j.units.held().Equal(j.want) && j.order.state == settled && time.Since(j.since) > stuckAfter {
		j.stay("the slots that it was to get are still in use by other trials")
	}
	return nil
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

// find waits for the launcher's process, and finds the job that it leads.
func (j *Job) find(ctx context.Context) bool {
	var pid int
	select {
	case pid = <-j.launcher:
	case <-ctx.Done():
		return false
	}
	for {
		job, err := jobcontrol.Of(pid)
		if err == nil {
			j.mu.Lock()
			j.job = job
			j.mu.Unlock()
			return true
		}
		if !pause(ctx, retryPause) {
			return false
		}
	}
}

// awaitComplete waits until the job is complete: until then it has the replicas that it began with.
func (j *Job) awaitComplete(ctx context.Context) bool {
	for {
		j.refresh(ctx)
		j.mu.Lock()
		complete := j.complete
		if complete {
			j.order.state = settled
		}
		j.mu.Unlock()
		if complete {
			return true
		}
		if !pause(ctx, retryPause) {
			return false
		}
	}
}

// command tells the launcher what replicas the job is to have. It returns false if that should be
// tried again.
func (j *Job) command(ctx context.Context, p jobs.Placement) bool {
	q := control.Request{Op: control.OpScale}
	for _, x := range p {
		host := x.Node
		if j.env.Local != "" {
			host = "localhost"
		}
		q.Placement = append(q.Placement, control.WorkersOnHost{Host: host, Workers: x.Replicas})
	}
	err := j.addHosts(ctx, p)
	if err == nil {
		_, err = j.job.Ask(ctx, q, &control.Done{})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.order = order{p, time.Now(), underWay}
		return true
	case ctx.Err() != nil:
		return true
	case errors.Is(err, control.ErrRefused) && !errors.Is(err, control.ErrLater):
		j.refused(err.Error())
		return true
	}
	return false
}

// addHosts adds hosts to the job that the search did not have when the job began.
func (j *Job) addHosts(ctx context.Context, p jobs.Placement) error {
	if j.env.Local != "" {
		return nil
	}
	for _, x := range p {
		j.mu.Lock()
		_, known := j.hosts[x.Node]
		j.mu.Unlock()
		if known {
			continue
		}
		if _, err := j.job.Ask(ctx, control.Request{Op: control.OpAdd, Host: x.Node, Slots: x.Replicas}, &control.Done{}); err != nil {
			return err
		}
		j.mu.Lock()
		j.hosts[x.Node] = x.Replicas
		j.mu.Unlock()
	}
	return nil
}

// refused takes note of a change that the job does not carry out. j.mu is held.
func (j *Job) refused(why string) {
	why = strings.TrimPrefix(why, control.ErrRefused.Error()+": ")
	j.refusals.note(why, time.Now())
	j.stay(why)
}
