package text

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// Limits say where a block ends: after so many rows or bytes, whatever comes first. A row has at
// most so many bytes, so a block has less than bytes and a row's together.
type limits struct{ rows, bytes, row int64 }

var usual = limits{rows: 4096, bytes: 1 << 20, row: 1 << 20}

// keepAbove is the size of files whose index is kept if no folder for it was named. Smaller ones
// are read again in a fraction of a second.
const keepAbove = 256 << 20

// A mark is where a block begins: its first byte, its first row and its line in the file, from 0.
type mark struct{ offset, row, line int64 }

// An index has where the blocks of a file begin, and its end.
type index []mark

// A scanner cuts bytes, which come in pieces, into rows and rows into blocks.
type scanner struct {
	limits
	name   string
	quotes bool

	// header is the file's first line, which must not come again; empty if it has none.
	header []byte

	marks index

	// at is the mark of the next byte.
	at mark

	// block is the mark of the block under way.
	block mark

	// begin is the mark of the row under way.
	begin mark

	// inside is true within a quoted field, where a line end ends no row.
	inside bool

	// part is that of the row under way, from earlier pieces.
	part []byte
}

// add takes the next bytes of the file.
func (s *scanner) add(p []byte) error {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		piece := p
		if n >= 0 {
			piece = p[:n+1]
		}
		p = p[len(piece):]
		if s.quotes {
			s.inside = s.inside != (bytes.Count(piece, []byte{'"'})%2 == 1)
		}
		s.at.offset += int64(len(piece))
		if s.at.offset-s.begin.offset > s.limits.row {
			if s.inside {
				return s.wrong("a quoted field or a stray quote is not closed within %d bytes: correct the line", s.limits.row)
			}
			return s.wrong("the row is longer than %d bytes: it is not a file of rows, or has another delimiter", s.limits.row)
		}
		if n < 0 {
			// The row goes on in the next piece. Only as much is kept as tells a
			// header.
			s.part = append(s.part, piece...)
			continue
		}
		s.at.line++
		if s.inside {
			s.part = append(s.part, piece...)
			continue
		}
		row := piece
		if len(s.part) > 0 {
			s.part = append(s.part, piece...)
			row = s.part
		}
		if err := s.end(row); err != nil {
			return err
		}
		s.part = s.part[:0]
	}
	return nil
}

// end takes a whole row.
func (s *scanner) end(row []byte) error {
	row = trim(row)
	if len(row) > 0 {
		if len(s.header) > 0 && len(row) == len(s.header) && bytes.Equal(row, s.header) {
			return s.wrong("the header comes a second time: files were joined with their headers; remove the line")
		}
		s.at.row++
	}
	s.begin = s.at
	if s.at.row == s.block.row {
		// There were nothing but empty lines so far.
		s.block = s.at
	}
	if s.at.row-s.block.row >= s.limits.rows || s.at.offset-s.block.offset >= s.limits.bytes {
		s.close()
	}
	return nil
}

// close ends the block under way.
func (s *scanner) close() {
	if s.at.row > s.block.row {
		s.marks = append(s.marks, s.block)
		s.block = s.at
	}
}

// finish ends the file.
func (s *scanner) finish() (index, error) {
	if s.inside {
		return nil, s.wrong("the file ends within a quoted field: it is cut short, or a quote is not closed")
	}
	if len(s.part) > 0 {
		if err := s.end(s.part); err != nil {
			return nil, err
		}
	}
	s.close()
	return append(s.marks, s.at), nil
}

func (s *scanner) wrong(format string, args ...any) error {
	return fmt.Errorf("%s: line %d, byte %d: %s", s.name, s.begin.line+1, s.begin.offset, fmt.Sprintf(format, args...))
}

// trim takes the end of a line away.
func trim(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// scan reads an object from a byte on and makes its index.
func scan(ctx context.Context, store objects.Store, object objects.Info, s *scanner) (index, error) {
	buf := make([]byte, min(object.Size-s.at.offset, 4<<20))
	for off := s.at.offset; off < object.Size; {
		p := buf[:min(int64(len(buf)), object.Size-off)]
		if err := store.ReadRange(ctx, object, p, off); err != nil {
			return nil, err
		}
		if err := s.add(p); err != nil {
			return nil, err
		}
		off += int64(len(p))
	}
	return s.finish()
}

// An index in a file: the magic, the key of what was indexed, the marks as differences in varints,
// and a CRC-32C of all before.
const magic = "PGRI\x01"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes an index as the constant magic describes.
func (x index) encode(key string) []byte {
	b := append([]byte(magic), byte(len(key)))
	b = append(b, key...)
	b = binary.AppendUvarint(b, uint64(len(x)))
	var last mark
	for _, m := range x {
		b = binary.AppendUvarint(b, uint64(m.offset-last.offset))
		b = binary.AppendUvarint(b, uint64(m.row-last.row))
		b = binary.AppendUvarint(b, uint64(m.line-last.line))
		last = m
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var errIndex = errors.New("not an index of this file")

// decode reads what encode made for the same key, of a file of so many bytes.
func decode(b []byte, key string, size int64) (index, error) {
	head := magic + string(rune(len(key))) + key
	if len(b) < len(head)+4 || string(b[:len(head)]) != head {
		return nil, errIndex
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errIndex
	}
	body = body[len(head):]
	next := func() int64 {
		v, n := binary.Uvarint(body)
		if n <= 0 || v > uint64(size) {
			body = nil
			return -1
		}
		body = body[n:]
		return int64(v)
	}
	n := next()
	if n < 1 || n > int64(len(body))/3 {
		return nil, errIndex
	}
	x := make(index, n)
	var last mark
	for i := range x {
		offset, row, line := next(), next(), next()
		if offset < 0 || row < 0 || line < 0 {
			return nil, errIndex
		}
		last = mark{last.offset + offset, last.row + row, last.line + line}
		if last.offset > size || last.row > last.offset || i > 0 && (last.row == x[i-1].row || last.offset-x[i-1].offset > usual.bytes+usual.row) {
			return nil, errIndex
		}
		x[i] = last
	}
	if len(body) != 0 || last.offset != size {
		return nil, errIndex
	}
	return x, nil
}

// place is the file of a kept index; "" if none is kept.
func place(dir, key string, size int64) string {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil || size < keepAbove {
			return ""
		}
		dir = filepath.Join(cache, "paragon", "rows")
	}
	return filepath.Join(dir, key+".index")
}

// keep writes an index for the next time; that it fails costs a scan then, and nothing else.
func keep(file string, b []byte) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".index-*")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
