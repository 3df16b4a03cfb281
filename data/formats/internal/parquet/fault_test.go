package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func infos(t testing.TB, store objects.Store) (all []objects.Info) {
	t.Helper()
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}

// readAllBlocks reads every block, within a limit.
func readAllBlocks(t testing.TB, b []byte, limit int64) error {
	t.Helper()
	f, err := openBytes(t, b)
	if err != nil {
		return err
	}
	for g := range f.groups {
		// Each column is read alone, so that one that is damaged hides no other.
		for _, c := range f.all() {
			block, err := f.ReadBlock(t.Context(), g, []int{c}, limit)
			if err != nil {
				return err
			}
			if got := block.Bytes(); got > limit {
				t.Errorf("row group %d takes %d bytes, want at most %d", g, got, limit)
			}
		}
	}
	return nil
}

// golden are the files of testdata by name.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, name := range files {
		if all[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestACutFileIsAnError(t *testing.T) {
	for name, b := range golden(t) {
		for n := 0; n < len(b); n += 1 + len(b)/97 {
			if err := readAllBlocks(t, b[:n], 1<<20); err == nil {
				t.Errorf("%s cut to %d of %d bytes: got no error", name, n, len(b))
			}
		}
	}
}

// Damaged bytes give rows or an error, within the limit. Pages with checksums tell.
func TestDamagedBytesAreRowsOrAnError(t *testing.T) {
	random := rand.New(rand.NewPCG(34, 5))
	for name, whole := range golden(t) {
		told := 0
		for range 300 {
			b := slices.Clone(whole)
			for range 1 + random.IntN(3) {
				b[random.IntN(len(b))] ^= byte(1 << random.IntN(8))
			}
			if readAllBlocks(t, b, 1<<20) != nil {
				told++
			}
		}
		if name == "pyarrow-zstd2.parquet" && told < 200 {
			t.Errorf("%s: %d of 300 damaged files were found, want 200 or more", name, told)
		}
	}
}

// A file says what it likes; memory is taken for what is there.
func TestWhatAFooterClaimsTakesNoMemory(t *testing.T) {
	type row struct {
		A int64  `parquet:"a"`
		B string `parquet:"b"`
	}
	b := write(t, []row{{1, "x"}, {2, "y"}}, 10, parquet.Compression(&parquet.Snappy))
	f, err := openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	f.groups[0].rows, f.blocks[1] = 1<<31-1, 1<<31-1
	var large *table.TooLargeError
	if _, err := f.ReadBlock(t.Context(), 0, []int{0}, 1<<20); !errors.As(err, &large) || large.Rows != 1<<31-1 {
		t.Errorf("a row group of 2³¹ rows: got error %v, want that it is too large", err)
	}
	if !strings.Contains(large.Error(), "t.parquet: row group of rows 0 to 2147483646: its 2147483647 rows take") || !strings.Contains(large.Error(), "write the file with smaller row groups") {
		t.Errorf("got error %v, want one that says what to do", large)
	}

	list := func(kind, n int) []byte {
		return append([]byte{0x29, byte(0xf0 | kind)}, binary.AppendUvarint(nil, uint64(n))...)
	}
	for name, footer := range map[string][]byte{
		"a schema of 2³⁰ elements": list(kindStruct, 1<<30),
		"structs without end":      []byte(strings.Repeat("\x2c", 1000)),
		"lists without end":        []byte(strings.Repeat("\x99\x19", 1000)),
		"a text of 2³¹ bytes":      {0x68, 0xff, 0xff, 0xff, 0xff, 0x07},
		"a map of 2³¹":             {0x6b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x88},
	} {
		if _, err := parseFooter(footer, 100); !errors.Is(err, errThrift) {
			t.Errorf("%s: got error %v, want %v", name, err, errThrift)
		}
	}
	end := binary.LittleEndian.AppendUint32([]byte("PAR1"), 1<<31)
	if _, err := openBytes(t, append(append(make([]byte, 100), end...), "PAR1"...)); err == nil || !strings.Contains(err.Error(), "its footer has 2147483648 bytes, want at most") {
		t.Errorf("a footer of 2³¹ bytes: got error %v", err)
	}
}

func TestWhatIsNotReadIsRefusedByName(t *testing.T) {
	type row struct {
		A int64   `parquet:"a"`
		B []int64 `parquet:"b,list"`
	}
	b := write(t, []row{{1, []int64{2, 3}}}, 10)
	f, err := openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadBlock(t.Context(), 0, []int{1}, 1<<20); err == nil || !strings.Contains(err.Error(), "column b.list.element: it is a list or a map") {
		t.Errorf("a list: got error %v", err)
	}
	if block, err := f.ReadBlock(t.Context(), 0, []int{0}, 1<<20); err != nil || block.Columns[0].Ints[0] != 1 {
		t.Errorf("the column beside a list: got %v and error %v", block, err)
	}
	for codec, want := range map[int]string{codecLZO: "LZO", codecLZ4: "Hadoop's LZ4", 99: "codec 99"} {
		if err := checkCodec(codec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("codec %d: got error %v, want one with %q", codec, err, want)
		}
	}
	encrypted := slices.Clone(b)
	copy(encrypted[len(b)-4:], "PARE")
	if _, err := openBytes(t, encrypted); !errors.Is(err, errEncrypted) {
		t.Errorf("an encrypted footer: got error %v, want %v", err, errEncrypted)
	}
	if _, err := openBytes(t, []byte("label,price\n1,2\n3,4\n")); err == nil || !strings.Contains(err.Error(), `want PAR1: it is no Parquet file, or cut short`) {
		t.Errorf("a text: got error %v", err)
	}
}

// Numbers of no bytes have no digits, and a page of them splits into nothing.
func TestDecimalsOfNoBytesAreRefused(t *testing.T) {
	l := leaf{element: element{name: "price", physical: typeFixed, converted: convertedDecimal}}
	l.setKind()
	if l.refused != "its values have 0 bytes" {
		t.Errorf("a decimal of no bytes: got refusal %q, want one", l.refused)
	}
	// A page of one value, of encoding 9.
	page := []byte{0x15, 0, 0x15, 0, 0x15, 0, 0x2c, 0x15, 2, 0x15, 2 * encodingSplit, 0, 0}
	if _, err := column(&l, codecNone, page, 1, 1<<10); err == nil {
		t.Error("a page of values of no bytes: got no error")
	}
}

func TestAChangedFileIsAnError(t *testing.T) {
	b := golden(t)["pyarrow-snappy.parquet"]
	store := objectstest.New(map[string][]byte{"t.parquet": b})
	f, err := open(t.Context(), store, infos(t, store)[0])
	if err != nil {
		t.Fatal(err)
	}
	store.Put("t.parquet", b)
	if _, err := f.ReadBlock(t.Context(), 0, []int{0}, 1<<20); !errors.Is(err, objects.ErrChanged) {
		t.Errorf("got error %v, want one of ErrChanged", err)
	}
}

// Columns that lie beside each other are one read.
func TestNeighboursAreReadAtOnce(t *testing.T) {
	store := objectstest.New(map[string][]byte{"t.parquet": golden(t)["pyarrow-zstd2.parquet"]})
	f, err := open(t.Context(), store, infos(t, store)[0])
	if err != nil {
		t.Fatal(err)
	}
	before := len(store.Calls())
	if _, err := f.ReadBlock(t.Context(), 1, f.all(), 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := len(store.Calls()) - before; got != 1 {
		t.Errorf("a row group took %d reads, want 1", got)
	}
}

type imageRow struct {
	Image struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	} `parquet:"image"`
	Label int64 `parquet:"label"`
}

func TestImagesAreASource(t *testing.T) {
	sourcetest.Run(t, sourcetest.Format{
		Files: func(examples []source.Example) map[string][]byte {
			rows := make([]imageRow, len(examples))
			for i, e := range examples {
				rows[i].Image.Bytes, rows[i].Image.Path, rows[i].Label = e.Image, e.Name, int64(e.Labels[0])
			}
			// Row groups of four, so that examples 3 and 4 lie in two.
			return map[string][]byte{"a.parquet": write(t, rows, max(4, len(rows)/100))}
		},
		Open: func(ctx context.Context, store objects.Store) (source.Source, error) {
			var all []objects.Info
			for info, err := range store.List(ctx, "") {
				if err != nil {
					return nil, err
				}
				all = append(all, info)
			}
			return OpenImages(ctx, store, all, source.Columns{})
		},
		BytesPerExample: 100,
	})
}

func TestImagesRefuseByName(t *testing.T) {
	type row struct {
		A int64 `parquet:"a"`
	}
	store := objectstest.New(map[string][]byte{"t.parquet": write(t, []row{{1}}, 1)})
	if _, err := OpenImages(t.Context(), store, infos(t, store), source.Columns{}); err == nil || !strings.Contains(err.Error(), "has no column of images: want bytes called image, img") || !strings.Contains(err.Error(), "it has a") {
		t.Errorf("a file without images: got error %v", err)
	}
	rows := objectstest.New(map[string][]byte{"t.parquet": write(t, make([]imageRow, 1), 1)})
	for want, columns := range map[string]source.Columns{`want bytes called photo, or`: {Image: "photo"}, `has no column "kind" of numbers for labels`: {Label: "kind"}} {
		if _, err := OpenImages(t.Context(), rows, infos(t, rows), columns); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("columns %+v: got error %v, want %q", columns, err, want)
		}
	}
	if _, err := OpenImages(t.Context(), store, nil, source.Columns{}); err == nil {
		t.Error("no files: got no error")
	}
}

