package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/data/internal/table/arrays"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/sampler"
)

// Clicks are rows of Criteo's sets, read from where they lie: they need not fit in memory. Its
// methods may be called from several goroutines at once.
type Clicks struct {
	table  *Table
	cfg    CriteoConfig
	length int

	// arrays says that the files are torchrec's arrays.
	arrays bool

	// scratch has *Rows.
	scratch sync.Pool
}

// OpenClicks opens rows of Criteo's sets at a URL or path, one file or a folder of them, in any of
// these forms, and gives the same numbers for the same rows:
//
//   - text as Criteo publishes it, train.txt or day_0 to day_23, plain, or compressed if it fits in
//     memory, as LoadCriteo reads it;
//   - torchrec's arrays, day_0_dense.npy, day_0_sparse.npy and day_0_labels.npy, whose dense values
//     are transformed already and are taken as they are; 0 stands for an empty categorical value;
//   - Parquet with the columns label, I1 to I13 and C1 to C26, or any 40 columns in this order, if
//     the program imports data/formats. A categorical value is the text of 8 digits, or its
//     integer.
//
// The files of a folder follow each other by name, day_2 before day_10.
func OpenClicks(ctx context.Context, url string, cfg CriteoConfig) (*Clicks, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	store, files, err := tableFiles(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("data: criteo: %w", err)
	}
	if store, err = onDisk(store, cfg.DiskCache, 0); err != nil {
		return nil, fmt.Errorf("data: criteo: %w", err)
	}
	slices.SortStableFunc(files, func(a, b objects.Info) int { return compareNumbered(a.Name, b.Name) })
	c := &Clicks{cfg: cfg, table: &Table{store: store}}
	c.scratch.New = func() any { return new(Rows) }
	if err := c.open(ctx, files); err != nil {
		return nil, errors.Join(fmt.Errorf("data: criteo: %s: %w", store.URL(), err), c.Close())
	}
	c.length = c.table.Len()
	if cfg.MaxRows > 0 {
		c.length = min(c.length, cfg.MaxRows)
	}
	return c, nil
}

// criteoNames are the names of the columns: label, I1 to I13, C1 to C26.
func criteoNames() (names []string) {
	names = append(names, "label")
	for i := range CriteoDense {
		names = append(names, "I"+strconv.Itoa(i+1))
	}
	for i := range CriteoCategorical {
		names = append(names, "C"+strconv.Itoa(i+1))
	}
	return names
}

// open opens the files in the form that they have.
func (c *Clicks) open(ctx context.Context, files []objects.Info) (err error) {
	names := criteoNames()
	t := TableConfig{CacheBytes: cmp.Or(c.cfg.CacheBytes, 256<<20), IndexDir: c.cfg.IndexDir}
	switch {
	case slices.ContainsFunc(files, func(f objects.Info) bool { return strings.HasSuffix(f.Name, "_dense.npy") }):
		c.cfg.Transformed, c.arrays = true, true
		t.Columns = names
		c.table.source, err = openArrays(ctx, c.table.store, files, t)
	case slices.ContainsFunc(files, func(f objects.Info) bool { return registeredSuffix(f.Name) }):
		if c.table.source, err = openRows(ctx, c.table.store, files, t); err == nil {
			t.Columns, err = orderColumns(c.table.source.Columns(), names)
		}
	default:
		t.Format, t.NoHeader, t.Names, t.Kinds = "tsv", true, names, make(map[string]Kind)
		for i, n := range names {
			t.Kinds[n] = IntKind
			if i > CriteoDense {
				t.Kinds[n] = BytesKind
			}
		}
		c.table.source, err = openRows(ctx, c.table.store, files, t)
	}
	if err == nil {
		err = c.table.choose(t)
	}
	if err != nil {
		return err
	}
	for i, column := range c.table.columns {
		switch {
		case i <= CriteoDense && column.Kind == BytesKind:
			return fmt.Errorf("column %q has bytes, want numbers", column.Name)
		case i > CriteoDense && column.Kind == FloatKind:
			return fmt.Errorf("column %q has numbers, want a categorical value: bytes or integers", column.Name)
		}
	}
	return nil
}

// registeredSuffix says whether a file is of a format that a package registered.
func registeredSuffix(name string) bool {
	// One that was not registered is, too: the error says what to import.
	if importAdvice(name) != "" {
		return true
	}
	return slices.ContainsFunc(table.Registered(), func(f table.Format) bool {
		return slices.ContainsFunc(f.Suffixes, func(s string) bool { return strings.HasSuffix(strings.ToLower(name), s) })
	})
}

// orderColumns are the columns of a row by name if they have the usual ones, else all 40 as they
// are.
func orderColumns(have []table.Column, want []string) (names []string, err error) {
	for _, column := range have {
		names = append(names, column.Name)
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			if len(names) != len(want) {
				return nil, fmt.Errorf("has no column %q, and %d columns, want %s, or %d in this order: %s", name, len(names), strings.Join(want, ", "), len(want), strings.Join(names, ", "))
			}
			return names, nil
		}
	}
	return want, nil
}

