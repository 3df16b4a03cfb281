package shard

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A Config describes a shard and its key. It does not change.
type Config struct {
	Key    uint64
	Index  uint32 // of the shard in the key's plan
	Shards uint32 // of the whole key
	Name   string // of the key: for multipliers and messages
	Form   uint8  // wire.FormDense, wire.FormRows or wire.FormOpen
	Rule   uint8  // wire.RuleOptimizer or wire.RuleAverage
	Offset uint64 // first value of the shard in the key; for a key of rows, the shard's index
	Length uint64 // values of the shard
	RowLen uint64 // values of one row; 0 for a dense key
	Size   uint64 // values of the whole key
	Table  *Table // for a key of rows; nil: the zero Table
	*Host         // nil: nothing is shared with other shards, and nothing is called
}

// A Host is what the shards of one server have in common.
type Host struct {
	Pool *Pool // where the shards allocate; nil: each has a pool of its own
	// Grow, unless nil, is called before an open vocabulary allocates this many bytes for
	// values and index, and with a negative number when it frees some. Its error refuses the
	// contribution. It is called under the shard's mutex.
	Grow func(bytes int64) error
	// Caught, unless nil, is called with each contribution that the guard refuses or clips,
	// under the shard's mutex.
	Caught func(*Config, Caught)
	Meter  Meter // nil: nothing is measured
}

// ConfigOf returns the Config that an InitShard describes. A table that Table.Encode did not make
// is an error.
func ConfigOf(m *wire.InitShard, host *Host) (Config, error) {
	c := Config{
		Key: m.Key, Index: m.Shard, Name: m.Name, Form: m.Form, Rule: m.Rule,
		Offset: m.Offset, Length: m.Length, RowLen: m.RowLen, Size: m.Size, Shards: m.Shards, Host: host,
	}
	table, err := DecodeTable(m.Table)
	if err != nil {
		return c, &Error{Code: wire.CodeMalformed, Text: c.String() + ": " + err.Error()}
	}
	if table != (Table{}) {
		c.Table = &table
	}
	return c, nil
}

// TableOf returns what Table says.
func (c *Config) TableOf() Table {
	if c.Table == nil {
		return Table{}
	}
	return *c.Table
}

// HasRows reports whether the key is a key of rows, numbered or in an open vocabulary.
func (c *Config) HasRows() bool { return c.Form != wire.FormDense }

// String names the shard for messages: key "conv1.weight" shard 2.
func (c Config) String() string { return fmt.Sprintf("key %s shard %d", wire.Shown(c.Name), c.Index) }

// MaxLength is the largest number of values in one shard: 16 Gi values, or what an int can count.
const MaxLength = min(1<<34, uint64(^uint(0)>>4))

// Validate returns an *Error that names the first field that breaks a rule.
func (c Config) Validate() error {
	bad := func(code wire.Code, format string, args ...any) error {
		return &Error{Code: code, Text: c.String() + ": " + fmt.Sprintf(format, args...)}
	}
	table := c.TableOf()
	switch {
	case c.Form != wire.FormDense && c.Form != wire.FormRows && c.Form != wire.FormOpen:
		return bad(wire.CodeMalformed, "form: got %d, want %d (dense), %d (rows) or %d (open vocabulary)", c.Form, wire.FormDense, wire.FormRows, wire.FormOpen)
	case c.Rule != wire.RuleOptimizer && c.Rule != wire.RuleAverage:
		return bad(wire.CodeMalformed, "rule: got %d, want %d (optimizer) or %d (average)", c.Rule, wire.RuleOptimizer, wire.RuleAverage)
	case c.HasRows() && c.Rule == wire.RuleAverage:
		return bad(wire.CodeUnsupported, "a key of rows cannot have the average rule")
	case c.Form == wire.FormRows && (c.RowLen == 0 || c.Length%c.RowLen != 0):
		return bad(wire.CodeSize, "got %d values in rows of %d, want whole rows", c.Length, c.RowLen)
	case c.Form == wire.FormOpen && (c.RowLen == 0 || c.RowLen > maxRowLen || c.Length != 0 || c.Size != 0):
		return bad(wire.CodeSize, "got %d values in rows of %d, want none yet, in rows of 1 to %d: an open vocabulary", c.Length, c.RowLen, uint64(maxRowLen))
	case c.Form != wire.FormOpen && table.MaxRows != 0:
		return bad(wire.CodeMalformed, "limit of rows: got %d, want 0 unless the vocabulary is open", table.MaxRows)
	case c.Form == wire.FormDense && table != Table{}:
		return bad(wire.CodeMalformed, "table: got %+v, want none for a dense key", table)
	case c.Form == wire.FormDense && c.RowLen != 0:
		return bad(wire.CodeMalformed, "row length: got %d, want 0 for a dense key", c.RowLen)
	case c.Length > c.Size || c.Form == wire.FormDense && c.Offset > c.Size-c.Length:
		return bad(wire.CodeSize, "got %d values from %d on, want them within the key's %d", c.Length, c.Offset, c.Size)
	case c.Length > MaxLength:
		return bad(wire.CodeSize, "got %d values, want at most %d", c.Length, MaxLength)
	case c.Index >= c.Shards:
		return bad(wire.CodeMalformed, "got shard %d of %d", c.Index, c.Shards)
	}
	if err := wire.CheckKeyName(c.Name); err != nil {
		return bad(wire.CodeMalformed, "%v", err)
	}
	return nil
}

