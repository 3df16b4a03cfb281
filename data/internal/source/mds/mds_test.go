package mds

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decompress"
	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// A writer makes shards as streaming's MDSWriter does.
type writer struct {
	names, encodings []string
	sizes            []int // 0: variable
	compression      string
	keepRaw          bool
	files            map[string][]byte
	shards           []any
}

// shard appends a shard of these samples, each a list of values.
func (w *writer) shard(samples ...[][]byte) {
	var bodies [][]byte
	for _, values := range samples {
		var head []byte
		for k, v := range values {
			if w.sizes[k] == 0 {
				head = binary.LittleEndian.AppendUint32(head, uint32(len(v)))
			}
		}
		bodies = append(bodies, append(head, slices.Concat(values...)...))
	}
	config := []byte(`{"version": 2}`)
	raw := binary.LittleEndian.AppendUint32(nil, uint32(len(bodies)))
	at := 4*(len(bodies)+2) + len(config)
	for _, b := range bodies {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(at))
		at += len(b)
	}
	raw = binary.LittleEndian.AppendUint32(raw, uint32(at))
	raw = append(append(raw, config...), slices.Concat(bodies...)...)
	name := fmt.Sprintf("shard.%05d.mds", len(w.shards))
	var sizes []any
	for _, size := range w.sizes {
		if sizes = append(sizes, nil); size > 0 {
			sizes[len(sizes)-1] = size
		}
	}
	info := map[string]any{"version": 2, "format": "mds", "column_names": w.names, "column_encodings": w.encodings, "column_sizes": sizes, "compression": nil,
		"hashes": []string{"sha1", "xxh64"}, "samples": len(bodies), "size_limit": 1 << 26, "raw_data": describeFile(name, raw), "zip_data": nil}
	if w.files == nil {
		w.files = make(map[string][]byte)
	}
	if w.compression != "" {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		z.Write(raw)
		z.Close()
		extension, _, _ := strings.Cut(w.compression, ":")
		info["compression"], info["zip_data"] = w.compression, describeFile(name+"."+extension, zipped.Bytes())
		w.files[name+"."+extension] = zipped.Bytes()
	}
	if w.compression == "" || w.keepRaw {
		w.files[name] = raw
	}
	w.shards = append(w.shards, info)
	text, err := json.Marshal(map[string]any{"version": 2, "shards": w.shards})
	if err != nil {
		panic(err)
	}
	w.files[IndexName] = text
}

func describeFile(name string, data []byte) map[string]any {
	sum := sha1.Sum(data)
	return map[string]any{"basename": name, "bytes": len(data), "hashes": map[string]string{"sha1": hex.EncodeToString(sum[:]), "xxh64": "not ours"}}
}

