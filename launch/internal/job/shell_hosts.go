package job

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// filesInterval is how often host_worker is read.
const filesInterval = time.Second

// follow hands over edits of host_worker from now on.
func (s *shell) follow() {
	if s.cfg.Elastic.Files != nil {
		s.working.Go(func() { s.followFiles(s.ctx) })
	}
}

// followFiles hands over what edits of host_worker ask for, until ctx ends. A file that cannot be read
// is tried again: editors replace files, and the one that they write may not be whole yet.
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

// askScheduler is Ask of this job's scheduler. What is wanted has an answer of its own; all others say
// only that they were done.
func (s *shell) askScheduler(ctx context.Context, q control.Request) (done control.Done, wanted control.Wanted, err error) {
	into := control.Answer(&done)
	if q.Op == control.OpWanted {
		into = &wanted
	}
	_, err = Ask(ctx, s.cfg.Elastic.Control, s.address, s.controls, q, into)
	return done, wanted, err
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
