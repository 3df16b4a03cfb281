package shard

import (
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A RowState holds some rows of an open vocabulary's shard.
type RowState struct {
	// Generation is the one under which the newest round closed; Round is how many have closed.
	Generation, Round uint64
	// Total is the number of rows that the shard has, and Rows of those in Data.
	Total, Rows int
	// Config is the optimizer's JSON; empty: none.
	Config string
	Slots  []string
	// Data holds the IDs (int64), the values, and each slot's values.
	Data *Buffer
}

// OpenPayloadSize returns the bytes of rows with their values and slots.
func OpenPayloadSize(rows, rowLen, slots int) int { return rows * (8 + 4*rowLen*(1+slots)) }

// A RowState's IDs come first, so that they are aligned as int64 in every Buffer; the arrays follow
// one after the other and not row by row, so that each is copied as it lies.

// rowData returns the IDs and the arrays of values in a Buffer.
func rowData(b *Buffer, rows, rowLen, arrays int) (ids []int64, values [][]float32) {
	if rows == 0 {
		return nil, make([][]float32, arrays)
	}
	n := rows * rowLen
	all := b.Float32s(2*rows + arrays*n)[2*rows:]
	for k := range arrays {
		values = append(values, all[k*n:(k+1)*n])
	}
	return b.Int64s(rows), values
}

// read copies rows, beginning at row number from, into a Buffer of the layout of RowState.
func (o *vocabulary) read(from uint64, rows, slots int, data *Buffer) {
	ids, values := rowData(data, rows, o.rowLen, 1+slots)
	for i := range rows {
		row := from + uint64(i)
		ids[i] = o.id(int(row))
		for k := range values {
			copy(values[k][i*o.rowLen:], o.Row(int64(row), k-1))
		}
	}
}

// write writes rows with their state, and makes those that are new. It replaces the IDs by row
// numbers.
func (o *vocabulary) write(ids []int64, values [][]float32) error {
	if err := o.rowsOf(ids); err != nil {
		return err
	}
	o.set(ids, values)
	return nil
}

// set writes the values and slots of rows, which are named by their numbers.
func (o *vocabulary) set(rows []int64, values [][]float32) {
	for i, row := range rows {
		for k := range values {
			copy(o.Row(row, k-1), values[k][i*o.rowLen:(i+1)*o.rowLen])
		}
	}
}

// fill adds rows, of so many arrays, that a primary's ReadFillRows has read. A failed fill leaves
// some of them behind: the backup is then filled anew.
func (o *vocabulary) fill(cfg *Config, rows, arrays int, data *Buffer) error {
	ids, values := rowData(data, rows, o.rowLen, arrays)
	had := o.rows
	if err := o.rowsOf(ids); err != nil {
		return cfg.full("fill", err)
	}
	if o.rows != had+rows {
		return cfg.refuse(wire.CodeMalformed, "fill: got %d rows, of which %d are duplicates", rows, had+rows-o.rows)
	}
	o.set(ids, values)
	return nil
}

// checkNew returns an error unless IDs increase, as unsigned numbers. Unless first says that all
// rows go before, none of them may be here.
func (o *vocabulary) checkNew(cfg *Config, ids []int64, first bool) error {
	if i := firstUnsorted(ids); i > 0 {
		return cfg.refuse(wire.CodeMalformed, "write rows: rows[%d]: got ID %d after %d, want increasing IDs, compared as unsigned numbers", i, uint64(ids[i]), uint64(ids[i-1]))
	}
	if first {
		return nil
	}
	for i, id := range ids {
		if o.find(id) >= 0 {
			return cfg.refuse(wire.CodeMalformed, "write rows: rows[%d]: ID %d is here already", i, uint64(id))
		}
	}
	return nil
}

// usage returns what the vocabulary holds, with so many slots.
func (o *vocabulary) usage(slots int) Usage {
	room := uint64(len(o.pages)) << o.shift
	values := 4 * room * uint64(o.rowLen)
	return Usage{Rows: uint64(o.rows), Slots: slots, Values: values, State: values * uint64(slots),
		Index: 8*room + 4*uint64(len(o.index))}
}

// ReadRows copies at most count rows of an open vocabulary, beginning at row number from, in the
// order in which they were made. Wait for a round with Pull first. The caller releases Data.
func (s *Shard) ReadRows(from, count uint64) (RowState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return RowState{}, s.err
	case s.replica.hides(s.mode):
		return RowState{}, ErrAgain
	}
	st, err := s.table.read(&s.cfg, &s.updater, from, count)
	st.Round, st.Generation = s.rounds.number, s.readers.current.generation
	return st, err
}

