package shard

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// RowsPayloadSize returns the bytes of a PushRows payload: the row numbers, then the values.
func RowsPayloadSize(rows, rowLen int) int { return rows * (8 + 4*rowLen) }

// checkRows checks a contribution to a shard of rows. Its row numbers must increase, so that each
// comes once.
func (s *Shard) checkRows(c *Contribution) error {
	if c.Codec != wire.CodecFloat32 {
		return s.refuse(wire.CodeUnsupported, "push rows: got codec %d, want float32", c.Codec)
	}
	numRows := s.numRows()
	if c.Rows < 0 || c.Rows > numRows || c.Rows > 0 && c.Data == nil {
		return s.refuse(wire.CodeSize, "push rows: got %d rows, want at most %d, with their values", c.Rows, numRows)
	}
	if c.Rows == 0 {
		return nil
	}
	last := int64(-1)
	for i, row := range c.Data.Int64s(c.Rows) {
		if row <= last || row >= int64(numRows) {
			return s.refuse(wire.CodeMalformed, "push rows: rows[%d]: got row %d after %d, want increasing numbers below %d", i, row, last, numRows)
		}
		last = row
	}
	return nil
}

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
type rowSum struct {
	first  payload   // data is nil once it is added up
	rows   []int64   // in the order of first use, which is the same in every run because contributions come in rank order
	values []float32 // of rows
	place  []int32   // by row of the shard: 1 + its index in rows, or 0
}

func (s *Shard) rowSum() *rowSum {
	if s.sum.rows == nil {
		s.sum.rows = &rowSum{}
	}
	return s.sum.rows
}

// add adds a contribution, and takes its memory.
func (r *rowSum) add(s *Shard, p *payload) {
	switch {
	case p.count == 0:
		p.data.Release()
	case r.first.data == nil && len(r.rows) == 0:
		r.first = *p
	default:
		if r.first.data != nil {
			r.merge(s, &r.first)
			r.first = payload{}
		}
		r.merge(s, p)
	}
}

func (r *rowSum) merge(s *Shard, p *payload) {
	rowLen := int(s.cfg.RowLen)
	rows, values := p.rowValues(rowLen)
	if n := s.rowCount(); n > len(r.place) {
		r.place = append(r.place, make([]int32, n-len(r.place))...)
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

// rowCount returns how many rows the shard has now.
func (s *Shard) rowCount() int {
	if s.vocabulary != nil {
		return s.vocabulary.rows
	}
	return s.numRows()
}

// applyOpen is applyRows for an open vocabulary.
func (s *Shard) applyOpen(step uint64) error {
	o := s.vocabulary
	rows, values := s.rowSum().total(o.rowLen)
	if s.opt != nil {
		return s.pass(step).UpdateTable(rows, o.rowLen, o, values)
	}
	for i, row := range rows {
		copy(o.Row(row, -1), values[i*o.rowLen:(i+1)*o.rowLen])
	}
	return nil
}

func (s *Shard) applyRows(step uint64) error {
	rowLen, value := int(s.cfg.RowLen), s.current.Float32s()
	rows, values := s.rowSum().total(rowLen)
	if s.opt != nil {
		pass := s.pass(step)
		return pass.UpdateRows(rows, rowLen, value, values, s.state)
	}
	f32.ScatterRows(value, values, rows, rowLen)
	return nil
}

// PullRows copies row rows[i] of a shard of rows into row i of out, all of one round, and returns
// the number of rounds they contain and the generation under which the newest closed. Wait for a
// round with Pull first; ErrAgain is for shards with a backup.
func (s *Shard) PullRows(rows []int64, out []float32) (round, generation uint64, err error) {
	rowLen := int(s.cfg.RowLen)
	if rowLen == 0 {
		return 0, 0, s.refuse(wire.CodeUnsupported, "pull rows: the key is dense")
	}
	if len(out) != len(rows)*rowLen {
		return 0, 0, s.refuse(wire.CodeSize, "pull rows: got room for %d values, want %d rows of %d", len(out), len(rows), rowLen)
	}
	numRows := s.numRows()
	for i, row := range rows {
		if s.vocabulary == nil && (row < 0 || row >= int64(numRows)) {
			return 0, 0, s.refuse(wire.CodeSize, "pull rows: rows[%d]: got row %d, want 0 to %d", i, row, numRows-1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, 0, s.err
	}
	if s.awaitsBackup() {
		return 0, 0, ErrAgain
	}
	if s.vocabulary != nil {
		s.vocabulary.pull(rows, out)
	} else {
		f32.GatherRows(out, s.current.Float32s(), rows, rowLen)
	}
	return s.current.round, s.current.generation, nil
}
