package parquet

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/delta"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// drawn is a row with each type and encoding that parquet-go writes.
type drawn struct {
	Bool       bool     `parquet:"bool"`
	Int32      int32    `parquet:"int32"`
	Uint32     uint32   `parquet:"uint32"`
	Int64      int64    `parquet:"int64"`
	Float      float32  `parquet:"float"`
	Double     float64  `parquet:"double"`
	Text       string   `parquet:"text"`
	Fixed      [5]byte  `parquet:"fixed"`
	DeltaFixed [5]byte  `parquet:"delta_fixed,delta"`
	SplitFixed [5]byte  `parquet:"split_fixed,split"`
	SplitInt   int32    `parquet:"split_int,split"`
	DictInt    int64    `parquet:"dict_int,dict"`
	DictText   string   `parquet:"dict_text,dict"`
	DeltaInt   int32    `parquet:"delta_int,delta"`
	DeltaLong  int64    `parquet:"delta_long,delta"`
	DeltaText  string   `parquet:"delta_text,delta"`
	SplitFloat float32  `parquet:"split_float,split"`
	SplitLong  float64  `parquet:"split_long,split"`
	MaybeInt   *int32   `parquet:"maybe_int,optional"`
	MaybeDict  *string  `parquet:"maybe_dict,optional,dict"`
	MaybeText  *string  `parquet:"maybe_text,optional"`
	MaybeBool  *bool    `parquet:"maybe_bool,optional"`
	Never      *float64 `parquet:"never,optional"`
	Decimal    int64    `parquet:"decimal,decimal(2:10)"`
	Nested     *struct {
		Bytes []byte  `parquet:"bytes,optional"`
		Path  *string `parquet:"path,optional"`
	} `parquet:"image,optional"`
}

func draw(random *rand.Rand) (r drawn) {
	text := func() string {
		return []string{"", "a", "longer text", "longer text still", "é"}[random.IntN(5)] + fmt.Sprint(random.IntN(30))
	}
	r.Bool, r.Int32, r.Uint32, r.Int64 = random.IntN(2) == 0, int32(random.Uint32()), random.Uint32(), int64(random.Uint64())
	r.Float, r.Double, r.Text = random.Float32(), random.NormFloat64(), text()
	r.DictInt, r.DictText = int64(random.IntN(7)-3), text()
	r.DeltaInt, r.DeltaLong, r.DeltaText = int32(random.Uint32()>>random.IntN(32)), int64(random.Uint64()>>random.IntN(64)), text()
	r.SplitFloat, r.SplitLong, r.Decimal = random.Float32(), random.NormFloat64(), int64(random.IntN(1000)-500)
	for i := range r.Fixed {
		r.Fixed[i] = byte(random.Uint32())
	}
	r.DeltaFixed, r.SplitFixed, r.SplitInt = r.Fixed, r.Fixed, r.Int32
	r.DeltaFixed[0], r.DeltaFixed[1] = 0, 0
	if random.IntN(3) > 0 {
		r.MaybeInt = new(int32(random.IntN(100)))
	}
	if random.IntN(2) > 0 {
		r.MaybeDict, r.MaybeText = new(text()), new(text())
	}
	if random.IntN(4) > 0 {
		r.MaybeBool = new(random.IntN(2) == 0)
	}
	if random.IntN(3) > 0 {
		r.Nested = new(struct {
			Bytes []byte  `parquet:"bytes,optional"`
			Path  *string `parquet:"path,optional"`
		})
		if random.IntN(3) > 0 {
			r.Nested.Bytes = []byte(text())
		}
	}
	return r
}

// want is what reading a row gives, as texts by the columns' names.
func (r drawn) want() map[string]string {
	number := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	w := map[string]string{
		"bool": number(r.Bool), "int32": fmt.Sprint(r.Int32), "uint32": fmt.Sprint(r.Uint32), "int64": fmt.Sprint(r.Int64),
		"float": fmt.Sprint(r.Float), "double": fmt.Sprint(float32(r.Double)), "text": r.Text, "fixed": string(r.Fixed[:]), "delta_fixed": string(r.DeltaFixed[:]), "split_fixed": string(r.SplitFixed[:]), "split_int": fmt.Sprint(r.SplitInt),
		"dict_int": fmt.Sprint(r.DictInt), "dict_text": r.DictText, "delta_int": fmt.Sprint(r.DeltaInt), "delta_long": fmt.Sprint(r.DeltaLong),
		"delta_text": r.DeltaText, "split_float": fmt.Sprint(r.SplitFloat), "split_long": fmt.Sprint(float32(r.SplitLong)),
		"maybe_int": "<null>", "maybe_dict": "<null>", "maybe_text": "<null>", "maybe_bool": "<null>", "never": "<null>",
		"decimal": fmt.Sprint(float32(float64(r.Decimal) / 100)), "image.bytes": "<null>", "image.path": "<null>",
	}
	if r.MaybeInt != nil {
		w["maybe_int"] = fmt.Sprint(*r.MaybeInt)
	}
	if r.MaybeDict != nil {
		w["maybe_dict"], w["maybe_text"] = *r.MaybeDict, *r.MaybeText
	}
	if r.MaybeBool != nil {
		w["maybe_bool"] = number(*r.MaybeBool)
	}
	if r.Nested != nil && r.Nested.Bytes != nil {
		w["image.bytes"] = string(r.Nested.Bytes)
	}
	return w
}