func int64Bytes(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

// all reads all examples as "image labels", or what is wrong with them.
func all(t testing.TB, s *Source) (texts []string) {
	t.Helper()
	for i := range s.Len() {
		e, err := s.Read(t.Context(), i, nil)
		var bad *source.BadError
		switch {
		case errors.As(err, &bad):
			texts = append(texts, "bad: "+bad.Err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			texts = append(texts, fmt.Sprintf("%s %v", e.Image, e.Labels))
		}
	}
	return texts
}

func openFiles(t testing.TB, files map[string][]byte, cfg Config) *Source {
	t.Helper()
	s, err := Open(t.Context(), objectstest.New(files), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

func wantError(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error, want one with %q", what, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %q, want %q in it", what, err, part)
		}
	}
}

// The bytes of a shard of two samples, by hand: columns "image" (jpeg) and "label" (int).
func TestAShardByHand(t *testing.T) {
	shard := "\x02\x00\x00\x00" + // samples
		"\x12\x00\x00\x00\x21\x00\x00\x00\x2f\x00\x00\x00" + // offsets 18 and 33, end 47
		"{}" + // the configuration
		"\x03\x00\x00\x00" + "JPG" + "\x07\x00\x00\x00\x00\x00\x00\x00" + // 4+3+8 bytes
		"\x02\x00\x00\x00" + "jp" + "\xff\xff\xff\xff\xff\xff\xff\xff"
	index := `{"version": 2, "shards": [{"column_encodings": ["jpeg", "int"], "column_names": ["image", "label"], "column_sizes": [null, 8],
		"compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": "shard.00000.mds", "bytes": 47, "hashes": {}}, "samples": 2,
		"size_limit": 67108864, "version": 2, "zip_data": null}]}`
	files := map[string][]byte{"train/index.json": []byte(index), "train/shard.00000.mds": []byte(shard)}
	s := openFiles(t, files, Config{Folder: "train"})
	want(t, "samples", all(t, s), "JPG [7]", "jp [-1]")
	if r, ok := s.Range(1); !ok || r.Off != 33 || r.Length != 14 {
		t.Errorf("sample 1 is at %+v", r)
	}
}

// golden has the files of a folder that streaming 0.13's MDSWriter wrote.
func golden(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	folder = filepath.Join("testdata", folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(folder, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestShardsOfMDSWriter(t *testing.T) {
	s := openFiles(t, golden(t, "plain"), Config{})
	want(t, "plain", all(t, s), "first [3]", "second image [-1]", "3 [1000]")
	if n, wrong, err := s.CheckHashes(t.Context()); n != 4 || len(wrong) > 0 || err != nil {
		t.Errorf("got %d shards checked (%v, %v), want 4", n, wrong, err)
	}
	damaged := objectstest.New(golden(t, "plain"))
	damaged.Damage("shard.00002.mds", 240)
	if s, err := Open(t.Context(), damaged, Config{}); err != nil {
		t.Error(err)
	} else if n, wrong, err := s.CheckHashes(t.Context()); n != 4 || len(wrong) != 1 || !strings.HasPrefix(wrong[0].Error(), "shard.00002.mds: its sha1 is ") || err != nil {
		t.Errorf("got %d shards checked (%v, %v), want 4 and the damaged one", n, wrong, err)
	}
	damaged.Remove("shard.00003.mds")
	if s, err := Open(t.Context(), objectstest.New(golden(t, "plain")), Config{}); err != nil {
		t.Error(err)
	} else {
		s.store = damaged
		if _, _, err := s.CheckHashes(t.Context()); err == nil {
			t.Error("without a shard: got no error")
		}
	}
	want(t, "gz", all(t, openFiles(t, golden(t, "gz"), Config{})), "im0 [0]", "im1 [1]", "im2 [2]", "im3 [3]", "im4 [4]")
	if _, err := openFiles(t, golden(t, "zstd"), Config{}).Read(t.Context(), 0, nil); !errors.Is(err, decompress.ErrUnknown) {
		t.Errorf("zstd: got %v, want %v", err, decompress.ErrUnknown)
	}
	// Pixel k of channel c has the value 3k+c.
	for _, tc := range []struct {
		folder string
		labels [][]float32
	}{{"pil", [][]float32{{4}, {5}}}, {"arrays", [][]float32{{0.5, 1}, {0, 1}}}} {
		s := openFiles(t, golden(t, tc.folder), Config{})
		for i := range 2 {
			e, err := s.Read(t.Context(), i, nil)
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(e.Image))
			if err != nil {
				t.Fatal(err)
			}
			if got := img.Bounds(); got != image.Rect(0, 0, 3, 2) || !slices.Equal(e.Labels, tc.labels[i]) {
				t.Errorf("%s: example %d has bounds %v and labels %v, want 3×2 and %v", tc.folder, i, got, e.Labels, tc.labels[i])
			}
			if c := color.NRGBAModel.Convert(img.At(1, 1)); i == 0 && c != (color.NRGBA{12, 13, 14, 255}) {
				t.Errorf("%s: pixel 1 1 is %v, want 12 13 14", tc.folder, c)
			}
			if i == 1 && img.ColorModel() != color.GrayModel {
				t.Errorf("%s: example 1 is not grey", tc.folder)
			}
		}
	}
}

func conformance(compression string) sourcetest.Format {
	return sourcetest.Format{
		Files: func(examples []source.Example) map[string][]byte {
			w := &writer{names: []string{"image", "label"}, encodings: []string{"jpeg", "int"}, sizes: []int{0, 8}, compression: compression}
			per := 9
			if len(examples) > 1000 {
				per = 8000
			}
			for chunk := range slices.Chunk(examples, per) {
				var samples [][][]byte
				for _, e := range chunk {
					samples = append(samples, [][]byte{e.Image, int64Bytes(int64(e.Labels[0]))})
				}
				w.shard(samples...)
			}
			return w.files
		},
		Open: func(ctx context.Context, store objects.Store) (source.Source, error) {
			s, err := Open(ctx, store, Config{MemoryBytes: 10_000})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Sized: compression == "", BytesPerExample: 10,
	}
}

func TestConformance(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		f := conformance("")
		f.Damage = func(files map[string][]byte, i int) {
			s := openFiles(t, files, Config{})
			k, n := s.find(i)
			data := bytes.Clone(files[s.shards[k].object.Name])
			data[s.shards[k].offsets[n]+2] ^= 1 // the size of the image
			files[s.shards[k].object.Name] = data
		}
		sourcetest.Run(t, f)
	})
	t.Run("compressed", func(t *testing.T) { sourcetest.Run(t, conformance("gz:9")) })
}

func pil(mode string, width, height uint32, pixels string) []byte {
	p := binary.LittleEndian.AppendUint32(nil, width)
	p = binary.LittleEndian.AppendUint32(p, height)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(mode)))
	return append(append(p, mode...), pixels...)
}

