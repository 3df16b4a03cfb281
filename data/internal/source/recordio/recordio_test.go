package recordio

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// written are the .rec and .idx files of some examples.
func written(t *testing.T, entries ...Entry) (rec, idx []byte) {
	t.Helper()
	var r, x bytes.Buffer
	w := NewWriter(&r, &x)
	for _, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if w.Size() != int64(r.Len()) {
		t.Errorf("the writer says %d bytes, want %d", w.Size(), r.Len())
	}
	return r.Bytes(), x.Bytes()
}

func entries(examples []source.Example) []Entry {
	var all []Entry
	for i, e := range examples {
		all = append(all, Entry{ID: uint64(i), Labels: e.Labels, Image: e.Image})
	}
	return all
}

// offset is where record i begins.
func offset(t *testing.T, idx []byte, i int) int {
	t.Helper()
	x, err := parseIndex(bytes.NewReader(idx), math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	return int(x.offsets[i])
}

func TestRecordIODoesWhatASourceMust(t *testing.T) {
	for _, c := range []struct {
		name  string
		idx   bool
		cfg   Config
		files int
	}{
		{"with an index", true, Config{}, 1},
		{"without an index", false, Config{}, 1},
		{"in three files", true, Config{BlockBytes: 500}, 3},
		{"resync", false, Config{Resync: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.files {
				c.cfg.Files = append(c.cfg.Files, fmt.Sprintf("train%d.rec", i))
			}
			f := sourcetest.Format{
				Files: func(examples []source.Example) map[string][]byte {
					files := map[string][]byte{}
					n := len(examples) / c.files
					for i, name := range c.cfg.Files {
						part := examples[i*n:]
						if i < c.files-1 {
							part = part[:n]
						}
						rec, idx := written(t, entries(part)...)
						files[name] = rec
						if c.idx {
							files[IndexName(name)] = idx
						}
					}
					return files
				},
				Open: func(ctx context.Context, store objects.Store) (source.Source, error) {
					return Open(ctx, store, c.cfg)
				},
				BytesPerExample: 20,
				Sized:           true,
			}
			if c.idx || c.cfg.Resync {
				f.Damage = func(files map[string][]byte, i int) {
					k := 0
					for n := 23 / c.files; k < c.files-1 && i >= n; k++ {
						i -= n
					}
					_, idx := written(t, entries(sourcetest.Examples(23, 300))...)
					if c.idx {
						idx = files[IndexName(c.cfg.Files[k])]
					}
					rec := files[c.cfg.Files[k]]
					rec[offset(t, idx, i)] ^= 0x40
				}
			}
			sourcetest.Run(t, f)
		})
	}
}

// The bytes follow from the format as MXNet's sources and tests have it.
func TestRecordsHaveTheBytesOfMXNet(t *testing.T) {
	const m = "0a23d7ce"
	for _, c := range []struct{ record, want string }{
		{"3031323334353637", m + "08000000" + "3031323334353637"},
		{"", m + "00000000"},
		{"aa", m + "01000000" + "aa000000"},
		{"aabbccddee", m + "05000000" + "aabbccddee000000"},
		// The magic number alone: a first part and a last one, both empty.
		{m, m + "00000020" + m + "00000060"},
		{m + m, m + "00000020" + m + "00000040" + m + "00000060"},
		{"11111111" + m + "222222", m + "04000020" + "11111111" + m + "03000060" + "22222200"},
		{m + "11111111" + m + "22222222" + m, m + "00000020" + m + "04000040" + "11111111" + m + "04000040" + "22222222" + m + "00000060"},
		// Not at a multiple of 4, and cut off: no magic number.
		{"11" + m + "111111", m + "08000000" + "11" + m + "111111"},
		{"11111111" + m[:6], m + "07000000" + "11111111" + m[:6] + "00"},
	} {
		record, err := hex.DecodeString(c.record)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := NewWriter(&b, nil)
		if err := w.writeRecord(0, record); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(b.Bytes()); got != c.want {
			t.Errorf("record %s is written as\n %s, want\n %s", c.record, got, c.want)
		}
		got, used, err := assemble(b.Bytes())
		if err != nil || !bytes.Equal(got, record) || used != b.Len() {
			t.Errorf("record %s is read as %x, %d of %d bytes, error %v", c.record, got, used, b.Len(), err)
		}
	}
}

func TestThreeRecordsOfEightBytesEndAtSixteenThirtyTwoFortyEight(t *testing.T) {
	var rec, idx bytes.Buffer
	w := NewWriter(&rec, &idx)
	for i, want := range []int64{16, 32, 48} {
		if err := w.writeRecord(uint64(i), []byte("8 bytes.")); err != nil {
			t.Fatal(err)
		}
		if w.Size() != want {
			t.Errorf("record %d ends at %d, want %d", i, w.Size(), want)
		}
	}
	if got, want := idx.String(), "0\t0\n1\t16\n2\t32\n"; got != want {
		t.Errorf("the index is %q, want %q", got, want)
	}
}

func TestHeadersHaveTheBytesOfMXNet(t *testing.T) {
	for _, c := range []struct {
		e    Entry
		want string
	}{
		{Entry{ID: 7, Labels: []float32{3}, Image: []byte("x")}, "00000000" + "00004040" + "0700000000000000" + "0000000000000000" + "78"},
		{Entry{ID: 7, Labels: []float32{3}, Packed: true, Image: []byte("x")}, "01000000" + "00000000" + "0700000000000000" + "0000000000000000" + "00004040" + "78"},
		{Entry{ID: 1 << 40, Labels: []float32{-1, 0.5}, Image: []byte("x")}, "02000000" + "00000000" + "0000000000010000" + "0000000000000000" + "000080bf" + "0000003f" + "78"},
	} {
		rec, _ := written(t, c.e)
		record, _, err := assemble(rec)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(record); got != c.want {
			t.Errorf("%+v is written as\n %s, want\n %s", c.e, got, c.want)
		}
		labels, image, err := parseRecord(record)
		if err != nil || !slices.Equal(labels, c.e.Labels) || !bytes.Equal(image, c.e.Image) {
			t.Errorf("%+v is read as labels %v, image %q, error %v", c.e, labels, image, err)
		}
	}
}

func TestTheMagicNumberInAnImageSurvives(t *testing.T) {
	m := binary.LittleEndian.AppendUint32(nil, magic)
	var all []Entry
	for i := range 40 {
		image := bytes.Repeat(m, 1+i%5)
		image = append(bytes.Repeat([]byte{byte(i)}, i%7), image...)
		image = append(image, bytes.Repeat([]byte{byte(i)}, i%3)...)
		all = append(all, Entry{ID: uint64(i), Labels: []float32{float32(i)}, Image: image})
	}
	rec, idx := written(t, all...)
	for _, files := range []map[string][]byte{{"a.rec": rec, "a.idx": idx}, {"a.rec": rec}} {
		s, err := Open(t.Context(), objectstest.New(files), Config{Files: []string{"a.rec"}})
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != len(all) {
			t.Errorf("%d records, want %d", s.Len(), len(all))
		}
		for i := range s.Len() {
			e, err := s.Read(t.Context(), i, nil)
			if err != nil || !bytes.Equal(e.Image, all[i].Image) || e.Labels[0] != float32(i) {
				t.Errorf("record %d is %x with labels %v, error %v; want %x", i, e.Image, e.Labels, err, all[i].Image)
			}
		}
	}
}

func TestExamplesAreInTheOrderOfTheIndex(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(5, 100))...)
	lines := strings.SplitAfter(string(idx), "\n")
	// Lines in another order, one twice, one left out; keys count for nothing.
	index := lines[3] + lines[0] + "\n" + "key" + lines[4] + strings.TrimSpace(lines[0])
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": rec, "a.idx": []byte(index)}), Config{Files: []string{"a.rec"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []int{3, 0, 4, 0}
	if s.Len() != len(want) {
		t.Fatalf("%d examples, want %d", s.Len(), len(want))
	}
	for i, k := range want {
		e, err := s.Read(t.Context(), i, nil)
		if err != nil || !bytes.Equal(e.Image, sourcetest.Examples(5, 100)[k].Image) {
			t.Errorf("example %d is not record %d: error %v", i, k, err)
		}
	}
	if s.Blocks() != nil {
		t.Errorf("examples that are no neighbours in the file have blocks: %v", s.Blocks())
	}
}

