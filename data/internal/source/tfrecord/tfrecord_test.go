package tfrecord

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// golden reads a file that Python's tfrecord 1.14 wrote.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// message makes a tf.train.Example of features, which are messages of type Feature.
func message(features ...[]byte) []byte {
	return field(1, slices.Concat(features...))
}

func entry(key string, feature []byte) []byte {
	return field(1, slices.Concat(field(1, []byte(key)), field(2, feature)))
}

func ofBytes(key string, values ...string) []byte {
	var list []byte
	for _, v := range values {
		list = append(list, field(1, []byte(v))...)
	}
	return entry(key, field(1, list))
}

// ofInts are integers, packed into one field or not.
func ofInts(key string, packed bool, values ...int64) []byte {
	var list []byte
	for _, v := range values {
		if !packed {
			list = protowire.AppendTag(list, 1, protowire.VarintType)
		}
		list = protowire.AppendVarint(list, uint64(v))
	}
	if packed {
		list = field(1, list)
	}
	return entry(key, field(3, list))
}

func ofFloats(key string, packed bool, values ...float32) []byte {
	var list []byte
	for _, v := range values {
		if !packed {
			list = protowire.AppendTag(list, 1, protowire.Fixed32Type)
		}
		list = protowire.AppendFixed32(list, math.Float32bits(v))
	}
	if packed {
		list = field(1, list)
	}
	return entry(key, field(2, list))
}

func records(messages ...[]byte) (data []byte) {
	for _, m := range messages {
		data = Append(data, m)
	}
	return data
}

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

var goldenExamples = []string{"first image [3]", "second [0 1 -2]", "third [0.5 0.25]", "bad: feature image/encoded: the image has no bytes"}

func TestRecordsAreAsOthersWriteThem(t *testing.T) {
	want(t, "golden.tfrecord", openAll(t, map[string][]byte{"golden.tfrecord": golden(t, "golden.tfrecord")}, Config{}), goldenExamples...)
	// The length 9, its masked checksum, the text whose CRC-32C is e3069283, and that masked.
	const text = "\x09\x00\x00\x00\x00\x00\x00\x00\x37\xf9\x71\x39123456789\xe5\xb0\x8a\xc7"
	if got := Append(nil, []byte("123456789")); string(got) != text {
		t.Errorf("got % x, want % x", got, text)
	}
}

