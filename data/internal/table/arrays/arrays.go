// Package arrays reads NumPy's arrays as tables: a row of an array of two dimensions is a row, and
// a number of it a column. The arrays of a .npz archive lie side by side.
package arrays

import (
	"context"
	"fmt"
	"strconv"

	"github.com/paragon-train/paragon/data/internal/npy"
	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// blockRows is the number of rows of a block: with the 40 columns of a row of clicks it takes a
// mebibyte.
const blockRows = 8192

// maxColumns is the most columns that a row has. More is a picture or a vector, and no row.
const maxColumns = 4096

type source struct {
	array   *npy.Array
	object  objects.Info
	columns []table.Column
	blocks  []int
}

// Open makes a source of one .npy file. Its columns are those of Config.Names, or c0, c1 and so on.
func Open(ctx context.Context, store objects.Store, object objects.Info, cfg table.Config) (table.Source, error) {
	a, err := npy.Open(ctx, store, object)
	if err != nil {
		return nil, err
	}
	s, err := newSource(a, object, object.Name)
	if err != nil {
		return nil, err
	}
	if n := len(cfg.Names); n > 0 && n != a.RowValues() {
		return nil, fmt.Errorf("%s: rows have %d numbers, want the %d that were named", object.Name, a.RowValues(), n)
	}
	for c := range s.columns {
		s.columns[c].Name = "c" + strconv.Itoa(c)
		if len(cfg.Names) > 0 {
			s.columns[c].Name = cfg.Names[c]
		}
	}
	return s, nil
}

// OpenArchive makes a source of one .npz file. The columns of an array have its name, with a number
// behind it if they are several.
func OpenArchive(ctx context.Context, store objects.Store, object objects.Info, cfg table.Config) (table.Source, error) {
	if len(cfg.Names) > 0 {
		return nil, fmt.Errorf("%s: got names of columns, and the columns have the names of the arrays", object.Name)
	}
	z, err := npy.OpenArchive(ctx, store, object, cfg.Limit)
	if err != nil {
		return nil, err
	}
	var sources []table.Source
	var names []string
	seen := make(map[string]bool)
	for _, name := range z.Names() {
		a, err := z.Array(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := newSource(a, object, object.Name+": "+name)
		if err != nil {
			return nil, err
		}
		for c := range s.columns {
			column := name
			if len(s.columns) > 1 {
				column += strconv.Itoa(c)
			}
			if seen[column] {
				return nil, fmt.Errorf("%s: two columns have the name %q", object.Name, column)
			}
			seen[column], s.columns[c].Name = true, column
		}
		sources, names = append(sources, s), append(names, object.Name+": "+name)
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s: the archive has no arrays", object.Name)
	}
	return table.Zip(sources, names)
}

// newSource makes a source of one array, whose columns have no names yet.
func newSource(a *npy.Array, object objects.Info, name string) (*source, error) {
	s := &source{array: a, object: object}
	if len(a.RowShape()) > 1 || a.RowValues() < 1 || a.RowValues() > maxColumns {
		return nil, fmt.Errorf("%s: rows have shape %v, want 1 to %d numbers", name, a.RowShape(), maxColumns)
	}
	kind := table.Int
	if a.DType().Kind == npy.Float {
		kind = table.Float
	}
	for range a.RowValues() {
		s.columns = append(s.columns, table.Column{Kind: kind})
	}
	for row := 0; row < a.Rows(); row += blockRows {
		s.blocks = append(s.blocks, row)
	}
	s.blocks = append(s.blocks, a.Rows())
	return s, nil
}

func (s *source) Columns() []table.Column { return s.columns }
func (s *source) Blocks() []int           { return s.blocks }
func (s *source) Close() error            { return nil }

func (s *source) Fingerprint() string {
	return table.Digest(s.object.Name, fmt.Sprint(s.object.Size, s.array.Rows(), s.array.RowValues(), s.array.DType()))
}

func (s *source) Size(block int, columns []int) int64 {
	return int64(s.blocks[block+1]-s.blocks[block]) * int64(len(columns)) * 8
}

func (s *source) Range(block int) (objects.Range, bool) {
	return s.array.Range(s.blocks[block], s.blocks[block+1]-s.blocks[block])
}

func (s *source) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*table.Block, error) {
	first, rows := s.blocks[block], s.blocks[block+1]-s.blocks[block]
	if size := s.Size(block, columns); size > limit {
		return nil, &table.TooLargeError{Name: fmt.Sprintf("%s: rows %d to %d", s.object.Name, first, first+rows-1), Rows: rows, Bytes: size, Limit: limit}
	}
	b := &table.Block{Rows: rows, Columns: make([]table.Values, len(columns))}
	n := s.array.RowValues()
	if s.columns[0].Kind == table.Float {
		all := make([]float32, rows*n)
		if err := npy.Read(ctx, s.array, first, rows, all); err != nil {
			return nil, err
		}
		for i, c := range columns {
			b.Columns[i].Floats = column(all, c, n)
		}
		return b, nil
	}
	all := make([]int64, rows*n)
	if err := npy.Read(ctx, s.array, first, rows, all); err != nil {
		return nil, err
	}
	for i, c := range columns {
		b.Columns[i].Ints = column(all, c, n)
	}
	return b, nil
}

// column copies column c of rows of n numbers.
func column[T any](all []T, c, n int) []T {
	out := make([]T, 0, len(all)/n)
	for ; c < len(all); c += n {
		out = append(out, all[c])
	}
	return out
}
