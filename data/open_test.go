package data_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
	"github.com/paragon-train/paragon/internal/testing/photos"
)

// plainPNG is an image of one grey.
func plainPNG(t *testing.T, width, height int, grey uint8) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = grey
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeFiles writes files in a folder of their own.
func writeFiles(t *testing.T, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// greys is a folder of three classes with n images each of 6×4 pixels; image k of class c is of
// grey 40·c+k.
func greys(t *testing.T, n int) string {
	files := map[string][]byte{}
	for c, class := range []string{"ant", "bee", "cat"} {
		for k := range n {
			files[fmt.Sprintf("%s/%d.png", class, k)] = plainPNG(t, 6, 4, uint8(40*c+k))
		}
	}
	return writeFiles(t, files)
}

// open opens images for a test.
func open(t *testing.T, url string, cfg data.OpenOptions) *data.Images {
	t.Helper()
	m, err := data.OpenImages(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestAFolderOfClassesIsADataset(t *testing.T) {
	m := open(t, greys(t, 3), data.OpenOptions{})
	if m.Len() != 9 || m.Shape() != (data.Shape{Channels: 3, Height: 4, Width: 6}) || !slices.Equal(m.Classes(), []string{"ant", "bee", "cat"}) {
		t.Errorf("got %d images of %v in classes %q", m.Len(), m.Shape(), m.Classes())
	}
	if m.Fingerprint() == "" || m.Decoder() == "" {
		t.Errorf("got fingerprint %q and decoder %q, want both", m.Fingerprint(), m.Decoder())
	}
	order := slices.Values([]int{0, 4, 8})
	l, err := data.NewLoader(m, order, data.LoaderConfig{BatchSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k, label := range []int32{0, 1, 2} {
		for p := range 72 {
			if want := float32(40*int(label)+k) / 255; b.Labels[k] != label || b.Images[k*72+p] != want {
				t.Fatalf("image %d: got label %d and pixel %v, want %d and %v", k, b.Labels[k], b.Images[k*72+p], label, want)
			}
		}
	}
	counts, err := m.Counts(t.Context())
	if err != nil || !slices.Equal(counts, []int{3, 3, 3}) {
		t.Errorf("counts: got %v, error %v, want 3 of each class", counts, err)
	}
	x, err := m.ReadEncoded(t.Context(), 4)
	if err != nil || x.Name != "bee/1.png" || !bytes.Equal(x.Image, plainPNG(t, 6, 4, 41)) {
		t.Errorf("encoded: got %d bytes of %q, error %v, want bee/1.png as it is", len(x.Image), x.Name, err)
	}
}

// corner takes the first pixel alone, and draws its brightness.
type corner struct{}

func (corner) Size() (int, int) { return 1, 1 }

func (corner) Apply(img *transform.Image, draw *rand.Rand) (*transform.Image, error) {
	if draw == nil {
		return nil, errors.New("corner draws")
	}
	img.Width, img.Height, img.Pix = 1, 1, img.Pix[:img.Channels]
	for i := range img.Pix {
		img.Pix[i] += uint8(draw.IntN(100))
	}
	return img, nil
}

// Images look the same whoever reads them, and otherwise in another epoch.
func TestTransformsDrawBySeedEpochAndIndex(t *testing.T) {
	m := open(t, greys(t, 4), data.OpenOptions{Transforms: []transform.Transform{corner{}}})
	if got := m.Shape(); got != (data.Shape{Channels: 3, Height: 1, Width: 1}) {
		t.Errorf("got images of %v, want those of the transform", got)
	}
	images := func(epoch, readers, batch int) []float32 {
		l, err := data.NewLoader(m, slices.Values([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), data.LoaderConfig{BatchSize: batch, Seed: 3, Epoch: epoch, Readers: readers, Last: data.ShortLast})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var all []float32
		for {
			b, err := l.Next(t.Context())
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b.Images...)
		}
	}
	want := images(0, 1, 12)
	if got := images(0, 5, 5); !slices.Equal(got, want) {
		t.Errorf("five readers: got %v, want %v", got, want)
	}
	if slices.Equal(images(1, 1, 12), want) {
		t.Error("another epoch: want other images")
	}
	if _, err := m.Read(0, make([]uint8, 3)); err == nil || !strings.Contains(err.Error(), "image 0 (ant/0.png): corner draws") {
		t.Errorf("Read with a transform that draws: got error %v, want one", err)
	}
}

func TestDamagedImagesAreNamed(t *testing.T) {
	dir := greys(t, 2)
	whole := plainPNG(t, 6, 4, 1)
	for name, b := range map[string][]byte{"ant/1.png": whole[:len(whole)/2], "bee/0.png": nil, "cat/1.png": []byte("no image")} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, dir, data.OpenOptions{})
	l, err := data.NewLoader(m, slices.Values([]int{0, 1, 2, 3, 4, 5}), data.LoaderConfig{BatchSize: 6, BadExamples: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, bad := range b.Bad {
		names = append(names, fmt.Sprintf("%d %s", bad.Example, bad.Name))
	}
	if got, want := fmt.Sprint(names, b.Labels), "[1 ant/1.png 2 bee/0.png 5 cat/1.png] [0 -1 -1 1 2 -1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnImageOfAnotherSizeIsNamed(t *testing.T) {
	m := open(t, writeFiles(t, map[string][]byte{"a/1.png": plainPNG(t, 4, 4, 1), "a/2.png": plainPNG(t, 5, 4, 1)}), data.OpenOptions{})
	_, err := m.Read(1, make([]uint8, 1000))
	if err == nil || !strings.Contains(err.Error(), "image 1 (a/2.png): got 3×4×5 after the transforms, want 3×4×4") {
		t.Errorf("got error %v, want one that names the image and both sizes", err)
	}
}

// The classes of a training set give a test set its labels, also where the test set has not all of
// them.
func TestLabelsAreThoseOfTheClassesWanted(t *testing.T) {
	dir := greys(t, 1)
	m := open(t, dir, data.OpenOptions{Classes: []string{"bee", "dog", "cat", "ant"}, AllowEmptyClasses: true})
	var labels []int
	for i := range m.Len() {
		label, err := m.Read(i, make([]uint8, m.Shape().Size()))
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, label)
	}
	if !slices.Equal(labels, []int{3, 0, 2}) || len(m.Classes()) != 4 {
		t.Errorf("got labels %v of classes %q, want 3, 0 and 2 of all four", labels, m.Classes())
	}
	if _, err := data.OpenImages(t.Context(), dir, data.OpenOptions{Classes: []string{"bee", "cat"}}); err == nil || !strings.Contains(err.Error(), "ant") {
		t.Errorf("a class that is not wanted: got error %v, want one that names it", err)
	}
}

func TestOpenSaysWhatItCannotOpen(t *testing.T) {
	mixed := writeFiles(t, map[string][]byte{"notes.txt": []byte("x")})
	for _, c := range []struct {
		url  string
		cfg  data.OpenOptions
		want string
	}{
		{filepath.Join(mixed, "nothing"), data.OpenOptions{}, "nothing"},
		{t.TempDir(), data.OpenOptions{}, "is empty"},
		{mixed, data.OpenOptions{}, "notes.txt"},
		{mixed, data.OpenOptions{Format: "lmdb"}, `Format: got "lmdb"`},
		{mixed, data.OpenOptions{Channels: 4}, "Channels: got 4"},
		{mixed, data.OpenOptions{CacheBytes: 1}, "CacheBytes: got 1 without CacheDir"},
		{mixed, data.OpenOptions{Classes: []string{"a", "b", "a"}}, `Classes: got "a" twice`},
		{mixed, data.OpenOptions{Transforms: []transform.Transform{nil}}, "Transforms: got nil"},
		{"nowhere://x/y", data.OpenOptions{}, "nowhere"},
	} {
		m, err := data.OpenImages(t.Context(), c.url, c.cfg)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: got error %v, want one with %q", c.url, c.cfg, err, c.want)
		}
	}
}

func TestOpenTellsWhatItSkips(t *testing.T) {
	var log strings.Builder
	dir := writeFiles(t, map[string][]byte{"a/1.png": plainPNG(t, 2, 2, 1), ".ipynb_checkpoints/1.png": plainPNG(t, 2, 2, 1)})
	m := open(t, dir, data.OpenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if m.Len() != 1 || !strings.Contains(log.String(), ".ipynb_checkpoints") {
		t.Errorf("got %d images and log %q, want one image, and the hidden folder named", m.Len(), log.String())
	}
}

func TestReadsEndWithTheirContext(t *testing.T) {
	m := open(t, greys(t, 1), data.OpenOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.ReadExample(ctx, 0, &data.Example{Pixels: make([]uint8, m.Shape().Size())}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// The same images in the same order are the same data set, whatever they lie in.
func TestFormatsGiveTheSameImages(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := photos.Make(folder, photos.Config{Images: 20, Classes: 3, Seed: 1, Largest: 48}); err != nil {
		t.Fatal(err)
	}
	if err := photos.Record(filepath.Join(dir, "set.rec"), folder); err != nil {
		t.Fatal(err)
	}
	cfg := data.OpenOptions{Transforms: []transform.Transform{transform.RandomResizedCrop(16), transform.Flip()}}
	images := func(url string) (all []float32, labels []int32) {
		m := open(t, url, cfg)
		l, err := data.NewLoader(m, slices.Values([]int{19, 0, 7, 3, 12, 1, 18}), data.LoaderConfig{BatchSize: 7, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		b, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b.Images, b.Labels
	}
	want, labels := images(folder)
	tf := filepath.Join(dir, "tf")
	if err := errors.Join(os.Mkdir(tf, 0o755), os.WriteFile(filepath.Join(tf, "set-00000-of-00001"), tfRecord(t, folder), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := photos.Tars(dir, folder, 3); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{filepath.Join(dir, "set.rec"), "file://" + filepath.Join(dir, "set.rec"), filepath.Join(dir, "shard-{000000..000002}.tar"), tf, filepath.Join(tf, "set-{00000..00000}-of-00001")} {
		cfg.FirstLabel = 0
		if strings.HasPrefix(url, tf) {
			cfg.FirstLabel = 1
		}
		if got, gotLabels := images(url); !slices.Equal(got, want) || !slices.Equal(gotLabels, labels) {
			t.Errorf("%s: got other images than those of the folder; labels %v, want %v", url, gotLabels, labels)
		}
	}
}

// Two shards that each number their samples from 0 are taken if that is said.
func TestShardsMayNumberTheirSamplesAnew(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	if err := photos.Make(folder, photos.Config{Images: 4, Classes: 2, Seed: 1, Largest: 16}); err != nil {
		t.Fatal(err)
	}
	if err := photos.Tars(dir, folder, 1); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got %q, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "again.tar"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := data.OpenOptions{Transforms: []transform.Transform{transform.ResizeTo(4, 4)}}
	if _, err := data.OpenImages(t.Context(), dir, cfg); err == nil || !strings.Contains(err.Error(), "SameKeys") {
		t.Errorf("got error %v, want one with SameKeys", err)
	}
	cfg.SameKeys = true
	m, err := data.OpenImages(t.Context(), dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Len() != 8 {
		t.Errorf("got %d images, want 8", m.Len())
	}
}

// tfRecord is a TFRecord file of tf.train.Examples, with labels from 1 on.
func tfRecord(t *testing.T, folder string) []byte {
	files, err := photos.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	field := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	feature := func(key string, kind byte, list []byte) []byte {
		return field(1, append(field(1, []byte(key)), field(2, field(kind, list))...))
	}
	sum := func(b []byte) []byte {
		c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return binary.LittleEndian.AppendUint32(nil, (c>>15|c<<17)+0xa282ead8)
	}
	var out []byte
	for _, f := range files {
		image, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		record := field(1, append(feature("image/encoded", 1, field(1, image)), feature("image/class/label", 3, field(1, []byte{byte(f.Label + 1)}))...))
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(record)))
		out = append(append(append(append(out, length...), sum(length)...), record...), sum(record)...)
	}
	return out
}

func TestFilesAreOfTheFormatThatTheirNamesTell(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"keep": nil})
	for name, want := range map[string]string{
		"a.lst": ".lst", "a.REC": "RecordIO", "s-{000..002}.tar": "s-000.tar", "index.json": "MDS", "t-{00000..00003}-of-00004": "TFRecord", "t-00000-of-00004": "TFRecord", "x.tfrecord": "TFRecord",
	} {
		m, err := data.OpenImages(t.Context(), filepath.Join(dir, name), data.OpenOptions{})
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) || want != ".lst" && !strings.Contains(err.Error(), want) && want != "RecordIO" {
			t.Errorf("%s: got error %v, want one of a file that is not there with %q", name, err, want)
		}
	}
}

func TestSeveralRecordFilesAreNamed(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"train.rec": {1}, "val.rec": {1}})
	if _, err := data.OpenImages(t.Context(), dir, data.OpenOptions{}); err == nil || !strings.Contains(err.Error(), "2 .rec files, such as train.rec and val.rec; name the one") {
		t.Errorf("got error %v, want one that asks for a name", err)
	}
}

// Images that lie far away are read ahead, with few requests for many examples, and are not read
// twice where there is a cache.
func TestImagesFarAwayAreReadAheadAndKept(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := photos.Make(folder, photos.Config{Images: 40, Classes: 2, Seed: 1, Largest: 32}); err != nil {
		t.Fatal(err)
	}
	if err := photos.Record(filepath.Join(dir, "set.rec"), folder); err != nil {
		t.Fatal(err)
	}
	memory := objectstest.New(nil)
	for _, name := range []string{"set.rec", "set.idx"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		memory.Put(name, b)
	}
	far.Store(memory)
	reads := func() (n int) {
		for _, c := range memory.Calls() {
			if c.Kind == objectstest.Read && c.Name == "set.rec" {
				n++
			}
		}
		return n
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(40)
	cache := t.TempDir()
	for _, c := range []struct {
		what string
		dir  string
		most int // requests
	}{{"without a cache", "", 10}, {"with an empty cache", cache, 10}, {"with a warm cache", cache, 0}} {
		m := open(t, "far://away/set.rec", data.OpenOptions{Transforms: []transform.Transform{transform.ResizeTo(8, 8)}, CacheDir: c.dir})
		before := reads()
		l, err := data.NewLoader(m, slices.Values(order), data.LoaderConfig{BatchSize: 20})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var got []int
		for range 2 {
			b, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Indices...)
		}
		if !slices.Equal(got, order) {
			t.Errorf("%s: got examples %v, want %v", c.what, got, order)
		}
		if n := reads() - before; n > c.most {
			t.Errorf("%s: 40 examples took %d requests, want at most %d", c.what, n, c.most)
		}
	}
}

// A cache that is smaller than the data fetches whole blocks for single examples: Open says so, and
// is silent where the cache is large enough, and where each image is an object of its own.
func TestACacheSmallerThanTheDataIsNamed(t *testing.T) {
	const image, records = 256 << 10, 280 // 70 MiB
	var rec, idx bytes.Buffer
	w := data.NewRecordWriter(&rec, &idx, data.RecordConfig{})
	single := map[string][]byte{}
	e := data.Encoded{Image: make([]byte, image), Labels: []float32{0}}
	for i := range records {
		if err := w.Write(uint64(i), e); err != nil {
			t.Fatal(err)
		}
		single[fmt.Sprintf("class/%d.png", i)] = e.Image
	}
	record := map[string][]byte{"set.rec": rec.Bytes(), "set.idx": idx.Bytes()}
	const least = 65 << 20
	for name, c := range map[string]struct {
		files map[string][]byte
		url   string
		bytes int64
		warns bool
	}{
		"a smaller one":            {record, "far://away/set.rec", least, true},
		"a larger one":             {record, "far://away/set.rec", 2 * least, false},
		"images as objects, small": {single, "far://away/", least, false},
	} {
		t.Run(name, func(t *testing.T) {
			far.Store(objectstest.New(c.files))
			var log strings.Builder
			open(t, c.url, data.OpenOptions{Transforms: []transform.Transform{transform.ResizeTo(8, 8)}, CacheDir: t.TempDir(), CacheBytes: c.bytes,
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			want := 0
			if c.warns {
				want = 1
			}
			if n := strings.Count(log.String(), "the cache is smaller than the data"); n != want {
				t.Errorf("got %d warnings, want %d: %s", n, want, log.String())
			}
		})
	}
}

// far is the store of the URLs far://away/....
var far atomic.Pointer[objectstest.Memory]

func init() {
	objects.Register("far", func(context.Context, *url.URL) (objects.Store, error) { return far.Load(), nil })
}

// Open gives the images as a Dataset: what is behind it is the same, and an error has no data set.
func TestOpenGivesADataset(t *testing.T) {
	dir := greys(t, 3)
	set, err := data.Open(t.Context(), dir, data.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := open(t, dir, data.OpenOptions{}).Len(); set.Len() != want {
		t.Errorf("got %d images, want %d", set.Len(), want)
	}
	if _, ok := set.(data.ExampleReader); !ok {
		t.Errorf("got %T, want one that reads with draws", set)
	}
	if err := set.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	if set, err = data.Open(t.Context(), t.TempDir(), data.OpenOptions{}); err == nil || set != nil {
		t.Errorf("an empty folder: got %v and error %v, want nil and an error", set, err)
	}
}
