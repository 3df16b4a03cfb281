package shard

import (
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/wire"
)

// A Config says what a shard is a part of. It does not change.
type Config struct {
	Key    uint64
	Index  uint32 // of the shard in the key's plan
	Name   string // of the key: for multipliers and messages
	Form   uint8  // wire.FormDense or wire.FormRows
	Rule   uint8  // wire.RuleOptimizer or wire.RuleAverage
	Offset uint64 // of the shard in the key; of a key of rows, the shard's index
	Length uint64 // values of the shard
	RowLen uint64 // values of one row; 0 for a dense key
	Size   uint64 // values of the whole key
	Shards uint32 // shards of the whole key
	Pool   *Pool  // where the shard takes its memory from; nil: a pool of its own
}

// ConfigOf returns the Config that an InitShard describes.
func ConfigOf(m *wire.InitShard, pool *Pool) Config {
	return Config{
		Key: m.Key, Index: m.Shard, Name: m.Name, Form: m.Form, Rule: m.Rule,
		Offset: m.Offset, Length: m.Length, RowLen: m.RowLen, Size: m.Size, Shards: m.Shards, Pool: pool,
	}
}

// String names the shard for messages: key "conv1.weight" shard 2.
func (c Config) String() string { return fmt.Sprintf("key %q shard %d", c.Name, c.Index) }

// MaxLength is the largest number of values of one shard: 16 Gi values, or what fits the machine's int.
const MaxLength = min(1<<34, uint64(^uint(0)>>4))

// Validate returns an *Error that names the first field that breaks a rule.
func (c Config) Validate() error {
	bad := func(code wire.Code, format string, args ...any) error {
		return &Error{Code: code, Text: c.String() + ": " + fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Form != wire.FormDense && c.Form != wire.FormRows:
		return bad(wire.CodeMalformed, "form: got %d, want %d (dense) or %d (rows)", c.Form, wire.FormDense, wire.FormRows)
	case c.Rule != wire.RuleOptimizer && c.Rule != wire.RuleAverage:
		return bad(wire.CodeMalformed, "rule: got %d, want %d (optimizer) or %d (average)", c.Rule, wire.RuleOptimizer, wire.RuleAverage)
	case c.Form == wire.FormRows && c.Rule == wire.RuleAverage:
		return bad(wire.CodeUnsupported, "a key of rows cannot have the average rule")
	case c.Form == wire.FormRows && (c.RowLen == 0 || c.Length%c.RowLen != 0):
		return bad(wire.CodeSize, "got %d values in rows of %d, want whole rows", c.Length, c.RowLen)
	case c.Form == wire.FormDense && c.RowLen != 0:
		return bad(wire.CodeMalformed, "row length: got %d, want 0 for a dense key", c.RowLen)
	case c.Length > c.Size || c.Form == wire.FormDense && c.Offset > c.Size-c.Length:
		return bad(wire.CodeSize, "got %d values from %d on, want them within the key's %d", c.Length, c.Offset, c.Size)
	case c.Length > MaxLength:
		return bad(wire.CodeSize, "got %d values, want at most %d", c.Length, uint64(MaxLength))
	case c.Index >= c.Shards:
		return bad(wire.CodeMalformed, "got shard %d of %d", c.Index, c.Shards)
	case len(c.Name) == 0 || len(c.Name) > wire.MaxKeyName:
		return bad(wire.CodeMalformed, "got a name of %d bytes, want 1 to %d", len(c.Name), wire.MaxKeyName)
	}
	return nil
}

// A Shard is one shard of one key. See the package comment.
type Shard struct {
	cfg     Config // immutable, as are pool, n and numRows
	pool    *Pool
	n       int // values
	numRows int // of a key of rows

	mu sync.Mutex // guards all below, and the reader counts of the shard's Versions

	generation uint64
	members    map[uint64]*member
	ranked     []*member // the members in rank order
	async      bool
	pushed     bool // a contribution was accepted
	anySeq     bool // restored from a state: a member's first contribution may have any sequence number

	rounds     uint64 // closed; the open round's number
	open, next round
	sum        sum

	opt     *optim.Optimizer // nil: none
	factors optim.Factors
	state   *optim.State

	current      *Version
	spareVersion []*Version

	waits     []*Wait
	spareWait []*Wait
	err       error // not nil: the shard ended, and all requests with it
}

// New returns a shard with value as its first value, which is copied; nil means zeros. It has no members and is in sync mode.
func New(cfg Config, value []float32) (*Shard, error) {
	if !littleEndian() {
		return nil, &Error{Code: wire.CodeUnsupported, Text: cfg.String() + ": this machine is big-endian, want a little-endian one"}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Shard{cfg: cfg, pool: cfg.Pool, n: int(cfg.Length), members: map[uint64]*member{}}
	if s.pool == nil {
		s.pool = &Pool{}
	}
	if cfg.Form == wire.FormRows {
		s.numRows = int(cfg.Length / cfg.RowLen)
	}
	if value != nil && len(value) != s.n {
		return nil, s.refuse(wire.CodeSize, "init: got %d values, want %d", len(value), s.n)
	}
	var data *Buffer
	if value == nil {
		data = s.pool.zeroed(4 * s.n)
	} else {
		data = s.pool.Get(4 * s.n)
		copy(data.Float32s(s.n), value)
	}
	s.current = &Version{shard: s, data: data}
	return s, nil
}

// Config returns what New was given.
func (s *Shard) Config() Config { return s.cfg }

// Rounds returns how many rounds have closed.
func (s *Shard) Rounds() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds
}

// Fail ends the shard: every wait and every further request ends with err.
func (s *Shard) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

func (s *Shard) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.wake()
}
