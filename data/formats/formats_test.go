package formats_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/paragon-train/paragon/data"
	_ "github.com/paragon-train/paragon/data/formats"
	"github.com/paragon-train/paragon/data/transform"
)

func writeFile(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFolderOfParquetIsATable(t *testing.T) {
	type row struct {
		ID    int64    `parquet:"id"`
		Price *float64 `parquet:"price,optional"`
		Shop  string   `parquet:"shop,dict"`
		Tags  []string `parquet:"tags,list"`
	}
	dir := t.TempDir()
	var want []string
	for part := range 3 {
		var rows []row
		for i := range 10 {
			id := int64(part*10 + i)
			r := row{ID: id, Shop: fmt.Sprint("shop ", id%3)}
			price := "-"
			if i%4 > 0 {
				r.Price = new(float64(id) / 2)
				price = fmt.Sprint(float64(id) / 2)
			}
			rows = append(rows, r)
			want = append(want, fmt.Sprintf("%s %d shop %d", price, id, id%3))
		}
		var b bytes.Buffer
		w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(4), parquet.Compression(&parquet.Snappy))
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, fmt.Sprintf("part-%d.snappy.parquet", part)), b.Bytes())
	}
	writeFile(t, filepath.Join(dir, "_SUCCESS"), nil)
	if _, err := data.OpenTable(t.Context(), dir, data.TableConfig{}); err == nil || !strings.Contains(err.Error(), `column "tags.list.element" cannot be read: it is a list or a map; name the columns that are wanted`) {
		t.Errorf("all columns: got error %v, want one that names that of lists", err)
	}
	table, err := data.OpenTable(t.Context(), dir, data.TableConfig{Columns: []string{"price", "id", "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if got, want := table.Blocks(), []int{0, 4, 8, 10, 14, 18, 20, 24, 28}; table.Len() != 30 || !slices.Equal(got, want) {
		t.Errorf("got %d rows in blocks from %v, want 30 from %v", table.Len(), got, want)
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(30)
	var rows data.Rows
	if err := table.Read(t.Context(), order, &rows); err != nil {
		t.Fatal(err)
	}
	for k, i := range order {
		price := "-"
		if !rows.Columns[0].Null(k) {
			price = fmt.Sprint(rows.Columns[0].Floats[k])
		}
		if got := fmt.Sprintf("%s %d %s", price, rows.Columns[1].Ints[k], rows.Columns[2].Bytes[k]); got != want[i] {
			t.Errorf("row %d: got %q, want %q", i, got, want[i])
		}
	}
}

// clickText draws rows of Criteo's text.
func clickText(rows int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range rows {
		fmt.Fprint(&b, random.IntN(2))
		for range data.CriteoDense {
			b.WriteByte('\t')
			if random.IntN(4) > 0 {
				fmt.Fprint(&b, random.IntN(1000)-10)
			}
		}
		for range data.CriteoCategorical {
			b.WriteByte('\t')
			if random.IntN(4) > 0 {
				fmt.Fprintf(&b, "%08x", random.Uint32())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// clickParquet makes a file of rows of Criteo's text, with categorical values as texts or as
// integers, and integers as pandas writes them where some are missing.
func clickParquet(t testing.TB, text string, hex, floats bool) []byte {
	t.Helper()
	group := parquet.Group{"label": parquet.Int(32)}
	for i := range data.CriteoDense {
		group[fmt.Sprint("I", i+1)] = parquet.Optional(parquet.Int(64))
		if floats {
			group[fmt.Sprint("I", i+1)] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
		}
	}
	for i := range data.CriteoCategorical {
		group[fmt.Sprint("C", i+1)] = parquet.Optional(parquet.String())
		if !hex {
			group[fmt.Sprint("C", i+1)] = parquet.Optional(parquet.Uint(32))
		}
	}
	schema := parquet.NewSchema("clicks", group)
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(2000))
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		row := map[string]any{}
		for c, field := range strings.Split(line, "\t") {
			switch {
			case c == 0:
				row["label"] = int32(field[0] - '0')
			case field == "":
			case c <= data.CriteoDense:
				var x int64
				if _, err := fmt.Sscan(field, &x); err != nil {
					t.Fatal(err)
				}
				row[fmt.Sprint("I", c)] = x
				if floats {
					row[fmt.Sprint("I", c)] = float64(x)
				}
			default:
				name := fmt.Sprint("C", c-data.CriteoDense)
				row[name] = field
				if !hex {
					var x uint32
					if _, err := fmt.Sscanf(field, "%x", &x); err != nil {
						t.Fatal(err)
					}
					row[name] = x
				}
			}
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Clicks in Parquet or in zstd are those of the text.
func TestClicksInParquetAreThoseOfTheText(t *testing.T) {
	text := clickText(3000)
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := data.CriteoConfig{Buckets: math.MaxInt64}
	set, err := data.LoadCriteo(writeFile(t, filepath.Join(dir, "train.txt"), []byte(text)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		writeFile(t, filepath.Join(dir, "hex.parquet"), clickParquet(t, text, true, false)),
		writeFile(t, filepath.Join(dir, "integers.parquet"), clickParquet(t, text, false, false)),
		writeFile(t, filepath.Join(dir, "floats.parquet"), clickParquet(t, text, true, true)),
		writeFile(t, filepath.Join(dir, "train.txt.zst"), packed.Bytes()),
	} {
		clicks, err := data.OpenClicks(t.Context(), path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer clicks.Close()
		if clicks.Len() != set.Len() {
			t.Fatalf("%s: got %d rows, want %d", path, clicks.Len(), set.Len())
		}
		order := rand.New(rand.NewPCG(1, 1)).Perm(set.Len())
		dense, ids, labels := make([]float32, len(order)*data.CriteoDense), make([]int64, len(order)*data.CriteoCategorical), make([]int32, len(order))
		if err := clicks.Read(t.Context(), order, dense, ids, labels); err != nil {
			t.Fatal(err)
		}
		wantDense, wantIDs := make([]float32, data.CriteoDense), make([]int64, data.CriteoCategorical)
		for k, i := range order {
			label, err := set.Read(i, wantDense, wantIDs)
			if err != nil {
				t.Fatal(err)
			}
			if got := dense[k*data.CriteoDense:][:data.CriteoDense]; float32(labels[k]) != label || !slices.Equal(got, wantDense) || !slices.Equal(ids[k*data.CriteoCategorical:][:data.CriteoCategorical], wantIDs) {
				t.Fatalf("%s: row %d: got label %d and %v, want %v and %v", path, i, labels[k], got, label, wantDense)
			}
		}
	}
}

func TestImageFormatsAreKnown(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 3, 2))
	img.Set(1, 1, color.RGBA{10, 20, 30, 255})
	var asBMP, asTIFF bytes.Buffer
	if err := bmp.Encode(&asBMP, img); err != nil {
		t.Fatal(err)
	}
	if err := tiff.Encode(&asTIFF, img, nil); err != nil {
		t.Fatal(err)
	}
	// One white pixel, lossless.
	webp := "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"
	for want, b := range map[string][]byte{"bmp": asBMP.Bytes(), "tiff": asTIFF.Bytes(), "webp": []byte(webp)} {
		if _, format, err := image.Decode(bytes.NewReader(b)); err != nil || format != want {
			t.Errorf("%s: got format %q and error %v", want, format, err)
		}
	}
}

// Images in Parquet, as Hugging Face's datasets have them, are a data set as any other.
func TestImagesInParquetAreADataSet(t *testing.T) {
	type row struct {
		Image struct {
			Bytes []byte `parquet:"bytes"`
			Path  string `parquet:"path"`
		} `parquet:"image"`
		Label int64 `parquet:"label"`
	}
	rows := make([]row, 6)
	for i := range rows {
		img := image.NewRGBA(image.Rect(0, 0, 8, 8))
		for p := range img.Pix {
			img.Pix[p] = uint8(40 * i)
			if p%4 == 3 {
				img.Pix[p] = 255
			}
		}
		var b bytes.Buffer
		if err := bmp.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		rows[i].Image.Bytes, rows[i].Label = b.Bytes(), int64(i%3)
	}
	var b bytes.Buffer
	features := `{"info": {"features": {"label": {"names": ["cat", "dog", "owl"]}}}}`
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(4), parquet.KeyValueMetadata("huggingface", features))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train-00000-of-00001.parquet"), b.Bytes())
	images, err := data.OpenImages(t.Context(), dir, data.OpenOptions{Transforms: []transform.Transform{transform.ResizeTo(4, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	if got, want := images.Classes(), []string{"cat", "dog", "owl"}; images.Len() != 6 || !slices.Equal(got, want) {
		t.Errorf("got %d images of %q, want 6 of %q", images.Len(), got, want)
	}
	pixels := make([]uint8, images.Shape().Size())
	for i := range rows {
		label, err := images.Read(i, pixels)
		if err != nil || label != i%3 || pixels[0] != uint8(40*i) {
			t.Errorf("image %d: got label %d, first pixel %d and error %v, want %d and %d", i, label, pixels[0], err, i%3, 40*i)
		}
	}
}

// The shard is one that MosaicML's MDSWriter compressed.
func TestMDSInZstdIsADataSet(t *testing.T) {
	images, err := data.OpenImages(t.Context(), filepath.FromSlash("../internal/source/mds/testdata/zstd"), data.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	pixels := make([]uint8, images.Shape().Size())
	for i := range 5 {
		label, err := images.Read(i, pixels)
		if err != nil || label != 300+i || pixels[0] != uint8(40*i) {
			t.Errorf("image %d: got label %d, first pixel %d and error %v, want %d and %d", i, label, pixels[0], err, 300+i, 40*i)
		}
	}
}
