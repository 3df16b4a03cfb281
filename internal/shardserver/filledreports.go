package shardserver

import (
	"errors"
	"sync"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/wire"
)

// filledReports collects the reports of filled backups for the scheduler: those that come while one is on its way go together in the next. So many new keys
// cost few messages.
type filledReports struct {
	mu      sync.Mutex // guards the rest
	waiting []filledReport
	sending bool // a goroutine sends them
}

// A filledReport is of one shard.
type filledReport struct {
	replication *replication
	assignment  assignment
	done        chan error // has room for the answer
}

// maxReported bounds the shards of one message: 20 bytes each.
const maxReported = 2048

// report tells the scheduler that the backup of a shard has the whole state, and returns its answer.
func (f *filledReports) report(k *replicator, j *replication, x assignment) error {
	r := filledReport{j, x, make(chan error, 1)}
	f.mu.Lock()
	f.waiting = append(f.waiting, r)
	first := !f.sending
	f.sending = true
	f.mu.Unlock()
	if first {
		k.work.Go(func() { f.send(k) }) // the caller is one of work's, too, so it has not been waited for yet
	}
	return <-r.done
}

// send sends what waits, until nothing does.
func (f *filledReports) send(k *replicator) {
	for {
		list := f.take()
		if len(list) == 0 {
			return
		}
		m := wire.Filled{Placement: list[0].assignment.number, OK: true}
		for _, r := range list {
			m.Shards = append(m.Shards, r.shard())
		}
		err := list[0].replication.s.peers.Filled(k.ctx, m)
		for _, r := range list {
			if errors.Is(err, cluster.ErrMoved) && len(list) > 1 { // one of them has: each is reported by itself
				r.done <- r.replication.reportFilled(k, r.assignment, true)
			} else {
				r.done <- err
			}
		}
	}
}

// take takes reports of one placement; none: nothing waits, and the next report starts another goroutine.
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

func (r *filledReport) shard() wire.FilledShard {
	return wire.FilledShard{Key: r.replication.at.key, Shard: r.replication.at.index, Backup: r.assignment.other}
}
