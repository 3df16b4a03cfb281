package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/paragon-train/paragon/data/internal/table"
)

// A decoder makes the values of one column of a row group.
type decoder struct {
	leaf  *leaf
	codec int
	rows  int
	// left is how many bytes more the values may take.
	left int64

	out table.Values

	// row is that of the next page.
	row int

	dict dictionary
	// page, levels, indexes and raw are used again for each page.
	page    []byte
	levels  []uint32
	indexes []uint32
	raw     []uint64
}

// A dictionary has the values that pages name by number.
type dictionary struct {
	there bool
	n     int
	raw   []uint64
	data  []byte
	ends  []uint32
}

var errRoom = errors.New("more than the limit")

// pageError says in which page what is wrong.
type pageError struct {
	at  int // byte of the column chunk
	err error
}

func (e *pageError) Error() string { return fmt.Sprintf("byte %d: %v", e.at, e.err) }
func (e *pageError) Unwrap() error { return e.err }

// column decodes the pages of a column chunk.
func column(l *leaf, codec int, b []byte, rows int, limit int64) (table.Values, error) {
	d := &decoder{leaf: l, codec: codec, rows: rows, left: limit}
	size := int64(4)
	if l.kind == table.Int {
		size = 8
	}
	if d.left -= size * int64(rows); d.left < 0 {
		return d.out, errRoom
	}
	switch l.kind {
	case table.Float:
		d.out.Floats = make([]float32, rows)
	case table.Int:
		d.out.Ints = make([]int64, rows)
	default:
		d.out.Ends = make([]uint32, rows)
	}
	at := 0
	for d.row < rows {
		if at >= len(b) {
			return d.out, &pageError{at, fmt.Errorf("its pages end after %d of %d rows", d.row, rows)}
		}
		h, n, err := parsePageHeader(b[at:])
		if err != nil {
			return d.out, &pageError{at, err}
		}
		if h.compressed > len(b)-at-n {
			return d.out, &pageError{at, fmt.Errorf("a page has %d bytes, want at most the %d that are left", h.compressed, len(b)-at-n)}
		}
		body := b[at+n : at+n+h.compressed]
		if h.hasCRC && crc32.ChecksumIEEE(body) != h.crc {
			return d.out, &pageError{at, errors.New("a page has another checksum than its header says: the file is damaged")}
		}
		switch h.kind {
		case pageIndex:
		case pageDictionary:
			err = d.dictionaryPage(h, body)
		case pageData, pageDataV2:
			err = d.dataPage(h, body)
		default:
			err = fmt.Errorf("a page is of kind %d, which is unknown", h.kind)
		}
		if errors.Is(err, errRoom) {
			return d.out, err
		}
		if err != nil {
			return d.out, &pageError{at, err}
		}
		at += n + h.compressed
	}
	if d.out.Ends != nil && cap(d.out.Data) > len(d.out.Data)+len(d.out.Data)/4 {
		d.out.Data = bytes.Clone(d.out.Data)
	}
	return d.out, nil
}

// inflate decompresses the values of a page.
func (d *decoder) inflate(src []byte, size int) ([]byte, error) {
	if d.codec == codecNone {
		if size != len(src) {
			return nil, fmt.Errorf("a page has %d bytes, and %d uncompressed without a codec", len(src), size)
		}
		return src, nil
	}
	// Values take about as much as a page, which is not kept.
	if int64(size) > d.left+1<<20 {
		return nil, errRoom
	}
	if cap(d.page) < size {
		d.page = make([]byte, size)
	}
	if err := decompress(d.codec, d.page[:size], src); err != nil {
		return nil, fmt.Errorf("a page cannot be decompressed: %w", err)
	}
	return d.page[:size], nil
}

