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
			c := &call{otherMessages: &otherMessages{}}
			c.writeRows = wire.WriteRows{Init: wire.InitShard{RowLen: x.rowLen}, Slots: make([]string, x.slots), Rows: rows}
			size, err := c.prepareWriteRows()
			if fits != (err == nil) || fits && size != rows*x.each {
				t.Errorf("%d rows of %d values and %d slots: got %d bytes and error %v, want %d bytes: %v", rows, x.rowLen, x.slots, size, err, rows*x.each, fits)
			}
		}
	}
	c := &call{otherMessages: &otherMessages{}}
	c.writeRows = wire.WriteRows{Init: wire.InitShard{RowLen: 1 << 63}, Rows: 1} // whose bytes do not fit 64 bits
	if size, err := c.prepareWriteRows(); err == nil {
		t.Errorf("a row of 2⁶³ values: got %d bytes, want an error", size)
	}
}
