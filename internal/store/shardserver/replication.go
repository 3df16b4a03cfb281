package shardserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A replication is a goroutine's work for one shard after the other: it sends the shard's rounds, or
// its whole state, to the backup, one step at a time. What a step's error means, and when the next
// one is due, the replicator decides.
type replication struct {
	replicated
	turns *fillTurns
	// report takes the report of a filled backup, and does not block.
	report func(filledReport)

	// head is reused for each round, and state for each fill.
	head  wire.Replicate
	state wire.Fill
	ack   wire.Ack

	// asking is the context of requests, which share it until it ends too soon for the next one: a
	// deadline for each costs more than a small request. It ends at until.
	asking context.Context
	cancel context.CancelFunc
	until  time.Time
}

// temporary reports whether a refused request may succeed if it is repeated soon.
func temporary(code wire.Code) bool {
	switch code {
	case wire.CodeMoved, wire.CodeGap, wire.CodeBusy, wire.CodeTimeout, wire.CodeStaleGeneration, wire.CodeUnavailable, wire.CodeUnauthorised:
		return true
	}
	return false
}

// step fills the backup or sends it one round. It returns false if there was nothing to do. A
// backup that says CodeGap has another state than this server believed, for instance after it
// was started again: it is filled anew.
func (j *replication) step(ctx context.Context, x assignment) (did bool, err error) {
	e := j.e
	on, pending := e.shard.BackupStatus()
	if !on {
		return true, j.fill(ctx, x)
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
		return true, j.fill(ctx, x)
	}
	m := &j.head
	*m = wire.Replicate{Copy: j.s.copyOf(e, x), Number: j.number(), Round: r.Round, Closed: r.Generation, Form: r.Form, Rows: uint64(r.Rows), Weight: r.Weight,
		Rate: r.Rate, Norms: r.Norms, Keep: r.Keep, Configured: r.Configured, Config: r.Config, Counts: m.Counts[:0]}
	if d := r.Clip; d != nil {
		m.Clipped, m.ClipNorm, m.ClipFactor, m.ClipRank = true, d.Norm, d.Factor, d.Rank
	}
	for _, c := range r.Counts {
		m.Counts = append(m.Counts, wire.CountedPush{Node: c.Node, Seq: c.Seq, Weight: c.Weight, Counted: c.Counted, Norm: c.Norm, Verdict: c.Verdict, Examples: c.Examples})
	}
	err = j.send(ctx, x, m, data)
	e.shard.Commit(r, err == nil)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeGap {
		return true, j.fill(ctx, x)
	}
	return true, err
}

// number is that of the newest fill, which a backup must have to take a round.
func (j *replication) number() uint64 {
	j.e.replica.mu.Lock()
	defer j.e.replica.mu.Unlock()
	return j.e.replica.fillNumber
}

// send sends one request to the backup. Repeating it does no harm: rounds and fills are
// numbered.
func (j *replication) send(ctx context.Context, x assignment, m wire.Message, payload ...[]byte) error {
	peer, err := j.s.backups.peers.Server(x.rank)
	if err != nil {
		return err
	}
	_, err = peer.Call(j.requests(ctx), m, &j.ack, nil, payload...)
	return err
}

// requests returns the context of a request, which has askTimeout to twice that.
func (j *replication) requests(ctx context.Context) context.Context {
	if now := time.Now(); j.asking == nil || j.until.Sub(now) < askTimeout {
		j.endRequests()
		j.until = now.Add(2 * askTimeout)
		j.asking, j.cancel = context.WithDeadline(ctx, j.until)
	}
	return j.asking
}

// endRequests frees the context of requests.
func (j *replication) endRequests() {
	if j.cancel != nil {
		j.cancel()
	}
}

// askTimeout is how long a backup may take at least for one request before it is repeated. A large
// shard on a slow link takes seconds.
const askTimeout = 30 * time.Second

// fill copies the shard's whole state to the backup. No round closes meanwhile. The waits for
// the backup end when the scheduler knows of it: only then a loss of this server promotes that
// backup.
func (j *replication) fill(ctx context.Context, x assignment) error {
	e := j.e
	st := e.replica
	turns := j.turns.of(e.cfg)
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
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

	err := j.sendState(ctx, x, number)
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
	j.report(filledReport{j.replicated, x, backupNumber})
	return nil
}

// sendState sends the shard's whole state to the backup.
func (j *replication) sendState(ctx context.Context, x assignment, number uint64) error {
	f := &fill{shard: j.e.shard, cfg: j.e.cfg, pool: j.s.pool, number: number,
		send:   func(m wire.Message, payload ...[]byte) error { return j.send(ctx, x, m, payload...) },
		copyOf: func() wire.Copy { return j.s.copyOf(j.e, x) },
		base: func() string {
			j.s.mu.RLock()
			defer j.s.mu.RUnlock()
			return j.s.settings.encodedBase()
		}}
	return f.run(&j.state)
}

// detach makes the shard go on without a backup that refuses it. It tells the scheduler first, so
// that this does not promote the backup later.
func (j *replication) detach(ctx context.Context, x assignment) error {
	st := j.e.replica
	st.mu.Lock()
	reported, backupNumber := st.reportedFilled, st.backupNumber
	st.mu.Unlock()
	if reported {
		if err := j.reportFilled(ctx, x, false); err != nil {
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

// copyOf says from whom a message comes, and under which generation and placement. A backup that
// knows older ones waits for these; one to which the sender is not the primary refuses it.
func (s *Server) copyOf(e *entry, x assignment) wire.Copy {
	return wire.Copy{Generation: s.membership.Load().generation, Node: s.backups.peers.ID(), Placement: x.number, Key: e.cfg.Key, Shard: e.cfg.Index}
}
