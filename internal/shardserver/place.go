package shardserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// Peers is what a server with backups needs of its place in a job. *cluster.Node is one, and says what each method does.
type Peers interface {
	ID() cluster.NodeID
	Rank() cluster.Rank
	Server(rank cluster.Rank) (transport.Caller, string, error)
	Places(ctx context.Context, from uint64) (wire.Places, error)
	Filled(ctx context.Context, m wire.Filled) error
}

// A post is what this server is for one shard under one placement.
type post struct {
	placement uint64
	role      role
	other     uint64 // node of the shard's other server: of the primary its backup's, and the other way round; 0: none
	rank      uint32 // and its rank
}

// A role is this server's for one shard. In a job whose shards have no backups and never move all are alone.
type role uint8

const (
	alone role = iota
	primary
	follower
	stranger // the shard is elsewhere
)

// places says where shards are. It does not change but for keys that are added.
type places struct {
	placement uint64
	nodes     map[uint32]uint64 // of servers, by rank
	at        map[place]wire.Place
}

// post returns this server's for a shard, or false for a shard of a key that is not known yet.
func (p *places) post(at place, me uint32) (post, bool) {
	where, ok := p.at[at]
	if !ok {
		return post{}, false
	}
	x := post{placement: p.placement, role: stranger, rank: wire.NoServer}
	switch me {
	case where.Server:
		x.role = primary
		if where.Backup != wire.NoServer {
			x.rank, x.other = where.Backup, p.nodes[where.Backup]
		}
	case where.Backup:
		x.role, x.rank, x.other = follower, where.Server, p.nodes[where.Server]
	}
	return x, true
}

// standing is how far a shard's backup has come. It is part of an entry.
type standing struct {
	mu      sync.Mutex // guards the rest; may be taken while a shard's own is held
	post    post
	wakes   int           // how often there was something to hand on since the entry's copier looked; above 0 it is at work
	number  uint64        // of the newest fill
	term    uint64        // goes up with each other backup; a new placement may leave this one as it is
	refused bool          // the backup cannot take the shard
	said    bool          // the scheduler may take the backup for whole
	settled chan struct{} // closed while the shard's state is where it must be: the backup has it, or there is none
	open    bool          // workers may use the shard: it was settled once
	job     *job
	// Of a shard that another server fills or has filled.
	from   uint64 // that node
	filled uint64 // its number
}

func (e *entry) at() post {
	e.standing.mu.Lock()
	defer e.standing.mu.Unlock()
	return e.standing.post
}

// settle says that nothing is missing; unsettle that something is.
func (e *entry) settle() (opened bool) {
	st := &e.standing
	st.mu.Lock()
	defer st.mu.Unlock()
	opened = !st.open
	st.open = true
	select {
	case <-st.settled:
	default:
		close(st.settled)
	}
	return opened
}

func (st *standing) unsettle() {
	select {
	case <-st.settled:
		st.settled = make(chan struct{})
	default:
	}
}

// guarded reports whether the job's shards have backups, or may move.
func (v *view) guarded() bool { return v.placement > 0 }

// SetPeers tells the server how to reach the others; ctx bounds what it asks of them. Without it no shard has a backup. It is called
// before anything is served.
func (s *Server) SetPeers(ctx context.Context, peers Peers) {
	s.peers = peers
	s.copiers = newCopiers(ctx)
}

// whereabouts returns this server's post for a shard, asking the scheduler if the key is new.
func (s *Server) whereabouts(ctx context.Context, at place) (post, error) {
	if !s.view.Load().guarded() {
		return post{}, nil
	}
	for again := false; ; again = true {
		s.mu.RLock()
		p := s.places
		var x post
		known := false
		if p != nil {
			x, known = p.post(at, uint32(s.peers.Rank()))
		}
		s.mu.RUnlock()
		if known {
			return x, nil
		}
		if again {
			return post{}, refuse(wire.CodeUnknownKey, "key %d shard %d was placed nowhere", at.key, at.index)
		}
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
		got, err := s.peers.Places(ctx, at.key)
		cancel()
		if err != nil {
			return post{}, refuse(wire.CodeUnavailable, "key %d shard %d: %v", at.key, at.index, err)
		}
		s.mu.Lock()
		if s.places == nil || s.places.placement != got.Placement {
			s.mu.Unlock()
			return post{}, refuse(wire.CodeMoved, "key %d shard %d: shards are being placed anew", at.key, at.index)
		}
		for _, x := range got.Places {
			s.places.at[place{x.Key, x.Shard}] = x
		}
		s.mu.Unlock()
	}
}

// readPlaces brings the places of a membership, before the server takes that in.
func (s *Server) readPlaces(ctx context.Context, m *wire.Membership) (*places, error) {
	if m.Placement == 0 || s.peers == nil {
		return nil, nil
	}
	s.mu.RLock()
	have := s.places
	s.mu.RUnlock()
	if have != nil && have.placement == m.Placement {
		return nil, nil
	}
	p := &places{placement: m.Placement, nodes: map[uint32]uint64{}, at: map[place]wire.Place{}}
	for _, n := range m.Nodes {
		if n.Role == wire.RoleServer && n.Rank >= 0 {
			p.nodes[uint32(n.Rank)] = n.Node
		}
	}
	got, err := s.peers.Places(ctx, 0)
	if err != nil {
		return nil, err
	}
	if got.Placement != m.Placement {
		return nil, fmt.Errorf("server: places: got those of placement %d, want %d", got.Placement, m.Placement)
	}
	for _, x := range got.Places {
		p.at[place{x.Key, x.Shard}] = x
	}
	return p, nil
}

