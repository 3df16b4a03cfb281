package shardserver

import (
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/freelist"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Server holds one server's shards and its state of the job. It is a transport.Handler; all of
// its methods may be called concurrently.
//
// Requests of workers never take mu for long, and never while they hold a shard's mutex: mu comes
// first. What a request needs of the job lies in the membership, which is replaced as a whole.
type Server struct {
	cfg Config
	limits
	clock clock
	pool  *shard.Pool
	// membership is replaced under mu.
	membership atomic.Pointer[membership]

	// rounds is the number of rounds that the busiest shard has been pushed to.
	rounds atomic.Uint64
	budget budget
	// meter is nil if nothing is measured.
	meter *meter
	// host is what the Configs of all shards have in common.
	host     shard.Host
	panics   atomic.Int64
	guardLog guardLog
	profiles profiles
	waitLog  waitLog
	spare    freelist.List[call]

	// backups is nil if no shard has a backup.
	backups *backups

	// done is closed by Fail.
	done chan struct{}

	// mu guards all below. It is never taken while a shard's mutex is held.
	mu      sync.RWMutex
	entries entries
	// serves is the number of entries that workers use: all but backups.
	serves int
	// incoming are the shards that are being copied to this server, their new backup.
	incoming incomingShards
	// placement is nil if no shard has a backup.
	placement *placement
	awaited   awaitTable
	settings  settings
	err       error
}

// New returns a Server without shards and members. It starts no goroutine.
func New(cfg Config) *Server { return newServer(cfg, remote, &shard.Pool{Shared: true}) }

// newServer returns a Server with limits that depend on who sends, and memory of a pool.
func newServer(cfg Config, l limits, pool *shard.Pool) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:      cfg,
		limits:   l,
		clock:    newClock(cfg.Trace),
		pool:     pool,
		budget:   newBudget(),
		done:     make(chan struct{}),
		entries:  entries{},
		incoming: incomingShards{},
		awaited:  awaitTable{},
	}
	s.measure()
	s.host = shard.Host{Pool: pool, Grow: func(bytes int64) error { return s.budget.reserve(bytes, cfg.MaxBytes) }, Caught: func(cfg *shard.Config, x shard.Caught) { s.guardLog.record(cfg, s.membership.Load(), x) }}
	if s.meter != nil {
		s.host.Meter = s.meter
	}
	s.membership.Store(newMembership(&wire.Membership{}, nil, s.blames()))
	return s
}

// blames are those of all workers; nil: nothing is measured.
func (s *Server) blames() *blameTable {
	if s.meter == nil {
		return nil
	}
	return &s.meter.blames
}

// Fail ends all waits and refuses all further requests with CodeUnavailable and the reason.
func (s *Server) Fail(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = transport.Refuse(wire.CodeUnavailable, s.membership.Load().generation, "server: %s", reason)
	for _, e := range s.entries {
		e.shard.Fail(s.err)
	}
	s.profiles.endAll()
	close(s.done)
}

// Sweep frees memory that was not used since the last call, such as that of shards that have moved
// to other servers.
func (s *Server) Sweep() { s.pool.Sweep() }

// Rounds returns how many rounds the busiest shard has been pushed to.
func (s *Server) Rounds() uint64 { return s.rounds.Load() }

// measure makes the server record into its Config's Recorder.
func (s *Server) measure() {
	if s.cfg.Recorder == nil && s.cfg.Trace == nil {
		return
	}
	s.meter = &meter{recorder: s.cfg.Recorder, trace: s.cfg.Trace, clock: &s.clock, membership: &s.membership, bytes: &s.budget.bytes, served: s.served,
		blames: blameTable{nodes: map[uint64]*blame{}}}
	s.cfg.Recorder.Collect(s.meter.collect)
	s.cfg.Recorder.CollectBlames(func() []telemetry.Blame { return s.meter.blames.newest(s.clock.now()) })
}

// served is the number of shards that workers use on this server: all but those of which it is a
// backup. It does not wait for a call that changes all shards, which may take long: a heartbeat
// would come too late. ok is false then.
func (s *Server) served() (n int, ok bool) {
	if !s.mu.TryRLock() {
		return 0, false
	}
	defer s.mu.RUnlock()
	return s.serves, true
}