func TestAnIndexIsMadeOnceAndKept(t *testing.T) {
	want := sourcetest.Examples(50, 5000)
	rec, idx := written(t, entries(want)...)
	cfg := Config{Files: []string{"sub/a.rec"}, CacheDir: t.TempDir()}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "a.rec"), rec, 0o644); err != nil {
		t.Fatal(err)
	}
	local, err := objects.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	bucket := objectstest.New(map[string][]byte{"sub/a.rec": rec})
	for _, store := range []objects.Store{local, bucket} {
		var prints []string
		for run := range 2 {
			s, err := Open(t.Context(), store, cfg)
			if err != nil {
				t.Fatal(err)
			}
			prints = append(prints, s.Fingerprint())
			switch notes := s.Notes(); {
			case run == 1 && len(notes) > 0:
				t.Errorf("%s: the second run says %q, want nothing", store.URL(), notes)
			case run == 0 && (len(notes) != 1 || !strings.HasPrefix(notes[0], "sub/a.rec has no .idx file: found its 50 records in one pass, and wrote ")):
				t.Errorf("%s: the first run says %q", store.URL(), notes)
			}
			if (s.Blocks() == nil) != (store == local) {
				t.Errorf("%s: the blocks are %v, want some in a bucket and none on a disk", store.URL(), s.Blocks())
			}
		}
		if prints[0] != prints[1] {
			t.Errorf("%s: the fingerprint is %s with the index, %s before", store.URL(), prints[1], prints[0])
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "a.idx")); err != nil || !bytes.Equal(got, idx) {
		t.Errorf("the index beside the file is %q (%v), want %q", got, err, idx)
	}
	s, err := Open(t.Context(), bucket, Config{Files: cfg.Files})
	if err != nil {
		t.Fatal(err)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "which the next run does again, since the index could not be kept: ") {
		t.Errorf("without a folder for it the notes are %q", notes)
	}
}

