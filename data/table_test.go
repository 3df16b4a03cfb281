package data

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
	"github.com/paragon-train/paragon/sampler"
)

// writeFiles writes files into a new folder.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openTable(t testing.TB, url string, cfg TableConfig) *Table {
	t.Helper()
	table, err := OpenTable(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// show makes rows texts.
func show(r *Rows, n int) (rows []string) {
	for i := range n {
		var row []string
		for c := range r.Columns {
			v := &r.Columns[c]
			switch {
			case v.Null(i):
				row = append(row, "-")
			case len(v.Floats) > 0:
				row = append(row, fmt.Sprint(v.Floats[i]))
			case len(v.Ints) > 0:
				row = append(row, fmt.Sprint(v.Ints[i]))
			default:
				row = append(row, string(v.Bytes[i]))
			}
		}
		rows = append(rows, strings.Join(row, " "))
	}
	return rows
}

func TestAFolderIsOneTable(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"year=2025/part-1.csv": "id,name\n3,c\n4,d\n", "year=2025/part-0.csv": "id,name\n1,a\n,\n", "year=2026/part-0.csv": "id,name\n5,e\n",
		"_SUCCESS": "", "year=2025/.part-0.csv.crc": "x", "_metadata": "x", "README.md": "hello",
	})
	table := openTable(t, dir, TableConfig{})
	if got, want := fmt.Sprint(table.Columns()), "[{id integer true} {name bytes true} {year integer true}]"; got != want {
		t.Errorf("columns: got %s, want %s", got, want)
	}
	if got, want := table.Blocks(), []int{0, 2, 4}; table.Len() != 5 || !slices.Equal(got, want) {
		t.Errorf("got %d rows in blocks from %v, want 5 from %v", table.Len(), got, want)
	}
	var rows Rows
	for range 2 { // the same Rows again
		if err := table.Read(t.Context(), []int{4, 0, 1, 3, 0}, &rows); err != nil {
			t.Fatal(err)
		}
		if got, want := show(&rows, 5), []string{"5 e 2026", "1 a 2025", "- - 2025", "4 d 2025", "1 a 2025"}; !slices.Equal(got, want) {
			t.Errorf("rows: got %q, want %q", got, want)
		}
	}

	// Fewer columns in another order, and integers as numbers.
	some := openTable(t, dir, TableConfig{Columns: []string{"year", "id"}, Kinds: map[string]Kind{"id": FloatKind}})
	if err := some.Read(t.Context(), []int{3, 1}, &rows); err != nil {
		t.Fatal(err)
	}
	if got, want := show(&rows, 2), []string{"2025 4", "2025 -"}; !slices.Equal(got, want) || len(rows.Columns[1].Floats) != 2 {
		t.Errorf("rows: got %q, want %q", got, want)
	}

	copied := writeFiles(t, map[string]string{"year=2025/part-1.csv": "id,name\n3,c\n4,d\n", "year=2025/part-0.csv": "id,name\n1,a\n,\n", "year=2026/part-0.csv": "id,name\n5,e\n"})
	if a, b := table.Fingerprint(), openTable(t, copied, TableConfig{}).Fingerprint(); a != b {
		t.Errorf("a copy has fingerprint %s, want %s", b, a)
	}
}

