package shardserver

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Rows are taken as far as they fit a frame, and no further, whatever their length and slots.
func TestWrittenRowsFitAFrame(t *testing.T) {
	for _, x := range []struct {
		rowLen uint64
		slots  int
		each   uint64 // bytes of a row: its ID, its values, and those of each slot
	}{{1, 0, 12}, {16, 0, 72}, {16, 2, 200}, {wire.MaxPayload / 8, 0, 8 + wire.MaxPayload/2}} {
		most := wire.MaxPayload / x.each
		for rows, fits := range map[uint64]bool{0: true, 1: true, most: true, most + 1: false, 1 << 62: false} {
			c := &call{s: &Server{limits: remote}, otherMessages: &otherMessages{}}
			c.writeRows = wire.WriteRows{Init: wire.InitShard{RowLen: x.rowLen}, Slots: make([]string, x.slots), Rows: rows}
			if err := c.prepareWriteRows(int(rows * x.each)); fits != (err == nil) {
				t.Errorf("%d rows of %d values and %d slots in %d bytes: got error %v, want them taken: %v", rows, x.rowLen, x.slots, rows*x.each, err, fits)
			}
			if err := c.prepareWriteRows(int(rows*x.each) + 1); err == nil {
				t.Errorf("%d rows of %d values and %d slots in %d bytes: got no error, want one", rows, x.rowLen, x.slots, rows*x.each+1)
			}
		}
	}
	// The bytes of such a row do not fit 64 bits.
	c := &call{s: &Server{limits: remote}, otherMessages: &otherMessages{}}
	c.writeRows = wire.WriteRows{Init: wire.InitShard{RowLen: 1 << 63}, Rows: 1}
	if err := c.prepareWriteRows(8); err == nil {
		t.Error("a row of 2⁶³ values in 8 bytes: got no error, want one")
	}
}
