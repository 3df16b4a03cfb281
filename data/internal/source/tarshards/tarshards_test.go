package tarshards

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/skim"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// golden reads an archive that GNU tar 1.34 wrote.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pack makes an archive of members "name=data" in this order.
func pack(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		name, data, _ := strings.Cut(m, "=")
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o444}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// all reads all examples as "key image labels", or what is wrong with them.
func all(t testing.TB, s *Source) (texts []string) {
	t.Helper()
	for i := range s.Len() {
		e, err := s.Read(t.Context(), i, nil)
		var bad *source.BadError
		switch {
		case errors.As(err, &bad):
			texts = append(texts, fmt.Sprintf("%s bad: %v", s.Key(i), bad.Err))
		case err != nil:
			t.Fatal(err)
		default:
			texts = append(texts, fmt.Sprintf("%s %s %v", s.Key(i), e.Image, e.Labels))
		}
	}
	return texts
}

func openAll(t testing.TB, files map[string][]byte, cfg Config) []string {
	t.Helper()
	s, err := Open(t.Context(), objectstest.New(files), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return all(t, s)
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

func TestArchivesOfAllKindsOfTar(t *testing.T) {
	short := []string{"cat/1 jpeg one [3]", "cat/2 PNG two [7]", "dog/3 three [12]"}
	d := strings.Repeat("d", 90)
	for _, name := range []string{"gnu.tar", "posix.tar", "ustar.tar", "v7.tar"} {
		expected := short
		if name != "v7.tar" {
			expected = append(slices.Clone(short), d+"/"+d+"/k long name [5]")
		}
		want(t, name, openAll(t, map[string][]byte{name: golden(t, name)}, Config{}), expected...)
	}
	want(t, "another image", openAll(t, map[string][]byte{"v7.tar": golden(t, "v7.tar")}, Config{Image: "seg.png;jpg;png"}),
		"cat/1 jpeg one [3]", "cat/2 PNG two [7]", "dog/3 seg [12]")
	for _, name := range []string{"sparse-gnu.tar", "sparse-posix.tar"} {
		_, err := Open(t.Context(), objectstest.New(map[string][]byte{name: golden(t, name)}), Config{})
		wantError(t, name, err, "holes", "--sparse", name)
	}
}

// The shards are those that webdataset 1.0.2 wrote with ShardWriter("w-%03d.tar", maxcount=2).
func TestShardsOfWebDataset(t *testing.T) {
	files := make(map[string][]byte)
	for k := range 3 {
		name := fmt.Sprintf("w-%03d.tar", k)
		files[name] = golden(t, filepath.Join("webdataset", name))
	}
	want(t, "as it is", openAll(t, files, Config{}), "cat/0000 jpeg 0 [0]", "cat/0001 jpeg 1 [1]", "cat/0002 jpeg 2 [2]", "dog/0003 png 3 [1 0]", "cat/0004 jpeg 4 [4]")
	want(t, "by JSON", openAll(t, files, Config{Label: "json"}), "cat/0000 jpeg 0 [10]", "cat/0001 jpeg 1 [11]", "cat/0002 jpeg 2 [12]", "dog/0003 png 3 [1 0]", "cat/0004 jpeg 4 [14]")
}

func TestConformance(t *testing.T) {
	files := func(examples []source.Example) map[string][]byte {
		out := make(map[string][]byte)
		w, err := NewWriter(WriterConfig{MaxCount: 7919, Create: func(name string) (io.WriteCloser, error) {
			return &memoryFile{done: func(data []byte) { out[name] = data }}, nil
		}})
		if len(examples) < 1000 {
			w.cfg.MaxCount = 9
		}
		for i, e := range examples {
			if err != nil {
				break
			}
			members := []Member{{"jpg", e.Image}, {"cls", fmt.Append(nil, e.Labels[0])}}
			if i%4 == 3 {
				members[1] = Member{"json", fmt.Appendf(nil, `{"label": %v}`, e.Labels[0])}
			}
			err = w.Write(strings.TrimSuffix(e.Name, ".jpg"), members...)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out
	}
	open := func(cfg Config) func(context.Context, objects.Store) (source.Source, error) {
		return func(ctx context.Context, store objects.Store) (source.Source, error) {
			s, err := Open(ctx, store, cfg)
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	}
	damage := func(files map[string][]byte, i int) {
		// The number in the label of example i.
		s, err := Open(t.Context(), objectstest.New(files), Config{})
		if err != nil {
			t.Fatal(err)
		}
		sh, k := s.find(i)
		data := bytes.Clone(files[sh.info.Name])
		label := (int64(sh.entries[k].image) + int64(sh.entries[k].label)) * blockSize
		copy(data[label:], "?")
		files[sh.info.Name] = data
	}
	t.Run("without kept indices", func(t *testing.T) {
		sourcetest.Run(t, sourcetest.Format{Files: files, Open: open(Config{}), Damage: damage, BytesPerExample: 64, Sized: true})
	})
	t.Run("with kept indices", func(t *testing.T) {
		twice := func(ctx context.Context, store objects.Store) (source.Source, error) {
			// The versions of stores in memory are alike, so each has a folder.
			cfg := Config{CacheDir: t.TempDir()}
			if _, err := Open(ctx, store, cfg); err != nil {
				return nil, err
			}
			return open(cfg)(ctx, store)
		}
		sourcetest.Run(t, sourcetest.Format{Files: files, Open: twice, Damage: damage, BytesPerExample: 64, Sized: true})
	})
}

// A memoryFile is a file that is given to done when it is closed.
type memoryFile struct {
	bytes.Buffer
	done func([]byte)
}

func (f *memoryFile) Close() error {
	f.done(f.Bytes())
	return nil
}

func TestSamplesAreAdjacentMembersOfOneKey(t *testing.T) {
	files := map[string][]byte{
		"b.tar": pack(t, "x.1.jpg=dotted", "x.jpg=X", "y.JPEG=Y", "y.Cls=4"),
		"a.tar": pack(t, "__meta__.json={}", "README=no dot", ".hidden=no key", "d/.hidden.jpg=no key", "s1.cls=1", "s1.jpg=first", "s1.txt=a text", "s2.json={\"cls\": [0, 1, 0.5]}", "s2.png=second", "s3.jpg=third"),
	}
	want(t, "samples", openAll(t, files, Config{}), "s1 first [1]", "s2 second [0 1 0.5]", "s3 third []", "x X []", "y Y [4]")
	want(t, "by a pattern", openAll(t, files, Config{Shards: "{b,a}.tar"}), "x X []", "y Y [4]", "s1 first [1]", "s2 second [0 1 0.5]", "s3 third []")
	want(t, "JSON alone", openAll(t, files, Config{Label: "json", Shards: "a.tar"}), "s1 first []", "s2 second [0 1 0.5]", "s3 third []")
}

func TestWhatIsWrongWithASampleIsSaidOfItAlone(t *testing.T) {
	files := map[string][]byte{"a.tar": pack(t,
		"1.jpg=ok", "1.cls=1",
		"2.txt=no image",
		"3.pyd=\x80\x04", "3.cls=3",
		"4.jpg=pickled label", "4.pickle=\x80\x04",
		"5.jpg=five", "5.cls=cat",
		"6.jpg=six", "6.cls=",
		"7.jpg=seven", "7.json={\"label\": ",
		"8.jpg=", "8.cls=8",
		"9.jpg=nine", "9.cls="+strings.Repeat(" ", 1<<20),
		"a.jpg=ok", "a.json={\"label\": \"cat\"}",
		"b.jpg=ok", "b.cls=16777217",
		"c.jpg=ok", "c.cls=NaN",
	)}
	got := openAll(t, files, Config{})
	for i, part := range []string{"1 ok [1]", "2 bad: the sample has no image: no member ends in .jpg, .jpeg", "3 bad: a member that is needed is a pickle",
		"4 bad: a member that is needed is a pickle", `5 bad: label at byte 8704: got "cat", want a number`, "6 bad: label at byte", "7 bad: label at byte", "8 bad: the image has no bytes",
		"9 bad: the label has more than", "a ok []", "b bad: label at byte", "c bad: label at byte"} {
		if !strings.HasPrefix(got[i], part) {
			t.Errorf("sample %d: got %q, want %q", i, got[i], part)
		}
	}
	wantBad := openAll(t, files, Config{Label: "json", Field: "kind"})
	if !strings.Contains(wantBad[9], `the JSON has no field ["kind"]`) {
		t.Errorf("got %q", wantBad[9])
	}
	_, err := Open(t.Context(), objectstest.New(files), Config{Image: "webp"})
	if err == nil {
		t.Error("without any image: got no error")
	}
}

func TestDoubledKeysAndMembersAreRefused(t *testing.T) {
	try := func(what string, files map[string][]byte, cfg Config, parts ...string) {
		t.Helper()
		_, err := Open(t.Context(), objectstest.New(files), cfg)
		if len(parts) == 0 {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		wantError(t, what, err, parts...)
	}
	apart := pack(t, "1.jpg=a", "2.jpg=b", "1.cls=1")
	try("a split sample", map[string][]byte{"a.tar": apart}, Config{}, `key "1" is there twice: at byte 512, and after other samples at byte 2560`, "tar --sort=name")
	try("a split sample, with keys that may repeat", map[string][]byte{"a.tar": apart}, Config{SameKeys: true}, "at byte 2560")
	two := map[string][]byte{"a.tar": pack(t, "1.jpg=a"), "b.tar": pack(t, "0.jpg=b", "1.jpg=c")}
	try("a key in two shards", two, Config{}, `key "1" is there twice: in a.tar at byte 512, and in b.tar at byte 1536`)
	try("a key in two shards, which is allowed", two, Config{SameKeys: true})
	try("a shard twice", two, Config{Shards: "a.tar::a.tar"}, "twice")
	try("an extension twice", map[string][]byte{"a.tar": pack(t, "1.jpg=a", "1.JPG=b")}, Config{}, `sample "1" has two members "jpg", one with its data at byte 512 and one at byte 1536`)
}

func TestShardsThatCannotBeReadAreRefused(t *testing.T) {
	whole := pack(t, "1.jpg=a", "2.jpg=b")
	open := func(name string, data []byte) error {
		_, err := Open(t.Context(), objectstest.New(map[string][]byte{name: data}), Config{})
		return err
	}
	wantError(t, "a name of a compressed archive", open("a.tar.gz", nil), "a.tar.gz", "gunzip")
	wantError(t, "a compressed archive", open("a.tar", append([]byte{0x1f, 0x8b, 8}, make([]byte, 2000)...)), "gunzip")
	wantError(t, "something else", open("a.tar", bytes.Repeat([]byte("text"), 1000)), "memory://test: a.tar: at byte 0: no tar head")
	wantError(t, "nothing", open("a.txt", nil), "no .tar files")
	wantError(t, "an archive without samples", open("a.tar", pack(t, "README=x")), "hold no samples")
	wantError(t, "an archive without images", open("a.tar", pack(t, "1.txt=x")), "none of 1 samples has an image")
	wantError(t, "an archive of pickles", open("a.tar", pack(t, "1.pyd=x")), "pickle")
	for n := range len(whole) - 1024 {
		err := open("a.tar", whole[:n])
		wantError(t, fmt.Sprintf("cut to %d bytes", n), err, "a.tar", "at byte ", "cut short")
	}
	damaged := bytes.Clone(whole)
	damaged[1024+5] ^= 1
	wantError(t, "a damaged head", open("a.tar", damaged), "at byte 1024", "checksum")
}

// Whatever byte is flipped: an error, a bad example, or examples.
func TestFlippedBytesDoNotPanic(t *testing.T) {
	for _, name := range []string{"gnu.tar", "posix.tar"} {
		whole := golden(t, name)
		for i := range whole {
			if whole[i] == 0 && i%50 != 0 {
				continue
			}
			for _, bit := range []byte{1, 0x80} {
				damaged := bytes.Clone(whole)
				damaged[i] ^= bit
				s, err := Open(t.Context(), objectstest.New(map[string][]byte{name: damaged}), Config{})
				if err == nil {
					all(t, s)
				}
			}
		}
	}
}

func TestShardsOfAPatternAreFound(t *testing.T) {
	files := make(map[string][]byte)
	for k := range 12 {
		files[fmt.Sprintf("t/n-%02d.tar", k)] = pack(t, fmt.Sprintf("%d.jpg=%d", k, k))
	}
	files[".hidden.tar"], files["top.tar"] = pack(t, "hidden.jpg=x"), pack(t, "top.jpg=x")
	keys := func(pattern string) (n int, first string) {
		t.Helper()
		s, err := Open(t.Context(), objectstest.New(files), Config{Shards: pattern})
		if err != nil {
			t.Fatal(err)
		}
		return s.Len(), s.Key(0)
	}
	for _, tc := range []struct {
		pattern string
		n       int
		first   string
	}{{"", 1, "top"}, {"t/n-{03..11}.tar", 9, "3"}, {"t/n-1?.tar::t/n-0*.tar", 12, "10"}, {"t/n-05.tar", 1, "5"}} {
		if n, first := keys(tc.pattern); n != tc.n || first != tc.first {
			t.Errorf("%q: got %d samples, the first %q, want %d and %q", tc.pattern, n, first, tc.n, tc.first)
		}
	}
	for pattern, part := range map[string]string{"t/n-{00..12}.tar": "shard t/n-12.tar of 13", "t/m*.tar": `"t/m*.tar"`, "t/[.tar": "syntax error"} {
		_, err := Open(t.Context(), objectstest.New(files), Config{Shards: pattern})
		wantError(t, pattern, err, part)
	}
}

func TestHeadsOfLocalShardsAreReadAndDataAreNot(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.tar"), pack(t, "1.jpg="+strings.Repeat("x", 1<<20), "2.jpg="+strings.Repeat("y", 1<<20), "2.cls=2"), 0o666); err != nil {
		t.Fatal(err)
	}
	local, err := objects.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	counted := &counter{Store: local}
	s, err := Open(t.Context(), counted, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != 2 || counted.bytes > 4*skim.Window {
		t.Errorf("the index of %d samples took %d bytes, want at most %d", s.Len(), counted.bytes, 4*skim.Window)
	}
}

// A counter counts what is read of a store.
type counter struct {
	objects.Store
	bytes int64
}

func (c *counter) ReadRange(ctx context.Context, info objects.Info, p []byte, off int64) error {
	c.bytes += int64(len(p))
	return c.Store.ReadRange(ctx, info, p, off)
}

// With 20 ms to the first byte, shards in a bucket are read in few large requests, several shards
// at once.
func TestShardsFarAwayAreReadInLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := make(map[string][]byte)
		for k := range 8 {
			var members []string
			for i := range 200 {
				members = append(members, fmt.Sprintf("%d-%d.jpg=%s", k, i, strings.Repeat("x", 5000)))
			}
			files[fmt.Sprintf("%d.tar", k)] = pack(t, members...)
		}
		store := objectstest.New(files)
		store.Latency = 20 * time.Millisecond
		start := time.Now()
		s, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); s.Len() != 1600 || took > 200*time.Millisecond {
			t.Errorf("the index of %d samples took %v, want at most 200 ms", s.Len(), took)
		}
	})
}

func TestAnIndexIsKeptUntilTheShardChanges(t *testing.T) {
	cache := t.TempDir()
	store := objectstest.New(map[string][]byte{"a.tar": golden(t, "gnu.tar"), "b.tar": pack(t, "x.jpg=X", "x.cls=1", "z.jpg=Z")})
	open := func() (texts []string, reads int) {
		t.Helper()
		s, err := Open(t.Context(), store, Config{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range store.Calls() {
			if c.Kind == objectstest.Read {
				reads++
			}
		}
		return all(t, s), reads
	}
	first, reads := open()
	if reads == 0 {
		t.Error("the first index took no read")
	}
	before := countReads(store)
	second, reads := open()
	if reads != before {
		t.Errorf("opening with kept indices took %d reads", reads-before)
	}
	want(t, "by the index", second, first...)
	store.Put("b.tar", pack(t, "x.jpg=Y", "x.cls=2", "z.jpg=Z"))
	before = countReads(store)
	third, reads := open()
	if reads == before {
		t.Error("a changed shard was not read anew")
	}
	want(t, "after a change", third[len(third)-2:], "x Y [2]", "z Z []")

	// An index of a shard that was replaced behind the store's back does not give other bytes.
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"b.tar": pack(t, "x.jpg=X", "x.cls=1")}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.store = objectstest.New(map[string][]byte{"b.tar": pack(t, "longer.jpg="+strings.Repeat("X", 600), "x.cls=1")})
	s.shards[0].info.Version = ""
	var bad *source.BadError
	if _, err := s.Read(t.Context(), 0, nil); !errors.As(err, &bad) {
		t.Errorf("got %v, want a *BadError", err)
	}
}

func countReads(store *objectstest.Memory) (n int) {
	for _, c := range store.Calls() {
		if c.Kind == objectstest.Read {
			n++
		}
	}
	return n
}

func TestAnIndexThatCannotBeKeptIsNoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"a.tar": pack(t, "1.jpg=x"), "b.tar": pack(t, "2.jpg=x")}
	for dir, part := range map[string]string{t.TempDir(): "found the examples of 2 tar shards in one pass, and wrote ", "": "could not be kept: ", file: "could not be kept: "} {
		s, err := Open(t.Context(), objectstest.New(files), Config{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], part) {
			t.Errorf("got notes %q, want one with %q", notes, part)
		}
	}
}

