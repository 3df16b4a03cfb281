// Package table holds rows of named columns by number, whatever format they lie in.
//
// A Source has its rows in blocks, such as the row groups of a Parquet file or a mebibyte of text:
// a block is what is read and decoded at once. The number of a row is a fixed function of the data,
// of the names of its files in order and of the row's place in them, so rows can be divided over
// workers by number. A Cache keeps decoded blocks within a bound of bytes.
//
// Each format is a package below that makes a Source, or one that registers itself here because it
// lies in another module.
package table

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Kind is the type of a column's values.
type Kind uint8

// The kinds of columns.
const (
	// Unknown leaves the kind to the format.
	Unknown Kind = iota
	// Float is float32.
	Float
	// Int is int64.
	Int
	// Bytes is text or other bytes.
	Bytes
)

func (k Kind) String() string {
	switch k {
	case Float:
		return "float"
	case Int:
		return "integer"
	case Bytes:
		return "bytes"
	}
	return fmt.Sprintf("kind %d", k)
}

// A Column is one of a source's.
type Column struct {
	Name string
	Kind Kind
	// Nullable says that rows may have no value in it.
	Nullable bool
	// Refused says why the column cannot be read, such as "it is a list"; "" if it can.
	Refused string
}

// A Source has rows in blocks. Its methods may be called from several goroutines at once.
type Source interface {
	// Columns are all columns, in the order of the data.
	Columns() []Column
	// Blocks are the first rows of the blocks, rising from 0, and the number of rows behind
	// them.
	Blocks() []int
	// Size is about how many bytes a block takes once it is decoded.
	Size(block int, columns []int) int64
	// ReadBlock decodes the columns of a block, whose order is that of the result. More than
	// limit bytes are a *TooLargeError.
	ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*Block, error)
	// Range is where a block lies, for reading ahead; ok is false where that is not one range.
	Range(block int) (r objects.Range, ok bool)
	// Fingerprint tells one state of the data from another: it covers the names and sizes of
	// all files in order, and how they are cut into rows. A copy in another place has the same
	// one.
	Fingerprint() string
	// Close gives back what the source holds. The store under it stays open.
	Close() error
}

// A Block is decoded rows. It never changes.
type Block struct {
	Rows    int
	Columns []Values
}

// Bytes is the memory that the block takes.
func (b *Block) Bytes() (n int64) {
	for i := range b.Columns {
		n += b.Columns[i].bytes()
	}
	return n
}

// Values are those of one column. One of Floats, Ints and Ends is set, by the column's kind.
type Values struct {
	Floats []float32
	Ints   []int64
	// Value i of a column of Bytes is Data[Ends[i-1]:Ends[i]], where Ends[-1] would be 0.
	Data []byte
	Ends []uint32
	// Valid has a bit for each row, the first in the lowest bit: 0 is a row without a value,
	// which then is 0 or empty. Nil: all rows have one.
	Valid []uint64
}

func (v *Values) bytes() int64 {
	return int64(4*cap(v.Floats) + 8*cap(v.Ints) + cap(v.Data) + 4*cap(v.Ends) + 8*cap(v.Valid))
}

// At is value i of a column of Bytes.
func (v *Values) At(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = v.Ends[i-1]
	}
	return v.Data[begin:v.Ends[i]]
}

// Null says whether row i has no value.
func (v *Values) Null(i int) bool { return v.Valid != nil && v.Valid[i/64]>>(i%64)&1 == 0 }

// SetNull takes the value of row i away; the column has so many rows.
func (v *Values) SetNull(i, rows int) {
	if v.Valid == nil {
		v.Valid = make([]uint64, (rows+63)/64)
		for w := range v.Valid {
			v.Valid[w] = math.MaxUint64
		}
	}
	v.Valid[i/64] &^= 1 << (i % 64)
}

// A TooLargeError is of a block that takes more memory than it may.
type TooLargeError struct {
	// Name is the block's name for messages, such as "train.parquet: row group 3".
	Name         string
	Rows         int
	Bytes, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: its %d rows take %d bytes or more once decoded, and the table's cache has %d: set CacheBytes to some times "+
		"as much, read fewer columns, or write the file with smaller row groups", e.Name, e.Rows, e.Bytes, e.Limit)
}

// Find is the block of a row.
func Find(blocks []int, row int) int { return sort.SearchInts(blocks, row+1) - 1 }

// join has the rows of several sources one after another.
type join struct {
	sources []Source

	// first has the block of each source's first one, and the number of blocks.
	first []int

	blocks  []int
	columns []Column
	print   string
}

// Join makes one source of several with the same columns, in their order; names are theirs for
// messages. It owns them: its Close closes them.
func Join(sources []Source, names []string) (Source, error) {
	if len(sources) == 1 {
		return sources[0], nil
	}
	j := &join{sources: sources, blocks: []int{0}}
	for i, s := range sources {
		columns := s.Columns()
		if i == 0 {
			j.columns = slices.Clone(columns)
		}
		if len(columns) != len(j.columns) {
			return nil, fmt.Errorf("%s has %d columns, and %s has %d: files of one table must have the same ones", names[0], len(j.columns), names[i], len(columns))
		}
		for c := range columns {
			if was := j.columns[c]; columns[c].Name != was.Name || columns[c].Kind != was.Kind {
				return nil, fmt.Errorf("column %d: %s has %q (%s), and %s has %q (%s): files of one table must have the same columns",
					c+1, names[0], was.Name, was.Kind, names[i], columns[c].Name, columns[c].Kind)
			}
			j.columns[c].Nullable = j.columns[c].Nullable || columns[c].Nullable
		}
		j.first = append(j.first, len(j.blocks)-1)
		before := j.blocks[len(j.blocks)-1]
		for _, row := range s.Blocks()[1:] {
			j.blocks = append(j.blocks, before+row)
		}
		j.print += s.Fingerprint()
	}
	j.first = append(j.first, len(j.blocks)-1)
	j.print = Digest(j.print)
	return j, nil
}

func (j *join) Columns() []Column   { return j.columns }
func (j *join) Blocks() []int       { return j.blocks }
func (j *join) Fingerprint() string { return j.print }

// find is the source of a block, and the block's number in it.
func (j *join) find(block int) (Source, int) {
	i := Find(j.first, block)

	// Sources without blocks begin where the next one does.
	for i < len(j.sources)-1 && j.first[i+1] == block {
		i++
	}
	return j.sources[i], block - j.first[i]
}

func (j *join) Size(block int, columns []int) int64 {
	s, b := j.find(block)
	return s.Size(b, columns)
}

func (j *join) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*Block, error) {
	s, b := j.find(block)
	return s.ReadBlock(ctx, b, columns, limit)
}

func (j *join) Range(block int) (objects.Range, bool) {
	s, b := j.find(block)
	return s.Range(b)
}

func (j *join) Close() error { return CloseAll(j.sources) }

// CloseAll closes sources and returns the first error.
func CloseAll(sources []Source) (first error) {
	for _, s := range sources {
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
