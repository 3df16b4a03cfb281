package shard

import "github.com/paragon-train/paragon/internal/compute/f32"

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
