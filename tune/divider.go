package tune

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// settleTime is how long a decision about the nodes waits for others that are due: a trial that
// ends is often followed by one that starts.
const settleTime = 200 * time.Millisecond

// A divider makes and carries out the decisions of a study's Allocator while the study runs.
type divider struct {
	study    *Study
	division *division
	// idle is closed when all slots have ended.
	idle <-chan struct{}
}

// run makes the decisions of the study's allocator until the study is over.
func (d *divider) run(ctx context.Context) {
	_, interval := d.division.allocator.Pace()
	timer := time.NewTimer(cmp.Or(interval, time.Hour))
	defer timer.Stop()
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	for {
		wait, err := d.awaitDue(ctx, timer.C, interval)
		if err != nil {
			return
		}
		settle.Reset(wait)
		select {
		case <-settle.C:
		case <-ctx.Done():
			return
		case <-d.idle:
			return
		}
		select {
		// The cause of another decision that has become due is taken now.
		case <-d.division.due:
		default:
		}
		if err := d.allocate(ctx, d.division.take(fmt.Sprintf("%v have passed", interval))); err != nil {
			if ctx.Err() == nil {
				d.study.rec.failWith(err)
			}
			return
		}
		timer.Reset(cmp.Or(interval, time.Hour))
	}
}

// awaitDue waits until a decision is due, and says how long to wait for others.
func (d *divider) awaitDue(ctx context.Context, passed <-chan time.Time, interval time.Duration) (settle time.Duration, err error) {
	for {
		select {
		case <-d.division.due:
			return settleTime, nil
		case why := <-d.division.scaler.Changes():
			d.division.want(why)
			return settleTime, nil
		case <-passed:
			if interval > 0 {
				return 0, nil
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-d.idle:
			return 0, errOver
		}
	}
}

// allocate makes one decision and has it carried out.
func (d *divider) allocate(ctx context.Context, cause string) error {
	cfg, scaler := &d.study.cfg, d.division.scaler
	slots, err := scaler.Slots(ctx, cfg.Resources)
	if err != nil {
		return fmt.Errorf("tune: study %s: find nodes for trials: %w", cfg.Name, err)
	}
	states := scaler.States(ctx, d.dividing())
	shares, err := d.decide(cause, slots, states)
	if err != nil {
		return err
	}
	for _, x := range shares {
		// A trial that is to pause keeps all until it reports.
		if x.Pause {
			continue
		}
		if len(x.On) > 0 {
			d.division.begins(x.Trial, x.attempt)
		}
		scaler.Scale(x.Trial, x.attempt, x.On)
	}
	return nil
}

// attemptShare is a share of a trial's attempt.
type attemptShare struct {
	jobs.Share
	attempt int
}

// dividing are the trials among which nodes are divided.
func (d *divider) dividing() []int {
	d.study.rec.mu.Lock()
	defer d.study.rec.mu.Unlock()
	return d.study.l.view.trials.dividing()
}

// decide makes one decision of the allocator, and returns it when it is on the disk. Some
// trials may have started or ended since their states were asked for.
func (d *divider) decide(cause string, nodes []jobs.NodeSlots, states map[int]jobs.State) ([]attemptShare, error) {
	rec, l := d.study.rec, d.study.l
	rec.mu.Lock()
	e, attempts := l.division(states)
	e.Rule, e.Nodes = clip(cause), nodes
	if len(e.Jobs) == 0 || l.view.stops.halted != "" {
		rec.mu.Unlock()
		return nil, nil
	}
	err := rec.emit(&e, func() (err error) {
		if e.Shares, err = l.allocate(&e); err == nil {
			l.share(&e)
		}
		return err
	})
	rec.mu.Unlock()
	if err == nil {
		err = rec.awaitWritten(e.Seq)
	}
	if err != nil {
		return nil, err
	}
	shares := make([]attemptShare, len(e.Shares))
	for i, x := range e.Shares {
		shares[i] = attemptShare{x, attempts[i]}
	}
	return shares, nil
}
