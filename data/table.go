package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/data/internal/decompress"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/data/internal/table/arrays"
	"github.com/paragon-train/paragon/data/internal/table/text"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/sampler"
)

// A Kind is the type of a table's column.
type Kind uint8

// The kinds of columns.
const (
	// AnyKind leaves the kind to the data: that which Parquet has, or what the first rows of a
	// text look like.
	AnyKind Kind = iota
	// FloatKind is float32.
	FloatKind
	// IntKind is int64. Parquet's truth values, dates and times are integers, too.
	IntKind
	// BytesKind is text or other bytes.
	BytesKind
)

func (k Kind) String() string { return table.Kind(k).String() }

// A Column is one of a table's.
type Column struct {
	Name string
	Kind Kind
	// Nullable says that rows may have no value in it.
	Nullable bool
}

// A TableConfig says which columns of a table are read, and how.
type TableConfig struct {
	// Format is csv, tsv, npy, npz, or one that a package registered, such as parquet of
	// data/formats. Empty: as the names of the files end.
	Format string
	// Columns are the names of those to read, in this order. Empty: all.
	Columns []string
	// Kinds are those of columns by name. Without one a column of text is taken for integers,
	// numbers or bytes by its first rows. Integers can be read as numbers.
	Kinds map[string]Kind
	// CacheBytes bounds the decoded blocks in memory. Zero means 256 MiB.
	CacheBytes int64

	// DiskCache is a local folder that keeps what was read over a network for the next epoch,
	// and the next run. Empty: nothing is kept.
	DiskCache string
	// DiskBytes bounds DiskCache. Zero means 64 GiB.
	DiskBytes int64

	// Delimiter stands between the fields of a text. Zero: a tab for tsv, a comma for csv.
	Delimiter byte
	// NoHeader says that the first line of a text is a row. Its columns are Names, or c0, c1
	// and so on.
	NoHeader bool
	// Names are those of the columns of a text without header, or of an array.
	Names []string
	// Null are the fields of a text that stand for no value. Nil: the empty field.
	Null []string
	// IndexDir is a folder in which it is kept where the blocks of texts begin. Empty: the
	// user's cache folder, for files of 256 MiB or more.
	IndexDir string
}

// Validate returns an error that names a field of cfg that cannot be used.
func (cfg TableConfig) Validate() error {
	switch {
	case cfg.DiskBytes < 0:
		return fmt.Errorf("data: table: DiskBytes: got %d, want at least 1, or 0 for 64 GiB", cfg.DiskBytes)
	case cfg.CacheBytes < 0:
		return fmt.Errorf("data: table: CacheBytes: got %d, want at least 1, or 0 for 256 MiB", cfg.CacheBytes)
	case cfg.Delimiter == '"' || cfg.Delimiter == '\n' || cfg.Delimiter == '\r':
		return fmt.Errorf("data: table: Delimiter: got %q, want a byte that is no quote and ends no line", cfg.Delimiter)
	}
	for name, kind := range cfg.Kinds {
		if kind > BytesKind {
			return fmt.Errorf("data: table: Kinds: column %q: got %d, want FloatKind, IntKind or BytesKind", name, kind)
		}
	}
	return nil
}

// A Table has rows of named columns, read by number from where they lie. Its methods may be called
// from several goroutines at once.
//
// It reads by blocks, such as the row groups of Parquet, decodes each as a whole and keeps those
// that were used last. So it is made to be read in an order that stays within some blocks at a
// time, which Order gives.
type Table struct {
	source  table.Source
	store   objects.Store
	columns []Column
	// from are the kinds of the columns as the source has them.
	from   []table.Kind
	chosen []int // columns of the source
	cache  *table.Cache
}

// Rows are what Read fills: a Values for each column of the table, in their order. They can be used
// again and again, which saves memory.
type Rows struct {
	Columns []Values

	order []int

	// data has that of each column of bytes.
	data [][]byte

	ends [][]int
}

// Values are those of one column. One of Floats, Ints and Bytes is set, by the column's kind; a row
// without a value has 0 or nothing there.
type Values struct {
	Floats []float32
	Ints   []int64
	// Bytes are good until the next Read into the same Rows.
	Bytes [][]byte
	// Valid has a bit for each row, the first in the lowest bit of the first word: 1 if the row
	// has a value.
	Valid []uint64
}

