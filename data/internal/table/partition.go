package table

import (
	"context"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Partition is the columns that a file's folders name, as in year=2026/part-0.parquet.
func Partition(file string) (names, values []string) {
	for _, folder := range strings.Split(path.Dir(file), "/") {
		name, value, ok := strings.Cut(folder, "=")
		if !ok || name == "" {
			continue
		}
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		names, values = append(names, name), append(values, value)
	}
	return names, values
}

// noPartition is the value that Hive writes for rows that have none.
const noPartition = "__HIVE_DEFAULT_PARTITION__"

// PartitionKinds are the kinds of the columns that folders name: integers where all values are.
func PartitionKinds(files [][]string) []Kind {
	if len(files) == 0 {
		return nil
	}
	kinds := make([]Kind, len(files[0]))
	for c := range kinds {
		kinds[c] = Int
		for _, values := range files {
			if _, err := strconv.ParseInt(values[c], 10, 64); err != nil && values[c] != noPartition {
				kinds[c] = Bytes
			}
		}
	}
	return kinds
}

// constant has columns of a source, and more that have one value in all of its rows.
type constant struct {
	Source
	more   []Column
	values []string
}

// WithConstants adds columns of one value each behind a source's own.
func WithConstants(s Source, names []string, kinds []Kind, values []string) Source {
	c := &constant{Source: s, values: values}
	for i, n := range names {
		c.more = append(c.more, Column{Name: n, Kind: kinds[i], Nullable: true})
	}
	return c
}

func (c *constant) Columns() []Column { return append(c.Source.Columns(), c.more...) }

func (c *constant) Fingerprint() string {
	return Digest(append([]string{c.Source.Fingerprint()}, c.values...)...)
}

// split are the columns of the source among those wanted.
func (c *constant) split(columns []int) (own []int) {
	for _, i := range columns {
		if i < len(c.Source.Columns()) {
			own = append(own, i)
		}
	}
	return own
}

func (c *constant) Size(block int, columns []int) int64 {
	own := c.split(columns)
	rows := c.Blocks()[block+1] - c.Blocks()[block]
	size := c.Source.Size(block, own)
	for _, i := range columns {
		if i >= len(c.Source.Columns()) {
			size += int64(rows) * int64(8+len(c.values[i-len(c.Source.Columns())]))
		}
	}
	return size
}

func (c *constant) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*Block, error) {
	own := c.split(columns)
	b, err := c.Source.ReadBlock(ctx, block, own, limit)
	if err != nil {
		return nil, err
	}
	rows := c.Blocks()[block+1] - c.Blocks()[block]
	all := &Block{Rows: rows}
	for _, i := range columns {
		if i < len(c.Source.Columns()) {
			all.Columns = append(all.Columns, b.Columns[0])
			b.Columns = b.Columns[1:]
			continue
		}
		i -= len(c.Source.Columns())
		all.Columns = append(all.Columns, repeat(c.more[i].Kind, c.values[i], rows))
	}
	return all, nil
}

// repeat is a column with one value.
func repeat(kind Kind, value string, rows int) (v Values) {
	null := value == noPartition
	switch kind {
	case Int:
		v.Ints = make([]int64, rows)
		x, _ := strconv.ParseInt(value, 10, 64)
		for r := range v.Ints {
			v.Ints[r] = x
		}
	default:
		if null {
			value = ""
		}
		v.Data, v.Ends = []byte(strings.Repeat(value, rows)), make([]uint32, rows)
		for r := range v.Ends {
			v.Ends[r] = uint32((r + 1) * len(value))
		}
	}
	if null {
		v.Valid = make([]uint64, (rows+63)/64)
	}
	return v
}
