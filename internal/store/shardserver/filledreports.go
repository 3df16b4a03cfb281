package shardserver

import (
	"context"
	"errors"
	"sync"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// filledReports collects the reports of filled backups for the scheduler: those that come while one
// is on its way go together in the next. So many new keys cost few messages.
type filledReports struct {
	// mu guards the rest.
	mu      sync.Mutex
	waiting []filledReport
	// sending says that a goroutine sends the reports.
	sending bool
}

// A filledReport is of one shard, under an assignment, whose backup had this number.
type filledReport struct {
	replicated
	assignment   assignment
	backupNumber uint64
}

// maxReported bounds the shards of one message: 20 bytes each.
const maxReported = 2048

// add adds the report that the backup of a shard has the whole state. first says that no goroutine
// sends reports: the caller is to start one, with send.
func (f *filledReports) add(r filledReport) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, r)
	first = !f.sending
	f.sending = true
	return first
}

// send sends what waits, until nothing does, and ends the waits for what was reported.
func (f *filledReports) send(ctx context.Context) {
	for {
		list := f.take()
		if len(list) == 0 {
			return
		}
		m := wire.Filled{Placement: list[0].assignment.number, OK: true, Shards: make([]wire.FilledShard, 0, len(list))}
		for i := range list {
			r := &list[i]
			m.Shards = append(m.Shards, wire.FilledShard{Key: r.at.key, Shard: r.at.index, Backup: r.assignment.other})
		}
		s := list[0].s
		err := s.backups.peers.Filled(ctx, m)
		if err == nil {
			s.mu.Lock()
			for i := range list {
				list[i].syncedLocked(list[i].backupNumber)
			}
			s.mu.Unlock()
			continue
		}
		for i := range list {
			r, err := &list[i], err
			if hasMoved(err) && len(list) > 1 {
				// One of the shards has moved: each is reported by itself.
				err = r.reportFilled(ctx, r.assignment, true)
			}
			switch {
			case err == nil:
				r.synced(r.backupNumber)
			case ctx.Err() == nil:
				s.cfg.Logger.Warn("server: report a filled backup", "shard", r.e.cfg.String(), "backup", r.assignment.rank, "err", err)
			}
		}
	}
}

// hasMoved reports whether a request was refused because a shard is at other servers now.
func hasMoved(err error) bool {
	var refusal *transport.Refusal
	return errors.As(err, &refusal) && refusal.Code == wire.CodeMoved
}

// take takes reports of one placement; none: nothing waits, and the next report starts another
// goroutine.
func (f *filledReports) take() (list []filledReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < min(len(f.waiting), maxReported) && f.waiting[n].assignment.number == f.waiting[0].assignment.number {
		n++
	}
	list, f.waiting = f.waiting[:n:n], f.waiting[n:]
	if n == 0 {
		f.sending, f.waiting = false, nil
	}
	return list
}
