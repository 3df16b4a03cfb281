package job

import (
	"context"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// filesInterval is how often host_worker is read.
const filesInterval = time.Second

// follow hands over the scheduler's events and edits of host_worker from now on.
func (s *shell) follow() {
	s.working.Go(func() { s.followEvents(s.ctx) })
	if s.cfg.Elastic.Files != nil {
		s.working.Go(func() { s.followFiles(s.ctx) })
	}
}

// followEvents hands over the scheduler's events in their order until ctx ends.
func (s *shell) followEvents(ctx context.Context) {
	for after, pause := uint64(0), false; ctx.Err() == nil; {
		if pause { // a scheduler that answers at once that nothing happened is not asked again at once
			select {
			case <-time.After(firstPause):
			case <-ctx.Done():
				return
			}
		}
		var got control.Events
		q := control.Request{Op: control.OpEvents, After: after, WaitMillis: eventsWait.Milliseconds()}
		if _, err := Ask(ctx, s.cfg.Elastic.Control, s.address, s.controls, q, &got); err != nil {
			select { // the job may be about to end
			case <-time.After(quietTime):
			case <-ctx.Done():
			}
			if ctx.Err() == nil {
				s.cfg.Logger.Error(fmt.Sprintf("launch: follow the changes of the job: %v; hosts can no longer join or leave", err))
			}
			return
		}
		pause = len(got.Events) == 0
		for _, e := range got.Events {
			if e.Number <= after {
				continue
			}
			after = e.Number
			if !s.send(schedulerSaid{Event: e}) {
				return
			}
		}
	}
}

// followFiles hands over what edits of host_worker ask for, until ctx ends.
func (s *shell) followFiles(ctx context.Context) {
	tick := time.NewTicker(filesInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c, err := s.cfg.Elastic.Files.Poll()
		if err != nil {
			s.cfg.Logger.Warn(err.Error())
		}
		if !c.Empty() && !s.send(edited{c}) {
			return
		}
	}
}

// askScheduler is Ask of this job's scheduler.
func (s *shell) askScheduler(ctx context.Context, q control.Request) (done control.Done, status control.Status, err error) {
	into := control.Answer(&done)
	if q.Op == control.OpStatus {
		into = &status
	}
	_, err = Ask(ctx, s.cfg.Elastic.Control, s.address, s.controls, q, into)
	return done, status, err
}

// listed is a host as host_worker has it; the zero Host: it has not.
func (s *shell) listed(name string) hosts.Host {
	h, err := hosts.ParseHost(name)
	if s.cfg.Elastic.Files == nil || err != nil {
		return hosts.Host{}
	}
	for _, l := range s.cfg.Elastic.Files.Hosts() {
		if l.Same(h) {
			return l
		}
	}
	return hosts.Host{}
}

// listHost adds a host to host_worker or removes it, after a decision that did not come from an
// edit of the file.
func (s *shell) listHost(a listHost) {
	files := s.cfg.Elastic.Files
	if files == nil {
		return
	}
	change := files.Remove
	if a.named {
		change = files.Add
	}
	if err := change(a.host); err != nil {
		s.cfg.Logger.Error(err.Error())
	}
}

func (s *shell) logHost(a logHost) {
	if files := s.cfg.Elastic.Files; files != nil {
		if err := files.Log(a.action, a.host, a.timeNS); err != nil {
			s.cfg.Logger.Error(err.Error())
		}
	}
}
