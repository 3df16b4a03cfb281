package kvstore

import (
	"encoding/binary"
	"math"

	"github.com/paragon-train/paragon/internal/store/shard"
)

// An openState is all that the servers hold of an open vocabulary, in the order of their answers.
type openState struct {
	rowLen int
	ids    []int64
	// values has the value, then the slots.
	values [][]float32
}

// add appends an answer's rows.
func (o *openState) add(b []byte, rows int) {
	for range rows {
		o.ids = append(o.ids, int64(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	for k := range o.values {
		for range rows * o.rowLen {
			o.values[k] = append(o.values[k], math.Float32frombits(binary.LittleEndian.Uint32(b)))
			b = b[4:]
		}
	}
}

// encode returns these rows as a server takes them: their IDs, then of each tensor their values. It
// is the inverse of add.
func (o *openState) encode(rows []int32) []byte {
	b := make([]byte, 0, shard.OpenPayloadSize(len(rows), o.rowLen, len(o.values)-1))
	for _, at := range rows {
		b = binary.LittleEndian.AppendUint64(b, uint64(o.ids[at]))
	}
	for _, values := range o.values {
		for _, at := range rows {
			b = appendRow(b, values, o.rowLen, at)
		}
	}
	return b
}

// appendRow appends a row's values.
func appendRow(b []byte, values []float32, rowLen int, at int32) []byte {
	for _, v := range values[int(at)*rowLen : (int(at)+1)*rowLen] {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
