package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// zip has the columns of several sources side by side.
type zip struct {
	sources []Source

	// first is the column of each source's first one.
	first   []int
	columns []Column
	print   string
}

// Zip makes one source of several that have the same rows and blocks; names are theirs for
// messages. It owns them.
func Zip(sources []Source, names []string) (Source, error) {
	z := &zip{sources: sources}
	for i, s := range sources {
		if got, want := s.Blocks(), sources[0].Blocks(); !slices.Equal(got, want) {
			return nil, fmt.Errorf("%s has %d rows, and %s has %d: files that lie side by side must have the same rows", names[0], want[len(want)-1], names[i], got[len(got)-1])
		}
		z.first = append(z.first, len(z.columns))
		z.columns = append(z.columns, s.Columns()...)
		z.print += s.Fingerprint()
	}
	z.print = Digest("side by side", z.print)
	return z, nil
}

func (z *zip) Columns() []Column               { return z.columns }
func (z *zip) Blocks() []int                   { return z.sources[0].Blocks() }
func (z *zip) Fingerprint() string             { return z.print }
func (z *zip) Range(int) (objects.Range, bool) { return objects.Range{}, false }
func (z *zip) Close() error                    { return CloseAll(z.sources) }

// of are the wanted columns of source i as it numbers them, and their places among those wanted.
func (z *zip) of(i int, columns []int) (own, places []int) {
	for place, c := range columns {
		if Find(z.first, c) == i {
			own, places = append(own, c-z.first[i]), append(places, place)
		}
	}
	return own, places
}

func (z *zip) Size(block int, columns []int) (size int64) {
	for i, s := range z.sources {
		own, _ := z.of(i, columns)
		size += s.Size(block, own)
	}
	return size
}

func (z *zip) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*Block, error) {
	all := &Block{Rows: z.Blocks()[block+1] - z.Blocks()[block], Columns: make([]Values, len(columns))}
	for i, s := range z.sources {
		own, places := z.of(i, columns)
		if len(own) == 0 {
			continue
		}
		b, err := s.ReadBlock(ctx, block, own, limit)
		if err != nil {
			return nil, err
		}
		limit -= b.Bytes()
		for k, place := range places {
			all.Columns[place] = b.Columns[k]
		}
	}
	return all, nil
}
