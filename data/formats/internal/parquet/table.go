// Package parquet reads Parquet files by row groups: as tables, and as sources of encoded images.
//
// It takes no memory by what a file claims: sizes are checked against the file's length, the number
// of rows and the room that is left, before it is taken. So it reads metadata, levels and values
// itself, and leaves to libraries what compresses.
//
// It reads columns that occur at most once in a row, also those within structs, which are named
// with dots; lists and maps are refused by name, as are encryption, LZO, Hadoop's LZ4 and times of
// 96 bits.
package parquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
)

const (
	// Columns that lie within mergeGap bytes are read at once, up to mergeBytes.
	mergeGap   = 128 << 10
	mergeBytes = 16 << 20
)

// A file is one Parquet file.
type file struct {
	store   objects.Store
	object  objects.Info
	leaves  []leaf
	columns []table.Column

	// groups are those that have rows.
	groups []group
	blocks []int
	notes  map[string]string
	print  string
}

// Open makes a source of rows of one file.
func Open(ctx context.Context, store objects.Store, object objects.Info, _ table.Config) (table.Source, error) {
	f, err := open(ctx, store, object)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open reads the footer and checks it against itself: each row group has a chunk for each leaf of
// the schema, with its type and as many values as rows. A leaf that cannot be read is refused by
// name, when it is asked for, so that a table with one such column is of use. Row groups without
// rows are left out.
func open(ctx context.Context, store objects.Store, object objects.Info) (*file, error) {
	meta, err := readFooter(ctx, store, object)
	if err != nil {
		return nil, err
	}
	f := &file{store: store, object: object, notes: meta.notes, blocks: []int{0}}
	f.print = table.Digest(object.Name, fmt.Sprint(object.Size), meta.sum)
	wrong := func(err error) (*file, error) { return nil, fmt.Errorf("%s: %w", object.Name, err) }
	if f.leaves, err = leaves(meta.schema); err != nil {
		return wrong(err)
	}
	for _, l := range f.leaves {
		f.columns = append(f.columns, table.Column{Name: l.path, Kind: l.kind, Nullable: l.levels > 0, Refused: l.refused})
	}
	for i, g := range meta.groups {
		if len(g.chunks) != len(f.leaves) {
			return wrong(fmt.Errorf("row group %d has %d columns, want %d: the file is damaged", i, len(g.chunks), len(f.leaves)))
		}
		for c := range g.chunks {
			chunk, l := &g.chunks[c], &f.leaves[c]
			refused := cmp.Or(l.refused, refusal(chunk))
			switch {
			case refused != "":
				f.columns[c].Refused = refused
			case chunk.physical != l.physical || chunk.values != g.rows:
				return wrong(fmt.Errorf("row group %d: column %s has %d values of type %d, want %d of type %d: the file is damaged", i, l.path, chunk.values, chunk.physical, g.rows, l.physical))
			}
		}
		if g.rows == 0 {
			continue
		}
		before := f.blocks[len(f.blocks)-1]
		if g.rows > math.MaxInt-int64(before) {
			return wrong(errors.New("it has more rows than can be counted"))
		}
		f.groups, f.blocks = append(f.groups, g), append(f.blocks, before+int(g.rows))
	}
	return f, nil
}

// refusal says why a column cannot be read; "" if it can.
func refusal(c *chunk) string {
	switch err := checkCodec(c.codec); {
	case c.encrypted:
		return errEncrypted.Error()
	case c.elsewhere:
		return "its values lie in another file"
	case err != nil:
		return err.Error()
	}
	return ""
}

func (f *file) Columns() []table.Column { return f.columns }
func (f *file) Blocks() []int           { return f.blocks }
func (f *file) Fingerprint() string     { return f.print }
func (f *file) Close() error            { return nil }

// Range implements table.Source. A row group is read in parts, those of the wanted columns.
func (f *file) Range(int) (objects.Range, bool) { return objects.Range{}, false }

// dictionaryValue is about how many bytes a value has that a dictionary repeats, where the file
// does not say.
const dictionaryValue = 16

// Size implements table.Source.
func (f *file) Size(block int, columns []int) (size int64) {
	g := &f.groups[block]
	for _, c := range columns {
		each := int64(8)
		if f.leaves[c].kind != table.Int {
			each = 4
		}
		size += each*g.rows + g.rows/8
		if f.leaves[c].kind == table.Bytes {
			chunk := &g.chunks[c]
			switch {
			case chunk.plain >= 0:
				size += chunk.plain
			case chunk.dictionaryAt > 0:
				size += chunk.uncompressed + dictionaryValue*g.rows
			default:
				size += chunk.uncompressed
			}
		}
		if size < 0 {
			return math.MaxInt64
		}
	}
	return size
}

// ReadBlock implements table.Source.
func (f *file) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*table.Block, error) {
	g := &f.groups[block]
	name := fmt.Sprintf("%s: row group of rows %d to %d", f.object.Name, f.blocks[block], f.blocks[block+1]-1)
	tooLarge := func(size int64) error {
		return &table.TooLargeError{Name: name, Rows: int(g.rows), Bytes: size, Limit: limit}
	}
	var least int64 // what the values take at least
	for _, c := range columns {
		if r := f.columns[c].Refused; r != "" {
			return nil, fmt.Errorf("%s: column %s: %s", f.object.Name, f.leaves[c].path, r)
		}
		if least += 4 * g.rows; least > limit || g.chunks[c].compressed > limit {
			return nil, tooLarge(max(f.Size(block, columns), limit+1))
		}
	}
	b := &table.Block{Rows: int(g.rows), Columns: make([]table.Values, len(columns))}
	places := make([]int, len(columns))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(i, j int) int { return cmp.Compare(g.chunks[columns[i]].start, g.chunks[columns[j]].start) })
	left := limit
	for len(places) > 0 {
		first := &g.chunks[columns[places[0]]]
		begin, end, n := first.start, first.start+first.compressed, 1
		for n < len(places) {
			next := &g.chunks[columns[places[n]]]
			if next.start > end+mergeGap || next.start+next.compressed > begin+mergeBytes {
				break
			}
			end = max(end, next.start+next.compressed)
			n++
		}
		raw := make([]byte, end-begin)
		if err := f.store.ReadRange(ctx, f.object, raw, begin); err != nil {
			return nil, err
		}
		for _, i := range places[:n] {
			l, chunk := &f.leaves[columns[i]], &g.chunks[columns[i]]
			values, err := column(l, chunk.codec, raw[chunk.start-begin:][:chunk.compressed], int(g.rows), left)
			if errors.Is(err, errRoom) {
				return nil, tooLarge(max(f.Size(block, columns), limit+1))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: column %s from byte %d: %w", name, l.path, chunk.start, err)
			}
			b.Columns[i] = values
			left = limit - b.Bytes()
		}
		places = places[n:]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if size := b.Bytes(); size > limit {
		return nil, tooLarge(size)
	}
	return b, nil
}
