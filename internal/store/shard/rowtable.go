package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A table is where a key of rows has its rows: numbered ones in one array, those of an open
// vocabulary in pages. The zero table is of a key of numbered rows, or of a dense one.
type table struct {
	// vocabulary is nil unless the key is an open vocabulary.
	vocabulary *vocabulary
}

// count is how many rows the shard has now.
func (t table) count(cfg *Config) int {
	if t.vocabulary != nil {
		return t.vocabulary.rows
	}
	return cfg.numRows()
}

// apply changes the rows that the sum of a round names: by the updater's optimizer or, without one,
// to the sum. clip is as of updater.pass, and value the array of numbered rows.
func (t table) apply(u *updater, round uint64, rate wire.RoundRate, clip float64, value []float32, sum *sum) error {
	rows, values := sum.rowTotal()
	rowLen := int(sum.cfg.RowLen)
	if u.opt != nil {
		pass := u.pass(round, sum.weight, rate, clip)
		if t.vocabulary != nil {
			return pass.UpdateTable(rows, rowLen, t.vocabulary, values)
		}
		return pass.UpdateRows(rows, rowLen, value, values, u.state)
	}
	if t.vocabulary == nil {
		f32.ScatterRows(value, values, rows, rowLen)
		return nil
	}
	for i, row := range rows {
		copy(t.vocabulary.Row(row, -1), values[i*rowLen:(i+1)*rowLen])
	}
	return nil
}

// take replaces the IDs of a contribution that is about to be held by row numbers, and makes new
// rows. These have their first values, so a pull returns the same whether or not they exist.
func (t table) take(cfg *Config, c *Contribution) error {
	if t.vocabulary == nil || c.Rows == 0 {
		return nil
	}
	if err := t.vocabulary.rowsOf(c.Data.Int64s(c.Rows)); err != nil {
		return cfg.full("push rows", err)
	}
	return nil
}

// name replaces row numbers by IDs, in an open vocabulary.
func (t table) name(rows []int64) {
	if t.vocabulary == nil {
		return
	}
	for i, row := range rows {
		rows[i] = t.vocabulary.id(int(row))
	}
}

// follow checks the rows of a record that a primary has sent, and replaces IDs by row numbers.
func (t table) follow(cfg *Config, r *Record, data *Buffer) error {
	if r.Rows == 0 {
		return nil
	}
	if data == nil {
		return cfg.refuse(wire.CodeMalformed, "follow round %d: got no data for %d rows", r.Round, r.Rows)
	}
	rows := data.Int64s(r.Rows)
	if t.vocabulary != nil {
		if err := t.vocabulary.rowsOf(rows); err != nil {
			return cfg.full("follow", err)
		}
	}
	count := t.count(cfg)
	for i, row := range rows {
		if row < 0 || row >= int64(count) {
			return cfg.refuse(wire.CodeMalformed, "follow round %d: rows[%d]: got row %d, want 0 to %d", r.Round, i, row, count-1)
		}
	}
	return nil
}