// setPlaces gives every shard here its post. The caller holds mu.
func (s *Server) setPlaces(p *places) {
	s.places = p
	var over, without int
	for at, e := range s.entries {
		x, ok := p.post(at, uint32(s.peers.Rank()))
		if !ok {
			x = post{placement: p.placement, role: stranger, rank: wire.NoServer}
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
		s.cfg.Logger.Info(fmt.Sprintf("server: placement %d: took %d shards over; %d go on without a backup until it has them", p.placement, over, without))
	}
	for at, staged := range s.staged {
		if x, ok := p.post(at, uint32(s.peers.Rank())); !ok || x.role != follower || x.other != staged.from {
			s.unstage(at)
		}
	}
	s.copiers.changed()
}

// assign gives a shard a new post, and reports whether it was taken over, and whether it lacks a backup for now. The caller holds mu.
func (s *Server) assign(at place, e *entry, x post) (promoted, bare bool) {
	st := &e.standing
	st.mu.Lock()
	was := st.post
	st.post = x
	promoted = was.role == follower && x.role == primary
	anew := x.role == primary && (promoted || was.role != primary || was.other != x.other)
	if anew {
		st.term++
		st.said = false
		st.unsettle()
	}
	st.mu.Unlock()
	switch {
	case x.role == primary && promoted:
		have, ok := e.shard.Optimizer()
		if s.opt != nil && e.cfg.Rule != wire.RuleAverage && !e.shard.SameOptimizer(s.opt) && !(ok && later(s.opt.Config(), have)) {
			if err := shard.SetOptimizer([]*shard.Shard{e.shard}, s.opt, shard.NoBound); err != nil {
				e.shard.Fail(err)
			}
		}
		s.serveShard(e)
		s.opened(at, e)
	case x.role == primary:
		if anew {
			e.shard.Detach()
		}
	case was.role == primary || x.role == stranger: // what it has belongs to another server now
		s.drop(at, refuse(wire.CodeMoved, "%v is at server %d", e.cfg, s.places.at[at].Server))
		return false, false
	}
	if anew {
		if x.other == 0 {
			s.settled(at, e)
		}
		s.copiers.notify(s, at, e)
	}
	return promoted, anew
}

// serveShard makes the shard call for its copier.
func (s *Server) serveShard(e *entry) {
	at := place{e.cfg.Key, e.cfg.Index}
	e.shard.SetClosed(func() { s.copiers.notify(s, at, e) })
}

// settled is settle, which opens a new shard to workers. The caller holds mu.
func (s *Server) settled(at place, e *entry) {
	if e.settle() {
		s.opened(at, e)
	}
}

// opened wakes those who wait for a shard's first value. The caller holds mu.
func (s *Server) opened(at place, e *entry) {
	st := &e.standing
	st.mu.Lock()
	st.open = true
	st.mu.Unlock()
	if a := s.awaited[at]; a != nil {
		close(a.created)
		delete(s.awaited, at)
	}
}

func (e *entry) isOpen() bool {
	e.standing.mu.Lock()
	defer e.standing.mu.Unlock()
	return e.standing.open
}

// drop forgets a shard; who waits for it gets err. The caller holds mu.
func (s *Server) drop(at place, err error) {
	e := s.entries[at]
	delete(s.entries, at)
	e.shard.Forget(err)
	s.bytes.Add(-int64(4 * e.cfg.Length))
}

// ours returns an error unless workers may use the shard here.
func (e *entry) ours() error {
	st := &e.standing
	st.mu.Lock()
	defer st.mu.Unlock()
	switch st.post.role {
	case alone:
		return nil
	case primary:
		if !st.open {
			return refuse(wire.CodeUnknownKey, "%v has no value here yet", e.cfg)
		}
		return nil
	}
	return refuse(wire.CodeMoved, "%v is at server %d", e.cfg, st.post.rank)
}

// touch says that the shard's state is about to be replaced.
func (st *standing) touch() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.post.role == primary && st.post.other != 0 {
		st.unsettle()
	}
}

// awaitCopied waits until the backup has a state that was written.
func (c *call) awaitCopied(ctx context.Context, e *entry) error {
	if c.s.peers == nil || e.at().other == 0 {
		return nil
	}
	c.s.copiers.notify(c.s, place{e.cfg.Key, e.cfg.Index}, e)
	for {
		if err := c.awaitSettled(ctx, e); err != nil {
			return err
		}
		st := &e.standing
		st.mu.Lock()
		without := st.refused || st.post.other == 0
		st.mu.Unlock()
		if on, _ := e.shard.BackupStatus(); on || without {
			return nil
		}
		select { // it was settled with what it was before
		case <-time.After(firstPause):
		case <-ctx.Done():
		}
	}
}

// awaitSettled waits until the shard's backup has what the shard is, if there is one.
func (c *call) awaitSettled(ctx context.Context, e *entry) error {
	if c.s.peers == nil {
		return nil
	}
	st := &e.standing
	st.mu.Lock()
	settled := st.settled
	st.mu.Unlock()
	if settled == nil {
		return nil
	}
	timer := time.NewTimer(min(settleWait, c.s.cfg.MaxWait))
	defer timer.Stop()
	select {
	case <-settled:
		return e.ours()
	case <-ctx.Done():
		return refuse(wire.CodeUnavailable, "%v: %v: the connection ended while it waited for the backup", c.kind, e.cfg)
	case <-c.s.done:
		return c.s.ended()
	case <-timer.C:
		return refuse(wire.CodeTimeout, "%v: %v: server %d, its backup, has not got it for %v", c.kind, e.cfg, e.at().rank, settleWait)
	}
}

// settleWait is how long a request waits for a backup before it is answered with a timeout, and comes again.
const settleWait = 20 * time.Second
