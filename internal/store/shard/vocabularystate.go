package shard

import (
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A RowState holds some rows of an open vocabulary's shard.
type RowState struct {
	Generation uint64
	Round      uint64 // rounds closed
	Total      int    // rows that the shard has
	Rows       int    // rows in Data
	Config     string // the optimizer's JSON; empty: none
	Slots      []string
	// Data holds the IDs (int64), the values, and each slot's values.
	Data *Buffer
}

// OpenPayloadSize returns the bytes of rows with their values and slots.
func OpenPayloadSize(rows, rowLen, slots int) int { return rows * (8 + 4*rowLen*(1+slots)) }

// ReadRows copies at most count rows of an open vocabulary, beginning at row number from, in the
// order in which they were made. Wait for a round with Pull first. The caller releases Data.
func (s *Shard) ReadRows(from, count uint64) (RowState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.awaitsBackup() {
		return RowState{}, ErrAgain
	}
	return s.readRows(from, count)
}

func (s *Shard) readRows(from, count uint64) (RowState, error) {
	o := s.vocabulary
	switch {
	case s.err != nil:
		return RowState{}, s.err
	case o == nil:
		return RowState{}, s.refuse(wire.CodeUnsupported, "read rows: the key has no open vocabulary")
	}
	config, err := s.config()
	if err != nil {
		return RowState{}, err
	}
	st := RowState{Generation: s.current.generation, Round: s.rounds, Total: o.rows, Config: config}
	for _, slot := range s.slots() {
		st.Slots = append(st.Slots, slot.Name)
	}
	if from < uint64(o.rows) {
		st.Rows = int(min(count, uint64(o.rows)-from))
	}
	size := uint64(st.Rows) * uint64(OpenPayloadSize(1, o.rowLen, len(st.Slots)))
	if size > wire.MaxPayload {
		return RowState{}, s.refuse(wire.CodeSize, "read rows: got %d rows with %d slots, want at most %d bytes", st.Rows, len(st.Slots), wire.MaxPayload)
	}
	if st.Rows == 0 {
		return st, nil
	}
	st.Data = s.cfg.Pool.Get(int(size))
	ids, values := rowData(st.Data, st.Rows, o.rowLen, 1+len(st.Slots))
	for i := range st.Rows {
		row := from + uint64(i)
		ids[i] = o.id(int(row))
		for k := range values {
			copy(values[k][i*o.rowLen:], o.Row(int64(row), k-1))
		}
	}
	return st, nil
}

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

// WriteRows adds rows with their state to an open vocabulary and sets the number of closed rounds.
// The layout is RowState's, with IDs that increase as unsigned numbers. With first all existing
// rows and all contributions to open rounds are dropped before, as WriteState does. The slots must
// be those of the current optimizer; without one they are kept for the next.
func (s *Shard) WriteRows(round uint64, first bool, slots []string, rows int, data *Buffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.vocabulary
	switch {
	case s.err != nil:
		return s.err
	case o == nil:
		return s.refuse(wire.CodeUnsupported, "write rows: the key has no open vocabulary")
	case rows < 0 || rows > 0 && data == nil:
		return s.refuse(wire.CodeSize, "write rows: got %d rows and no values", rows)
	case s.opt != nil && !slices.Equal(slots, s.opt.SlotNames()):
		return s.refuse(wire.CodeConflict, "write rows: got slots %s, want %q, those of %s", shown.Names(slots), s.opt.SlotNames(), s.opt.Config().Name)
	case !first && !slices.Equal(slots, slotNames(s.slots())):
		return s.refuse(wire.CodeConflict, "write rows: got slots %s, want %s as before", shown.Names(slots), shown.Names(slotNames(s.slots())))
	}
	ids, values := rowData(data, rows, o.rowLen, 1+len(slots))
	if i := firstUnsorted(ids); i > 0 {
		return s.refuse(wire.CodeMalformed, "write rows: rows[%d]: got ID %d after %d, want increasing IDs, compared as unsigned numbers", i, uint64(ids[i]), uint64(ids[i-1]))
	}
	if !first {
		for i, id := range ids {
			if o.find(id) >= 0 {
				return s.refuse(wire.CodeMalformed, "write rows: rows[%d]: ID %d is here already", i, uint64(id))
			}
		}
	}
	if first {
		s.beginState()
		o.clear()
		o.slots = nil
		s.state = &optim.State{}
		for _, name := range slots {
			s.state.Slots = append(s.state.Slots, optim.Slot{Name: name})
			o.slots = append(o.slots, optim.Slot{Name: name, Values: []float32{0}})
		}
		if s.opt != nil {
			o.slots = s.opt.NewState(1).Slots
		}
	}
	if err := o.rowsOf(ids); err != nil {
		return s.full("write rows", err)
	}
	for i, row := range ids {
		for k := range values {
			copy(o.Row(row, k-1), values[k][i*o.rowLen:(i+1)*o.rowLen])
		}
	}
	s.endState(round)
	return nil
}

func slotNames(slots []optim.Slot) []string {
	var names []string
	for _, slot := range slots {
		names = append(names, slot.Name)
	}
	return names
}

// A Usage is what a shard holds, in bytes of memory taken.
type Usage struct {
	Rows   uint64 // of an open vocabulary
	Values uint64
	State  uint64 // bytes of the optimizer's state
	Index  uint64 // bytes of an open vocabulary's index
}

// Usage returns what the shard holds, without contributions to open rounds.
func (s *Shard) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := uint64(len(s.slots()))
	o := s.vocabulary
	if o == nil {
		return Usage{Values: 4 * uint64(s.n), State: 4 * uint64(s.n) * slots}
	}
	room := uint64(len(o.pages)) << o.shift
	return Usage{Rows: uint64(o.rows), Values: 4 * room * uint64(o.rowLen), State: 4 * room * uint64(o.rowLen) * slots,
		Index: 8*room + 4*uint64(len(o.index))}
}

// Sum returns the sum of what shards hold.
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
