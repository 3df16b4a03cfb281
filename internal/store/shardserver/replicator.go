package shardserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A replicator brings shards' closed rounds and states to their backups. At most one goroutine
// works for a shard, until there is nothing left to replicate; then it takes the next shard.
type replicator struct {
	ctx    context.Context
	cancel context.CancelFunc
	jobs   chan job
	work   sync.WaitGroup
	// fills holds a token for each fill under way, and small for those of small shards.
	fills  chan struct{}
	small  chan struct{}
	filled filledReports

	mu sync.Mutex // guards the rest
	// ended says that no new goroutines may start.
	ended bool
	// placementChange is closed by the next change of the placement.
	placementChange chan struct{}
	// fillers is the number of goroutines that work for a shard whose backup is to be filled.
	fillers int
	// unfilled are more such shards, which wait for one of the fillers.
	unfilled []replicated
}

// A replicated is a shard of which a server is the primary.
type replicated struct {
	s  *Server
	at shardID
	e  *entry
}

// A job is a shard for which a goroutine is to work; fills says that its backup is to be filled
// first.
type job struct {
	replicated
	fills bool
}

// A replication is a goroutine's work for one shard after the other.
type replication struct {
	replicated
	// head is reused for each round, and state for each fill.
	head  wire.Replicate
	state wire.Fill
	ack   wire.Ack

	// The context of its requests, which share it until it ends too soon for the next one: a
	// deadline for each costs more than a small request.
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Time
}

// maxFills is how many backups one server fills at a time. No round of these shards closes
// meanwhile, so it is small beside the number of shards. Those of up to smallFill values take
// hardly longer than the messages are on their way, and there may be very many: there are more at a
// time.
const (
	maxFills      = 4
	maxSmallFills = 64
	smallFill     = 4096
)

// maxFillers is how many goroutines work at most for shards whose backups are to be filled. After
// the loss of a server these are all shards that it had a copy of, and a goroutine for each of a
// million would take gigabytes. It is large, so that some backups out of reach do not hold up the
// others.
const maxFillers = 1024

