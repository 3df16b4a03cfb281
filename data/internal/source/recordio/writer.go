package recordio

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A Writer writes records of images and their index, byte for byte as im2rec does.
type Writer struct {
	rec, idx io.Writer
	// written is how long the .rec file is.
	written int64
	buf     []byte
}

// NewWriter makes a writer of a .rec file, and of its .idx file if idx is not nil. It does not
// buffer.
func NewWriter(rec, idx io.Writer) *Writer { return &Writer{rec: rec, idx: idx} }

// An Entry is what Write writes.
type Entry struct {
	// ID is the record's, and its key in the .idx file.
	ID uint64
	// Labels are the example's. One label is written into the header unless Packed says that it
	// follows it, as several do.
	Labels []float32
	Packed bool
	// Image is an image's file.
	Image []byte
}

// Size is how many bytes have been written into the .rec file.
func (w *Writer) Size() int64 { return w.written }

// Write appends a record.
func (w *Writer) Write(e Entry) error {
	record := int64(headerSize) + int64(len(e.Image))
	packed := e.Packed || len(e.Labels) != 1
	if packed {
		record += 4 * int64(len(e.Labels))
	}
	switch {
	case record > maxPart:
		return fmt.Errorf("data: write RecordIO: record %d would have %d bytes, want at most %d", e.ID, record, int64(maxPart))
	case len(e.Labels) == 0:
		return fmt.Errorf("data: write RecordIO: record %d has no label", e.ID)
	}
	b := w.buf[:0]
	if packed {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Labels)))
		b = binary.LittleEndian.AppendUint32(b, 0)
	} else {
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Labels[0]))
	}
	b = binary.LittleEndian.AppendUint64(b, e.ID)
	b = binary.LittleEndian.AppendUint64(b, 0)
	if packed {
		for _, label := range e.Labels {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(label))
		}
	}
	b = append(b, e.Image...)
	w.buf = b
	return w.writeRecord(e.ID, b)
}

// writeRecord appends a record of any bytes.
func (w *Writer) writeRecord(id uint64, record []byte) error {
	if w.idx != nil {
		line := strconv.AppendUint(nil, id, 10)
		line = append(line, '\t')
		line = append(strconv.AppendInt(line, w.written, 10), '\n')
		if _, err := w.idx.Write(line); err != nil {
			return fmt.Errorf("data: write RecordIO: index of record %d: %w", id, err)
		}
	}
	if err := w.parts(record); err != nil {
		return fmt.Errorf("data: write RecordIO: record %d at byte %d: %w", id, w.written, err)
	}
	return nil
}

// parts cuts a record where the magic number stands in it and writes the parts.
func (w *Writer) parts(record []byte) error {
	from := 0
	for at := 0; at+4 <= len(record); at += 4 {
		if binary.LittleEndian.Uint32(record[at:]) != magic {
			continue
		}
		kind := middle
		if from == 0 {
			kind = first
		}
		if err := w.part(kind, record[from:at]); err != nil {
			return err
		}
		from = at + 4
	}
	kind := last
	if from == 0 {
		kind = whole
	}
	return w.part(kind, record[from:])
}

func (w *Writer) part(kind int, b []byte) error {
	var h [headSize]byte
	binary.LittleEndian.PutUint32(h[:], magic)
	binary.LittleEndian.PutUint32(h[4:], uint32(kind)<<29|uint32(len(b)))
	var zeros [3]byte
	for _, p := range [][]byte{h[:], b, zeros[:padded(int64(len(b)))-int64(len(b))]} {
		n, err := w.rec.Write(p)
		w.written += int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}