func TestPixelsBecomeImages(t *testing.T) {
	gray := image.NewGray(image.Rect(0, 0, 2, 3))
	copy(gray.Pix, "\x01\x02\x03\x04\x05\x06")
	rgb := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	rgb.SetNRGBA(0, 0, color.NRGBA{1, 2, 3, 255})
	rgb.SetNRGBA(1, 0, color.NRGBA{4, 5, 6, 255})
	clear := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	clear.SetNRGBA(0, 0, color.NRGBA{1, 2, 3, 4})
	for _, tc := range []struct {
		encoding string
		value    string
		want     image.Image
	}{
		{"pil", string(pil("L", 2, 3, "\x01\x02\x03\x04\x05\x06")), gray},
		{"pil", string(pil("RGB", 2, 1, "\x01\x02\x03\x04\x05\x06")), rgb},
		{"pil", string(pil("RGBA", 1, 1, "\x01\x02\x03\x04")), clear},
		{"ndarray:uint8:3,2", "\x01\x02\x03\x04\x05\x06", gray},
		{"ndarray:uint8:1,2,3", "\x01\x02\x03\x04\x05\x06", rgb},
		{"ndarray:uint8:3,1,2", "\x01\x04\x02\x05\x03\x06", rgb},
		{"ndarray:uint8", "\x0c\x01\x02\x03\x01\x02\x03\x04\x05\x06", rgb},                                   // 3 dimensions of a byte
		{"ndarray", "\x08\x0d\x01\x00\x02\x00\x03\x00\x01\x02\x03\x04\x05\x06", rgb},                         // and of two
		{"ndarray", "\x08\x0e\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x01\x02\x03\x04\x05\x06", rgb}, // and of four
	} {
		c := column{}
		c.encoding, c.args, _ = strings.Cut(tc.encoding, ":")
		encoded, err := c.image([]byte(tc.value))
		if err != nil {
			t.Errorf("%s: %v", tc.encoding, err)
			continue
		}
		got, err := png.Decode(bytes.NewReader(encoded))
		if err != nil {
			t.Errorf("%s: %v", tc.encoding, err)
			continue
		}
		if got.Bounds() != tc.want.Bounds() {
			t.Errorf("%s: got an image of %v, want %v", tc.encoding, got.Bounds(), tc.want.Bounds())
			continue
		}
		for y := range got.Bounds().Dy() {
			for x := range got.Bounds().Dx() {
				if g, w := color.NRGBAModel.Convert(got.At(x, y)), color.NRGBAModel.Convert(tc.want.At(x, y)); g != w {
					t.Errorf("%s: pixel %d %d is %v, want %v", tc.encoding, x, y, g, w)
				}
			}
		}
	}
	for _, tc := range []struct{ encoding, value, want string }{
		{"pil", "short", "want a head of 12"},
		{"pil", string(pil("P", 1, 1, "x")), `mode "P", want L, RGB or RGBA`},
		{"pil", string(pil("RGB", 2, 1, "short")), "got 5 bytes of an image of 2×1 pixels with 3 bytes each"},
		{"pil", string(pil("RGB", math.MaxUint32, math.MaxUint32, "x")), "got 1 bytes of an image"},
		{"pil", "\x01\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\xffL", "a Pillow mode of 4294967295 characters"},
		{"ndarray:uint8:3,2", "short", "got 5 bytes of an array of shape [3 2] and dtype uint8, want 6"},
		{"ndarray:uint16:1,1", "xx", "dtype uint16, want uint8"},
		{"ndarray:uint8:6", "123456", "shape [6], want (H, W)"},
		{"ndarray:object:6", "123456", `dtype "object"`},
		{"ndarray:uint8:0,6", "123456", "a dimension of 0"},
		{"ndarray:uint8:x", "123456", `shape "x"`},
		{"ndarray", "", "ends inside its head"},
		{"ndarray", "\x01", "dtype 1 of an array"},
		{"ndarray", "\x08", "ends inside its head"},
		{"ndarray", "\x08\x0f\x01", "ends inside its head"},
		{"ndarray", "\x08\x0b" + strings.Repeat("\xff", 16), "a dimension of 18446744073709551615"},
		{"jpeg", "", "the image has no bytes"},
	} {
		c := column{}
		c.encoding, c.args, _ = strings.Cut(tc.encoding, ":")
		_, err := c.image([]byte(tc.value))
		wantError(t, tc.encoding, err, tc.want)
	}
}