// Null says whether row i of what was read has no value.
func (v *Values) Null(i int) bool { return v.Valid[i/64]>>(i%64)&1 == 0 }

// OpenTable opens the table at a URL or path: one file, or a folder of files that have the same
// columns. The rows of a folder are those of its files in the order of their names; names that
// begin with a dot or an underscore are left out, and folders such as day=3 add a column.
//
// It reads CSV, TSV and NumPy's arrays itself, the arrays of a .npz file side by side: what is
// compressed is held in memory, up to CacheBytes. The package data/formats adds Parquet to a
// program that imports it.
func OpenTable(ctx context.Context, url string, cfg TableConfig) (*Table, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 256 << 20
	}
	store, files, err := tableFiles(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("data: table: %w", err)
	}
	if store, err = onDisk(store, cfg.DiskCache, cfg.DiskBytes); err != nil {
		return nil, fmt.Errorf("data: table: %w", err)
	}
	t := &Table{store: store}
	if t.source, err = openRows(ctx, store, files, cfg); err == nil {
		err = t.choose(cfg)
	}
	if err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("data: table %s: %w", store.URL(), err)
	}
	return t, nil
}

// tableFiles are the files of a table, sorted by name.
func tableFiles(ctx context.Context, url string) (objects.Store, []objects.Info, error) {
	if !namesFolder(url) {
		store, file, err := objects.OpenFile(ctx, url)
		if err == nil {
			return store, []objects.Info{file}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	folder, err := objects.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	var files []objects.Info
	for info, err := range folder.List(ctx, "") {
		if err != nil {
			return nil, nil, errors.Join(err, folder.Close())
		}
		if !hidden(info.Name) {
			files = append(files, info)
		}
	}
	if len(files) == 0 {
		return nil, nil, errors.Join(fmt.Errorf("%s has no files: %w", folder.URL(), fs.ErrNotExist), folder.Close())
	}
	return folder, files, nil
}

// namesFolder says whether a URL or path can name no file: it ends with a slash, or is a bucket.
func namesFolder(address string) bool {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		return strings.HasSuffix(address, "/")
	}
	rest, _, _ = strings.Cut(rest, "?")
	_, file, _ := strings.Cut(rest, "/") // behind the host
	return file == "" && scheme != "file" || strings.HasSuffix(rest, "/")
}

// onDisk puts a cache in a folder before a store of another machine.
func onDisk(store objects.Store, dir string, bytes int64) (objects.Store, error) {
	if dir == "" || sidecar.Local(store) {
		return store, nil
	}
	cache, err := objects.NewCache(store, objects.CacheConfig{Dir: filepath.Join(dir, "blocks"), Bytes: bytes})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return cache, nil
}

// hidden says whether a file is none of the data's, by a folder's name or its own.
func hidden(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_") && !strings.Contains(part, "=") {
			return true
		}
	}
	return false
}

// tableFormats are the known ones.
func tableFormats() []table.Format {
	return append([]table.Format{
		{Name: "csv", Suffixes: []string{".csv"}, Open: text.Open},
		{Name: "tsv", Suffixes: []string{".tsv", ".tab", ".txt"}, Open: text.Open},
		{Name: "npy", Suffixes: []string{".npy"}, Open: arrays.Open},
		{Name: "npz", Suffixes: []string{".npz"}, Open: arrays.OpenArchive},
	}, table.Registered()...)
}

// formatOf chooses the format and its files.
func formatOf(files []objects.Info, name string) (format table.Format, chosen []objects.Info, err error) {
	formats := tableFormats()
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
		if f.Name == name {
			return f, files, nil
		}
	}
	if name != "" {
		return format, nil, fmt.Errorf("format %q is not known; known are %s%s", name, strings.Join(names, ", "), importAdvice(name))
	}
	for _, file := range files {
		_, plain := decompress.Name(strings.ToLower(file.Name))
		for _, f := range formats {
			if !slices.ContainsFunc(f.Suffixes, func(s string) bool { return strings.HasSuffix(plain, s) }) {
				continue
			}
			if format.Name != "" && format.Name != f.Name {
				return format, nil, fmt.Errorf("%s looks like %s and %s like %s: name the format, or keep them in folders of their own", chosen[0].Name, format.Name, file.Name, f.Name)
			}
			format, chosen = f, append(chosen, file)
		}
	}
	if format.Name == "" {
		return format, nil, fmt.Errorf("%s: the name does not tell the format; known are %s%s", files[0].Name, strings.Join(names, ", "), importAdvice(files[0].Name))
	}
	return format, chosen, nil
}