func TestDamagedFilesSayWhere(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(9, 400))...)
	at := offset(t, idx, 6)
	change := func(at int, b ...byte) []byte {
		changed := bytes.Clone(rec)
		copy(changed[at:], b)
		return changed
	}
	_, otherIdx := written(t, entries(sourcetest.Examples(9, 300))...)
	for _, c := range []struct {
		what     string
		rec, idx []byte
		want     string
	}{
		{"cut in a part", rec[:at+20], nil, fmt.Sprintf("a.rec, record 6 at byte %d: a part of %d bytes at byte %d does not fit: the file ends at byte %d; "+
			"it was cut, or not copied to its end; launch data check finds what can be read", at, binary.LittleEndian.Uint32(rec[at+4:]), at+8, at+20)},
		{"cut in a head", rec[:at+4], nil, fmt.Sprintf("a.rec, record 6 at byte %d: the file ends at byte %d, 4 bytes into a head of 8: it was cut, or not copied to its end; ", at, at+4)},
		{"cut, with its index", rec[:at+4], idx, fmt.Sprintf("a.idx: line 7 has a record at byte %d, but the .rec file ends at byte %d: it was cut, or not copied to its end, or the .idx file is of another one", at, at+4)},
		{"overwritten", change(at, 1, 2, 3, 4), nil, fmt.Sprintf("a.rec, record 6 at byte %d: got 0x04030201, want the magic number 0xced7230a; ", at)},
		{"of another kind", change(at+7, 0x60), nil, fmt.Sprintf("record 6 at byte %d: got a part of kind 3, want the beginning of a record, 0 or 1; ", at)},
		{"half a record", change(at+7, 0x20), nil, fmt.Sprintf("record 6 at byte %d: ", at)},
		{"with the index of another", rec, otherIdx, "a.idx: no record begins at 2 of 3 offsets: it is the index of another file; remove it, and it is made anew"},
		{"empty", nil, idx, "a.rec is empty"},
		{"with an empty index", rec, []byte("\n"), "a.idx: it has no line; remove it, and the index is made anew"},
		{"with an odd index", rec, []byte("0\t0\n1 4\n"), `a.idx: line 2: got "1 4", want a key, a tab and the offset of a record`},
		{"with an odd offset", rec, []byte("0\t2\n"), "a.idx: line 1: got offset 2, want a multiple of 4"},
		{"with a long line", rec, bytes.Repeat([]byte("7"), 1<<17), "a.idx: line 1 has more than 65536 bytes, want a key, a tab and an offset"},
	} {
		files := map[string][]byte{"a.rec": c.rec}
		if c.idx != nil {
			files["a.idx"] = c.idx
		}
		_, err := Open(t.Context(), objectstest.New(files), Config{Files: []string{"a.rec"}})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "data: RecordIO in memory://test: ") {
			t.Errorf("a file that is %s:\n got %v\nwant %s", c.what, err, c.want)
		}
	}
}