func TestLabelsOfAllEncodings(t *testing.T) {
	for _, tc := range []struct {
		encoding, value string
		want            []float32
	}{
		{"int", "\x05\x00\x00\x00\x00\x00\x00\x00", []float32{5}},
		{"int64", "\xff\xff\xff\xff\xff\xff\xff\xff", []float32{-1}},
		{"uint64", "\x05\x00\x00\x00\x00\x00\x00\x00", []float32{5}},
		{"int32", "\xfe\xff\xff\xff", []float32{-2}},
		{"uint32", "\x00\x00\x01\x00", []float32{65536}},
		{"int16", "\xfe\xff", []float32{-2}},
		{"uint16", "\xe7\x03", []float32{999}},
		{"int8", "\xfe", []float32{-2}},
		{"uint8", "\xfe", []float32{254}},
		{"float16", "\x00\x38", []float32{0.5}},
		{"float16", "\x01\x80", []float32{-1.0 / (1 << 24)}},
		{"float32", "\x00\x00\x00\x3f", []float32{0.5}},
		{"float64", "\x00\x00\x00\x00\x00\x00\xe0\x3f", []float32{0.5}},
		{"str", "12", []float32{12}},
		{"str_int", "12", []float32{12}},
		{"str_float", "0.25", []float32{0.25}},
		{"json", "[1, 0, 0.5]", []float32{1, 0, 0.5}},
		{"json", " 3", []float32{3}},
		{"ndarray:float32:2", "\x00\x00\x00\x3f\x00\x00\x80\x3f", []float32{0.5, 1}},
	} {
		c := column{}
		c.encoding, c.args, _ = strings.Cut(tc.encoding, ":")
		if got, err := c.labels([]byte(tc.value)); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s %q: got %v (%v), want %v", tc.encoding, tc.value, got, err, tc.want)
		}
	}
	for _, tc := range []struct{ encoding, value string }{{"int", "1234567"}, {"str", "cat"}, {"json", `"cat"`}, {"json", "null"}, {"json", "[]"}, {"float32", "\x00\x00\x80\x7f"}, {"uint32", "\x01\x00\x00\x01"}, {"ndarray:int64:2", "short"}, {"float16", "\x01\x7c"}} {
		c := column{}
		c.encoding, c.args, _ = strings.Cut(tc.encoding, ":")
		if got, err := c.labels([]byte(tc.value)); err == nil {
			t.Errorf("%s %q: got %v, want an error", tc.encoding, tc.value, got)
		}
	}
}