// read copies rows and their state, without a round. The order of rows is that in which they were
// made, which never changes, so that a state may be read in parts.
func (t table) read(cfg *Config, u *updater, from, count uint64) (RowState, error) {
	o := t.vocabulary
	if o == nil {
		return RowState{}, cfg.refuse(wire.CodeUnsupported, "read rows: the key has no open vocabulary")
	}
	config, err := u.config(cfg)
	if err != nil {
		return RowState{}, err
	}
	st := RowState{Total: o.rows, Config: config, Slots: slotNames(u.slots())}
	if from < uint64(o.rows) {
		st.Rows = int(min(count, uint64(o.rows)-from))
	}
	size := uint64(st.Rows) * uint64(OpenPayloadSize(1, o.rowLen, len(st.Slots)))
	if size > wire.MaxPayload {
		return RowState{}, cfg.refuse(wire.CodeSize, "read rows: got %d rows with %d slots, want at most %d bytes", st.Rows, len(st.Slots), wire.MaxPayload)
	}
	if st.Rows > 0 {
		st.Data = cfg.Pool.Get(int(size))
		o.read(from, st.Rows, len(st.Slots), st.Data)
	}
	return st, nil
}

// WriteRows adds rows with their state to an open vocabulary and sets the number of closed rounds.
// The layout is RowState's, with IDs that increase as unsigned numbers. With first all existing
// rows and all contributions to open rounds are dropped before, as WriteState does. The slots must
// be those of the current optimizer; without one they are kept for the next.
func (s *Shard) WriteRows(round uint64, first bool, slots []string, rows int, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.table.vocabulary
	switch {
	case s.err != nil:
		return s.err
	case o == nil:
		return s.cfg.refuse(wire.CodeUnsupported, "write rows: the key has no open vocabulary")
	case rows < 0 || rows > 0 && data == nil:
		return s.cfg.refuse(wire.CodeSize, "write rows: got %d rows and no values", rows)
	}
	if err := s.updater.checkSlots(&s.cfg, wire.CodeConflict, "write rows", slots); err != nil {
		return err
	}
	if have := slotNames(s.updater.slots()); !first && !slices.Equal(slots, have) {
		return s.cfg.refuse(wire.CodeConflict, "write rows: got slots %s, want %s as before", shown.Names(slots), shown.Names(have))
	}
	ids, values := rowData(data, rows, o.rowLen, 1+len(slots))
	if err := o.checkNew(&s.cfg, ids, first); err != nil {
		return err
	}
	if first {
		s.beginState()
		o.clear()
		o.slots = s.updater.expect(slots)
	}
	if err := o.write(ids, values); err != nil {
		return s.cfg.full("write rows", err)
	}
	s.endState(round)
	return nil
}

// A Usage is what a shard holds, in bytes of memory taken.
type Usage struct {
	// Rows is the number of rows of an open vocabulary; not in bytes.
	Rows   uint64
	Values uint64
	// Slots is the number of the optimizer's slots, each as long as the value; not in bytes.
	Slots int
	// State is of the optimizer's state, and Index of an open vocabulary's index.
	State, Index uint64
}

// Usage returns what the shard holds, without contributions to open rounds.
func (s *Shard) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := len(s.updater.slots())
	if o := s.table.vocabulary; o != nil {
		return o.usage(slots)
	}
	values := 4 * uint64(s.cfg.values())
	return Usage{Slots: slots, Values: values, State: values * uint64(slots)}
}

// Sum returns the sum of what shards hold. It has no Slots.
func Sum(shards []*Shard) Usage {
	var all Usage
	for _, s := range shards {
		u := s.Usage()
		all.Rows += u.Rows
		all.Values += u.Values
		all.State += u.State
		all.Index += u.Index
	}
	return all
}
