package shardserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An assignment is this server's role for one shard under one placement.
type assignment struct {
	number uint64
	role   role
	// other is the node of the other server of the shard, the backup or the primary; 0: there
	// is none.
	other uint64
	// rank is the other server's rank.
	rank uint32
}

// A role is a server's role for one shard.
type role uint8

const (
	// unreplicated: the job has no backups, and shards never move.
	unreplicated role = iota
	primary
	backup
	// elsewhere: the shard belongs to other servers.
	elsewhere
)

// A job with backups moves shards between servers: after the loss of a server its shards' backups
// are promoted, and with other servers in the membership shards are copied to them. The scheduler
// decides that alone and numbers its decisions. A server acts by the newest placement it has; what
// one that knows a newer or older one asks of it waits or is refused by name, and is asked again.

// A placement says where shards are. It is immutable, but keys are added. It has all keys of the
// job, so it takes few bytes for each.
type placement struct {
	number uint64
	// nodes are the nodes of servers, by rank.
	nodes map[uint32]uint64
	// first has, by key, the index in places of its first shard.
	first []uint32
	// places are those of the shards of one key after the other.
	places []place
}

// A place is where a shard is.
type place struct {
	// server and backup are ranks; wire.NoServer: there is none.
	server, backup uint32
}

// known is the number of keys that the placement has: those below it.
func (p *placement) known() uint64 { return uint64(len(p.first)) }

// add adds the places of keys from known on, in order. Those of other keys are left out.
func (p *placement) add(got *wire.Places) {
	from := p.known()
	for _, x := range got.Places {
		if x.Key < from {
			continue
		}
		for p.known() <= x.Key {
			p.first = append(p.first, uint32(len(p.places)))
		}
		p.places = append(p.places, place{x.Server, x.Backup})
	}
	for p.known() < got.Next {
		p.first = append(p.first, uint32(len(p.places)))
	}
}

// placeOf returns the place of a shard, or false if the key is not known yet or has no such shard.
func (p *placement) placeOf(at shardID) (place, bool) {
	if at.key >= p.known() {
		return place{}, false
	}
	from, to := uint64(p.first[at.key]), uint64(len(p.places))
	if at.key+1 < p.known() {
		to = uint64(p.first[at.key+1])
	}
	if uint64(at.index) >= to-from {
		return place{}, false
	}
	return p.places[from+uint64(at.index)], true
}

// assignmentOf returns the assignment of the server of rank me for a shard, or false if the key is
// not known yet.
func (p *placement) assignmentOf(at shardID, me uint32) (assignment, bool) {
	where, ok := p.placeOf(at)
	if !ok {
		return assignment{}, false
	}
	x := assignment{number: p.number, role: elsewhere, rank: wire.NoServer}
	switch me {
	case where.server:
		x.role = primary
		if where.backup != wire.NoServer {
			x.rank, x.other = where.backup, p.nodes[where.backup]
		}
	case where.backup:
		x.role, x.rank, x.other = backup, where.server, p.nodes[where.server]
	}
	return x, true
}

// serverOf is the rank of the server of a shard, for messages.
func (p *placement) serverOf(at shardID) uint32 {
	where, _ := p.placeOf(at)
	return where.server
}

// A replicaState is the state of a shard's replication, in a job with backups.
type replicaState struct {
	// mu guards the rest. It may be taken while a shard's own is held.
	mu         sync.Mutex
	assignment assignment
	// wakes is the number of calls of notify since the replicator last looked. Above 0 a
	// goroutine works for the shard.
	wakes int
	// fillNumber is the number of the newest fill.
	fillNumber uint64
	// backupNumber goes up with each change of the backup; a new placement may keep the backup.
	backupNumber uint64
	// refused says that the backup has refused the shard.
	refused bool
	// reportedFilled says that the scheduler knows that the backup has the whole state.
	reportedFilled bool
	// synced is alwaysSynced while the backup has the state, or there is no backup. Nil: the
	// backup lacks some of the state, and no one waits for it.
	synced chan struct{}
	// usable says that workers may use the shard: it was synced once.
	usable bool
	// For a backup: who has filled it. from is, of a backup, the node of the primary that has
	// filled it, and filled the fill's number.
	from   uint64
	filled uint64
}