func TestARecordThatIsNotThereIsAnErrorOfReading(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(9, 400))...)
	at := offset(t, idx, 8)
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": rec[:at+40], "a.idx": idx}), Config{Files: []string{"a.rec"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Read(t.Context(), 8, nil)
	want := fmt.Sprintf("example 8 (a.rec, record 8 at byte %d): a part of %d bytes has only 32 before the data ends or the next record begins", at, binary.LittleEndian.Uint32(rec[at+4:]))
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestALengthThatIsTooShortIsDamage(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(9, 400))...)
	at := offset(t, idx, 3)
	length := binary.LittleEndian.Uint32(rec[at+4:])
	binary.LittleEndian.PutUint32(rec[at+4:], length-8)
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": rec, "a.idx": idx}), Config{Files: []string{"a.rec"}})
	if err != nil {
		t.Fatal(err)
	}
	var bad *source.BadError
	if _, err := s.Read(t.Context(), 3, nil); !errors.As(err, &bad) || !strings.HasSuffix(err.Error(), "and no record begins there") {
		t.Errorf("a record of %d bytes that says %d: got error %v", length, length-8, err)
	}
	for _, i := range []int{2, 4} {
		if _, err := s.Read(t.Context(), i, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestResyncFindsAllRecordsThatAreSound(t *testing.T) {
	want := sourcetest.Examples(12, 400)
	rec, idx := written(t, entries(want)...)
	for _, c := range []struct {
		what   string
		damage func(rec []byte) []byte
		bad    []int
	}{
		{"nothing", func(rec []byte) []byte { return rec }, nil},
		{"a magic number", func(rec []byte) []byte { rec[offset(t, idx, 5)]++; return rec }, []int{5}},
		{"the first magic number", func(rec []byte) []byte { rec[0]++; return rec }, []int{0}},
		{"a length too long by 4", func(rec []byte) []byte { rec[offset(t, idx, 5)+4] += 4; return rec }, []int{5}},
		{"a length that leads far", func(rec []byte) []byte { rec[offset(t, idx, 5)+5] ^= 2; return rec }, []int{5}},
		{"a length behind the end", func(rec []byte) []byte { rec[offset(t, idx, 5)+6] ^= 2; return rec }, []int{5}},
		{"the length of the last", func(rec []byte) []byte { rec[offset(t, idx, 11)+6] ^= 2; return rec }, []int{11}},
		{"a kind", func(rec []byte) []byte { rec[offset(t, idx, 5)+7] ^= 0x20; return rec }, []int{5}},
		{"all of two records", func(rec []byte) []byte {
			clear(rec[offset(t, idx, 5):offset(t, idx, 7)])
			return rec
		}, []int{5, 6}},
		{"what a cut left out", func(rec []byte) []byte { return rec[:offset(t, idx, 11)+30] }, []int{11}},
		{"bytes that were put in", func(rec []byte) []byte { return slices.Insert(rec, offset(t, idx, 5), make([]byte, 64)...) }, []int{}},
	} {
		s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": c.damage(bytes.Clone(rec)), "a.idx": idx}), Config{Files: []string{"a.rec"}, Resync: true})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var sound []source.Example
		bad := 0
		for i := range s.Len() {
			e, err := s.Read(t.Context(), i, nil)
			var b *source.BadError
			switch {
			case err == nil:
				sound = append(sound, e)
			case errors.As(err, &b):
				bad++
			default:
				t.Errorf("%s: example %d: %v", c.what, i, err)
			}
		}
		k := 0
		for i, w := range want {
			if slices.Contains(c.bad, i) {
				continue
			}
			if k >= len(sound) || !bytes.Equal(sound[k].Image, w.Image) {
				t.Errorf("%s damaged: record %d was not found", c.what, i)
				break
			}
			k++
		}
		if k < len(sound) || (bad > 0) != (c.bad != nil) {
			t.Errorf("%s damaged: %d sound records and %d damaged ones were found, want %d sound ones, and damage: %v", c.what, len(sound), bad, k, c.bad != nil)
		}
	}
}

func TestResyncComparesWithTheIndex(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(5, 100))...)
	for _, c := range []struct {
		rec, idx []byte
		want     string
	}{
		{rec, idx, ""},
		{rec, idx[:4], "a.idx has 1 record, and a.rec was found to have 5"},
		{rec[:offset(t, idx, 4)], idx, fmt.Sprintf("a.idx: line 5 has a record at byte %d, but the .rec file ends at byte %[1]d: it was cut, ", offset(t, idx, 4))},
	} {
		s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": c.rec, "a.idx": c.idx}), Config{Files: []string{"a.rec"}, Resync: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Notes(), "\n"); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("the notes are %q, want %q", got, c.want)
		}
	}
}