func TestConformance(t *testing.T) {
	files := func(examples []source.Example) map[string][]byte {
		out := make(map[string][]byte)
		per := 9
		if len(examples) > 1000 {
			per = 8000
		}
		for i, e := range examples {
			name := fmt.Sprintf("t-%05d-of-%05d", i/per, (len(examples)+per-1)/per)
			out[name] = Append(out[name], message(ofInts("image/class/label", i%2 == 0, int64(e.Labels[0])), ofBytes("image/encoded", string(e.Image))))
		}
		return out
	}
	open := func(ctx context.Context, store objects.Store) (source.Source, error) {
		s, err := Open(ctx, store, Config{})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	damage := func(files map[string][]byte, i int) {
		s, err := Open(t.Context(), objectstest.New(files), Config{})
		if err != nil {
			t.Fatal(err)
		}
		f, k := s.find(i)
		data := bytes.Clone(files[f.info.Name])
		data[f.offsets[k]+headSize+2] ^= 1
		files[f.info.Name] = data
	}
	t.Run("without kept indices", func(t *testing.T) {
		sourcetest.Run(t, sourcetest.Format{Files: files, Open: open, Damage: damage, BytesPerExample: 12, Sized: true})
	})
	t.Run("with kept indices", func(t *testing.T) {
		twice := func(ctx context.Context, store objects.Store) (source.Source, error) {
			// The versions of stores in memory are alike, so each has a folder.
			cfg := Config{CacheDir: t.TempDir()}
			if _, err := Open(ctx, store, cfg); err != nil {
				return nil, err
			}
			s, err := Open(ctx, store, cfg)
			if err == nil && len(s.Notes()) > 0 {
				err = fmt.Errorf("indices were made again: %q", s.Notes())
			}
			if err != nil {
				return nil, err
			}
			return s, nil
		}
		sourcetest.Run(t, sourcetest.Format{Files: files, Open: twice, Damage: damage, BytesPerExample: 12, Sized: true})
	})
}

func TestFeaturesOfExamples(t *testing.T) {
	one := func(cfg Config, features ...[]byte) string {
		t.Helper()
		return openAll(t, map[string][]byte{"a.tfrecord": records(message(features...))}, cfg)[0]
	}
	image := ofBytes("image", "I")
	for _, tc := range []struct {
		cfg      Config
		features [][]byte
		want     string
	}{
		{Config{}, [][]byte{image, ofInts("label", true, 7)}, "I [7]"},
		{Config{}, [][]byte{image, ofInts("label", false, 7, 8)}, "I [7 8]"},
		{Config{}, [][]byte{image, ofFloats("label", false, 0.5)}, "I [0.5]"},
		{Config{}, [][]byte{image, ofFloats("label", true, 0.5, 1)}, "I [0.5 1]"},
		{Config{}, [][]byte{image, ofBytes("label", "12\n")}, "I [12]"},
		{Config{}, [][]byte{image}, "I []"},
		{Config{}, [][]byte{image, ofBytes("image/encoded", "better"), ofInts("label", true, 1), ofInts("image/class/label", true, 2)}, "better [2]"},
		{Config{}, [][]byte{image, ofBytes("image", "last"), ofInts("label", true, 1), ofInts("label", true, 2)}, "last [2]"},
		{Config{Image: "x;image", Label: "y"}, [][]byte{image, ofInts("y", true, 3)}, "I [3]"},
		{Config{Label: "y"}, [][]byte{image, ofInts("label", true, 3)}, `bad: the example has no label: no feature is named y, only ["image" "label"]`},
		{Config{Image: "x"}, [][]byte{image}, `bad: the example has no image: no feature is named x, only ["image"]`},
		{Config{}, [][]byte{ofBytes("image", "a", "b")}, "bad: feature image: got 2 values, want one"},
		{Config{}, [][]byte{ofInts("image", true, 1)}, "bad: feature image: got integers, want bytes"},
		{Config{}, [][]byte{image, ofBytes("label", "cat")}, `bad: feature label: got bytes "cat", want a number`},
		{Config{}, [][]byte{image, ofInts("label", true)}, "bad: feature label: got no values, want a number"},
		{Config{}, [][]byte{image, entry("label", nil)}, "bad: feature label: got no values, want a number"},
		{Config{}, [][]byte{image, ofInts("label", true, 1<<24+1)}, "bad: feature label: got 1.6777217e+07, want whole numbers to 16777216"},
		{Config{}, [][]byte{image, ofFloats("label", true, float32(math.NaN()))}, "bad: feature label: got NaN, want a number"},
		{Config{}, [][]byte{image, entry("label", field(3, field(1, []byte{0xff})))}, "bad: feature label: the record is no tf.train.Example: unexpected EOF"},
		{Config{}, [][]byte{image, entry("label", field(2, field(1, []byte{1, 2, 3})))}, "bad: feature label: the record is no tf.train.Example: floats of 3 bytes"},
		{Config{}, [][]byte{image, {0xff}}, "bad: the record is no tf.train.Example: unexpected EOF"},
	} {
		if got := one(tc.cfg, tc.features...); got != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.cfg, got, tc.want)
		}
	}
}

func TestFilesThatCannotBeReadAreRefused(t *testing.T) {
	whole := records(message(ofBytes("image", "1")), message(ofBytes("image", "2")))
	first := len(whole) / 2
	open := func(data []byte) error {
		_, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.tfrecord": data}), Config{})
		return err
	}
	for n := range whole {
		err := open(whole[:n])
		switch {
		case n == 0:
			wantError(t, "nothing", err, "hold no records")
		case n == first:
			if err != nil {
				t.Errorf("cut between two records: %v", err)
			}
		default:
			wantError(t, fmt.Sprintf("cut to %d bytes", n), err, "memory://test: a.tfrecord: at byte ", "cut short")
		}
	}
	wantError(t, "GZIP", open(append([]byte{0x1f, 0x8b, 8}, make([]byte, 50)...)), "compressed", "gunzip")
	wantError(t, "ZLIB", open(append([]byte{0x78, 0x9c}, make([]byte, 50)...)), "compressed")
	wantError(t, "text", open([]byte("some text that is no record")), "at byte 0: the checksum of the length")
	damaged := bytes.Clone(whole)
	damaged[first] ^= 1
	wantError(t, "a damaged length", open(damaged), fmt.Sprintf("at byte %d: the checksum of the length", first))
	huge := make([]byte, headSize, 100)
	binary.LittleEndian.PutUint64(huge, math.MaxUint64)
	binary.LittleEndian.PutUint32(huge[8:], masked(huge[:8]))
	wantError(t, "a huge length", open(huge[:100]), "a record of 18446744073709551615 bytes begins")
	_, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.txt": nil}), Config{})
	wantError(t, "no files", err, "no TFRecord files are there")
}