// newReplicated returns an entry of a shard with a replicaState, in one block of memory.
func newReplicated(sh *shard.Shard) *entry {
	x := &struct {
		entry
		state replicaState
	}{}
	x.shard, x.cfg, x.replica = sh, sh.Config(), &x.state
	return &x.entry
}

func (e *entry) assignment() assignment {
	if e.replica == nil {
		return assignment{}
	}
	e.replica.mu.Lock()
	defer e.replica.mu.Unlock()
	return e.replica.assignment
}

// alwaysSynced is closed.
var alwaysSynced = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// setSynced records that the backup has the state, and reports whether that made the shard usable;
// clearSynced records that it lacks some of it.
func (e *entry) setSynced() (opened bool) {
	st := e.replica
	if st == nil {
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	opened = !st.usable
	st.usable = true
	if st.synced != nil && st.synced != alwaysSynced {
		close(st.synced)
	}
	st.synced = alwaysSynced
	return opened
}

func (st *replicaState) clearSynced() {
	if st.synced == alwaysSynced {
		st.synced = nil
	}
}

// awaitSynced returns a channel that is closed when the backup has the state, and whether it has it
// now.
func (st *replicaState) awaitSynced() (synced chan struct{}, now bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.synced == nil {
		st.synced = make(chan struct{})
	}
	return st.synced, st.synced == alwaysSynced
}

// ErrPlacement says that the placement that belongs to a membership could not be read: it has
// changed again, or the scheduler is out of reach.
var ErrPlacement = errors.New("server: the placement of shards is not known")

// Follow is SetMembership in a job that may have backups: it first reads the placement that belongs
// to the membership. If that fails nothing has changed, and ErrPlacement is in the error's chain.
func (s *Server) Follow(ctx context.Context, m wire.Membership) error {
	if m.Placement == 0 || s.backups == nil {
		return s.SetMembership(m)
	}
	s.mu.RLock()
	have := s.placement
	s.mu.RUnlock()
	if have != nil && have.number == m.Placement {
		return s.SetMembership(m)
	}
	p, err := s.backups.readPlacement(ctx, &m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlacement, err)
	}
	return s.setMembership(m, p)
}

// hasBackups reports whether the job's shards have backups, and so may move.
func (v *membership) hasBackups() bool { return v.placement > 0 }

// SetPeers gives the server access to the other servers; ctx bounds its requests to them. Without
// it no shard has a backup. It must be called before the first request, and Close after the last.
func (s *Server) SetPeers(ctx context.Context, peers Peers) {
	s.backups = &backups{peers: peers, replicator: newReplicator(ctx)}
}

// Close ends what the server does at the other servers; without peers that is nothing. It returns
// when all of the server's goroutines have ended.
func (s *Server) Close() {
	if s.backups != nil {
		s.backups.replicator.close()
	}
}

// assignmentOf returns this server's assignment for a shard. It asks the scheduler if the key is
// new.
func (s *Server) assignmentOf(ctx context.Context, at shardID) (assignment, error) {
	if !s.membership.Load().hasBackups() {
		return assignment{}, nil
	}
	for last := false; ; {
		s.mu.RLock()
		p := s.placement
		var x assignment
		known := false
		if p != nil {
			x, known = p.assignmentOf(at, s.backups.peers.Rank())
			last = last || at.key < p.known()
		}
		s.mu.RUnlock()
		if known {
			return x, nil
		}
		if last {
			return assignment{}, refuse(wire.CodeUnknownKey, "key %d shard %d has no server", at.key, at.index)
		}
		reading, mine := s.backups.newKeys.join()
		if mine {
			ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
			err := s.readNewKeys(ctx)
			cancel()
			s.backups.newKeys.end(reading)
			if err != nil {
				return assignment{}, refuse(err.Code, "key %d shard %d: %s", at.key, at.index, err.Text)
			}
			last = true
			continue
		}
		select {
		// A question that was asked before the key was placed may be answered
		// without it.
		case <-reading:
		case <-ctx.Done():
			return assignment{}, refuse(wire.CodeUnavailable, "key %d shard %d: %v", at.key, at.index, ctx.Err())
		}
	}
}

