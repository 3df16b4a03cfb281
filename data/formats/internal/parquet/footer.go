package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
)

const (
	// tailBytes are read at first from the end of a file: mostly they hold the whole footer.
	tailBytes = 64 << 10
	// maxFooter is the most bytes that a footer may have.
	maxFooter = 256 << 20
)

// A footer is what a file says of itself.
type footer struct {
	schema []element
	groups []group
	// notes are the texts that programs add, by name.
	notes     map[string]string
	encrypted bool
	// sum is a hash of the footer's bytes, and end is where the data before it ends.
	sum string
	end int64
}

// An element is a node of the schema, in depth-first order.
type element struct {
	name string

	// physical is −1 for a group.
	physical int

	// length is that of a fixed-length value.
	length int

	repetition int
	children   int

	// converted is −1 if there is none.
	converted int

	// logical is the number of the logical type; 0: there is none.
	logical int

	scale    int
	unsigned bool
}

// A group is a row group.
type group struct {
	rows   int64
	chunks []chunk
}

// A chunk is a column of a row group.
type chunk struct {
	physical, codec          int
	values                   int64
	compressed, uncompressed int64
	// plain is how many bytes its values of bytes have, without dictionaries; −1: the file does
	// not say.
	plain                       int64
	dataAt, dictionaryAt, start int64
	encrypted, elsewhere        bool
}