// openArrays opens day after day of three arrays each.
func openArrays(ctx context.Context, store objects.Store, files []objects.Info, cfg TableConfig) (table.Source, error) {
	var days []table.Source
	var dayNames []string
	fail := func(err error) (table.Source, error) { return nil, errors.Join(err, table.CloseAll(days)) }
	for _, f := range files {
		day, ok := strings.CutSuffix(f.Name, "_dense.npy")
		if !ok {
			continue
		}
		var parts []table.Source
		var names []string
		for _, part := range []struct {
			name    string
			columns []string
		}{{"labels", cfg.Columns[:1]}, {"dense", cfg.Columns[1 : 1+CriteoDense]}, {"sparse", cfg.Columns[1+CriteoDense:]}} {
			name := day + "_" + part.name + ".npy"
			info, err := store.Stat(ctx, name)
			if err != nil {
				return fail(err)
			}
			s, err := arrays.Open(ctx, store, info, table.Config{Names: part.columns})
			if err != nil {
				return fail(err)
			}
			parts, names = append(parts, s), append(names, name)
		}
		s, err := table.Zip(parts, names)
		if err != nil {
			return fail(err)
		}
		days, dayNames = append(days, s), append(dayNames, day)
	}
	return table.Join(days, dayNames)
}

// compareNumbered orders names so that digits count as a number: day_2 before day_10.
func compareNumbered(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if order := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); order != 0 {
				return order
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingDigits is how many digits a text begins with.
func leadingDigits(s string) int {
	for i, c := range []byte(s) {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(s)
}

// Len returns the number of rows.
func (c *Clicks) Len() int { return c.length }

// Buckets returns the number of rows of the embedding table.
func (c *Clicks) Buckets() int64 { return c.cfg.Buckets }

// Order is an order of the first rows, so many of them, in which what is read and decoded at once
// is used together: see Table.Order.
func (c *Clicks) Order(rows int) sampler.Order { return c.table.Order(rows) }

// Fingerprint tells one state of the data from another. A copy in another place has the same one.
func (c *Clicks) Fingerprint() string { return c.table.Fingerprint() }

// Close gives back what the rows hold. No Read may be under way.
func (c *Clicks) Close() error { return c.table.Close() }

// Read reads rows by number, in any order: of each the 13 dense features, the 26 rows of the
// embedding table, and the label: 1 clicked, 0 not.
func (c *Clicks) Read(ctx context.Context, rows []int, dense []float32, ids []int64, labels []int32) error {
	if n := len(rows); len(dense) < n*CriteoDense || len(ids) < n*CriteoCategorical || len(labels) < n {
		return fmt.Errorf("data: criteo: got room for %d dense values, %d categorical ones and %d labels, want it for %d rows", len(dense), len(ids), len(labels), n)
	}
	for _, row := range rows {
		if row < 0 || row >= c.length {
			return fmt.Errorf("data: criteo: %s: got row %d, want 0 to %d", c.table.store.URL(), row, c.length-1)
		}
	}
	read := c.scratch.Get().(*Rows)
	defer c.scratch.Put(read)
	if err := c.table.Read(ctx, rows, read); err != nil {
		return err
	}
	wrong := func(i, column int, got any, want string) error {
		return fmt.Errorf("data: criteo: %s: row %d, column %d: got %v, want %s; correct or remove the row", c.table.store.URL(), rows[i], column+1, got, want)
	}
	for column := range read.Columns {
		v := &read.Columns[column]
		for i := range rows {
			switch {
			case column == 0:
				x := number(v, i)
				if v.Null(i) || x != 0 && x != 1 {
					return wrong(i, column, x, "label 0 or 1")
				}
				labels[i] = int32(x)
			case column <= CriteoDense:
				dense[i*CriteoDense+column-1] = c.denseValue(number(v, i))
			default:
				value, err := c.categorical(v, i)
				if err != nil {
					return wrong(i, column, err, "one of 32 bits")
				}
				ids[i*CriteoCategorical+column-1-CriteoDense] = int64(hashColumn(column, value) % uint64(c.cfg.Buckets))
			}
		}
	}
	return nil
}

// number is the value of row i of a column of numbers; without one it is 0.
func number(v *Values, i int) float64 {
	switch {
	case len(v.Ints) > 0:
		return float64(v.Ints[i])
	case v.Null(i) || math.IsNaN(float64(v.Floats[i])):
		return 0
	}
	return float64(v.Floats[i])
}

func (c *Clicks) denseValue(x float64) float32 {
	if c.cfg.Transformed {
		return float32(x)
	}
	return criteoDense(x)
}

// categorical is the text of a categorical value: an integer has the digits that Criteo's text has.
func (c *Clicks) categorical(v *Values, i int) ([]byte, error) {
	if len(v.Bytes) > 0 {
		return v.Bytes[i], nil
	}
	x := v.Ints[i]
	switch {
	case v.Null(i) || c.arrays && x == 0:
		return nil, nil
	case x < math.MinInt32 || x > math.MaxUint32:
		return nil, fmt.Errorf("categorical value %d", x)
	}
	return fmt.Appendf(nil, "%08x", uint32(x)), nil
}
