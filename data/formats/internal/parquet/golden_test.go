package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// Files of pyarrow, in several codecs, encodings and versions of pages, have the rows of
// testdata/make.py.
func TestFilesOfPyarrow(t *testing.T) {
	files, err := filepath.Glob("testdata/pyarrow-*.parquet")
	if err != nil || len(files) != 4 {
		t.Fatalf("got files %q and error %v, want 4", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := openBytes(t, b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rows := f.blocks[len(f.blocks)-1]; rows != 300 {
			t.Fatalf("%s: got %d rows, want 300", name, rows)
		}
		if c := f.columns[len(f.columns)-1]; !strings.HasPrefix(c.Name, "tags.") || c.Refused != "it is a list or a map" {
			t.Errorf("%s: got column %+v, want one of lists that is refused", name, c)
		}
		for g := range f.groups {
			block, err := f.ReadBlock(t.Context(), g, f.all(), 1<<30)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// An order fits windows of blocks into a cache by their sizes.
			if got, want := f.Size(g, f.all()), block.Bytes(); got < want*8/10 || got > want*2 {
				t.Errorf("%s: row group %d takes %d bytes, and Size says %d", name, g, want, got)
			}
			for k := range block.Rows {
				var got []string
				for c := range block.Columns {
					got = append(got, show(&block.Columns[c], k))
				}
				if want := goldenRow(f.blocks[g] + k); !slices.Equal(got, want) {
					t.Fatalf("%s: row %d: got %q, want %q", name, f.blocks[g]+k, got, want)
				}
			}
		}
	}
}

// goldenRow is a row of testdata/make.py.
func goldenRow(i int) []string {
	unless := func(null bool, v any) string {
		if null {
			return "<null>"
		}
		return fmt.Sprint(v)
	}
	open := 0
	if i%4 == 0 {
		open = 1
	}
	return []string{
		fmt.Sprint(i % 2), unless(i%7 == 0, i*i-5000), unless(i%5 == 0, float32(i)/8), fmt.Sprint(float32(i) / 4), unless(i%11 == 0, fmt.Sprintf("shop %d", i%13)),
		fmt.Sprintf("name %04d", i), unless(i%3 == 0, open), fmt.Sprint(float32(float64(i-150) / 100)), fmt.Sprint(i), fmt.Sprint(int64(1<<63-1) - int64(i)),
	}
}

// Images as Hugging Face's datasets write them have their bytes, labels and classes; a row without
// an image is damaged, and no other.
func TestImagesOfHuggingFace(t *testing.T) {
	b, err := os.ReadFile("testdata/images.parquet")
	if err != nil {
		t.Fatal(err)
	}
	store := objectstest.New(map[string][]byte{"train-0.parquet": b, "train-1.parquet": b})
	s, err := OpenImages(t.Context(), store, infos(t, store), source.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Classes(), []string{"cat", "dog", "owl"}; !slices.Equal(got, want) || s.Len() != 20 || !slices.Equal(s.Blocks(), []int{0, 4, 8, 10, 14, 18}) {
		t.Fatalf("got %d images in blocks from %v of classes %q, want 20 from 0, 4, 8, 10, 14 and 18 of %q", s.Len(), s.Blocks(), got, want)
	}
	for i := range s.Len() {
		row := i % 10
		e, err := s.Read(t.Context(), i, nil)
		var bad *source.BadError
		if row == 3 {
			if !errors.As(err, &bad) || bad.Example != i || !strings.Contains(bad.Name, ".parquet, row 3") {
				t.Errorf("image %d: got error %v, want one of a damaged example in row 3", i, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := []float32{float32(row % 3)}
		if row == 4 {
			want = nil
		}
		if string(e.Image) != fmt.Sprint("image ", row) || !slices.Equal(e.Labels, want) || e.Name != fmt.Sprintf("train-%d.parquet, row %d", i/10, row) {
			t.Errorf("image %d: got %q of labels %v named %q", i, e.Image, e.Labels, e.Name)
		}
	}
}