func TestBlocksAreNeighboursInOneFile(t *testing.T) {
	image := make([]byte, 1000-headSize-headerSize)
	var all []Entry
	for i := range 10 {
		all = append(all, Entry{ID: uint64(i), Labels: []float32{1}, Image: image})
	}
	rec, idx := written(t, all...)
	store := objectstest.New(map[string][]byte{"a.rec": rec, "a.idx": idx, "b.rec": rec, "b.idx": idx})
	s, err := Open(t.Context(), store, Config{Files: []string{"a.rec", "b.rec"}, BlockBytes: 3500})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 4, 8, 10, 14, 18}; !slices.Equal(s.Blocks(), want) {
		t.Errorf("blocks of 3500 bytes of twice ten records of 1000 begin at %v, want %v", s.Blocks(), want)
	}
}

func TestLengthsAreBoundedBeforeMemoryIsTaken(t *testing.T) {
	rec, idx := written(t, entries(sourcetest.Examples(3, 100))...)
	s, err := Open(t.Context(), objectstest.New(map[string][]byte{"a.rec": rec, "a.idx": idx}), Config{Files: []string{"a.rec"}})
	if err != nil {
		t.Fatal(err)
	}
	// The file is said to be as long as a disk.
	f := &s.files[0]
	f.object.Size, f.index.end = 1<<50, 1<<50
	e, err := s.Read(t.Context(), 2, nil)
	if err == nil && !bytes.Equal(e.Image, sourcetest.Examples(3, 100)[2].Image) {
		err = errors.New("got other bytes")
	}
	if err != nil {
		t.Errorf("the last record of a long file: %v", err)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	for _, c := range []struct {
		e    Entry
		want string
	}{
		{Entry{ID: 4, Image: []byte{1}}, "data: write RecordIO: record 4 has no label"},
		{Entry{ID: 4, Labels: []float32{1}, Image: make([]byte, maxPart-headerSize+1)}, "data: write RecordIO: record 4 would have 536870912 bytes, want at most 536870911"},
	} {
		if err := NewWriter(io.Discard, nil).Write(c.e); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// FuzzDecode decodes any bytes; what it takes for an example is the same when it is written and
// read again.
func FuzzDecode(f *testing.F) {
	var rec bytes.Buffer
	w := NewWriter(&rec, nil)
	w.Write(Entry{ID: 1, Labels: []float32{1, 2}, Image: []byte("\x0a\x23\xd7\xce\x0a\x23\xd7\xce image")})
	f.Add(bytes.Clone(rec.Bytes()))
	w.Write(Entry{ID: 1, Labels: []float32{3}, Image: []byte("image")})
	f.Add(bytes.Clone(rec.Bytes()))
	f.Add(rec.Bytes()[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(bytes.Clone(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := NewWriter(&again, nil).Write(Entry{Labels: e.Labels, Image: e.Image}); err != nil {
			t.Fatal(err)
		}
		g, err := decode(again.Bytes())
		if err != nil || !bytes.Equal(g.Image, e.Image) || len(g.Labels) != len(e.Labels) {
			t.Errorf("%x is read as %q with labels %v, then as %q with labels %v, error %v", b, e.Image, e.Labels, g.Image, g.Labels, err)
		}
	})
}

// FuzzFile opens any bytes as a file, with and without an index.
func FuzzFile(f *testing.F) {
	var rec, idx bytes.Buffer
	w := NewWriter(&rec, &idx)
	for i := range 4 {
		w.Write(Entry{ID: uint64(i), Labels: []float32{1}, Image: bytes.Repeat([]byte{byte(i)}, 5+i)})
	}
	f.Add(rec.Bytes(), idx.Bytes(), true)
	f.Add(rec.Bytes()[:50], []byte("0\t0\n7\t44\n"), false)
	f.Fuzz(func(t *testing.T, rec, idx []byte, resync bool) {
		for _, files := range []map[string][]byte{{"a.rec": rec}, {"a.rec": rec, "a.idx": idx}} {
			s, err := Open(t.Context(), objectstest.New(files), Config{Files: []string{"a.rec"}, Resync: resync})
			if err != nil {
				if resync && len(rec) > 0 {
					t.Errorf("resync ends with %v", err)
				}
				continue
			}
			for i := range s.Len() {
				if _, err := s.Read(t.Context(), i, nil); err != nil {
					var bad *source.BadError
					if !errors.As(err, &bad) {
						t.Errorf("example %d of %x: got %v, want a *BadError", i, rec, err)
					}
				}
			}
		}
	})
}