// importAdvice says what a program has to import for a format.
func importAdvice(name string) string {
	if strings.HasSuffix(name, "parquet") || strings.HasSuffix(name, ".pq") {
		return "; for Parquet import github.com/paragon-train/paragon/data/formats"
	}
	return ""
}

// filesAtOnce bounds the files that are opened at the same time.
const filesAtOnce = 8

// openRows makes one source of all files.
func openRows(ctx context.Context, store objects.Store, files []objects.Info, cfg TableConfig) (table.Source, error) {
	format, files, err := formatOf(files, cfg.Format)
	if err != nil {
		return nil, err
	}
	c := table.Config{
		Limit: cfg.CacheBytes, IndexDir: cfg.IndexDir, Delimiter: cfg.Delimiter, Quotes: format.Name == "csv", NoHeader: cfg.NoHeader, Names: cfg.Names, Null: cfg.Null,
		Kinds: make(map[string]table.Kind),
	}
	for name, kind := range cfg.Kinds {
		c.Kinds[name] = table.Kind(kind)
	}
	if c.Delimiter == 0 {
		c.Delimiter = ','
		if format.Name == "tsv" {
			c.Delimiter = '\t'
		}
	}
	sources, names := make([]table.Source, len(files)), make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	// The first file tells the kinds of the columns of all.
	if sources[0], err = openFile(ctx, format, store, files[0], c); err != nil {
		return nil, err
	}
	for _, column := range sources[0].Columns() {
		if _, ok := c.Kinds[column.Name]; !ok {
			c.Kinds[column.Name] = column.Kind
		}
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(filesAtOnce)
	for i := 1; i < len(files); i++ {
		group.Go(func() (err error) {
			sources[i], err = openFile(inner, format, store, files[i], c)
			return err
		})
	}
	err = group.Wait()
	if err == nil {
		err = addPartitions(sources, names)
	}
	var all table.Source
	if err == nil {
		all, err = table.Join(sources, names)
	}
	if err != nil {
		return nil, errors.Join(err, table.CloseAll(slices.DeleteFunc(sources, func(s table.Source) bool { return s == nil })))
	}
	return all, nil
}

// addPartitions adds the columns that the files' folders name.
func addPartitions(sources []table.Source, files []string) error {
	want, _ := table.Partition(files[0])
	all := make([][]string, len(files))
	for i, f := range files {
		names, values := table.Partition(f)
		if !slices.Equal(names, want) {
			return fmt.Errorf("%s has the partition columns %q, and %s has %q: folders of one table must name the same ones", files[0], want, f, names)
		}
		all[i] = values
	}
	for _, name := range want {
		if slices.ContainsFunc(sources[0].Columns(), func(c table.Column) bool { return c.Name == name }) {
			return fmt.Errorf("%s has a column %q, which its folder names, too", files[0], name)
		}
	}
	if len(want) == 0 {
		return nil
	}
	kinds := table.PartitionKinds(all)
	for i := range sources {
		sources[i] = table.WithConstants(sources[i], want, kinds, all[i])
	}
	return nil
}

// openFile opens one file, which is decompressed into memory if its name says that it is
// compressed.
func openFile(ctx context.Context, format table.Format, store objects.Store, file objects.Info, cfg table.Config) (table.Source, error) {
	name, plain := decompress.Name(file.Name)
	if name == "" {
		return format.Open(ctx, store, file, cfg)
	}
	advice := fmt.Sprintf("a compressed file cannot be read from the middle, so it has to fit in memory: decompress it first, to %s", plain)
	if file.Size > cfg.Limit {
		return nil, fmt.Errorf("%s: %d bytes: %s", file.Name, file.Size, advice)
	}
	b := make([]byte, file.Size)
	if err := store.ReadRange(ctx, file, b, 0); err != nil {
		return nil, err
	}
	b, err := decompress.All(name, bytes.NewReader(b), cfg.Limit)
	switch {
	case errors.Is(err, decompress.ErrTooLarge):
		return nil, fmt.Errorf("%s: %w, and %s, or set CacheBytes to more", file.Name, err, advice)
	case errors.Is(err, decompress.ErrUnknown):
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%s: %w: the file is cut short: fetch it again", file.Name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w; the file is damaged: fetch it again", file.Name, err)
	}
	held := decompress.Hold(store, file, b)
	return format.Open(ctx, held, held.Object(), cfg)
}

