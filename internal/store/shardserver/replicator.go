package shardserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// A replicator brings shards' closed rounds and states to their backups. At most one goroutine
// works for a shard, until there is nothing left to replicate; then it takes the next shard.
//
// notify is called under a shard's mutex, so nothing here that notify takes may be held while a
// shard is called: mu guards lists and counts alone.
type replicator struct {
	ctx    context.Context
	cancel context.CancelFunc
	jobs   chan job
	work   sync.WaitGroup
	turns  *fillTurns
	filled filledReports

	// mu guards the rest.
	mu sync.Mutex
	// ended says that no new goroutines may start.
	ended bool
	// placementChange is closed by the next change of the placement.
	placementChange chan struct{}
	// fillers is the number of goroutines that work for a shard whose backup is to be filled.
	fillers int
	// unfilled are more such shards, which wait for one of the fillers.
	unfilled []replicated
}

// A job is a shard for which a goroutine is to work; fills says that its backup is to be filled
// first.
type job struct {
	replicated
	fills bool
}

// maxFillers is how many goroutines work at most for shards whose backups are to be filled. After
// the loss of a server these are all shards that it had a copy of, and a goroutine for each of a
// million would take gigabytes. It is large, so that some backups out of reach do not hold up the
// others.
const maxFillers = 1024

// newReplicator returns a replicator without goroutines. ctx bounds all of its requests.
func newReplicator(ctx context.Context) *replicator {
	k := &replicator{jobs: make(chan job), turns: newFillTurns(), placementChange: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

// close ends the requests under way and waits for the goroutines.
func (k *replicator) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.cancel()
	k.work.Wait()
}

// placementChanged wakes the replications that pause after an error: most errors are over with
// the next placement.
func (k *replicator) placementChanged() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.placementChange)
	k.placementChange = make(chan struct{})
}

// notify makes the replicator look for work at a shard: a closed round. It does not block.
func (k *replicator) notify(r replicated) {
	if r.e.replica.wake() {
		k.start(job{r, false})
	}
}

// notifyFill is notify for a shard whose backup is to be filled. It may wait for others, which
// rounds never do.
func (k *replicator) notifyFill(r replicated) {
	if !r.e.replica.wake() {
		return
	}
	k.mu.Lock()
	busy := k.fillers >= maxFillers
	if busy {
		k.unfilled = append(k.unfilled, r)
	} else {
		k.fillers++
	}
	k.mu.Unlock()
	if !busy {
		k.start(job{r, true})
	}
}

// start gives a job to an idle goroutine, or to a new one. It may be called under a shard's mutex,
// so it never waits for one that is busy.
func (k *replicator) start(x job) {
	select {
	case k.jobs <- x:
	default:
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.ended {
			k.work.Go(func() { k.run(x) })
		}
	}
}

// nextFill returns the next shard whose backup is to be filled. If there is none the goroutine that
// asks is free for any shard.
func (k *replicator) nextFill() (r replicated, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unfilled) == 0 {
		k.fillers--
		k.unfilled = nil
		return replicated{}, false
	}
	r = k.unfilled[0]
	k.unfilled[0], k.unfilled = replicated{}, k.unfilled[1:]
	return r, true
}

// run works for the shard of x, then for others.
func (k *replicator) run(x job) {
	j := &replication{turns: k.turns, report: k.report}
	defer j.endRequests()
	for {
		j.replicated = x.replicated
		for {
			st := j.e.replica
			st.mu.Lock()
			seen := st.wakes
			st.mu.Unlock()
			k.bringUp(j)
			st.mu.Lock()
			over := st.wakes == seen || k.ctx.Err() != nil
			if over {
				st.wakes = 0
			}
			st.mu.Unlock()
			if over {
				break
			}
		}
		if x.fills {
			if x.replicated, x.fills = k.nextFill(); x.fills && k.ctx.Err() == nil {
				continue
			}
		}
		j.replicated = replicated{}
		select {
		case x = <-k.jobs:
		case <-k.ctx.Done():
			return
		}
	}
}

// report adds a report for the scheduler, and starts the goroutine that sends it if there is none.
func (k *replicator) report(r filledReport) {
	if !k.filled.add(r) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		k.work.Go(func() { k.filled.send(k.ctx) })
	}
}

// pause waits for d or until the placement changes. It returns false if the server ends.
func (k *replicator) pause(news <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-k.ctx.Done():
		return false
	}
	return k.ctx.Err() == nil
}

// bringUp replicates a shard, and tries again after errors, until there is nothing left, or this server is no
// longer the shard's primary.
func (k *replicator) bringUp(j *replication) {
	e := j.e
	loggedAt := time.Now()
	for pause := firstPause; k.ctx.Err() == nil; pause = min(2*pause, longestPause) {
		k.mu.Lock()
		news := k.placementChange
		k.mu.Unlock()
		x := e.assignment()
		if x.role != primary {
			return
		}
		if x.other == 0 {
			e.shard.Detach()
			j.syncedAlone()
			return
		}
		did, err := j.step(k.ctx, x)
		switch {
		case err == nil && !did:
			return
		case err == nil:
			pause = firstPause / 2
			continue
		case k.ctx.Err() != nil:
			return
		}
		var refusal *transport.Refusal
		if errors.As(err, &refusal) && !temporary(refusal.Code) {
			j.s.cfg.Logger.Warn("server: a backup refuses a shard; the shard goes on without a backup", "shard", e.cfg.String(), "backup", x.rank, "err", err,
				joblog.BackupRefused.With())
			if err := j.detach(k.ctx, x); err == nil && k.pause(news, refusedPause) {
				continue
			}
		}
		if time.Since(loggedAt) > j.s.cfg.ExplainAfter {
			loggedAt = time.Now()
			j.s.cfg.Logger.Info("server: waiting for a backup", "shard", e.cfg.String(), "backup", x.rank, "err", err,
				joblog.Waiting.With("waiting_for", fmt.Sprintf("backup %d", x.rank)))
		}
		if !k.pause(news, pause) {
			return
		}
	}
}

// Pauses between two attempts double from the first to the longest. They are short, because
// workers' pushes wait for the backup.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// refusedPause comes after a backup has refused the shard, which it will most likely do
	// again.
	refusedPause = 5 * time.Second
)
