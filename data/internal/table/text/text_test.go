package text

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

var csvConfig = table.Config{Delimiter: ',', Quotes: true, Limit: 1 << 30}

// small cuts blocks where a test can see it.
var small = limits{rows: 3, bytes: 50, row: 200}

func openText(t testing.TB, text string, cfg table.Config, most limits) (*source, error) {
	t.Helper()
	store := objectstest.New(map[string][]byte{"t.csv": []byte(text)})
	info, err := store.Stat(t.Context(), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return open(t.Context(), store, info, cfg, most)
}

// allRows reads every block of a source; a null is "<null>".
func allRows(t testing.TB, s *source) (rows [][]string, err error) {
	t.Helper()
	var columns []int
	for c := range s.Columns() {
		columns = append(columns, c)
	}
	for b := range len(s.Blocks()) - 1 {
		block, err := s.ReadBlock(t.Context(), b, columns, 1<<30)
		if err != nil {
			return nil, err
		}
		if got, want := block.Bytes(), s.Size(b, columns); got > want {
			t.Errorf("block %d: takes %d bytes, and Size says %d", b, got, want)
		}
		for i := range block.Rows {
			var row []string
			for c := range columns {
				v := &block.Columns[c]
				switch {
				case v.Null(i):
					row = append(row, "<null>")
				case v.Ints != nil:
					row = append(row, fmt.Sprint(v.Ints[i]))
				case v.Floats != nil:
					row = append(row, fmt.Sprint(v.Floats[i]))
				default:
					row = append(row, string(v.At(i)))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// drawText makes a text of fields that need quotes and fields that do not.
func drawText(random *rand.Rand, rows, columns int) string {
	var b strings.Builder
	pieces := []string{"a", "bc", "", "12", `""`, ",", "\n", " ", "é", "long text that takes room"}
	for range rows {
		for c := range columns {
			if c > 0 {
				b.WriteByte(',')
			}
			if random.IntN(3) == 0 {
				b.WriteByte('"')
				for range random.IntN(4) {
					b.WriteString(pieces[random.IntN(len(pieces))])
				}
				b.WriteByte('"')
			} else {
				fmt.Fprint(&b, "x", random.IntN(1000))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Package csv is the oracle. Blocks are cut by rows and by bytes, and never in a quoted field.
func TestRowsAreThoseOfPackageCSV(t *testing.T) {
	for seed := range uint64(200) {
		text := drawText(rand.New(rand.NewPCG(seed, 1)), 1+int(seed%40), 2+int(seed%5))
		want, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		cfg := csvConfig
		cfg.NoHeader = true
		s, err := openText(t, text, cfg, small)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for c := range s.columns {
			s.columns[c].Kind = table.Bytes
		}
		s.null = []string{"<none>"}
		got, err := allRows(t, s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("seed %d: got %q, want %q", seed, got, want)
		}
		for i, first := range s.blocks[1:] {
			if n := first - s.blocks[i]; n > int(small.rows) || s.index[i+1].offset-s.index[i].offset > small.bytes+small.row {
				t.Errorf("seed %d: block %d has %d rows and %d bytes, want at most %d and %d", seed, i, n, s.index[i+1].offset-s.index[i].offset, small.rows, small.bytes+small.row)
			}
		}
	}
}

func TestColumnsHaveKindsByTheFirstRows(t *testing.T) {
	s, err := openText(t, "\ufeffid,rate,code,empty,name\r\n1,0.5,007,,x\r\n\r\n-2,1e40,12,,\r\n,nan,3,,\"q\"\"r\"\r\n", csvConfig, usual)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Columns() {
		got = append(got, c.Name+" "+c.Kind.String())
	}
	if want := []string{"id integer", "rate float", "code bytes", "empty bytes", "name bytes"}; !slices.Equal(got, want) {
		t.Errorf("columns: got %q, want %q", got, want)
	}
	rows, err := allRows(t, s)
	if want := [][]string{{"1", "0.5", "007", "<null>", "x"}, {"-2", "+Inf", "12", "<null>", "<null>"}, {"<null>", "NaN", "3", "<null>", `q"r`}}; err != nil || !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("rows: got %q and error %v, want %q", rows, err, want)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	kinds := map[string]table.Kind{"a": table.Int, "b": table.Float, "c": table.Bytes}
	for _, test := range []struct{ name, text, want string }{
		{"a word among integers", "a,b,c\n1,2,x\none,2,x\n", `t.csv: line 3, byte 12: column 1 (a): got "one", want an integer of 64 bits, or nothing; correct or remove the line`},
		{"a word among numbers", "a,b,c\n1,\"x\ny\",x\n", `line 2, byte 6: column 2 (b): got "x\ny", want a number`},
		{"lines in fields count", "a,b,c\n1,2,\"x\ny\"\n1,2\n", "line 4, byte 16: got 2 columns, want 3"},
		{"a column too many", "a,b,c\n1,2,x,4,5\n", "line 2, byte 6: got 5 columns, want 3; correct or remove the line"},
		{"a file that is cut", "a,b,c\n1,2,x\n1,2", "line 3, byte 12: got 2 columns, want 3; the file may be cut short: fetch it again"},
		{"a file that is cut in quotes", "a,b,c\n1,2,x\n1,2,\"", "line 3, byte 12: the file ends within a quoted field"},
		{"a second header", "a,b,c\n1,2,x\na,b,c\n3,4,y\n", "line 3, byte 12: the header comes a second time"},
		{"a huge field", "a,b,c\n1,2,x\n1,2," + strings.Repeat("y", 300) + "\n", "line 3, byte 12: the row is longer than 200 bytes"},
		{"a stray quote", "a,b,c\n1,2,5\" disk\n" + strings.Repeat("1,2,x\n", 100), "line 2, byte 6: a quoted field or a stray quote is not closed within 200 bytes"},
		{"two stray quotes", "a,b,c\n1,2,5\" or 3\" disk\n", "line 2, byte 6: column 3 (c): got a quote within a field"},
		{"text behind a quote", "a,b,c\n1,2,\"x\"y\"\"\n", `line 2, byte 6: column 3 (c): got "y\"\"" behind a closing quote`},
		{"no bytes", "", "byte 0: has no rows; the file is cut short"},
		{"no rows", "a,b,c\n\n\n", "byte 8: has a header and no rows"},
		{"two columns of a name", "a,b,a\n1,2,3\n", `column 3 has the name "a" of another column`},
		{"a header without end", strings.Repeat("a", 500), "line 1, byte 0: the row is longer than 200 bytes"},
	} {
		cfg := csvConfig
		cfg.Kinds = kinds
		s, err := openText(t, test.text, cfg, limits{rows: 2, bytes: 1000, row: 200})
		if err == nil {
			_, err = allRows(t, s)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestAnIndexIsKeptAndChecked(t *testing.T) {
	text := []byte(drawText(rand.New(rand.NewPCG(1, 1)), 5000, 3))
	store := objectstest.New(map[string][]byte{"t.csv": text})
	info, err := store.Stat(t.Context(), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	cfg := csvConfig
	cfg.IndexDir, cfg.NoHeader = filepath.Join(t.TempDir(), "new"), true
	scans := func() int64 {
		t.Helper()
		before := store.BytesRead()
		s, err := Open(t.Context(), store, info, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if rows := s.Blocks()[len(s.Blocks())-1]; rows != 5000 {
			t.Errorf("got %d rows, want 5000", rows)
		}
		return store.BytesRead() - before
	}
	whole := scans()
	kept := scans()
	if kept >= whole {
		t.Errorf("a kept index: read %d bytes, and %d without one", kept, whole)
	}
	files, err := os.ReadDir(cfg.IndexDir)
	if err != nil || len(files) != 1 {
		t.Fatalf("the folder has %d files and error %v, want 1", len(files), err)
	}
	file := filepath.Join(cfg.IndexDir, files[0].Name())
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2]++
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := scans(); got != whole {
		t.Errorf("a damaged index: read %d bytes, want %d as without one", got, whole)
	}
	store.Put("t.csv", text) // another version
	if info, err = store.Stat(t.Context(), "t.csv"); err != nil {
		t.Fatal(err)
	}
	if got := scans(); got != whole {
		t.Errorf("another version: read %d bytes, want %d as without an index", got, whole)
	}
}

// The fingerprint is that of the data and of how it is read.
func TestFingerprintTellsDataApart(t *testing.T) {
	print := func(text string) string {
		s, err := openText(t, text, csvConfig, usual)
		if err != nil {
			t.Fatal(err)
		}
		return s.Fingerprint()
	}
	if a, b := print("a,b\n1,2\n"), print("a,b\n3,4\n"); a != b {
		t.Errorf("files of the same size and rows: got %s and %s, want the same", a, b)
	}
	if a, b := print("a,b\n1,2\n"), print("a,b\n1,23\n"); a == b {
		t.Errorf("files of different sizes: got %s twice", a)
	}
}

// Whatever comes is rows or an error, and what package csv reads as rows of one width is read
// alike.
func FuzzText(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("a,\"b\"\"\n\"\n1,\"2\n\"\n\n3,4")
	f.Add("\ufeffx\n\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg := csvConfig
		cfg.NoHeader, cfg.Null = true, []string{"<none>"}
		s, err := openText(t, text, cfg, small)
		var got [][]string
		if err == nil {
			for c := range s.columns {
				s.columns[c].Kind = table.Bytes
			}
			got, err = allRows(t, s)
		}
		want, wrong := csv.NewReader(strings.NewReader(text)).ReadAll()
		long := slices.ContainsFunc(want, func(row []string) bool { return len(strings.Join(row, `","`))*2 > int(small.row)/2 })
		if wrong != nil || len(want) == 0 || long || strings.Contains(text, "\r") || strings.Contains(text, "<none>") || strings.HasPrefix(text, "\ufeff") || slices.Contains(want[0], "") && len(want[0]) == 1 {
			return
		}
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q: got %q and error %v, want %q", text, got, err, want)
		}
	})
}

// A damaged index is refused, and a whole one comes back.
func FuzzIndex(f *testing.F) {
	f.Add(index{{0, 0, 0}, {100, 5, 5}}.encode("key"), int64(100))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		x, err := decode(b, "key", size)
		if err != nil {
			return
		}
		if again := x.encode("key"); !bytes.Equal(again, b) {
			y, err := decode(again, "key", size)
			if err != nil || !slices.Equal(x, y) {
				t.Errorf("%x: got %v, and then %v and error %v", b, x, y, err)
			}
		}
	})
}

func BenchmarkBlock(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range 20000 {
		fmt.Fprint(&text, random.IntN(2))
		for range 13 {
			fmt.Fprintf(&text, "\t%d", random.IntN(2000))
		}
		for range 26 {
			fmt.Fprintf(&text, "\t%08x", random.Uint32())
		}
		text.WriteByte('\n')
	}
	kinds, names := map[string]table.Kind{}, []string{}
	var columns []int
	for c := range 40 {
		name := fmt.Sprint("c", c)
		names, columns = append(names, name), append(columns, c)
		kinds[name] = table.Int
		if c > 13 {
			kinds[name] = table.Bytes
		}
	}
	s, err := openText(b, text.String(), table.Config{Delimiter: '\t', Names: names, Kinds: kinds, Limit: 1 << 30}, usual)
	if err != nil {
		b.Fatal(err)
	}
	r, _ := s.Range(0)
	b.SetBytes(r.Length)
	rows := 0
	for b.Loop() {
		block, err := s.ReadBlock(b.Context(), 0, columns, 1<<30)
		if err != nil {
			b.Fatal(err)
		}
		rows += block.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