// dictionaryPage reads the dictionary of a chunk, which comes before its data and whose values
// pages name by their numbers. It is counted in full against the memory that is left before it is
// taken: a page may claim any number of values.
func (d *decoder) dictionaryPage(h pageHeader, body []byte) error {
	if d.dict.there {
		return errors.New("a second dictionary")
	}
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary {
		return fmt.Errorf("a dictionary has encoding %d, want plain", h.encoding)
	}
	b, err := d.inflate(body, h.uncompressed)
	if err != nil {
		return err
	}
	if h.values > len(b)*8 {
		return errShort
	}
	d.dict.there, d.dict.n = true, h.values
	if d.leaf.inBytes() {
		if d.left -= int64(len(b)) + 4*int64(h.values); d.left < 0 {
			return errRoom
		}
		d.dict.data, d.dict.ends = make([]byte, 0, len(b)), make([]uint32, 0, h.values)
		return d.plainBytes(h.values, b, func(v []byte) error {
			d.dict.data = append(d.dict.data, v...)
			d.dict.ends = append(d.dict.ends, uint32(len(d.dict.data)))
			return nil
		})
	}
	if d.left -= 8 * int64(h.values); d.left < 0 {
		return errRoom
	}
	d.dict.raw = make([]uint64, h.values)
	return d.plainNumbers(d.dict.raw, b)
}

// dataPage reads a page of data of either version: levels, which say which rows have a value, then
// the values of those rows. In version 1 both are compressed together and levels have their length
// before them; in version 2 levels are never compressed and the head of the page has their length.
// Repeated values are refused before, so the second kind of levels has nothing to say.
func (d *decoder) dataPage(h pageHeader, body []byte) error {
	if h.values > d.rows-d.row {
		return fmt.Errorf("a page has %d rows, want at most the %d that are left", h.values, d.rows-d.row)
	}
	width := bits.Len(uint(d.leaf.levels))
	var b, levels []byte
	var err error
	if h.kind == pageDataV2 {
		if h.levels < 0 || h.repeats < 0 || h.levels > len(body) || h.repeats > len(body)-h.levels || h.uncompressed < h.levels+h.repeats {
			return fmt.Errorf("a page of %d bytes has %d and %d of levels", len(body), h.repeats, h.levels)
		}
		levels = body[h.repeats : h.repeats+h.levels]
		b = body[h.repeats+h.levels:]
		if h.compressedValues && len(b) > 0 {
			if b, err = d.inflate(b, h.uncompressed-h.levels-h.repeats); err != nil {
				return err
			}
		}
	} else {
		if b, err = d.inflate(body, h.uncompressed); err != nil {
			return err
		}
		if width > 0 {
			if h.levelEncoding != encodingRLE {
				return fmt.Errorf("its levels have encoding %d, want RLE", h.levelEncoding)
			}
			if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
				return errShort
			}
			n := int(binary.LittleEndian.Uint32(b))
			levels, b = b[4:4+n], b[4+n:]
		}
	}
	present := h.values
	d.levels = grow(d.levels, h.values)
	if width > 0 {
		if err := hybrid(d.levels, levels, width); err != nil {
			return fmt.Errorf("its levels: %w", err)
		}
		present = 0
		for _, l := range d.levels {
			if l == uint32(d.leaf.levels) {
				present++
			}
		}
	}
	if present < h.values && d.out.Valid == nil {
		if d.left -= int64(d.rows)/8 + 8; d.left < 0 {
			return errRoom
		}
	}
	if d.leaf.inBytes() {
		err = d.bytesPage(h, b, present)
	} else {
		err = d.numbersPage(h, b, present)
	}
	d.row += h.values
	return err
}

// grow returns room for n numbers.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

// there says whether value i of the page is there.
func (d *decoder) there(i, present int) bool {
	return present == len(d.levels) || d.levels[i] == uint32(d.leaf.levels)
}

// numbersPage decodes the numbers of a page, of which so many are there.
func (d *decoder) numbersPage(h pageHeader, b []byte, present int) error {
	d.raw = grow(d.raw, present)
	if err := d.numbers(d.raw, h.encoding, b); err != nil {
		return err
	}
	raw := d.raw
	if present == h.values {
		d.convert(raw, d.row)
		return nil
	}
	next := 0
	for i := range h.values {
		if d.there(i, present) {
			d.convert(raw[next:next+1], d.row+i)
			next++
		} else {
			d.out.SetNull(d.row+i, d.rows)
		}
	}
	return nil
}