// maxRowLen is the most values in a row of an open vocabulary: with its state it fits a frame.
const maxRowLen = 1 << 20

// A Shard is one shard of one key. See the package comment.
type Shard struct {
	cfg Config // immutable, as is n; it has a Host with a Pool
	n   int    // values

	guarded atomic.Bool // guard is not nil

	mu sync.Mutex // guards all below, and the reader counts of the shard's Versions

	mode    uint8
	pushed  bool // a contribution was accepted
	anySeq  bool // restored from a state: a member's first contribution may have any sequence number
	counted bool // a contribution has counted examples

	generation uint64
	ranked     []*member    // the members in rank order
	index      *memberIndex // nil: they are few, and in no groups

	rounds    uint64 // closed; the open round's number
	open      round
	next      *round // the round after the open one; nil: no contribution has come so early yet
	sum       sum
	openedAt  int64             // when the open round opened, by the Meter's clock; 0: not known
	held      int64             // bytes of contributions in slots, less what the Meter was told of
	left      map[uint64]uint64 // by node: examples of workers that are no longer members, until ForgetLeft
	weight    float64           // sum of the weights in the newest round
	measuring *measuring        // nil: no round has been measured
	guard     *guard            // nil: contributions are not judged
	scratch   *scratch          // nil: not needed yet

	opt     *optim.Optimizer // nil: none
	factors optim.Factors
	state   *optim.State

	vocabulary *vocabulary // nil unless the key is an open vocabulary; then n is 0

	current *Version

	backup *backupState // nil: the shard has never had a backup

	waits []*Wait
	err   error // not nil: the shard has ended, and every request returns this
}

// A scratch is memory that is empty between calls. Most shards of small keys never need it.
type scratch struct {
	parts, outs [][]float32 // for lentParts and claimOuts
	lent        []slot      // claimed contributions that are still to be added; the round is closing
	single      [1]slot     // async mode: the contribution that is being applied
	state       optim.State // a part of the shard's
}

func (s *Shard) scratchMemory() *scratch {
	if s.scratch == nil {
		s.scratch = &scratch{}
	}
	return s.scratch
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
	s := &Shard{cfg: cfg, n: int(cfg.Length), mode: wire.ModeSync}
	if value != nil && len(value) != s.n {
		return nil, s.refuse(wire.CodeSize, "init: got %d values, want %d", len(value), s.n)
	}
	if cfg.Form == wire.FormOpen {
		s.vocabulary = newVocabulary(&cfg)
	}
	var data *Buffer
	switch {
	case cfg.HasRows(): // rows are sent from copies, and reading a row of shared memory would allocate its page
		data = newBuffer(4 * s.n)
	case value == nil:
		data = s.cfg.Pool.zeroed(4 * s.n)
	default:
		data = s.cfg.Pool.Get(4 * s.n)
	}
	if value == nil {
		s.firstValues(data.Float32s(s.n))
	} else {
		copy(data.Float32s(s.n), value)
	}
	s.current = &Version{shard: s, data: data}
	return s, nil
}

// firstValues fills a shard of rows that was initialised without values, from its table's
// Initializer.
func (s *Shard) firstValues(value []float32) {
	initializer := s.cfg.TableOf().Initializer
	if s.numRows() == 0 || initializer.zeros() {
		return
	}
	spread, rowLen, key := NewSpread(s.cfg.Size/s.cfg.RowLen, int(s.cfg.Shards)), int(s.cfg.RowLen), hashOf(s.cfg.Name)
	for i := range s.numRows() {
		initializer.fill(key, spread.Row(int(s.cfg.Index), int64(i)), value[i*rowLen:(i+1)*rowLen])
	}
}

// numRows is the number of rows of a key of numbered rows.
func (s *Shard) numRows() int {
	if s.cfg.Form != wire.FormRows {
		return 0
	}
	return int(s.cfg.Length / s.cfg.RowLen)
}

// Config returns the Config given to New, which must not be changed.
func (s *Shard) Config() *Config { return &s.cfg }

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
