package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// RowsPayloadSize returns the bytes of a PushRows payload: the row numbers, then the values.
func RowsPayloadSize(rows, rowLen int) int { return rows * (8 + 4*rowLen) }

// rowValues returns the row numbers and values of a payload of rows.
func (p *payload) rowValues(rowLen int) (rows []int64, values []float32) {
	n := p.count
	if n == 0 {
		return nil, nil
	}
	return p.data.Int64s(n), p.data.Float32s(2*n + n*rowLen)[2*n:]
}

// A rowSum adds up rows. A single contribution is the sum without a copy. Two or more are added up
// in memory that grows to the most rows that a round ever touched, and is reused.
//
// Between rounds place holds zeros alone, so that a round costs by the rows it touches and not by
// the rows of the key.
type rowSum struct {
	// first is the first contribution with rows; without data once it is added up.
	first payload
	// rows are in the order of first use, which is the same in every run because contributions
	// come in rank order; values are theirs.
	rows   []int64
	values []float32
	// place has, by row of the shard, 1 + its index in rows, or 0.
	place []int32
}

// rowSum returns the sum of a shard of rows, which it makes first if need be.
func (t *sum) rowSum() *rowSum {
	if t.rows == nil {
		t.rows = &rowSum{}
	}
	return t.rows
}

// rowTotal returns the rows that the round touches, and their sums.
func (t *sum) rowTotal() (rows []int64, values []float32) {
	return t.rowSum().total(int(t.cfg.RowLen))
}

// add adds a contribution, and takes its memory. count is how many rows the shard has.
func (r *rowSum) add(p *payload, rowLen, count int) {
	switch {
	case p.count == 0:
		p.data.Release()
	case r.first.data == nil && len(r.rows) == 0:
		r.first = *p
	default:
		if r.first.data != nil {
			r.merge(&r.first, rowLen, count)
			r.first = payload{}
		}
		r.merge(p, rowLen, count)
	}
}

func (r *rowSum) merge(p *payload, rowLen, count int) {
	rows, values := p.rowValues(rowLen)
	if count > len(r.place) {
		r.place = append(r.place, make([]int32, count-len(r.place))...)
	}
	for i, row := range rows {
		v := values[i*rowLen : (i+1)*rowLen]
		if k := int(r.place[row]); k > 0 {
			f32.AddTo(r.values[(k-1)*rowLen:k*rowLen], v)
			continue
		}
		r.rows = append(r.rows, row)
		r.values = append(r.values, v...)
		r.place[row] = int32(len(r.rows))
	}
	p.data.Release()
}

// total returns the rows that were touched and their sums.
func (r *rowSum) total(rowLen int) (rows []int64, values []float32) {
	if r.first.data != nil {
		return r.first.rowValues(rowLen)
	}
	return r.rows, r.values
}

// reset empties the sum. Resetting nil does nothing.
func (r *rowSum) reset() {
	if r == nil {
		return
	}
	r.first.data.Release()
	r.first = payload{}
	for _, row := range r.rows {
		r.place[row] = 0
	}
	r.rows, r.values = r.rows[:0], r.values[:0]
}

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
// to the sum. value is the array of numbered rows.
func (t table) apply(u *updater, round uint64, rate wire.RoundRate, value []float32, sum *sum) error {
	rows, values := sum.rowTotal()
	rowLen := int(sum.cfg.RowLen)
	if u.opt != nil {
		pass := u.pass(round, sum.weight, rate)
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

// PullRows copies row rows[i] of a shard of rows into row i of out, all of one round, and returns
// the number of rounds they contain and the generation under which the newest closed. Wait for a
// round with Pull first; ErrAgain is for shards with a backup.
func (s *Shard) PullRows(rows []int64, out []float32) (round, generation uint64, err error) {
	rowLen := int(s.cfg.RowLen)
	if rowLen == 0 {
		return 0, 0, s.cfg.refuse(wire.CodeUnsupported, "pull rows: the key is dense")
	}
	if len(out) != len(rows)*rowLen {
		return 0, 0, s.cfg.refuse(wire.CodeSize, "pull rows: got room for %d values, want %d rows of %d", len(out), len(rows), rowLen)
	}
	numRows := s.cfg.numRows()
	for i, row := range rows {
		if s.cfg.Form == wire.FormRows && (row < 0 || row >= int64(numRows)) {
			return 0, 0, s.cfg.refuse(wire.CodeSize, "pull rows: rows[%d]: got row %d, want 0 to %d", i, row, numRows-1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, 0, s.err
	}
	if s.replica.hides(s.mode) {
		return 0, 0, ErrAgain
	}
	if o := s.table.vocabulary; o != nil {
		o.pull(rows, out)
	} else {
		f32.GatherRows(out, s.readers.current.Float32s(), rows, rowLen)
	}
	return s.readers.current.round, s.readers.current.generation, nil
}