// numbers decodes numbers as their bits.
func (d *decoder) numbers(dst []uint64, encoding int, b []byte) error {
	switch encoding {
	case encodingPlain:
		return d.plainNumbers(dst, b)
	case encodingPlainDictionary, encodingDictionary:
		if err := d.dictionaryIndexes(len(dst), b); err != nil {
			return err
		}
		for i, x := range d.indexes {
			dst[i] = d.dict.raw[x]
		}
		return nil
	case encodingRLE:
		if d.leaf.physical != typeBoolean {
			break
		}
		if len(dst) == 0 {
			return nil
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return errShort
		}
		d.indexes = grow(d.indexes, len(dst))
		if err := hybrid(d.indexes, b[4:4+binary.LittleEndian.Uint32(b)], 1); err != nil {
			return err
		}
		for i, x := range d.indexes {
			dst[i] = uint64(x)
		}
		return nil
	case encodingDelta:
		if d.leaf.physical != typeInt32 && d.leaf.physical != typeInt64 {
			break
		}
		_, err := deltaNumbers(dst, b)
		if d.leaf.physical == typeInt32 {
			for i, x := range dst {
				dst[i] = uint64(uint32(x))
			}
		}
		return err
	case encodingSplit:
		size := d.leaf.size()
		if size < 2 {
			break
		}
		if len(b) < size*len(dst) {
			return errShort
		}
		n := len(b) / size
		clear(dst)
		for k := range size {
			for i, x := range b[k*n : k*n+len(dst)] {
				dst[i] |= uint64(x) << (8 * k)
			}
		}
		return nil
	}
	return fmt.Errorf("its values have encoding %d, which is not read for their type", encoding)
}

// size is how many bytes a plain value of the leaf has; 0: less than one, or it varies.
func (l *leaf) size() int {
	switch l.physical {
	case typeInt32, typeFloat:
		return 4
	case typeInt64, typeDouble:
		return 8
	case typeFixed:
		return l.length
	}
	return 0
}

// plainNumbers decodes plain numbers as their bits.
func (d *decoder) plainNumbers(dst []uint64, b []byte) error {
	size := d.leaf.size()
	if size > 0 && len(b)/size < len(dst) || size == 0 && len(b)*8 < len(dst) {
		return errShort
	}
	switch size {
	case 0:
		for i := range dst {
			dst[i] = uint64(b[i/8] >> (i % 8) & 1)
		}
	case 2: // float16
		for i := range dst {
			dst[i] = uint64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case 4:
		for i := range dst {
			dst[i] = uint64(binary.LittleEndian.Uint32(b[4*i:]))
		}
	default:
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
	}
	return nil
}

// convert makes values of the column's kind of bits, from a row on.
func (d *decoder) convert(raw []uint64, row int) {
	l := d.leaf
	switch {
	case l.physical == typeFloat:
		for i, x := range raw {
			d.out.Floats[row+i] = math.Float32frombits(uint32(x))
		}
	case l.physical == typeDouble:
		for i, x := range raw {
			d.out.Floats[row+i] = float32(math.Float64frombits(x))
		}
	case l.physical == typeFixed: // float16
		for i, x := range raw {
			d.out.Floats[row+i] = float16(uint16(x))
		}
	case l.decimal:
		scale := math.Pow10(l.scale)
		for i, x := range raw {
			v := int64(x)
			if l.physical == typeInt32 {
				v = int64(int32(x))
			}
			d.out.Floats[row+i] = float32(float64(v) / scale)
		}
	case l.physical == typeInt32 && !l.unsigned:
		for i, x := range raw {
			d.out.Ints[row+i] = int64(int32(x))
		}
	default:
		for i, x := range raw {
			d.out.Ints[row+i] = int64(x)
		}
	}
}

// float16 is the number of 16 bits.
func float16(b uint16) float32 {
	sign, exponent, fraction := 1.0, int(b>>10&31), float64(b&1023)
	if b>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return float32(sign * math.Ldexp(fraction, -24))
	case 31:
		if fraction != 0 {
			return float32(math.NaN())
		}
		return float32(math.Inf(int(sign)))
	}
	return float32(sign * math.Ldexp(1024+fraction, exponent-25))
}

// dictionaryIndexes reads numbers of values of the dictionary.
func (d *decoder) dictionaryIndexes(n int, b []byte) error {
	if !d.dict.there {
		return errors.New("its values are of a dictionary, and it has none")
	}
	d.indexes = grow(d.indexes, n)
	if n == 0 {
		return nil
	}
	if len(b) == 0 {
		return errShort
	}
	if err := hybrid(d.indexes, b[1:], int(b[0])); err != nil {
		return err
	}
	for _, x := range d.indexes {
		if x >= uint32(d.dict.n) {
			return fmt.Errorf("a value is number %d of a dictionary of %d", x, d.dict.n)
		}
	}
	return nil
}