// readFooter reads the footer of a file.
func readFooter(ctx context.Context, store objects.Store, object objects.Info) (*footer, error) {
	size := object.Size
	if size < 12 {
		return nil, fmt.Errorf("%s: has %d bytes: it is no Parquet file, or cut short: fetch it again", object.Name, size)
	}
	tail := make([]byte, min(size, tailBytes))
	if err := store.ReadRange(ctx, object, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	end := tail[len(tail)-8:]
	switch string(end[4:]) {
	case "PAR1":
	case "PARE":
		return nil, fmt.Errorf("%s: %w", object.Name, errEncrypted)
	default:
		return nil, fmt.Errorf("%s: ends with %q, want PAR1: it is no Parquet file, or cut short: fetch it again", object.Name, end[4:])
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > size-12 || n > maxFooter {
		return nil, fmt.Errorf("%s: its footer has %d bytes, want at most %d: the file is damaged", object.Name, n, min(size-12, maxFooter))
	}
	if n+8 > int64(len(tail)) {
		tail = make([]byte, n+8)
		if err := store.ReadRange(ctx, object, tail, size-n-8); err != nil {
			return nil, err
		}
	}
	b := tail[int64(len(tail))-8-n : len(tail)-8]
	f, err := parseFooter(b, size-n-8)
	if err != nil {
		return nil, fmt.Errorf("%s: its footer at byte %d: %w", object.Name, size-n-8, err)
	}
	f.sum, f.end = table.Digest(string(b)), size-n-8
	return f, nil
}

var errEncrypted = errors.New("it is encrypted, which is not read: decrypt it first")

// parseFooter reads a footer; the data before it has so many bytes.
func parseFooter(b []byte, size int64) (*footer, error) {
	t := &thrift{b: b}
	f := &footer{notes: make(map[string]string)}
	t.object(kindStruct, func(id int, kind byte) {
		switch id {
		case 2:
			t.list(kind, func(kind byte) { f.schema = append(f.schema, t.element(kind)) })
		case 4:
			t.list(kind, func(kind byte) { f.groups = append(f.groups, t.group(kind, size)) })
		case 5:
			t.list(kind, func(kind byte) {
				key, value := t.note(kind)
				f.notes[key] = value
			})
		case 8:
			f.encrypted = true
			t.skip(kind)
		default:
			t.skip(kind)
		}
	})
	if t.err != nil {
		return nil, t.err
	}
	if f.encrypted {
		return nil, errEncrypted
	}
	return f, nil
}

// note reads a pair of texts.
func (t *thrift) note(kind byte) (key, value string) {
	t.object(kind, func(id int, kind byte) {
		switch id {
		case 1:
			key = string(t.binary(kind))
		case 2:
			value = string(t.binary(kind))
		default:
			t.skip(kind)
		}
	})
	return key, value
}

// element reads a node of the schema. Nodes come in depth-first order, each with the number of its
// children; leaves have a physical type, which is −1 for others.
func (t *thrift) element(kind byte) element {
	e := element{physical: -1, converted: -1}
	t.object(kind, func(id int, kind byte) {
		switch id {
		case 1:
			e.physical = t.int32(kind)
		case 2:
			e.length = t.int32(kind)
		case 3:
			e.repetition = t.int32(kind)
		case 4:
			e.name = string(t.binary(kind))
		case 5:
			e.children = t.int32(kind)
		case 6:
			e.converted = t.int32(kind)
		case 7:
			e.scale = t.int32(kind)
		case 10:
			t.object(kind, func(id int, kind byte) {
				e.logical = id
				t.logical(kind, &e)
			})
		default:
			t.skip(kind)
		}
	})
	if e.children < 0 || e.length < 0 {
		t.fail("column %q has %d children and values of length %d", e.name, e.children, e.length)
	}
	return e
}

// logical reads what belongs to an element's logical type.
func (t *thrift) logical(kind byte, e *element) {
	t.object(kind, func(field int, kind byte) {
		switch {
		case e.logical == logicalDecimal && field == 1:
			e.scale = t.int32(kind)
		case e.logical == logicalInteger && field == 2:
			e.unsigned = !t.bool(kind)
		default:
			t.skip(kind)
		}
	})
}

// group reads a row group of a file with so many bytes before its footer.
func (t *thrift) group(kind byte, size int64) (g group) {
	t.object(kind, func(id int, kind byte) {
		switch id {
		case 1:
			t.list(kind, func(kind byte) { g.chunks = append(g.chunks, t.chunk(kind, size)) })
		case 3:
			g.rows = t.int(kind)
		default:
			t.skip(kind)
		}
	})
	if g.rows < 0 || g.rows > math.MaxInt32 {
		t.fail("a row group has %d rows, want at most %d", g.rows, math.MaxInt32)
	}
	return g
}

// chunk reads where the pages of a column of a row group lie. What it says is checked against the
// size of the file here, so that nobody reads beyond the footer later. A chunk that is encrypted,
// or in another file, is kept unchecked: its column is refused only if it is asked for.
func (t *thrift) chunk(kind byte, size int64) (c chunk) {
	found := false
	c.plain = -1
	t.object(kind, func(id int, kind byte) {
		switch id {
		case 1:
			c.elsewhere = len(t.binary(kind)) > 0
		case 3:
			found = true
			t.metadata(kind, &c)
		case 8, 9:
			c.encrypted = true
			t.skip(kind)
		default:
			t.skip(kind)
		}
	})
	c.start = c.dataAt
	if c.dictionaryAt > 0 && c.dictionaryAt < c.dataAt {
		c.start = c.dictionaryAt
	}
	switch {
	case t.err != nil || c.encrypted || c.elsewhere:
	case !found:
		t.fail("a column of a row group has no metadata")
	case c.start < 0 || c.compressed < 0 || c.start > size || c.compressed > size-c.start:
		t.fail("a column lies at bytes %d to %d, want them among the %d before the footer", c.start, c.start+c.compressed, size)
	case c.uncompressed < 0 || c.values < 0:
		t.fail("a column has %d bytes and %d values", c.uncompressed, c.values)
	}
	return c
}

// metadata reads those of a chunk.
func (t *thrift) metadata(kind byte, c *chunk) {
	t.object(kind, func(id int, kind byte) {
		switch id {
		case 1:
			c.physical = t.int32(kind)
		case 4:
			c.codec = t.int32(kind)
		case 5:
			c.values = t.int(kind)
		case 6:
			c.uncompressed = t.int(kind)
		case 7:
			c.compressed = t.int(kind)
		case 9:
			c.dataAt = t.int(kind)
		case 11:
			c.dictionaryAt = t.int(kind)
		case 16:
			t.object(kind, func(id int, kind byte) {
				if id != 1 {
					t.skip(kind)
					return
				}
				c.plain = t.int(kind)
			})
		default:
			t.skip(kind)
		}
	})
}

// A pageHeader stands before a page.
type pageHeader struct {
	kind                     int
	uncompressed, compressed int
	crc                      uint32
	hasCRC                   bool
	values, encoding         int
	levelEncoding            int

	// levels and repeats are the bytes of levels before the values of a page of version 2,
	// which are plain if compressedValues is false.
	levels, repeats  int
	compressedValues bool
}

// The kinds of pages.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3
)

// takeValues takes a field of what a page of version 1, or a dictionary, says of its values.
func (h *pageHeader) takeValues(t *thrift, id int, kind byte) {
	switch id {
	case 1:
		h.values = t.int32(kind)
	case 2:
		h.encoding = t.int32(kind)
	case 3:
		// A dictionary says whether it is sorted.
		if kind == kindTrue || kind == kindFalse {
			return
		}
		h.levelEncoding = t.int32(kind)
	default:
		t.skip(kind)
	}
}

// takeValuesV2 takes a field of what a page of version 2 says of its values.
func (h *pageHeader) takeValuesV2(t *thrift, id int, kind byte) {
	switch id {
	case 1:
		h.values = t.int32(kind)
	case 4:
		h.encoding = t.int32(kind)
	case 5:
		h.levels = t.int32(kind)
	case 6:
		h.repeats = t.int32(kind)
	case 7:
		h.compressedValues = t.bool(kind)
	default:
		t.skip(kind)
	}
}

// parsePageHeader reads the header of a page, and says how long it is.
func parsePageHeader(b []byte) (h pageHeader, n int, err error) {
	t := &thrift{b: b}
	h = pageHeader{kind: -1, uncompressed: -1, compressed: -1, values: -1, levelEncoding: encodingRLE, compressedValues: true}
	t.object(kindStruct, func(id int, kind byte) {
		switch id {
		case 1:
			h.kind = t.int32(kind)
		case 2:
			h.uncompressed = t.int32(kind)
		case 3:
			h.compressed = t.int32(kind)
		case 4:
			h.crc, h.hasCRC = uint32(t.int32(kind)), true
		case 5, 7:
			t.object(kind, func(id int, kind byte) { h.takeValues(t, id, kind) })
		case 8:
			t.object(kind, func(id int, kind byte) { h.takeValuesV2(t, id, kind) })
		default:
			t.skip(kind)
		}
	})
	if t.err == nil && (h.uncompressed < 0 || h.compressed < 0 || h.kind != pageIndex && h.values < 0) {
		t.fail("a page has %d bytes, %d uncompressed, and %d values", h.compressed, h.uncompressed, h.values)
	}
	return h, t.at, t.err
}
