package shardserver

import "github.com/paragon-train/paragon/internal/store/wire"

// find returns a shard that workers may use. CodeUnknownKey says that it may come yet, CodeMoved
// at which server it is.
func (s *Server) find(o *wire.Origin) (*entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := shardID{o.Key, o.Shard}
	if e := s.entries[at]; e != nil {
		if err := e.checkUsable(); err != nil {
			return nil, err
		}
		return e, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.placement != nil {
		if x, ok := s.placement.assignmentOf(at, s.backups.peers.Rank()); ok && x.role != primary {
			return nil, refuse(wire.CodeMoved, "key %d shard %d is at server %d", o.Key, o.Shard, s.placement.serverOf(at))
		}
	}
	return nil, refuse(wire.CodeUnknownKey, "key %d shard %d has no value here yet", o.Key, o.Shard)
}

// entryOf returns the shard that a primary copies, or nil.
func (s *Server) entryOf(m *wire.Copy) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries[shardID{m.Key, m.Shard}]
}

// awaitEntry returns a shard that workers may use or, if there is none yet, what to wait for until
// endAwait.
func (s *Server) awaitEntry(at shardID) (*entry, *awaited, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil, s.err
	}
	if e := s.entries[at]; e != nil {
		if err := e.checkUsable(); err == nil || e.assignment().role != primary {
			return e, nil, err
		}
	} else if s.placement != nil {
		if x, ok := s.placement.assignmentOf(at, s.backups.peers.Rank()); ok && x.role != primary {
			return nil, nil, refuse(wire.CodeMoved, "await of key %d shard %d: another server has this shard", at.key, at.index)
		}
	}
	return nil, s.awaited.begin(at), nil
}

// endAwait ends one wait for a shard.
func (s *Server) endAwait(at shardID, a *awaited) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited.end(at, a)
}

// drop drops a shard. Waits for it end with err. The caller holds mu.
func (s *Server) drop(at shardID, err error) {
	e := s.entries[at]
	delete(s.entries, at)
	e.shard.Forget(err)
	s.budget.bytes.Add(-int64(4 * e.cfg.Length))
}

// dropIncoming drops an incoming shard. The caller holds mu.
func (s *Server) dropIncoming(at shardID) {
	x := s.incoming[at]
	delete(s.incoming, at)
	x.shard.Forget(refuse(wire.CodeMoved, "%v is being filled again", x.cfg))
	s.budget.bytes.Add(-x.bytes)
}

// ended returns why the server has ended; nil while it has not.
func (s *Server) ended() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}
