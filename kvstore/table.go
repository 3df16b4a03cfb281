package kvstore

import (
	"context"
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Table describes a key of rows, such as an embedding. The servers make its rows, so that no
// worker needs the memory for all of them.
type Table struct {
	// Rows is the number of rows, 0 to Rows−1. Zero opens the vocabulary: every int64 names a
	// row, such as a hash of a word, and a row is made by the first push to it. A pull of a row
	// before that returns its first values and takes no memory.
	Rows int64
	// RowLen is the number of values of a row.
	RowLen int
	// Initializer gives rows their first values; its zero value gives zeros.
	Initializer Initializer
	// MaxRows limits the rows of an open vocabulary, over all servers. Each shard has an equal
	// share of the limit, so a table may be full a little earlier. A push of rows beyond it is
	// ErrFull, and that shard counts none of the push's rows. Zero: only servers' memory limits
	// the rows.
	MaxRows int64
}

// An Initializer gives rows their first values. They depend on its seed, the key's name and the
// row's number or ID alone.
//
//	{}                                                  zeros
//	{Name: "uniform", Low: -0.05, High: 0.05, Seed: 1}
//	{Name: "normal", Deviation: 0.01, Seed: 1}
type Initializer struct {
	// Name is "zeros" (or empty), "uniform" or "normal".
	Name string
	// Low and High are the bounds of "uniform".
	Low, High float64
	// Mean and Deviation (the standard deviation) are those of "normal".
	Mean, Deviation float64
	Seed            uint64
}

// Validate returns an error that names the field, the value and the rule.
func (i Initializer) Validate() error { return shard.Initializer(i).Validate() }

// InitTable is InitRows for a table that the servers make.
func (s *initialiser) InitTable(ctx context.Context, key string, t Table) error {
	size := uint64(0)
	switch {
	case t.RowLen <= 0:
		return keyError("init", key, ErrSize, "got rows of %d values, want at least one", t.RowLen)
	case t.Rows < 0 || t.Rows > math.MaxInt/int64(t.RowLen):
		return keyError("init", key, ErrSize, "got %d rows of %d values, want at least one, or 0 for an open vocabulary", t.Rows, t.RowLen)
	case t.MaxRows < 0 || t.MaxRows > 0 && t.Rows > 0:
		return keyError("init", key, ErrSize, "limit of rows: got %d with %d rows, want 0 unless the vocabulary is open", t.MaxRows, t.Rows)
	}
	table, err := shard.Table{Initializer: shard.Initializer(t.Initializer), MaxRows: uint64(t.MaxRows)}.Encode()
	if err != nil {
		return keyError("init", key, err, "")
	}
	form := wire.FormOpen
	if t.Rows > 0 {
		form, size = wire.FormRows, uint64(t.Rows)*uint64(t.RowLen)
	}
	return s.init(ctx, wire.Declare{Name: key, Form: form, Rule: wire.RuleOptimizer, Size: size, RowLen: uint64(t.RowLen), Table: table}, nil)
}

// A Usage is what one server holds for the job, in bytes of memory taken.
type Usage struct {
	// Server is the server's rank.
	Server int
	// Shards is the number of shards, of all keys.
	Shards uint64
	// Rows is the number of rows, of open vocabularies.
	Rows uint64
	// Values is the bytes of values.
	Values uint64
	// State is the bytes of the optimizer's state.
	State uint64
	// Index is the bytes of the index from IDs to rows, for open vocabularies.
	Index uint64
	// Caught has the number of contributions that the server's guard has refused and clipped,
	// by worker, including workers that have left.
	Caught []CaughtCount
}

// CaughtCount is the number of one worker's contributions that one server's guard has refused or
// clipped. Contributions to several shards of a key are counted one by one.
type CaughtCount struct {
	Node NodeID
	// Rank is the worker's newest rank.
	Rank    uint32
	Host    string
	Refused uint64
	Clipped uint64
}