// A damaged page is the data's fault: each image of its row group is bad, and no other.
func TestADamagedPageIsBadExamples(t *testing.T) {
	rows := make([]imageRow, 8)
	for i := range rows {
		rows[i].Image.Bytes = []byte(fmt.Sprint("image number ", i))
	}
	b := write(t, rows, 4)
	at := strings.Index(string(b), "image number 1")
	b[at]++
	store := objectstest.New(map[string][]byte{"t.parquet": b})
	s, err := OpenImages(t.Context(), store, infos(t, store), source.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		_, err := s.Read(t.Context(), i, nil)
		var bad *source.BadError
		if got := errors.As(err, &bad); got != (i < 4) || !got && err != nil {
			t.Errorf("image %d: got error %v, want one of a damaged example: %t", i, err, i < 4)
		}
	}
}

// Whatever comes is rows or an error, within the limit.
func FuzzFile(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = readAllBlocks(t, b, 1<<20) })
}

// Whatever a page has, it is values or an error, within the limit.
func FuzzColumn(f *testing.F) {
	all := make([]drawn, 20)
	random := rand.New(rand.NewPCG(34, 6))
	for i := range all {
		all[i] = draw(random)
	}
	b := write(f, all, 20, parquet.PageBufferSize(100))
	file, err := openBytes(f, b)
	if err != nil {
		f.Fatal(err)
	}
	g := &file.groups[0]
	for c := range g.chunks {
		f.Add(b[g.chunks[c].start:][:g.chunks[c].compressed], uint8(c), uint8(g.chunks[c].codec))
	}
	f.Fuzz(func(t *testing.T, b []byte, which, codec uint8) {
		l := &file.leaves[int(which)%len(file.leaves)]
		v, err := column(l, int(codec), b, 20, 1<<16)
		if err != nil {
			return
		}
		block := table.Block{Rows: 20, Columns: []table.Values{v}}
		if got := block.Bytes(); got > 1<<17 {
			t.Errorf("20 values take %d bytes, want at most %d", got, 1<<17)
		}
		for i := range 20 {
			_ = show(&v, i)
		}
	})
}