// readNewKeys asks the scheduler for the places of keys that the placement does not have yet.
func (s *Server) readNewKeys(ctx context.Context) *transport.Refusal {
	s.mu.RLock()
	from := uint64(0)
	if s.placement != nil {
		from = s.placement.known()
	}
	s.mu.RUnlock()
	got, err := s.backups.peers.Places(ctx, from)
	if err != nil {
		return &transport.Refusal{Code: wire.CodeUnavailable, Text: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.placement == nil || s.placement.number != got.Placement || s.placement.known() < from {
		return &transport.Refusal{Code: wire.CodeMoved, Text: "the placement of shards is changing"}
	}
	s.placement.add(&got)
	return nil
}

// setPlacement gives every shard its new assignment. The caller holds mu. It comes before the
// membership of the same change, so that no worker of the new generation finds a shard that has not
// been promoted.
func (s *Server) setPlacement(p *placement) {
	s.placement, s.serves = p, 0
	var over, without int
	for at, e := range s.entries {
		x, ok := p.assignmentOf(at, s.backups.peers.Rank())
		if !ok {
			x = assignment{number: p.number, role: elsewhere, rank: wire.NoServer}
		}
		if x.role == primary {
			s.serves++
		}
		promoted, bare := s.assign(at, e, x)
		if promoted {
			over++
		}
		if bare {
			without++
		}
	}
	if over+without > 0 {
		text := fmt.Sprintf("server: placement %d: promoted to primary of %d shards; %d shards go on without a backup until it is filled", p.number, over, without)
		if over > 0 {
			s.cfg.Logger.Info(text, joblog.ServerPromoted.With("placement", p.number, "promoted", over, "without_backup", without))
		} else {
			s.cfg.Logger.Info(text)
		}
	}
	for at, staged := range s.incoming {
		if x, ok := p.assignmentOf(at, s.backups.peers.Rank()); !ok || x.role != backup || x.other != staged.from {
			s.dropIncoming(at)
		}
	}
	s.backups.replicator.placementChanged()
}

// assign gives a shard a new assignment. promoted: this server was its backup; bare: it has no
// filled backup for now. The caller holds mu.
func (s *Server) assign(at shardID, e *entry, x assignment) (promoted, bare bool) {
	st := e.replica
	// A job has backups from its first shard on, or never, so this cannot be.
	if st == nil {
		return false, false
	}
	st.mu.Lock()
	was := st.assignment
	st.assignment = x
	promoted = was.role == backup && x.role == primary
	anew := x.role == primary && (promoted || was.role != primary || was.other != x.other)
	if anew {
		st.backupNumber++
		st.reportedFilled = false
		st.clearSynced()
	}
	st.mu.Unlock()
	switch {
	case x.role == primary && promoted:
		if opt := s.settings.opt; opt != nil && e.cfg.Rule != wire.RuleAverage && !s.settings.isCurrent(e.shard) {
			if err := shard.SetOptimizer([]*shard.Shard{e.shard}, opt, shard.NoBound); err != nil {
				e.shard.Fail(err)
			}
		}
		s.replicate(e)
		s.wakeWaiters(at, e)
	case x.role == primary:
		if anew {
			e.shard.Detach()
		}
	case was.role == primary || x.role == elsewhere:
		// Another server has the shard now.
		s.drop(at, refuse(wire.CodeMoved, "%v is at server %d", e.cfg, s.placement.serverOf(at)))
		return false, false
	}
	if anew {
		if x.other == 0 {
			s.shardSynced(at, e)
		}
		s.backups.replicator.notifyFill(replicated{s, at, e})
	}
	return promoted, anew
}

// replicate makes the shard notify the replicator of closed rounds. The function is called under
// the shard's mutex, so it hands the work to a goroutine and takes no lock of the server.
func (s *Server) replicate(e *entry) {
	e.shard.SetClosed(func() { s.backups.replicator.notify(replicated{s, shardID{e.cfg.Key, e.cfg.Index}, e}) })
}

// shardSynced is setSynced, and wakes those who wait for a new shard. The caller holds mu.
func (s *Server) shardSynced(at shardID, e *entry) {
	if e.setSynced() {
		s.wakeWaiters(at, e)
	}
}

// wakeWaiters makes the shard usable and wakes those who wait for its first value. The caller holds
// mu.
func (s *Server) wakeWaiters(at shardID, e *entry) {
	if st := e.replica; st != nil {
		st.mu.Lock()
		st.usable = true
		st.mu.Unlock()
	}
	s.awaited.wake(at)
}

// drop drops a shard. Waits for it end with err. The caller holds mu.
func (s *Server) drop(at shardID, err error) {
	e := s.entries[at]
	delete(s.entries, at)
	e.shard.Forget(err)
	s.budget.bytes.Add(-int64(4 * e.cfg.Length))
}

// checkUsable returns an error unless workers may use the shard on this server. A shard that has
// never been synced has a value that only this server has, so that no worker may have seen it yet:
// after a loss it is made anew, and may be another.
func (e *entry) checkUsable() error {
	st := e.replica
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	switch st.assignment.role {
	case unreplicated:
		return nil
	case primary:
		if !st.usable {
			return refuse(wire.CodeUnknownKey, "%v has no value here yet", e.cfg)
		}
		return nil
	}
	return refuse(wire.CodeMoved, "%v is at server %d", e.cfg, st.assignment.rank)
}

// stateReplaced records that the shard's state is about to be replaced.
func (st *replicaState) stateReplaced() {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.assignment.role == primary && st.assignment.other != 0 {
		st.clearSynced()
	}
}

// awaitStateCopied waits until the backup has a newly written state. Without that a Load that was
// answered could be undone by the loss of one server.
func (c *call) awaitStateCopied(ctx context.Context, e *entry) error {
	if c.s.backups == nil || e.assignment().other == 0 {
		return nil
	}
	c.s.backups.replicator.notifyFill(replicated{c.s, shardID{e.cfg.Key, e.cfg.Index}, e})
	for {
		if err := c.awaitSynced(ctx, e); err != nil {
			return err
		}
		st := e.replica
		st.mu.Lock()
		without := st.refused || st.assignment.other == 0
		st.mu.Unlock()
		if on, _ := e.shard.BackupStatus(); on || without {
			return nil
		}
		select {
		// The backup was synced with the state before.
		case <-time.After(firstPause):
		case <-ctx.Done():
		}
	}
}

// awaitSynced waits until the shard's backup, if there is one, has the shard's state.
func (c *call) awaitSynced(ctx context.Context, e *entry) error {
	if c.s.backups == nil {
		return nil
	}
	st := e.replica
	if st == nil {
		return nil
	}
	synced, now := st.awaitSynced()
	if now {
		return e.checkUsable()
	}
	c.patience.set(min(syncWait, c.s.cfg.MaxWait))
	defer c.patience.stop()
	select {
	case <-synced:
		return e.checkUsable()
	case <-ctx.Done():
		return refuse(wire.CodeUnavailable, "%v: %v: the connection ended while it waited for the backup", c.kind, e.cfg)
	case <-c.s.done:
		return c.s.ended()
	case <-c.patience.timer.C:
		return refuse(wire.CodeTimeout, "%v: %v: its backup, server %d, has not acknowledged it for %v", c.kind, e.cfg, e.assignment().rank, syncWait)
	}
}

// syncWait is how long a request waits for a backup before the answer is a timeout, after which the
// worker repeats it. Most fills are shorter; the repeats wait for a longer one.
const syncWait = 20 * time.Second
