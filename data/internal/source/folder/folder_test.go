package folder

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func TestFolderDoesWhatASourceMust(t *testing.T) {
	sourcetest.Run(t, sourcetest.Format{
		Files: func(examples []source.Example) map[string][]byte {
			files := map[string][]byte{}
			for _, e := range examples {
				files[e.Name] = e.Image
			}
			return files
		},
		Open: func(ctx context.Context, store objects.Store) (source.Source, error) {
			return Open(ctx, store, Config{})
		},
		Damage: func(files map[string][]byte, i int) {
			name := sourcetest.Examples(23, 300)[i].Name
			files[name] = nil
		},
		BytesPerExample: 60,
		Sized:           true,
	})
}

// in opens a folder that has these files, each with its own name for a content.
func in(t *testing.T, cfg Config, files ...string) (*Source, error) {
	t.Helper()
	has := map[string][]byte{}
	for _, name := range files {
		has[name] = []byte(name)
	}
	return Open(t.Context(), objectstest.New(has), cfg)
}

// listed has the name and label of each example.
func listed(t *testing.T, s *Source) []string {
	t.Helper()
	var list []string
	for i := range s.Len() {
		e, err := s.Read(t.Context(), i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Image) != e.Name {
			t.Errorf("example %d, %s, has the content of %s", i, e.Name, e.Image)
		}
		list = append(list, fmt.Sprintf("%s %g", e.Name, e.Labels[0]))
	}
	return list
}

func wantList(t *testing.T, s *Source, want ...string) {
	t.Helper()
	if got := listed(t, s); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// torchvision sorts what os.walk gives for each class; the list is what Python makes of these
// files.
func TestOrderIsThatOfTorchvision(t *testing.T) {
	s, err := in(t, Config{},
		"10/a.jpg", "2/b.jpg", "2-b/c.jpg", "B/z.JPEG", "a/z.png", "ä/z.webp",
		"d/z.jpg", "d/Z.jpg", "d/sub/x.jpg", "d/sub/dir/x.jpg", "d/sub-dir/x.jpg", "d/sub.jpg", "d/sub.d/x.jpg", "d/a.TIFF", "d/notes.txt",
	)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"10", "2", "2-b", "B", "a", "d", "ä"}; !slices.Equal(s.Classes(), want) {
		t.Errorf("the classes are %q, want %q", s.Classes(), want)
	}
	wantList(t, s, "10/a.jpg 0", "2/b.jpg 1", "2-b/c.jpg 2", "B/z.JPEG 3", "a/z.png 4",
		"d/Z.jpg 5", "d/a.TIFF 5", "d/sub.jpg 5", "d/z.jpg 5", "d/sub/x.jpg 5", "d/sub-dir/x.jpg 5", "d/sub.d/x.jpg 5", "d/sub/dir/x.jpg 5", "ä/z.webp 6")
}