// write makes a file of row groups of so many rows.
func write[T any](t testing.TB, rows []T, group int, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	for len(rows) > 0 {
		n := min(group, len(rows))
		if _, err := w.Write(rows[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openBytes(t testing.TB, b []byte) (*file, error) {
	t.Helper()
	store := objectstest.New(map[string][]byte{"t.parquet": b})
	info, err := store.Stat(t.Context(), "t.parquet")
	if err != nil {
		t.Fatal(err)
	}
	return open(t.Context(), store, info)
}

// show is a value as a text.
func show(v *table.Values, i int) string {
	switch {
	case v.Null(i):
		return "<null>"
	case v.Floats != nil:
		return fmt.Sprint(v.Floats[i])
	case v.Ints != nil:
		return fmt.Sprint(v.Ints[i])
	}
	return string(v.At(i))
}

// all are the numbers of the columns that are read.
func (f *file) all() (columns []int) {
	for c := range f.columns {
		if f.columns[c].Refused == "" {
			columns = append(columns, c)
		}
	}
	return columns
}

// What parquet-go writes comes back, whatever the codec, the version of pages and their size.
func TestRowsAreThoseThatWereWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(34, 1))
	codecs := []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Brotli, &parquet.Lz4Raw}
	for _, rows := range []int{1, 7, 500} {
		all := make([]drawn, rows)
		for i := range all {
			all[i] = draw(random)
		}
		for k, codec := range codecs {
			for version := 1; version <= 2; version++ {
				name := fmt.Sprintf("%d rows, %s, pages of version %d", rows, codec, version)
				b := write(t, all, 200, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(400+1000*k))
				f, err := openBytes(t, b)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got, want := len(f.Blocks())-1, (rows+199)/200; got != want {
					t.Errorf("%s: got %d row groups, want %d", name, got, want)
				}
				for g := range len(f.Blocks()) - 1 {
					block, err := f.ReadBlock(t.Context(), g, f.all(), 1<<30)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					for i := range block.Rows {
						want := all[f.Blocks()[g]+i].want()
						for c, column := range f.columns {
							if got := show(&block.Columns[c], i); got != want[column.Name] {
								t.Fatalf("%s: row %d, column %s: got %q, want %q", name, f.Blocks()[g]+i, column.Name, got, want[column.Name])
							}
						}
					}
				}
			}
		}
	}
}

// Some columns, in another order, are read as they are among all.
func TestColumnsAreReadInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(34, 2))
	rows := []drawn{draw(random), draw(random), draw(random)}
	f, err := openBytes(t, write(t, rows, 10))
	if err != nil {
		t.Fatal(err)
	}
	columns := []int{9, 2, 15}
	block, err := f.ReadBlock(t.Context(), 0, columns, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		for k, c := range columns {
			if got, want := show(&block.Columns[k], i), r.want()[f.columns[c].Name]; got != want {
				t.Errorf("row %d, column %s: got %q, want %q", i, f.columns[c].Name, got, want)
			}
		}
	}
}

// Numbers in differences are those that parquet-go packs.
func TestDifferencesAreThoseOfParquetGo(t *testing.T) {
	random := rand.New(rand.NewPCG(34, 3))
	for n := range 300 {
		want := make([]int64, n)
		for i := range want {
			want[i] = int64(random.Uint64()) >> random.IntN(64)
		}
		b, err := new(delta.BinaryPackedEncoding).EncodeInt64(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint64, n)
		rest, err := deltaNumbers(got, append(b, 'x'))
		if err != nil || string(rest) != "x" {
			t.Fatalf("%d numbers: got error %v and %q behind them, want %q", n, err, rest, "x")
		}
		for i := range want {
			if int64(got[i]) != want[i] {
				t.Fatalf("number %d of %d: got %d, want %d", i, n, int64(got[i]), want[i])
			}
		}
	}
}

func TestRunsAndPackedNumbers(t *testing.T) {
	for _, test := range []struct {
		name  string
		src   []byte
		width int
		want  []uint32
	}{
		{"a run", []byte{5 << 1, 7}, 3, []uint32{7, 7, 7, 7, 7}},
		{"a run longer than is wanted", []byte{200, 1, 7}, 3, []uint32{7, 7}},
		{"packed", []byte{1<<1 | 1, 0b10001000, 0b11000110, 0b11111010}, 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}},
		{"packed, fewer", []byte{1<<1 | 1, 0b10001000, 0b11000110, 0b11111010}, 3, []uint32{0, 1, 2}},
		{"packed and cut where nothing is wanted", []byte{1<<1 | 1, 0b10001000, 0b11000110}, 3, []uint32{0, 1, 2}},
		{"a run and packed", []byte{1 << 1, 9, 1<<1 | 1, 0x21, 0x43, 0x65, 0x87}, 4, []uint32{9, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"32 bits", []byte{1<<1 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 32, []uint32{0x04030201, 0x08070605}},
		{"no bits", nil, 0, []uint32{0, 0}},
	} {
		got := make([]uint32, len(test.want))
		for i := range got {
			got[i] = 99
		}
		if err := hybrid(got, test.src, test.width); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %d and error %v, want %d", test.name, got, err, test.want)
		}
	}
	for name, src := range map[string][]byte{"nothing": nil, "no value": {5 << 1}, "too few packed": {1<<1 | 1, 1}, "runs of nothing": {0, 1}, "an endless number": {0xff}} {
		if err := hybrid(make([]uint32, 8), src, 3); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := hybrid(make([]uint32, 1), []byte{2, 0}, 33); err == nil {
		t.Error("33 bits: got no error")
	}
}

func TestHalfNumbers(t *testing.T) {
	for bits, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 1.0 / (1 << 24), 0x3555: 0.33325195, 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1))} {
		if got := float16(bits); got != want {
			t.Errorf("%#04x: got %v, want %v", bits, got, want)
		}
	}
	if got := float16(0x7e00); !math.IsNaN(float64(got)) {
		t.Errorf("0x7e00: got %v, want NaN", got)
	}
}
