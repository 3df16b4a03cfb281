package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// take puts the sum of a closed round into the record, in the form from which a backup can make the
// same value, and takes the sum's memory. async says that the Counts tell whose contribution it is;
// without an optimizer the sum has become the value, which is held until Commit.
func (r *Record) take(t *sum, tab table, readers *readers, summed, async bool) {
	size := 4 * t.cfg.values()
	switch {
	case t.cfg.HasRows():
		r.takeRows(t, tab)
	case size == 0 || t.fate == sumKeepsValue:
	case t.cfg.Rule == wire.RuleAverage && (async || t.weight <= 0):
	case summed:
		r.Form, r.data, r.size = wire.RecordSum, t.takeData(), size
	default:
		r.Form, r.version, r.size = wire.RecordValue, readers.acquire(), size
	}
}

// takeRows puts the sum of rows into a record. Rows of an open vocabulary are named by their IDs.
func (r *Record) takeRows(t *sum, tab table) {
	rows, values := t.rowTotal()
	r.Form, r.Rows, r.size = wire.RecordRows, len(rows), RowsPayloadSize(len(rows), int(t.cfg.RowLen))
	if len(rows) == 0 {
		return
	}
	if first := &t.rows.first; first.data != nil {
		r.data = first.data
		*first = payload{}
	} else {
		r.data = t.cfg.Pool.Get(r.size)
		copy(r.data.Int64s(len(rows)), rows)
		copy(r.data.Float32s(2*len(rows) + len(values))[2*len(rows):], values)
	}
	tab.name(r.data.Int64s(len(rows)))
}