func TestDamagedDataAreOneBadExample(t *testing.T) {
	data := records(message(ofBytes("image", "1")), message(ofBytes("image", "2")))
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.tfrecord": data}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		store := objectstest.New(map[string][]byte{"a.tfrecord": data})
		store.Damage("a.tfrecord", i)
		s.store = store
		bad := 0
		for k := range 2 {
			_, err := s.Read(t.Context(), k, nil)
			var e *source.BadError
			if errors.As(err, &e) {
				bad++
				if e.Example != k || !strings.HasPrefix(e.Name, fmt.Sprintf("a.tfrecord, record %d at byte %d", k, s.files[0].offsets[k])) {
					t.Errorf("got %v", e)
				}
			} else if err != nil {
				t.Error(err)
			}
		}
		if bad != 1 {
			t.Errorf("with byte %d flipped %d examples are bad, want 1", i, bad)
		}
	}
}

func TestTheIndexOfTfrecord2idxIsRead(t *testing.T) {
	for _, name := range []string{"golden.idx", "golden.tfrecord.idx"} {
		store := objectstest.New(map[string][]byte{"golden.tfrecord": golden(t, "golden.tfrecord"), name: golden(t, "golden.idx")})
		s, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range store.Calls() {
			if c.Kind == objectstest.Read && c.Name == "golden.tfrecord" {
				t.Errorf("the file was read although it has an index: %+v", c)
			}
		}
		want(t, name, all(t, s), goldenExamples...)
	}
	idx := string(golden(t, "golden.idx"))
	for what, wrong := range map[string]string{"cut": idx[:len(idx)/2], "of a longer file": idx + "352 20\n", "of another form": "x" + idx, "of no record": "0 0\n"} {
		want(t, "an index "+what, openAll(t, map[string][]byte{"golden.tfrecord": golden(t, "golden.tfrecord"), "golden.idx": []byte(wrong)}, Config{}), goldenExamples...)
	}
}

func TestFilesAreFoundByTheirNames(t *testing.T) {
	one := func(text string) []byte { return records(message(ofBytes("image", text))) }
	files := map[string][]byte{"train-00000-of-00003": one("0"), "train-00002-of-00003": one("2"), "val.tfrecords": one("v"), "x.TFRecord": one("x"), "readme-of-00003": nil, ".y.tfrecord": nil, "val/z.tfrecord": one("z")}
	want(t, "all", openAll(t, files, Config{}), "0 []", "2 []", "v []", "x []")
	want(t, "a pattern", openAll(t, files, Config{Shards: "val.tfrecords::train-*"}), "v []", "0 []", "2 []")
	want(t, "names", openAll(t, files, Config{Files: []string{"x.TFRecord", "val.tfrecords"}}), "x []", "v []")
	s, err := Open(t.Context(), objectstest.New(files), Config{Shards: "train-*", CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "2 of the 3 files train-?-of-00003 are there") || !strings.Contains(notes, "found the examples of 2 TFRecord files in one pass") {
		t.Errorf("got notes %q", notes)
	}
	for name, is := range map[string]bool{"a/x.tfrecord": true, "x.tfrecord-00001-of-00005": true, "train-00001-of-01024": true, "train-1-of-2": false, "x.rec": false} {
		if got := IsFile(name); got != is {
			t.Errorf("%s is a TFRecord file: %t, want %t", name, got, is)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(golden(f, "golden.tfrecord"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.tfrecord": data}), Config{})
		if err == nil {
			all(t, s)
		}
	})
}

// FuzzExample takes records with right checksums.
func FuzzExample(f *testing.F) {
	f.Add(message(ofBytes("image", "1"), ofInts("label", true, 1, 2), ofFloats("label", false, 3)))
	f.Add(message(ofBytes("image", "1"), ofInts("label", false, 1, 2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		openAll(t, map[string][]byte{"a.tfrecord": Append(nil, data)}, Config{})
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("0 20\n20 30\n"), []byte{20, 30}, int64(50))
	f.Fuzz(func(t *testing.T, text, index []byte, size int64) {
		size &= 1<<50 - 1
		for k, parse := range []func([]byte, int64) ([]int64, bool){parseIdx, parseIndex} {
			offsets, ok := parse([][]byte{text, index}[k], size)
			if ok && (offsets[0] != 0 || offsets[len(offsets)-1] != size || !slices.IsSorted(offsets)) {
				t.Errorf("got offsets %v of a file of %d bytes", offsets, size)
			}
		}
	})
}