func TestColumnsAreFoundByNameOrEncoding(t *testing.T) {
	columns := func(text string) (all []column) {
		for c := range strings.SplitSeq(text, " ") {
			name, encoding, _ := strings.Cut(c, "=")
			all = append(all, column{name: name, encoding: encoding})
		}
		return all
	}
	for _, tc := range []struct {
		columns, image, label string
		wantImage, wantLabel  int
	}{
		{"id=int image=jpeg label=int", "", "", 1, 2},
		{"id=int x=bytes y=uint8", "", "", 1, 2},
		{"caption=str photo=png", "", "", 1, -1},
		{"a=bytes b=bytes c=int", "b", "c", 1, 2},
		{"class=pil Image=pil Label=int", "", "", 1, 2},
	} {
		c := columns(tc.columns)
		image, err1 := findImage(c, tc.image)
		label, err2 := findLabel(c, tc.label)
		if err1 != nil || err2 != nil || image != tc.wantImage || label != tc.wantLabel {
			t.Errorf("%s: got columns %d and %d (%v, %v), want %d and %d", tc.columns, image, label, err1, err2, tc.wantImage, tc.wantLabel)
		}
	}
	for _, tc := range []struct{ columns, image, label, want string }{
		{"tokens=bytes id=int", "", "", "no column looks like images: there are tokens (bytes), id (int)"},
		{"image=pkl", "image", "", "pickle"},
		{"image=jpeg label=pkl", "", "", "pickle"},
		{"image=jpeg", "picture", "", "no column picture, only image (jpeg)"},
		{"image=str", "image", "", "encoded as str, want images"},
		{"image=jpeg", "", "kind", "no column kind"},
		{"image=jpeg kind=jpeg", "", "kind", "encoded as jpeg, want numbers"},
	} {
		c := columns(tc.columns)
		_, err := findImage(c, tc.image)
		if err == nil {
			_, err = findLabel(c, tc.label)
		}
		wantError(t, tc.columns, err, tc.want)
	}
}

func plain() *writer {
	w := &writer{names: []string{"image", "label"}, encodings: []string{"jpeg", "int"}, sizes: []int{0, 8}}
	w.shard([][]byte{[]byte("one"), int64Bytes(1)}, [][]byte{[]byte("two"), int64Bytes(2)})
	w.shard([][]byte{[]byte("three"), int64Bytes(3)})
	return w
}

func TestShardsThatDoNotFitTheirIndexAreRefused(t *testing.T) {
	good := plain().files
	want(t, "as it is", all(t, openFiles(t, good, Config{})), "one [1]", "two [2]", "three [3]")
	change := func(old, new string) map[string][]byte {
		files := maps.Clone(good)
		files[IndexName] = []byte(strings.Replace(string(good[IndexName]), old, new, 1))
		if bytes.Equal(files[IndexName], good[IndexName]) {
			t.Errorf("%s is not in %s", old, good[IndexName])
		}
		return files
	}
	shard := func(off int, b byte) map[string][]byte {
		files := maps.Clone(good)
		data := bytes.Clone(good["shard.00000.mds"])
		data[off] = b
		files["shard.00000.mds"] = data
		return files
	}
	without := func(name string) map[string][]byte {
		files := maps.Clone(good)
		delete(files, name)
		return files
	}
	short := maps.Clone(good)
	short["shard.00001.mds"] = short["shard.00001.mds"][:20]
	for _, tc := range []struct {
		files map[string][]byte
		want  string
	}{
		{without(IndexName), IndexName},
		{without("shard.00001.mds"), "shard 1"},
		{short, "shard.00001.mds has 20 bytes, and index.json says"},
		{map[string][]byte{IndexName: []byte("{")}, "index.json: unexpected end of JSON"},
		{map[string][]byte{IndexName: []byte("{}")}, "got version 0, want 2"},
		{map[string][]byte{IndexName: []byte(`{"version": 2, "shards": []}`)}, "it has no samples"},
		{change(`"format":"mds"`, `"format":"json"`), `got format "json", want mds`},
		{change(`"basename":"shard.00000.mds"`, `"basename":"../../etc/passwd"`), "leads out of the folder"},
		{change(`"samples":2`, `"samples":1`), "at byte 0: got 2 samples, and index.json says 1"},
		{change(`"samples":2`, `"samples":-2`), "got -2 samples"},
		{change(`"samples":2`, `"samples":9000000000000000000`), "got 9000000000000000000 samples"},
		{change(`"bytes":`, `"bytes":1`), "shard 0"},
		{change(`"column_names":["image","label"]`, `"column_names":["image"]`), "got 1 names of columns, 2 encodings and 2 sizes"},
		{change(`"column_encodings":["jpeg","int"]`, `"column_encodings":["pkl","int"]`), "no column looks like images"},
		{shard(4, 3), "at byte 4: sample 0 begins at byte 3"},
		{shard(8, 0), "at byte 8: sample 1 begins at byte 0"},
		{shard(12, 255), "at byte 12: sample 2 begins at byte 255"},
		{shard(12, 50), "at byte 12: the samples end at byte 50"},
	} {
		_, err := Open(t.Context(), objectstest.New(tc.files), Config{})
		wantError(t, tc.want, err, "data: MDS: memory://test: ", tc.want)
	}
}