func TestTheIndexOfDALIIsRead(t *testing.T) {
	files := map[string][]byte{"gnu.tar": golden(t, "gnu.tar")}
	without := openAll(t, files, Config{})
	files["gnu.idx"] = golden(t, "gnu.idx")
	store := objectstest.New(files)
	s, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range store.Calls() {
		if c.Kind == objectstest.Read && c.Name == "gnu.tar" && c.Length > blockSize {
			t.Errorf("the shard was read although it has an index: %+v", c)
		}
	}
	want(t, "by DALI's index", all(t, s), without...)
	for what, change := range map[string]func(string) string{
		"of another version": func(x string) string { return strings.Replace(x, "v1.2", "v1.1", 1) },
		"of other samples":   func(x string) string { return strings.Replace(x, "v1.2 6", "v1.2 7", 1) },
		"without names":      func(x string) string { return strings.ReplaceAll(x, " cat/1.cls", "") },
		"of a shorter shard": func(x string) string {
			return strings.Join(strings.SplitAfter(strings.Replace(x, "v1.2 6", "v1.2 2", 1), "\n")[:3], "")
		},
		"with an offset elsewhere": func(x string) string { return strings.Replace(x, "cls 1024", "cls 1023", 1) },
		"cut":                      func(x string) string { return x[:len(x)/2] },
	} {
		files["gnu.idx"] = []byte(change(string(golden(t, "gnu.idx"))))
		store := objectstest.New(files)
		s, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Errorf("an index %s: %v", what, err)
			continue
		}
		if countReads(store) < 2 {
			t.Errorf("an index %s was taken", what)
		}
		want(t, "an index "+what, all(t, s), without...)
	}
	for shard, index := range map[string]string{"a/b.tar": "a/b.idx", "b.x.tar": "b.idx", ".h.tar": ".h.idx", "plain": "plain.idx", "a/": "a/.idx"} {
		if got := daliName(shard); got != index {
			t.Errorf("DALI's index of %s is %s, want %s", shard, got, index)
		}
	}
}