func newReplicator(ctx context.Context) *replicator {
	k := &replicator{jobs: make(chan job), fills: make(chan struct{}, maxFills), small: make(chan struct{}, maxSmallFills), placementChange: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

func (k *replicator) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.cancel()
	k.work.Wait()
}

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

// wake counts a call of notify, and reports whether no goroutine works for the shard yet. The
// goroutine that does looks at the count before and after its work, so that no call is lost between
// its last look and its end.
func (st *replicaState) wake() (first bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wakes++
	return st.wakes == 1
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
	j := &replication{}
	defer j.endRequests()
	for {
		j.replicated = x.replicated
		for {
			st := j.e.replica
			st.mu.Lock()
			seen := st.wakes
			st.mu.Unlock()
			j.work(k)
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

// Pauses between two attempts double from the first to the longest. They are short, because
// workers' pushes wait for the backup.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// refusedPause comes after a backup has refused the shard, which it will most likely do
	// again.
	refusedPause = 5 * time.Second
)

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

// work replicates, and tries again after errors, until there is nothing left, or this server is no
// longer the shard's primary.
func (j *replication) work(k *replicator) {
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
			j.s.mu.Lock()
			j.s.shardSynced(j.at, e)
			j.s.mu.Unlock()
			return
		}
		did, err := j.step(k, x)
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
			if err := j.detach(k, x); err == nil && k.pause(news, refusedPause) {
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

// temporary reports whether a refused request may succeed if it is repeated soon.
func temporary(code wire.Code) bool {
	switch code {
	case wire.CodeMoved, wire.CodeGap, wire.CodeBusy, wire.CodeTimeout, wire.CodeStaleGeneration, wire.CodeUnavailable, wire.CodeUnauthorised:
		return true
	}
	return false
}

// step fills the backup or sends it one round. It returns false if there was nothing to do.
func (j *replication) step(k *replicator, x assignment) (did bool, err error) {
	e := j.e
	on, pending := e.shard.BackupStatus()
	if !on {
		return true, j.fill(k, x)
	}
	if !pending {
		return false, nil
	}
	r := e.shard.Lend()
	if r == nil {
		return false, nil
	}
	data := r.Bytes()
	if len(data) > wire.MaxPayload {
		e.shard.Commit(r, false)
		return true, j.fill(k, x)
	}
	m := &j.head
	*m = wire.Replicate{Copy: j.s.copyOf(e, x), Number: j.number(), Round: r.Round, Closed: r.Generation, Form: r.Form, Rows: uint64(r.Rows), Weight: r.Weight,
		Rate: r.Rate, Norms: r.Norms, Keep: r.Keep, Configured: r.Configured, Config: r.Config, Counts: m.Counts[:0]}
	for _, c := range r.Counts {
		m.Counts = append(m.Counts, wire.CountedPush{Node: c.Node, Seq: c.Seq, Weight: c.Weight, Counted: c.Counted, Norm: c.Norm, Verdict: c.Verdict, Examples: c.Examples})
	}
	err = j.send(k, x, m, data)
	e.shard.Commit(r, err == nil)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeGap {
		return true, j.fill(k, x)
	}
	return true, err
}

func (j *replication) number() uint64 {
	j.e.replica.mu.Lock()
	defer j.e.replica.mu.Unlock()
	return j.e.replica.fillNumber
}

func (s *Server) copyOf(e *entry, x assignment) wire.Copy {
	return wire.Copy{Generation: s.membership.Load().generation, Node: s.backups.peers.ID(), Placement: x.number, Key: e.cfg.Key, Shard: e.cfg.Index}
}

// send sends one request to the backup.
func (j *replication) send(k *replicator, x assignment, m wire.Message, payload ...[]byte) error {
	peer, err := j.s.backups.peers.Server(x.rank)
	if err != nil {
		return err
	}
	_, err = peer.Call(j.requests(k), m, &j.ack, nil, payload...)
	return err
}

// requests returns the context of a request, which has askTimeout to twice that.
func (j *replication) requests(k *replicator) context.Context {
	if now := time.Now(); j.ctx == nil || j.until.Sub(now) < askTimeout {
		j.endRequests()
		j.until = now.Add(2 * askTimeout)
		j.ctx, j.cancel = context.WithDeadline(k.ctx, j.until)
	}
	return j.ctx
}

func (j *replication) endRequests() {
	if j.cancel != nil {
		j.cancel()
	}
}

// askTimeout is how long a backup may take at least for one request before it is repeated. A large
// shard on a slow link takes seconds.
const askTimeout = 30 * time.Second

// fill copies the shard's whole state to the backup.
func (j *replication) fill(k *replicator, x assignment) error {
	e := j.e
	st := e.replica
	turns := k.fills
	if e.cfg.Form == wire.FormDense && e.cfg.Length <= smallFill {
		turns = k.small
	}
	select {
	case turns <- struct{}{}:
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	defer func() { <-turns }()
	st.mu.Lock()
	if st.assignment != x {
		st.mu.Unlock()
		// The next step uses the new assignment.
		return nil
	}
	st.clearSynced()
	st.refused = false
	st.fillNumber++
	number, backupNumber := st.fillNumber, st.backupNumber
	reported := st.reportedFilled
	st.mu.Unlock()

	err := j.sendState(k, x, number)
	if err == nil && !e.shard.EndFill() {
		err = fmt.Errorf("server: fill of %v: its state was replaced meanwhile", e.cfg)
	}
	if err != nil {
		if !reported {
			// The scheduler does not know of this backup yet, so rounds may close
			// without it.
			e.shard.Detach()
		}
		return err
	}
	st.mu.Lock()
	if st.backupNumber != backupNumber {
		// The next step fills the new backup.
		st.mu.Unlock()
		return nil
	}
	st.reportedFilled = true
	st.mu.Unlock()
	if reported {
		j.synced(backupNumber)
		return nil
	}
	// The report is sent concurrently with the next rounds: the scheduler may be down.
	k.filled.report(k, filledReport{j.replicated, x, backupNumber})
	return nil
}

// synced ends the waits for the backup with this number, if it is still the shard's.
func (r *replicated) synced(backupNumber uint64) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.syncedLocked(backupNumber)
}

// syncedLocked is synced for a caller that holds the server's mu.
func (r *replicated) syncedLocked(backupNumber uint64) {
	st := r.e.replica
	st.mu.Lock()
	same := st.assignment.role == primary && st.backupNumber == backupNumber
	st.mu.Unlock()
	if same {
		r.s.shardSynced(r.at, r.e)
	}
}

// reportFilled tells the scheduler whether the backup has the whole state.
func (r *replicated) reportFilled(k *replicator, x assignment, ok bool) error {
	return r.s.backups.peers.Filled(k.ctx, wire.Filled{Placement: x.number, OK: ok,
		Shards: []wire.FilledShard{{Key: r.at.key, Shard: r.at.index, Backup: x.other}}})
}

// detach makes the shard go on without a backup that refuses it. It tells the scheduler first, so
// that this does not promote the backup later.
func (j *replication) detach(k *replicator, x assignment) error {
	st := j.e.replica
	st.mu.Lock()
	reported, backupNumber := st.reportedFilled, st.backupNumber
	st.mu.Unlock()
	if reported {
		if err := j.reportFilled(k, x, false); err != nil {
			return err
		}
		st.mu.Lock()
		if st.backupNumber == backupNumber {
			st.reportedFilled = false
		}
		st.mu.Unlock()
	}
	st.mu.Lock()
	st.refused = true
	st.mu.Unlock()
	j.e.shard.Detach()
	j.synced(backupNumber)
	return nil
}
