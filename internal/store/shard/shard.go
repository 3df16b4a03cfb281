package shard

import (
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Shard is one shard of one key. See the package comment.
//
// It is a sum of parts that know nothing of each other: who contributes (members), what has come
// for which round (rounds), what it adds up to (sum), how a value changes by that (updater, table),
// which contributions are bad (guard), who may see the value (readers), and what the backup has
// (replica). The Shard passes events from one to the other, under one mutex.
type Shard struct {
	// cfg has a Host with a Pool. It does not change.
	cfg Config
	// guarded says that guard is not nil. It is read without the mutex.
	guarded atomic.Bool

	// mu guards all below.
	mu   sync.Mutex
	mode mode
	// pushed says that a contribution was accepted: the mode cannot change any more.
	pushed bool
	// anySeq says that the shard was restored from a state, so that a member's first
	// contribution may have any sequence number.
	anySeq    bool
	members   membership
	rounds    rounds
	sum       sum
	stopwatch stopwatch
	counts    exampleCounts
	// guard is nil if contributions are not judged.
	guard   *guard
	updater updater
	table   table
	readers readers
	// replica is nil if the shard has never had a backup.
	replica *replica
	// err, unless nil, has ended the shard, and is what every request returns.
	err error
}

// New returns a shard with value as its first value, which is copied; nil means zeros. It has no
// members and is in sync mode.
func New(cfg Config, value []float32) (*Shard, error) {
	if !littleEndian() {
		return nil, &Error{Code: wire.CodeUnsupported, Text: cfg.String() + ": this machine is big-endian, want a little-endian one"}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Host == nil {
		cfg.Host = &Host{}
	}
	if cfg.Pool == nil {
		own := *cfg.Host
		own.Pool, cfg.Host = &Pool{}, &own
	}
	s := &Shard{cfg: cfg, mode: mode(wire.ModeSync)}
	n := s.cfg.values()
	if value != nil && len(value) != n {
		return nil, s.cfg.refuse(wire.CodeSize, "init: got %d values, want %d", len(value), n)
	}
	if cfg.Form == wire.FormOpen {
		s.table.vocabulary = newVocabulary(&s.cfg)
	}
	s.sum.cfg = &s.cfg
	s.readers = readers{mu: &s.mu, cfg: &s.cfg}
	s.readers.current = &Version{of: &s.readers, data: s.cfg.firstBuffer(value)}
	return s, nil
}

// Config returns the Config given to New, which must not be changed.
func (s *Shard) Config() *Config { return &s.cfg }

// Rounds returns how many rounds have closed.
func (s *Shard) Rounds() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds.number
}