func TestSizesInHeads(t *testing.T) {
	for text, size := range map[string]int64{
		"00000001234\x00": 0o1234, "       1234 ": 0o1234, "777777777777": 0o777777777777, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00": 0,
		"\x80\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01": 2<<32 + 1,
	} {
		if got, err := parseSize([]byte(text)); err != nil || got != size {
			t.Errorf("%q: got %d (%v), want %d", text, got, err, size)
		}
	}
	for _, text := range []string{"00000000008\x00", "-0000000001\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x80\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00", "\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"} {
		if got, err := parseSize([]byte(text)); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestImageAndLabelFarApartAreTwoReads(t *testing.T) {
	files := map[string][]byte{"a.tar": pack(t, "1.cls=5", "1.flac="+strings.Repeat("x", 100_000), "1.jpg=image", "2.cls=6", "2.jpg=other")}
	store := objectstest.New(files)
	s, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Range(0); ok {
		t.Error("an example in two places has a range")
	}
	if _, ok := s.Range(1); !ok {
		t.Error("an example in one place has no range")
	}
	before := store.BytesRead()
	want(t, "samples", all(t, s), "1 image [5]", "2 other [6]")
	if read := store.BytesRead() - before; read > 5000 {
		t.Errorf("two examples took %d bytes", read)
	}
}

func TestWriterCutsShards(t *testing.T) {
	out := make(map[string][]byte)
	create := func(name string) (io.WriteCloser, error) {
		return &memoryFile{done: func(data []byte) { out[name] = data }}, nil
	}
	w, err := NewWriter(WriterConfig{Name: "t-%03d.tar", MaxCount: 3, MaxSize: 25, Create: create})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		data := []byte("image")
		if i == 4 {
			data = bytes.Repeat([]byte("x"), 30)
		}
		if err := w.Write(fmt.Sprintf("c/%d", i), Member{"jpg", data}, Member{"cls", fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for name, data := range out {
		counts[name] = len(openAll(t, map[string][]byte{name: data}, Config{}))
	}
	if wantCounts := map[string]int{"t-000.tar": 3, "t-001.tar": 2, "t-002.tar": 3}; !maps.Equal(counts, wantCounts) || w.Shards() != 3 {
		t.Errorf("got %v, want %v", counts, wantCounts)
	}
	for _, tc := range []struct {
		key, extension string
	}{{"a.b", "jpg"}, {"a", "JPG"}, {"a", ""}, {"", "jpg"}, {"a/", "jpg"}, {"__a__", "jpg"}, {"a", "j/pg"}} {
		if err := w.Write(tc.key, Member{Extension: tc.extension}); err == nil {
			t.Errorf("key %q, extension %q: got no error", tc.key, tc.extension)
		}
	}
	wantError(t, "an extension twice", w.Write("a", Member{"jpg", nil}, Member{"jpg", nil}), "twice")
	if err := w.Write("again", Member{"jpg", nil}); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a key twice", w.Write("again", Member{"jpg", nil}), `"again" is in shard t-003.tar already`)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []WriterConfig{{Name: "x.tar", Create: create}, {Name: "x%s.tar", Create: create}, {MaxCount: -1, Create: create}, {}} {
		if _, err := NewWriter(cfg); err == nil {
			t.Errorf("%+v: got no error", cfg)
		}
	}
	full := errors.New("no space left on device")
	if w, err = NewWriter(WriterConfig{Create: func(string) (io.WriteCloser, error) { return nil, full }}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write("a", Member{"jpg", nil}); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"gnu.tar", "posix.tar", "v7.tar", "sparse-posix.tar"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.tar": data}), Config{})
		if err == nil {
			all(t, s)
		}
	})
}

// FuzzHead takes heads with a right sum.
func FuzzHead(f *testing.F) {
	f.Add(golden(f, "gnu.tar")[:blockSize])
	f.Fuzz(func(t *testing.T, data []byte) {
		var b [blockSize]byte
		copy(b[:], data)
		copy(b[148:156], "        ")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
		h, _, err := parseHead(&b)
		if err == nil && h.size < 0 {
			t.Errorf("got size %d", h.size)
		}
	})
}

func FuzzIndex(f *testing.F) {
	var before member
	var index []byte
	for _, m := range []member{{"a/1.cls", 1024, 2}, {"a/1.jpg", 2048, 3000}} {
		index, before = appendMember(index, before, m), m
	}
	f.Add(index, int64(1<<20))
	f.Fuzz(func(t *testing.T, index []byte, size int64) {
		var again []byte
		var before member
		size &= 1<<50 - 1
		err := eachMember(index, size, func(m member) error {
			if m.data < 0 || m.size < 0 || m.data+m.size > size {
				t.Errorf("member %+v is not in a shard of %d bytes", m, size)
			}
			again, before = appendMember(again, before, m), m
			return nil
		})
		if err != nil {
			return
		}
		var twice []byte
		before = member{}
		if err := eachMember(again, size, func(m member) error {
			twice, before = appendMember(twice, before, m), m
			return nil
		}); err != nil || !bytes.Equal(again, twice) {
			t.Errorf("an index that was written again cannot be read: %v", err)
		}
	})
}

func FuzzDALI(f *testing.F) {
	f.Add(golden(f, "gnu.idx"), int64(18432))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		members, end, ok := parseDALI(text, size)
		for _, m := range members {
			if ok && (m.data < 512 || m.data+m.size > size || m.data+m.size > end) {
				t.Errorf("member %+v is not in a shard of %d bytes", m, size)
			}
		}
	})
}

func FuzzPax(f *testing.F) {
	f.Add([]byte("19 path=some/where\n12 size=345\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := parsePax(data); err == nil && p.size < -1 {
			t.Errorf("got size %d", p.size)
		}
	})
}

func FuzzLabel(f *testing.F) {
	f.Add([]byte(`{"label": [1, 2]}`))
	f.Add([]byte(" 12\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseText(data)
		parseJSON(data, "", true)
		if labels, err := parseJSON(data, "label", false); err == nil && len(labels) == 0 {
			t.Error("got no labels and no error")
		}
	})
}
