package datapack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/photos"
)

// folder makes 41 images of 4 classes.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := photos.Make(dir, photos.Config{Images: 41, Classes: 4, Seed: 3, Largest: 48}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, url string) *data.Images {
	t.Helper()
	m, err := data.OpenImages(t.Context(), url, data.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// read reads all examples as they are stored.
func read(t *testing.T, m *data.Images) (all []data.Encoded) {
	t.Helper()
	for i := range m.Len() {
		e, err := m.ReadEncoded(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// config is that of the command without flags.
func config(output string) Config {
	return Config{Output: output, Encoding: "jpg", Quality: 95, TrainRatio: 1, Chunks: 1, ShardSize: 256 << 20, Goroutines: 3, Seed: 100}
}

// pack packs a folder, and returns the bytes of the files that it made.
func pack(t *testing.T, src Source, cfg Config) (Summary, map[string][]byte) {
	t.Helper()
	sum, err := Pack(t.Context(), src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sum, filesIn(t, filepath.Dir(cfg.Output))
}

func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range all {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func names(files map[string][]byte) []string {
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestPackedAsTheyAreImagesStayTheSame(t *testing.T) {
	from := folder(t)
	src := open(t, from)
	want := read(t, src)
	dir := t.TempDir()
	for _, output := range []string{"a.rec", "a.tar"} {
		sum, _ := pack(t, src, config(filepath.Join(dir, output)))
		if sum.Images != 41 || sum.Bad != 0 || len(sum.Files) != 1 || sum.Files[0].Images != 41 {
			t.Errorf("%s: the summary is %+v", output, sum)
		}
		got := read(t, open(t, sum.Files[0].Name))
		for i, w := range want {
			if !bytes.Equal(got[i].Image, w.Image) || !slices.Equal(got[i].Labels, w.Labels) {
				t.Errorf("%s: example %d is another one", output, i)
			}
		}
	}
	// The .rec file is the one that a packer makes that shares no code with this one.
	other := filepath.Join(t.TempDir(), "b.rec")
	if err := photos.Record(other, from); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "a.rec"))
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, wanted) {
		t.Errorf("the .rec file has %d bytes that differ from the other packer's %d", len(got), len(wanted))
	}
}

func TestTheBytesDoNotDependOnTheGoroutines(t *testing.T) {
	src := open(t, folder(t))
	for _, output := range []string{"a.rec", "a.tar"} {
		var before map[string][]byte
		for _, goroutines := range []int{1, 8} {
			cfg := config(filepath.Join(t.TempDir(), output))
			cfg.Decode, cfg.Resize, cfg.Quality, cfg.Shuffle, cfg.Goroutines, cfg.ShardSize = true, 16, 90, true, goroutines, 5000
			_, files := pack(t, src, cfg)
			if before == nil {
				before = files
				continue
			}
			if !slices.Equal(names(files), names(before)) {
				t.Errorf("%s: the files are %q, with one goroutine %q", output, names(files), names(before))
			}
			for name := range files {
				if !bytes.Equal(files[name], before[name]) {
					t.Errorf("%s differs with the goroutines", name)
				}
			}
		}
	}
}

func TestImagesAreCutAndResized(t *testing.T) {
	src := open(t, folder(t))
	originals := read(t, src)
	for _, c := range []struct {
		change func(*Config)
		want   func(width, height int) (int, int)
		format string
	}{
		{func(c *Config) { c.Resize = 16 }, func(w, h int) (int, int) { return 16 * w / min(w, h), 16 * h / min(w, h) }, "jpeg"},
		{func(c *Config) { c.Resize, c.CenterCrop = 16, true }, func(int, int) (int, int) { return 16, 16 }, "jpeg"},
		{func(c *Config) { c.CenterCrop, c.Encoding, c.Quality = true, "png", 9 }, func(w, h int) (int, int) { return min(w, h), min(w, h) }, "png"},
		{func(c *Config) { c.Quality = 30 }, func(w, h int) (int, int) { return w, h }, "jpeg"},
	} {
		cfg := config(filepath.Join(t.TempDir(), "a.rec"))
		cfg.Decode = true
		c.change(&cfg)
		pack(t, src, cfg)
		for i, e := range read(t, open(t, cfg.Output)) {
			_, w, h, err := data.ImageSize(originals[i].Image)
			if err != nil {
				t.Fatal(err)
			}
			wantW, wantH := c.want(w, h)
			format, gotW, gotH, err := data.ImageSize(e.Image)
			if err != nil || format != c.format || gotW != wantW || gotH != wantH {
				t.Errorf("%+v makes of %d×%d a %s of %d×%d, error %v; want a %s of %d×%d", cfg, w, h, format, gotW, gotH, err, c.format, wantW, wantH)
			}
		}
	}
}

func TestPartsAreThoseOfIm2rec(t *testing.T) {
	for _, c := range []struct {
		chunks      int
		train, test float64
		want        string
	}{
		{1, 1, 0, "a 0-9"},
		{3, 1, 0, "a_0 0-3, a_1 4-7, a_2 8-9"},
		{1, 0.7, 0, "a_train 0-6, a_val 7-9"},
		{1, 0.7, 0.3, "a_test 0-2, a_train 3-9"},
		{1, 0.5, 0.2, "a_test 0-1, a_train 2-6, a_val 7-9"},
		{2, 0.6, 0, "a_0_train 0-2, a_0_val 3-4, a_1_train 5-7, a_1_val 8-9"},
	} {
		cfg := config("a.rec")
		cfg.Chunks, cfg.TrainRatio, cfg.TestRatio = c.chunks, c.train, c.test
		parts, err := cfg.parts(10)
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, p := range parts {
			got = append(got, fmt.Sprintf("%s %d-%d", p.prefix, p.images[0], p.images[len(p.images)-1]))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%d chunks, train %g, test %g: got %s, want %s", c.chunks, c.train, c.test, text, c.want)
		}
	}
}

func TestShardsAreAsManyOrAsLargeAsTold(t *testing.T) {
	src := open(t, folder(t))
	cfg := config(filepath.Join(t.TempDir(), "50%.tar"))
	cfg.Chunks = 4
	sum, files := pack(t, src, cfg)
	if want := []string{"50%-000000.tar", "50%-000001.tar", "50%-000002.tar", "50%-000003.tar"}; !slices.Equal(names(files), want) {
		t.Errorf("4 chunks are the files %q, want %q", names(files), want)
	}
	if sum.Files[0].Images != 11 || sum.Files[3].Images != 8 {
		t.Errorf("the shards have %d and at last %d images, want 11 and 8", sum.Files[0].Images, sum.Files[3].Images)
	}
	cfg.Output, cfg.Chunks, cfg.ShardSize = filepath.Join(t.TempDir(), "a.tar"), 1, 8000
	sum, _ = pack(t, src, cfg)
	images := 0
	for _, f := range sum.Files {
		images += f.Images
	}
	if len(sum.Files) < 3 || images != 41 {
		t.Errorf("shards of 8000 bytes are %+v", sum.Files)
	}
}

// broken is a folder with two images that cannot be read.
func broken(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	for name, content := range map[string]string{"class001/0000005.jpg": "", "class002/0000006.jpg": "no image"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnreadableImagesAreLeftOutAndNamed(t *testing.T) {
	src := open(t, broken(t))
	for _, decode := range []bool{false, true} {
		cfg := config(filepath.Join(t.TempDir(), "a.rec"))
		cfg.Decode = decode
		var bad []string
		cfg.Bad = func(e *data.BadExampleError) { bad = append(bad, e.Name) }
		sum, files := pack(t, src, cfg)
		if want := []string{"class001/0000005.jpg", "class002/0000006.jpg"}; !slices.Equal(bad, want) {
			t.Errorf("left out are %q, want %q", bad, want)
		}
		if sum.Images != 39 || sum.Bad != 2 {
			t.Errorf("the summary is %+v, want 39 images and 2 bad ones", sum)
		}
		// Ids are the numbers of the source, so that those of the images left out are free.
		if got := strings.Count(string(files["a.idx"]), "\n"); got != 39 || strings.Contains("\n"+string(files["a.idx"]), "\n12\t") {
			t.Errorf("the index has %d lines, want 39 without number 12:\n%s", got, files["a.idx"])
		}
	}
}

// failing is a source whose storage breaks at an example.
type failing struct {
	Source
	at  int
	err error
}

func (f failing) ReadEncoded(ctx context.Context, i int) (data.Encoded, error) {
	if i == f.at {
		return data.Encoded{}, f.err
	}
	return f.Source.ReadEncoded(ctx, i)
}

func TestWhatFailsLeavesNoFiles(t *testing.T) {
	src := open(t, folder(t))
	broken := errors.New("the disk is broken")
	for _, output := range []string{"a.rec", "a.tar"} {
		cfg := config(filepath.Join(t.TempDir(), output))
		cfg.ShardSize = 5000
		if _, err := Pack(t.Context(), failing{src, 30, broken}, cfg); !errors.Is(err, broken) {
			t.Errorf("got error %v, want %v", err, broken)
		}
		if files := filesIn(t, filepath.Dir(cfg.Output)); len(files) > 0 {
			t.Errorf("left are %q", names(files))
		}
	}
}

func TestFilesAreReplacedOnlyWhenToldTo(t *testing.T) {
	src := open(t, folder(t))
	for _, output := range []string{"a.rec", "a.tar"} {
		cfg := config(filepath.Join(t.TempDir(), output))
		cfg.ShardSize = 3000
		_, before := pack(t, src, cfg)
		if _, err := Pack(t.Context(), src, cfg); err == nil || !strings.Contains(err.Error(), "exists; remove it, or replace it with --overwrite") {
			t.Errorf("got error %v", err)
		}
		cfg.Overwrite, cfg.ShardSize, cfg.Decode, cfg.Resize = true, 1<<30, true, 8
		if _, err := Pack(t.Context(), failing{src, 30, errors.New("broken")}, cfg); err == nil {
			t.Error("a broken source is no error")
		}
		if now := filesIn(t, filepath.Dir(cfg.Output)); !slices.Equal(names(now), names(before)) {
			t.Errorf("after a failure the files are %q, want %q", names(now), names(before))
		}
		sum, now := pack(t, src, cfg)
		if len(sum.Files) != 1 || len(now) != map[string]int{"a.rec": 2, "a.tar": 1}[output] {
			t.Errorf("%s: the files are %q, want the new ones alone", output, names(now))
		}
	}
}

func TestFilesBesideEachOtherHaveTheSameClasses(t *testing.T) {
	src := open(t, folder(t))
	dir := t.TempDir()
	cfg := config(filepath.Join(dir, "train.rec"))
	cfg.Classes = src.Classes()
	if _, files := pack(t, src, cfg); string(files["classes.txt"]) != "class000\nclass001\nclass002\nclass003\n" {
		t.Errorf("classes.txt has %q", files["classes.txt"])
	}
	if got := open(t, cfg.Output).Classes(); !slices.Equal(got, src.Classes()) {
		t.Errorf("the file has the classes %q, want %q", got, src.Classes())
	}
	cfg.Output = filepath.Join(dir, "val.tar")
	pack(t, src, cfg)
	cfg.Output, cfg.Classes = filepath.Join(dir, "test.rec"), []string{"class000", "class002"}
	_, err := Pack(t.Context(), src, cfg)
	if want := filepath.Join(dir, "classes.txt") + " names other classes than these 2, so the files beside it have other labels; give --classes "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	cfg.Classes = nil
	pack(t, src, cfg)
	cfg.Classes = []string{"two\nlines"}
	if _, err := Pack(t.Context(), src, cfg); err == nil {
		t.Error("a class of two lines is no error")
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Output = "s3://bucket/a.rec" }, "got output s3://bucket/a.rec, want a local path: pack into a folder, and copy the files"},
		{func(c *Config) { c.Output = "a" }, `got output "a", want a name that ends in .rec or .tar, such as train.rec`},
		{func(c *Config) { c.Output = ".rec" }, `got output ".rec", want a name that ends in .rec or .tar, such as train.rec`},
		{func(c *Config) { c.Quality = 0 }, "--quality: got 0, want 1 to 100 for JPEG"},
		{func(c *Config) { c.Encoding, c.Quality = "png", 95 }, "--quality: got 95, want 1 to 9 for PNG"},
		{func(c *Config) { c.Encoding = "gif" }, `--encoding: got "gif", want .jpg or .png`},
		{func(c *Config) { c.TrainRatio, c.TestRatio = 0.8, 0.3 }, "--train-ratio and --test-ratio: got 0.8 and 0.3, want shares of the whole"},
		{func(c *Config) { c.Chunks = 0 }, "--chunks: got 0, want at least 1"},
		{func(c *Config) { c.Chunks = 42 }, "--chunks: got 42 for 41 images, want at least one image in each"},
	} {
		cfg := config("a.rec")
		c.change(&cfg)
		err := cfg.Validate()
		if err == nil {
			_, err = cfg.parts(41)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	cfg := config("a.rec")
	cfg.TrainRatio = 0.99
	if _, err := cfg.parts(1); err == nil || err.Error() != "a_train would have no image: 0.99 of 1 is less than one" {
		t.Errorf("got %v", err)
	}
}

func TestTheFolderOfTheFilesMustBeThere(t *testing.T) {
	src, dir := open(t, folder(t)), t.TempDir()
	for _, name := range []string{"none/train.rec", "none/train.tar"} {
		_, err := Pack(t.Context(), src, config(filepath.Join(dir, filepath.FromSlash(name))))
		want := "there is no folder " + filepath.Join(dir, "none") + " for the files of train; make it first"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", name, err, want)
		}
	}
}
