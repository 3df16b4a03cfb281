package shard

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Config describes a shard and its key. It does not change while the shard lives, so that every
// part of a Shard may hold a pointer to it and read it without the shard's mutex.
type Config struct {
	Key uint64
	// Index is the number of the shard in the key's plan, which has Shards of them.
	Index, Shards uint32
	// Name is the key's name. It chooses the optimizer's multipliers and appears in messages.
	Name string
	// Form is wire.FormDense, wire.FormRows or wire.FormOpen.
	Form uint8
	// Rule is wire.RuleOptimizer or wire.RuleAverage.
	Rule uint8
	// Offset is the shard's first value in the key; in a key of rows it is the shard's index.
	Offset uint64
	// Length is the number of values of the shard, and Size that of the whole key.
	Length, Size uint64
	// RowLen is the number of values in a row; 0 for a dense key.
	RowLen uint64
	// Table describes the rows of a key of rows. Nil means the zero Table.
	Table *Table
	// Host is what the shard shares with others of its server. Nil: nothing is shared, and
	// nothing is called.
	*Host
}

// A Host is what the shards of one server have in common.
type Host struct {
	// Pool is where the shards allocate. Nil: each has a pool of its own.
	Pool *Pool
	// Grow, unless nil, is called before an open vocabulary allocates this many bytes for
	// values and index, and with a negative number when it frees some. Its error refuses the
	// contribution. It is called under the shard's mutex.
	Grow func(bytes int64) error
	// Caught, unless nil, is called with each contribution that the guard refuses or clips,
	// under the shard's mutex.
	Caught func(*Config, Caught)
	// Meter gets the durations of rounds. Nil: nothing is measured.
	Meter Meter
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

// TableOf returns the Table, or the zero Table if there is none.
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

// values is the number of values of the shard: 0 for an open vocabulary, whose rows come later.
func (c *Config) values() int { return int(c.Length) }

// numRows is the number of rows of a key of numbered rows; 0 for every other key.
func (c *Config) numRows() int {
	if c.Form != wire.FormRows {
		return 0
	}
	return int(c.Length / c.RowLen)
}

// firstBuffer returns memory with a copy of value or, if it is nil, with the first values. Rows are
// sent from copies and take ordinary memory: reading a row of shared memory would allocate its
// page.
func (c *Config) firstBuffer(value []float32) (data *Buffer) {
	n := c.values()
	switch {
	case c.HasRows():
		data = newBuffer(4 * n)
	case value == nil:
		data = c.Pool.zeroed(4 * n)
	default:
		data = c.Pool.Get(4 * n)
	}
	if value == nil {
		c.firstValues(data.Float32s(n))
	} else {
		copy(data.Float32s(n), value)
	}
	return data
}

// firstValues fills the value of a shard of rows that was initialised without values, from its
// table's Initializer.
func (c *Config) firstValues(value []float32) {
	initializer := c.TableOf().Initializer
	if c.numRows() == 0 || initializer.zeros() {
		return
	}
	spread, rowLen, key := NewSpread(c.Size/c.RowLen, int(c.Shards)), int(c.RowLen), hashOf(c.Name)
	for i := range c.numRows() {
		initializer.fill(key, spread.Row(int(c.Index), int64(i)), value[i*rowLen:(i+1)*rowLen])
	}
}

// refuse returns an Error whose text begins with the shard's name.
func (c *Config) refuse(code wire.Code, format string, args ...any) error {
	return &Error{Code: code, Text: c.String() + ": " + fmt.Sprintf(format, args...)}
}

// full adds the shard's name and the verb of the request to an error of the vocabulary.
func (c *Config) full(verb string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return c.refuse(e.Code, "%s: %s", verb, e.Text)
	}
	return err
}

// A Meter gets what shards measure of their rounds. Several shards call it at once, each under its
// own mutex.
type Meter interface {
	// Now is the time in nanoseconds, by a clock that does not go back. Its zero may be
	// anywhere.
	Now() int64
	// Closed is called for each round that has closed here, when it has. A backup, which
	// follows another server's rounds, measures none.
	Closed(cfg *Config, t Timing)
	// Hold is called when the memory of contributions that wait for their turn or for their
	// round has grown by bytes, or (negative) shrunk.
	Hold(bytes int64)
}