// choose keeps the wanted columns.
func (t *Table) choose(cfg TableConfig) error {
	all := t.source.Columns()
	names := cfg.Columns
	if len(names) == 0 {
		for _, c := range all {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(c table.Column) bool { return c.Name == name })
		if i < 0 {
			var have []string
			for _, c := range all {
				have = append(have, c.Name)
			}
			return fmt.Errorf("has no column %q; it has %s", name, strings.Join(have, ", "))
		}
		if slices.Contains(t.chosen, i) {
			return fmt.Errorf("column %q is wanted twice", name)
		}
		c := all[i]
		if c.Refused != "" {
			return fmt.Errorf("column %q cannot be read: %s; name the columns that are wanted", name, c.Refused)
		}
		want := cmp.Or(cfg.Kinds[name], Kind(c.Kind))
		if want != Kind(c.Kind) && !(want == FloatKind && c.Kind == table.Int) {
			return fmt.Errorf("column %q is of %s values, want %s: only integers can be read as another kind", name, c.Kind, want)
		}
		t.chosen = append(t.chosen, i)
		t.columns = append(t.columns, Column{Name: c.Name, Kind: want, Nullable: c.Nullable})
		t.from = append(t.from, c.Kind)
	}
	t.cache = table.NewCache(t.source, t.chosen, cfg.CacheBytes)
	return nil
}

// Len returns the number of rows.
func (t *Table) Len() int { return last(t.source.Blocks()) }

func last(list []int) int { return list[len(list)-1] }

// Columns returns those that Read reads.
func (t *Table) Columns() []Column { return slices.Clone(t.columns) }

// Blocks returns the first row of each block, for an order of sampler.Blocks.
func (t *Table) Blocks() []int {
	blocks := t.source.Blocks()
	return slices.Clone(blocks[:len(blocks)-1])
}

// windowBlocks is the number of blocks that an order mixes: 16 mix well.
const windowBlocks = 16

// Order is an order of the first rows, so many of them, in which each block is decoded about once:
// the blocks are mixed by (seed, epoch), and then the rows within windows of 16 blocks, or of as
// many as fit into the cache. It is for sampler.Ordered, and for kvstore.SamplerConfig.Order.
func (t *Table) Order(rows int) sampler.Order {
	blocks := t.source.Blocks()
	firsts := blocks[:table.Find(blocks[:len(blocks)-1], max(0, rows-1))+1]
	var most int64
	for b := range firsts {
		most = max(most, t.source.Size(b, t.chosen))
	}
	// A quarter of the cache is for blocks of the window before and for what is being decoded.
	fit := t.cache.Limit() / 4 * 3 / max(1, most)
	return sampler.Blocks(firsts, int(max(1, min(windowBlocks, fit))))
}

// Fingerprint tells one state of the data from another. A copy in another place has the same one.
func (t *Table) Fingerprint() string { return t.source.Fingerprint() }

// Close gives back what the table holds. No Read may be under way.
func (t *Table) Close() error {
	var err error
	if t.source != nil {
		err = t.source.Close()
	}
	return errors.Join(err, t.store.Close())
}