func TestSamplesThatDoNotFitTheirColumnsAreBad(t *testing.T) {
	files := plain().files
	s := openFiles(t, files, Config{})
	data := files["shard.00000.mds"]
	for n := range 12 {
		damaged := bytes.Clone(data)
		damaged[int(s.shards[0].offsets[0])+n] ^= 0x80
		files["shard.00000.mds"] = damaged
		_, err := openFiles(t, files, Config{}).Read(t.Context(), 0, nil)
		var bad *source.BadError
		if n < 4 && (!errors.As(err, &bad) || !strings.HasPrefix(bad.Name, "shard.00000.mds, sample 0 at byte ")) {
			t.Errorf("with byte %d flipped: got %v, want a *BadError", n, err)
		}
	}
	for _, sample := range []string{"", "abc", "\x01\x00\x00\x00x", "\x00\x00\x00\x0012345678more"} {
		if err := values([]byte(sample), s.shards[0].columns, func(int, []byte) {}); err == nil {
			t.Errorf("sample %q: got no error", sample)
		}
	}
}

func TestCompressedShardsAreReadOnceAndChecked(t *testing.T) {
	w := &writer{names: []string{"image", "label"}, encodings: []string{"jpeg", "int"}, sizes: []int{0, 8}, compression: "gz"}
	var expected []string
	for k := range 3 {
		var samples [][][]byte
		for i := range 50 {
			samples = append(samples, [][]byte{fmt.Appendf(nil, "%d-%d", k, i), int64Bytes(int64(i))})
			expected = append(expected, fmt.Sprintf("%d-%d [%d]", k, i, i))
		}
		w.shard(samples...)
	}
	store := objectstest.New(w.files)
	s, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := reads(store)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { want(t, "compressed", all(t, s), expected...) })
	}
	wg.Wait()
	if n := reads(store) - before; n != 3 {
		t.Errorf("3 shards took %d reads, want one each", n)
	}
	if got := s.Blocks(); !slices.Equal(got, []int{0, 50, 100}) {
		t.Errorf("got blocks %v, want the shards", got)
	}
	if _, ok := s.Range(0); ok {
		t.Error("a sample in a compressed shard has a range")
	}
	if n, wrong, err := s.CheckHashes(t.Context()); n != 3 || len(wrong) > 0 || err != nil {
		t.Errorf("got %d shards checked (%v, %v), want 3", n, wrong, err)
	}

	// With memory for one shard, going to and fro reads again and again, and is right.
	s, err = Open(t.Context(), store, Config{MemoryBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	before = reads(store)
	for _, i := range []int{0, 50, 1, 51, 52} {
		if _, err := s.Read(t.Context(), i, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := reads(store) - before; n != 4 {
		t.Errorf("got %d reads of shards, want 4", n)
	}
	if len(s.whole.entries) != 1 {
		t.Errorf("%d shards are in memory, want 1", len(s.whole.entries))
	}

	// Damage is the shard's samples', and stays; a storage that fails does not.
	for off := range w.files["shard.00001.mds.gz"] {
		damaged := objectstest.New(w.files)
		damaged.Damage("shard.00001.mds.gz", off)
		s, err := Open(t.Context(), damaged, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var bad *source.BadError
		if _, err := s.Read(t.Context(), 60, nil); !errors.As(err, &bad) || bad.Name != "shard.00001.mds.gz, sample 10" {
			t.Fatalf("with byte %d flipped: got %v, want a *BadError", off, err)
		}
		if _, err := s.Read(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		if _, wrong, err := s.CheckHashes(t.Context()); len(wrong) != 1 || err != nil {
			t.Fatalf("with byte %d flipped: the hashes are right", off)
		}
	}
	broken := errors.New("the network is down")
	failing := objectstest.New(w.files)
	fail := false
	failing.Fail = func(objectstest.Call) error {
		if fail {
			return broken
		}
		return nil
	}
	if s, err = Open(t.Context(), failing, Config{}); err != nil {
		t.Fatal(err)
	}
	fail = true
	if _, err := s.Read(t.Context(), 0, nil); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	fail = false
	if _, err := s.Read(t.Context(), 0, nil); err != nil {
		t.Errorf("after the network came back: %v", err)
	}
}

func reads(store *objectstest.Memory) (n int) {
	for _, c := range store.Calls() {
		if c.Kind == objectstest.Read {
			n++
		}
	}
	return n
}

func TestDecompressorsAreFoundByName(t *testing.T) {
	w := &writer{names: []string{"image"}, encodings: []string{"png"}, sizes: []int{0}, compression: "snappy"}
	w.shard([][]byte{[]byte("one")})
	s := openFiles(t, w.files, Config{})
	_, err := s.Read(t.Context(), 0, nil)
	var bad *source.BadError
	if !errors.Is(err, decompress.ErrUnknown) || errors.As(err, &bad) {
		t.Errorf("got %v, want %v", err, decompress.ErrUnknown)
	}
	for compression, name := range map[string]string{"gz": "gzip", "gz:5": "gzip", "br:11": "brotli", "bz2": "bzip2", "zstd:3": "zstd", "snappy": "snappy", "": ""} {
		if got := (&shardInfo{Compression: compression}).compression(); got != name {
			t.Errorf("%q is %q, want %q", compression, got, name)
		}
	}
	// Where the shard was decompressed beside its compressed form, and that was removed, it is
	// read.
	w = &writer{names: []string{"image"}, encodings: []string{"png"}, sizes: []int{0}, compression: "gz", keepRaw: true}
	w.shard([][]byte{[]byte("one")})
	delete(w.files, "shard.00000.mds.gz")
	want(t, "decompressed", all(t, openFiles(t, w.files, Config{})), "one []")
}

func TestAReaderThatWaitsIsCanceled(t *testing.T) {
	w := newWholeShards(1 << 20)
	loading, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		w.get(context.Background(), 0, func() (*wholeShard, error) {
			close(loading)
			<-release
			return nil, io.ErrUnexpectedEOF
		})
	})
	<-loading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.get(ctx, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	wg.Go(func() {
		// The one who waits loads the shard itself when the other has failed.
		if s, err := w.get(context.Background(), 0, func() (*wholeShard, error) { return &wholeShard{}, nil }); err != nil || s == nil {
			t.Errorf("got %v, %v", s, err)
		}
	})
	close(release)
	wg.Wait()
}

func FuzzIndex(f *testing.F) {
	f.Add(plain().files[IndexName])
	f.Fuzz(func(t *testing.T, text []byte) {
		files := plain().files
		files[IndexName] = text
		if s, err := Open(t.Context(), objectstest.New(files), Config{}); err == nil && s.Len() < 1000 {
			all(t, s)
		}
	})
}

func FuzzShard(f *testing.F) {
	f.Add(plain().files["shard.00000.mds"])
	index := string(plain().files[IndexName])
	size := len(plain().files["shard.00000.mds"])
	f.Fuzz(func(t *testing.T, shard []byte) {
		files := plain().files
		files["shard.00000.mds"] = shard
		files[IndexName] = []byte(strings.Replace(index, fmt.Sprintf(`"bytes":%d`, size), fmt.Sprintf(`"bytes":%d`, len(shard)), 1))
		if s, err := Open(t.Context(), objectstest.New(files), Config{}); err == nil {
			all(t, s)
		}
	})
}

func FuzzValues(f *testing.F) {
	f.Add("ndarray", "uint8:2,2", []byte("\x08\x08\x02\x021234"))
	f.Add("pil", "", pil("RGB", 1, 2, "123456"))
	f.Fuzz(func(t *testing.T, encoding, args string, value []byte) {
		c := column{encoding: encoding, args: args}
		c.image(value)
		if _, err := findLabel([]column{{name: "label", encoding: encoding}}, ""); err == nil {
			c.labels(value)
		}
	})
}