// A URL names a file, a folder or a whole bucket, with parameters or without.
func TestTablesOpenByURL(t *testing.T) {
	files := map[string]string{"rows/a.csv": "x\n1\n2\n", "rows/b.csv": "x\n3\n"}
	objects.Register("tabletest", func(_ context.Context, u *url.URL) (objects.Store, error) {
		prefix := strings.Trim(u.Path, "/")
		below := make(map[string][]byte)
		for name, text := range files {
			if name, ok := strings.CutPrefix(name, prefix); ok {
				below[strings.TrimPrefix(name, "/")] = []byte(text)
			}
		}
		return objectstest.New(below), nil
	})
	for address, want := range map[string]int{
		"tabletest://bucket": 3, "tabletest://bucket/": 3, "tabletest://bucket/rows": 3, "tabletest://bucket/rows/": 3, "tabletest://bucket/rows/b.csv": 1,
		"tabletest://bucket?region=x": 3, "tabletest://bucket/rows/?region=x": 3, "tabletest://bucket/rows/a.csv?region=x": 2,
	} {
		table, err := OpenTable(t.Context(), address, TableConfig{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if table.Len() != want {
			t.Errorf("%s: got %d rows, want %d", address, table.Len(), want)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTablesRefuseByName(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, "a,b\n"+strings.Repeat("1,2\n", 1000))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := writeFiles(t, map[string]string{
		"one/a.csv": "a,b\n1,2\n", "one/b.tsv": "a\tb\n1\t2\n",
		"two/a.csv": "a,b\n1,2\n", "two/b.csv": "a,c\n1,2\n",
		"three/a.csv": "a,b\n1,2\n", "three/b.csv": "a\n1\n",
		"four/x=1/a.csv": "a\n1\n", "four/y=1/a.csv": "a\n1\n",
		"five/a=1/a.csv": "a\n1\n",
		"t.csv":          "a,b\n1,2\n", "t.parquet": "PAR1", "t.data": "x", "empty/_SUCCESS": "",
		"t.csv.gz": zipped.String(), "cut.csv.gz": zipped.String()[:zipped.Len()-10], "bad.csv.gz": "hello, this is no gzip", "t.csv.zst": "x",
	})
	for _, test := range []struct {
		name string
		cfg  TableConfig
		want string
	}{
		{"one", TableConfig{}, "a.csv looks like csv and b.tsv like tsv"},
		{"two", TableConfig{}, `column 2: a.csv has "b" (integer), and b.csv has "c" (integer)`},
		{"three", TableConfig{}, "a.csv has 2 columns, and b.csv has 1"},
		{"four", TableConfig{}, `x=1/a.csv has the partition columns ["x"], and y=1/a.csv has ["y"]`},
		{"five", TableConfig{}, `a=1/a.csv has a column "a", which its folder names, too`},
		{"t.csv", TableConfig{Columns: []string{"c"}}, `has no column "c"; it has a, b`},
		{"t.csv", TableConfig{Columns: []string{"a", "a"}}, `column "a" is wanted twice`},
		{"t.csv", TableConfig{Format: "xml"}, `format "xml" is not known; known are csv, tsv, npy, npz`},
		{"t.csv", TableConfig{CacheBytes: -1}, "CacheBytes: got -1"},
		{"t.csv", TableConfig{Delimiter: '"'}, "Delimiter: got '\"'"},
		{"t.csv", TableConfig{Kinds: map[string]Kind{"a": 9}}, `Kinds: column "a": got 9`},
		{"t.csv", TableConfig{Names: []string{"a"}}, "got 2 columns, want the 1 that were named"},
		{"t.parquet", TableConfig{}, "for Parquet import github.com/paragon-train/paragon/data/formats"},
		{"t.data", TableConfig{}, "the name does not tell the format; known are csv, tsv, npy, npz"},
		{"empty", TableConfig{}, "has no files"},
		{"none", TableConfig{}, "no such file"},
		{"t.csv.gz", TableConfig{CacheBytes: 1000}, "larger than allowed once decompressed: more than 1000 bytes, and a compressed file cannot be read from the middle"},
		{"t.csv.gz", TableConfig{CacheBytes: 10}, "decompress it first, to t.csv"},
		{"cut.csv.gz", TableConfig{}, "the file is cut short: fetch it again"},
		{"bad.csv.gz", TableConfig{}, "the file is damaged: fetch it again"},
		{"t.csv.zst", TableConfig{}, "import github.com/paragon-train/paragon/data/formats for zstd"},
	} {
		if _, err := OpenTable(t.Context(), filepath.Join(dir, test.name), test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, %+v: got error %v, want %q", test.name, test.cfg, err, test.want)
		}
	}
	table := openTable(t, filepath.Join(dir, "t.csv.gz"), TableConfig{})
	var rows Rows
	if err := table.Read(t.Context(), []int{999}, &rows); err != nil || !slices.Equal(show(&rows, 1), []string{"1 2"}) {
		t.Errorf("a compressed table: got %q and error %v", show(&rows, 1), err)
	}
	if err := table.Read(t.Context(), []int{1000}, &rows); err == nil || !strings.Contains(err.Error(), "got row 1000, want 0 to 999") {
		t.Errorf("a row too many: got error %v", err)
	}
}

func TestCountsMakeBalancedWeights(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.csv": "label,x\n0,1.5\n1,2\n,3\n", "b.csv": "label,x\n1,1\n1,1\n3,1\n"})
	table := openTable(t, dir, TableConfig{Columns: []string{"x"}})
	counts, err := table.Counts(t.Context(), "label")
	if err != nil {
		t.Fatal(err)
	}
	if want := map[int64]int{0: 1, 1: 3, 3: 1}; !maps.Equal(counts, want) {
		t.Errorf("counts: got %v, want %v", counts, want)
	}
	// np.unique of 5 labels: 5 / (3 classes · their counts).
	if got, want := BalancedWeights([]int{1, 3, 0, 1}), []float32{5. / 3, 5. / 9, 0, 5. / 3}; !slices.Equal(got, want) {
		t.Errorf("weights: got %v, want %v", got, want)
	}
	if _, err := table.Counts(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), `count "x": want a column of integers`) {
		t.Errorf("a column of numbers: got error %v", err)
	}
}

func TestAChangedFileIsAnError(t *testing.T) {
	dir := writeFiles(t, map[string]string{"t.csv": "a,b\n1,2\n"})
	table := openTable(t, dir, TableConfig{})
	if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte("a,b\n10,20\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := table.Read(t.Context(), []int{0}, new(Rows)); !errors.Is(err, objects.ErrChanged) {
		t.Errorf("got error %v, want one of ErrChanged", err)
	}
}

// manyRows is a table of text with some blocks; row i has i and i·i.
func manyRows(rows int) string {
	var b strings.Builder
	b.WriteString("i,square\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,%d\n", i, i*i)
	}
	return b.String()
}

// In the table's order each block is decoded once, also where the cache holds a part of them.
func TestOrderDecodesEachBlockOnce(t *testing.T) {
	const rows = 40 * 4096
	table := openTable(t, filepath.Join(writeFiles(t, map[string]string{"t.csv": manyRows(rows)}), "t.csv"), TableConfig{CacheBytes: 1 << 20})
	const train = rows - 10_000
	s, err := sampler.Split(train, 1, 0, sampler.Ordered(table.Order(train)), sampler.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	seen, batch := make([]bool, train), []int{}
	var read Rows
	for row := range s.Epoch(0) {
		if seen[row] {
			t.Fatalf("row %d comes twice", row)
		}
		seen[row] = true
		if batch = append(batch, row); len(batch) == 100 {
			if err := table.Read(t.Context(), batch, &read); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	// Batches that lie in two windows want blocks of both.
	if got := table.cache.Decoded(); got > 38+2 {
		t.Errorf("38 blocks were decoded %d times, want about once each", got)
	}
}

// In an order that stays within some blocks each is decoded once, whoever reads.
func TestReadersShareDecodedBlocks(t *testing.T) {
	const rows = 5 * 4096
	table := openTable(t, filepath.Join(writeFiles(t, map[string]string{"t.csv": manyRows(rows)}), "t.csv"), TableConfig{CacheBytes: 1 << 20})
	random := rand.New(rand.NewPCG(1, 1))
	for window := 0; window < rows; window += 2 * 4096 {
		order := random.Perm(min(2*4096, rows-window))
		var group errgroup.Group
		for reader := range 4 {
			group.Go(func() error {
				var read Rows
				for at := reader * 64; at < len(order); at += 4 * 64 {
					batch := slices.Clone(order[at:min(at+64, len(order))])
					for k := range batch {
						batch[k] += window
					}
					if err := table.Read(t.Context(), batch, &read); err != nil {
						return err
					}
					for k, row := range batch {
						if got := read.Columns[1].Ints[k]; got != int64(row*row) {
							return fmt.Errorf("row %d: got %d, want %d", row, got, row*row)
						}
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.cache.Decoded(); got != 5 {
		t.Errorf("blocks were decoded %d times, want 5", got)
	}
}

func TestABlockLargerThanTheCacheIsAnError(t *testing.T) {
	table := openTable(t, filepath.Join(writeFiles(t, map[string]string{"t.csv": manyRows(4096)}), "t.csv"), TableConfig{CacheBytes: 10_000})
	err := table.Read(t.Context(), []int{0}, new(Rows))
	if err == nil || !strings.Contains(err.Error(), "its 4096 rows take") || !strings.Contains(err.Error(), "set CacheBytes to some times as much") {
		t.Errorf("got error %v, want one that says what to set", err)
	}
}

// A read whose rows lie in many blocks waits for the storage once for some of them.
func TestBlocksOfAReadAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objectstest.New(map[string][]byte{"t.csv": []byte(manyRows(8 * 4096))})
		store.Latency = 20 * time.Millisecond
		info, err := store.Stat(t.Context(), "t.csv")
		if err != nil {
			t.Fatal(err)
		}
		table := &Table{store: store}
		cfg := TableConfig{CacheBytes: 64 << 20}
		if table.source, err = openRows(t.Context(), store, []objects.Info{info}, cfg); err == nil {
			err = table.choose(cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		var rows []int
		for b := range 8 {
			rows = append(rows, b*4096+7)
		}
		begin := time.Now()
		var read Rows
		if err := table.Read(t.Context(), rows, &read); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 20*time.Millisecond {
			t.Errorf("eight blocks took %v, want the 20ms of one", took)
		}
		for k, row := range rows {
			if got := read.Columns[0].Ints[k]; got != int64(row) {
				t.Errorf("row %d: got %d", row, got)
			}
		}
	})
}

// A reader whose context ends takes nothing from the others that wait for the same block.
func TestAReaderThatGivesUpLeavesTheOthersTheirRows(t *testing.T) {
	table := openTable(t, filepath.Join(writeFiles(t, map[string]string{"t.csv": manyRows(4096)}), "t.csv"), TableConfig{})
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_ = table.Read(gone, []int{1}, new(Rows))
			return nil
		})
		group.Go(func() error { return table.Read(t.Context(), []int{1}, new(Rows)) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// drawCriteo makes rows of Criteo's text.
func drawCriteo(seed uint64, rows int) string {
	random := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	for range rows {
		fmt.Fprint(&b, random.IntN(2))
		for range CriteoDense {
			switch random.IntN(4) {
			case 0:
				b.WriteString("\t")
			case 1:
				fmt.Fprintf(&b, "\t%d", -random.IntN(10))
			default:
				fmt.Fprintf(&b, "\t%d", random.IntN(1<<random.IntN(31)))
			}
		}
		for range CriteoCategorical {
			if random.IntN(5) == 0 {
				b.WriteString("\t")
			} else {
				fmt.Fprintf(&b, "\t%08x", random.Uint32()|1)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// npyFile is an array of rows of columns.
func npyFile(t testing.TB, descr string, rows, columns int, values any) string {
	t.Helper()
	var b bytes.Buffer
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", descr, rows, columns)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	b.WriteString("\x93NUMPY\x01\x00")
	for _, v := range []any{uint16(len(head)), []byte(head), values} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// The arrays of an archive are columns side by side, compressed or not.
func TestArraysOfAnArchiveAreColumns(t *testing.T) {
	dir := t.TempDir()
	pack := func(name string, method uint16, arrays ...string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i := 0; i < len(arrays); i += 2 {
			w, err := z.CreateHeader(&zip.FileHeader{Name: arrays[i] + ".npy", Method: method})
			if err == nil {
				_, err = io.WriteString(w, arrays[i+1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	x, y := npyFile(t, "<f4", 3, 2, []float32{0.5, 1, 2, 3, 4, 5}), npyFile(t, "<i8", 3, 1, []int64{7, 8, 9})
	for name, method := range map[string]uint16{"stored.npz": zip.Store, "deflated.npz": zip.Deflate} {
		path := pack(name, method, "x", x, "y", y)
		table := openTable(t, path, TableConfig{})
		var rows Rows
		if err := table.Read(t.Context(), []int{2, 0}, &rows); err != nil || !slices.Equal(show(&rows, 2), []string{"4 5 9", "0.5 1 7"}) {
			t.Errorf("%s: got %q and error %v", name, show(&rows, 2), err)
		}
		var names []string
		for _, c := range table.Columns() {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, []string{"x0", "x1", "y"}) {
			t.Errorf("%s: got columns %q", name, names)
		}
	}
	for path, want := range map[string]string{
		pack("rows.npz", zip.Store, "x", x, "y", npyFile(t, "<i8", 2, 1, []int64{7, 8})):  "must have the same rows",
		pack("twice.npz", zip.Store, "y", y, "y0", y, "y", y):                             `two columns have the name "y"`,
		pack("none.npz", zip.Store):                                                       "the archive has no arrays",
		pack("deep.npz", zip.Store, "x", strings.Replace(x, "(3, 2), }", "(3,2,1),}", 1)): "rows have shape [2 1]",
	} {
		if _, err := OpenTable(t.Context(), path, TableConfig{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", filepath.Base(path), err, want)
		}
	}
	large := pack("large.npz", zip.Deflate, "y", npyFile(t, "<i8", 3000, 1, make([]int64, 3000)))
	if _, err := OpenTable(t.Context(), large, TableConfig{CacheBytes: 20_000}); err == nil || !strings.Contains(err.Error(), "save it with numpy.savez") {
		t.Errorf("a compressed array that is larger than the cache: got error %v", err)
	}
	if _, err := OpenTable(t.Context(), large, TableConfig{Names: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "have the names of the arrays") {
		t.Errorf("names for an archive: got error %v", err)
	}
}

// torchrec makes the three arrays of a set, with the dense values that the set has.
func torchrec(t testing.TB, text string, set *ClickSet) map[string]string {
	t.Helper()
	var dense []float32
	var sparse, labels []int32
	ids := make([]int64, CriteoCategorical)
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		features := make([]float32, CriteoDense)
		label, err := set.Read(i, features, ids)
		if err != nil {
			t.Fatal(err)
		}
		dense, labels = append(dense, features...), append(labels, int32(label))
		for _, field := range strings.Split(line, "\t")[1+CriteoDense:] {
			x := uint32(0)
			if field != "" {
				if _, err := fmt.Sscanf(field, "%x", &x); err != nil {
					t.Fatal(err)
				}
			}
			sparse = append(sparse, int32(x))
		}
	}
	rows := len(labels)
	return map[string]string{
		"day_0_dense.npy": npyFile(t, "<f4", rows, CriteoDense, dense), "day_0_sparse.npy": npyFile(t, "<i4", rows, CriteoCategorical, sparse),
		"day_0_labels.npy": npyFile(t, "<i4", rows, 1, labels),
	}
}

// wantClicks checks that clicks give what a set in memory gives, in an order that jumps.
func wantClicks(t *testing.T, name string, clicks *Clicks, set *ClickSet) {
	t.Helper()
	if clicks.Len() != set.Len() || clicks.Buckets() != set.Buckets() {
		t.Fatalf("%s: got %d rows and %d buckets, want %d and %d", name, clicks.Len(), clicks.Buckets(), set.Len(), set.Buckets())
	}
	order := rand.New(rand.NewPCG(3, 3)).Perm(set.Len())
	dense, ids, labels := make([]float32, len(order)*CriteoDense), make([]int64, len(order)*CriteoCategorical), make([]int32, len(order))
	if err := clicks.Read(t.Context(), order, dense, ids, labels); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	wantDense, wantIDs := make([]float32, CriteoDense), make([]int64, CriteoCategorical)
	for k, row := range order {
		label, err := set.Read(row, wantDense, wantIDs)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
		gotDense, gotIDs := dense[k*CriteoDense:][:CriteoDense], ids[k*CriteoCategorical:][:CriteoCategorical]
		if float32(labels[k]) != label || !slices.EqualFunc(gotDense, wantDense, same) || !slices.Equal(gotIDs, wantIDs) {
			t.Fatalf("%s: row %d: got %d %v %v, want %v %v %v", name, row, labels[k], gotDense, gotIDs, label, wantDense, wantIDs)
		}
	}
}

// A file is the same rows whether it is in memory, read by blocks, compressed, or torchrec's
// arrays.
func TestClicksAreThoseOfLoadCriteo(t *testing.T) {
	for seed, rows := range []int{1, 300, 5000} {
		text := drawCriteo(uint64(seed), rows)
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		fmt.Fprint(z, text)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		dir := writeFiles(t, map[string]string{"train.txt": text, "day_0": text, "gz/train.txt.gz": zipped.String()})
		cfg := CriteoConfig{Buckets: math.MaxInt64}
		set, err := LoadCriteo(filepath.Join(dir, "train.txt"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		triple := writeFiles(t, torchrec(t, text, set))
		for _, url := range []string{filepath.Join(dir, "train.txt"), filepath.Join(dir, "day_0"), filepath.Join(dir, "gz"), triple} {
			clicks, err := OpenClicks(t.Context(), url, cfg)
			if err != nil {
				t.Fatal(err)
			}
			wantClicks(t, fmt.Sprintf("seed %d, %s", seed, url), clicks, set)
			if err := clicks.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDaysFollowEachOtherByNumber(t *testing.T) {
	files := map[string]string{}
	for day := range 12 {
		files[fmt.Sprint("day_", day)] = fmt.Sprint(day%2, strings.Repeat(fmt.Sprint("\t", day), CriteoDense), strings.Repeat("\t0000000a", CriteoCategorical), "\n")
	}
	clicks, err := OpenClicks(t.Context(), writeFiles(t, files), CriteoConfig{MaxRows: 11})
	if err != nil {
		t.Fatal(err)
	}
	defer clicks.Close()
	dense, ids, labels := make([]float32, CriteoDense), make([]int64, CriteoCategorical), make([]int32, 1)
	if got := clicks.Order(10).String(); clicks.Len() != 11 || !strings.HasPrefix(got, "blocks of 10, window 10") && !strings.HasPrefix(got, "blocks of 10, window 16") {
		t.Errorf("got %d rows, ordered by %s, want 11, and blocks of the first 10", clicks.Len(), got)
	}
	for day := range 11 {
		if err := clicks.Read(t.Context(), []int{day}, dense, ids, labels); err != nil || dense[0] != float32(math.Log1p(float64(day))) || int(labels[0]) != day%2 {
			t.Errorf("row %d: got dense %v, label %d and error %v", day, dense[0], labels[0], err)
		}
	}
	if err := clicks.Read(t.Context(), []int{11}, dense, ids, labels); err == nil {
		t.Error("a row beyond MaxRows: got no error")
	}
}

func TestClicksRefuseByName(t *testing.T) {
	good := drawCriteo(1, 2)
	set, err := LoadCriteo(filepath.Join(writeFiles(t, map[string]string{"train.txt": good}), "train.txt"), CriteoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	arrays := torchrec(t, good, set)
	short := torchrec(t, good, set)
	short["day_0_labels.npy"] = npyFile(t, "<i4", 1, 1, []int32{1})
	delete(arrays, "day_0_sparse.npy")
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a label of 2", map[string]string{"train.txt": "2" + good[1:]}, "row 0, column 1: got 2, want label 0 or 1"},
		{"no labels, as in test.txt", map[string]string{"test.txt": good[2:strings.IndexByte(good, '\n')] + "\n"}, "got 39 columns, want the 40 that were named"},
		{"a word among the integers", map[string]string{"train.txt": good + strings.Replace(good, "\t", "\tx", 1)}, "column 2 (I1): got \"x"},
		{"two of three arrays", arrays, "day_0_sparse.npy"},
		{"arrays of other rows", short, "day_0_labels.npy has 1 rows, and day_0_dense.npy has 2"},
		{"Parquet", map[string]string{"part-0.parquet": "PAR1"}, "for Parquet import github.com/paragon-train/paragon/data/formats"},
	} {
		clicks, err := OpenClicks(t.Context(), writeFiles(t, test.files), CriteoConfig{})
		if err == nil {
			all := make([]int, clicks.Len())
			for i := range all {
				all[i] = i
			}
			err = clicks.Read(t.Context(), all, make([]float32, 1000), make([]int64, 1000), make([]int32, 100))
			_ = clicks.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}

func BenchmarkClicks(b *testing.B) {
	path := filepath.Join(writeFiles(b, map[string]string{"train.txt": drawCriteo(1, 100_000)}), "train.txt")
	clicks, err := OpenClicks(b.Context(), path, CriteoConfig{CacheBytes: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer clicks.Close()
	const batch = 1024
	rows, dense, ids, labels := make([]int, batch), make([]float32, batch*CriteoDense), make([]int64, batch*CriteoCategorical), make([]int32, batch)
	at, read := 0, 0
	for b.Loop() {
		for k := range rows {
			rows[k] = (at + k) % clicks.Len()
		}
		at += batch
		if err := clicks.Read(b.Context(), rows, dense, ids, labels); err != nil {
			b.Fatal(err)
		}
		read += batch
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "rows/s")
}