// Read reads rows by number, in any order, into dst. Row k of what it reads is rows[k].
func (t *Table) Read(ctx context.Context, rows []int, dst *Rows) error {
	n := t.Len()
	for _, row := range rows {
		if row < 0 || row >= n {
			return fmt.Errorf("data: table %s: got row %d, want 0 to %d", t.store.URL(), row, n-1)
		}
	}
	dst.reset(t.columns, len(rows))
	// By rising rows, so that each block is looked up once.
	for k := range rows {
		dst.order = append(dst.order, k)
	}
	slices.SortFunc(dst.order, func(a, b int) int { return cmp.Or(cmp.Compare(rows[a], rows[b]), cmp.Compare(a, b)) })
	blocks := t.source.Blocks()
	for at := 0; at < len(rows); {
		// The places of rows in some blocks, which are read and decoded together.
		var numbers []int
		var places [][]int
		for at < len(rows) && len(numbers) < blocksAtOnce {
			number, end := table.Find(blocks, rows[dst.order[at]]), at
			for end < len(rows) && rows[dst.order[end]] < blocks[number+1] {
				end++
			}
			numbers, places = append(numbers, number), append(places, dst.order[at:end])
			at = end
		}
		decoded, err := t.decode(ctx, numbers)
		if err != nil {
			return fmt.Errorf("data: table %s: %w", t.store.URL(), err)
		}
		for k, block := range decoded {
			for c := range t.columns {
				dst.take(c, &block.Columns[c], t.from[c], rows, places[k], blocks[numbers[k]])
			}
		}
	}
	dst.cutBytes(t.columns)
	return nil
}

// blocksAtOnce bounds the blocks that one Read reads and decodes at the same time.
const blocksAtOnce = 8

// decode returns blocks, which it reads together if there are several.
func (t *Table) decode(ctx context.Context, numbers []int) ([]*table.Block, error) {
	decoded := make([]*table.Block, len(numbers))
	if len(numbers) == 1 {
		var err error
		decoded[0], err = t.cache.Block(ctx, numbers[0])
		return decoded, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for k, number := range numbers {
		group.Go(func() (err error) {
			decoded[k], err = t.cache.Block(ctx, number)
			return err
		})
	}
	return decoded, group.Wait()
}

// reset makes room for so many rows.
func (r *Rows) reset(columns []Column, rows int) {
	if len(r.Columns) != len(columns) {
		r.Columns, r.data, r.ends = make([]Values, len(columns)), make([][]byte, len(columns)), make([][]int, len(columns))
	}
	r.order = r.order[:0]
	for c := range r.Columns {
		v := &r.Columns[c]
		v.Valid = slices.Grow(v.Valid[:0], (rows+63)/64)[:(rows+63)/64]
		for w := range v.Valid {
			v.Valid[w] = 0
		}
		v.Floats, v.Ints, v.Bytes = v.Floats[:0], v.Ints[:0], v.Bytes[:0]
		switch columns[c].Kind {
		case FloatKind:
			v.Floats = slices.Grow(v.Floats, rows)[:rows]
		case IntKind:
			v.Ints = slices.Grow(v.Ints, rows)[:rows]
		default:
			v.Bytes = slices.Grow(v.Bytes, rows)[:rows]
		}
		r.data[c], r.ends[c] = r.data[c][:0], r.ends[c][:0]
	}
}

// take copies values of a block, whose first row is first, to the places of a column.
func (r *Rows) take(c int, from *table.Values, kind table.Kind, rows, places []int, first int) {
	to := &r.Columns[c]
	for _, k := range places {
		i := rows[k] - first
		switch {
		case kind == table.Float:
			to.Floats[k] = from.Floats[i]
		case kind == table.Int && len(to.Floats) > 0:
			to.Floats[k] = float32(from.Ints[i])
		case kind == table.Int:
			to.Ints[k] = from.Ints[i]
		default:
			r.data[c] = append(r.data[c], from.At(i)...)
			r.ends[c] = append(r.ends[c], len(r.data[c]))
		}
		if !from.Null(i) {
			to.Valid[k/64] |= 1 << (k % 64)
		}
	}
}

// cutBytes gives rows their bytes, which do not move any more.
func (r *Rows) cutBytes(columns []Column) {
	for c := range r.Columns {
		if columns[c].Kind != BytesKind {
			continue
		}
		begin := 0
		for j, k := range r.order {
			end := r.ends[c][j]
			r.Columns[c].Bytes[k] = r.data[c][begin:end:end]
			begin = end
		}
	}
}

// RegisterDecompressor adds a decompressor by the name of what it reads, such as "zstd", or
// replaces one. gzip is built in.
func RegisterDecompressor(name string, open func(io.Reader) (io.ReadCloser, error)) {
	decompress.Register(name, open)
}