func TestHiddenFilesAndDirectoriesAreSkippedAndNamed(t *testing.T) {
	s, err := in(t, Config{}, ".ipynb_checkpoints/a-checkpoint.jpg", ".git/x.jpg", "a/1.jpg", "a/._1.jpg", "a/.cache/2.jpg", "a/.cache/3.jpg", "a/readme.txt", "b/1.jpg", "LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, s, "a/1.jpg 0", "b/1.jpg 1")
	got := strings.Join(s.Notes(), "\n")
	want := `skipped 3 hidden folders: .git, .ipynb_checkpoints, a/.cache
skipped 1 hidden file: a/._1.jpg
skipped 1 file outside the class directories: LICENSE
skipped 1 file in class directories that end as no image does: a/readme.txt`
	if got != want {
		t.Errorf("the notes are\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsNoImageFolderIsRefused(t *testing.T) {
	for _, c := range []struct {
		files []string
		cfg   Config
		want  string
	}{
		{nil, Config{}, "data: image folder memory://test: it has no class directories; want a directory for each class with its images in it, CLASS/IMAGE.jpg; it has nothing"},
		{[]string{"a.jpg", "b.jpg", ".x/c.jpg"}, Config{}, "CLASS/IMAGE.jpg; it has 2 files (a.jpg, b.jpg) and hidden directories, which are no classes (.x)"},
		{[]string{"train.idx", "train.rec"}, Config{}, "it has 2 files (train.idx, train.rec); to read train.rec give its own address"},
		{[]string{"a/1.jpg", "b/x.txt", "c/"}, Config{}, "2 of its 3 class directories have no image (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp): b, c; remove them, or allow empty classes"},
		{[]string{"a/1.jpg", "z/1.jpg"}, Config{Classes: []string{"a", "b"}}, "1 of its 2 class directories are not among the 2 classes of the training set: z; remove them, or train with them"},
		{[]string{"a/1.jpg"}, Config{Classes: []string{"a", "b", "c"}}, "it has no directory for 2 of the 3 classes of the training set: b, c; give the folder that has them, or allow empty classes"},
		{[]string{"a/1.jpg"}, Config{Classes: []string{"a", "b", "a"}}, `the list of classes has "a" twice`},
	} {
		if _, err := in(t, c.cfg, c.files...); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("a folder with %q and %+v:\n got %v\nwant %s", c.files, c.cfg, err, c.want)
		}
	}
}

func TestEmptyClassesKeepTheirLabels(t *testing.T) {
	s, err := in(t, Config{AllowEmpty: true}, "a/1.jpg", "b/x.txt", "c/1.jpg")
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, s, "a/1.jpg 0", "c/1.jpg 2")
}

func TestADirectoryWithNothingInItIsAnEmptyClass(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".git", "a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "1.jpg"), []byte{1}, 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := objects.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = Open(t.Context(), store, Config{})
	if want := "1 of its 2 class directories have no image (.jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp): b;"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLabelsAreThoseOfTheTrainingSet(t *testing.T) {
	s, err := in(t, Config{Classes: []string{"dog", "cat", "ant"}}, "ant/1.jpg", "cat/1.jpg", "dog/1.jpg")
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, s, "ant/1.jpg 2", "cat/1.jpg 1", "dog/1.jpg 0")
}

func TestPartsOfADataSetAreNoted(t *testing.T) {
	s, err := in(t, Config{}, "train/a/1.jpg", "val/a/1.jpg")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the classes are train, val; if these are parts of a data set, give the address of one of them"}
	if !slices.Equal(s.Notes(), want) {
		t.Errorf("the notes are %q, want %q", s.Notes(), want)
	}
}

// shuffled is a store that lists in no order, as directory buckets of S3 do.
type shuffled struct{ objects.Store }

func (s shuffled) List(ctx context.Context, prefix string) iter.Seq2[objects.Info, error] {
	return func(yield func(objects.Info, error) bool) {
		var all []objects.Info
		for o, err := range s.Store.List(ctx, prefix) {
			if err != nil {
				yield(o, err)
				return
			}
			all = append(all, o)
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func TestTheOrderOfTheListingDoesNotMatter(t *testing.T) {
	files := map[string][]byte{}
	for i := range 200 {
		name := fmt.Sprintf("c%d/%d/%d.jpg", i%3, i%5, i)
		files[name] = []byte(name)
	}
	sorted, err := Open(t.Context(), objectstest.New(files), Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), shuffled{objectstest.New(files)}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, s, listed(t, sorted)...)
	if s.Fingerprint() != sorted.Fingerprint() {
		t.Errorf("the fingerprint is %s, want %s", s.Fingerprint(), sorted.Fingerprint())
	}
}

// big lists n files of 1000 classes.
type big struct {
	objects.Store
	n int
}

func (b big) List(ctx context.Context, _ string) iter.Seq2[objects.Info, error] {
	return func(yield func(objects.Info, error) bool) {
		for i := range b.n {
			o := objects.Info{Name: fmt.Sprintf("n%08d/n%08d_%07d.JPEG", i*1000/b.n, i*1000/b.n, i), Size: 110_000, Version: strconv.Itoa(1764423127123456789+i) + "-110000"}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func TestAMillionFilesTakeFortyBytesEach(t *testing.T) {
	n := 100_000
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		n = 10_000_000
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s, err := Open(t.Context(), big{objectstest.New(nil), n}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	took := float64(heap()-before) / float64(s.Len())
	if s.Len() != n || len(s.Classes()) != 1000 {
		t.Errorf("%d examples of %d classes, want %d of 1000", s.Len(), len(s.Classes()), n)
	}
	t.Logf("%.1f bytes a file", took)
	if took > 48 {
		t.Errorf("a file takes %.1f bytes of memory, want at most 48", took)
	}
	runtime.KeepAlive(s)
}
