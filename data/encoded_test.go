package data_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/photos"
)

// encodedOf reads all images as they are stored.
func encodedOf(t *testing.T, m *data.Images) (all []data.Encoded) {
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

// sameEncoded fails the test unless images and labels are the same.
func sameEncoded(t *testing.T, what string, got, want []data.Encoded) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d examples, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if !bytes.Equal(got[i].Image, w.Image) || !slices.Equal(got[i].Labels, w.Labels) {
			t.Errorf("%s: example %d is %d bytes with labels %v, want %d bytes with labels %v", what, i, len(got[i].Image), got[i].Labels, len(w.Image), w.Labels)
		}
	}
}

// writeRecords writes a .rec file and its index.
func writeRecords(t *testing.T, dir, name string, all []data.Encoded) {
	t.Helper()
	var rec, idx bytes.Buffer
	w := data.NewRecordWriter(&rec, &idx, data.RecordConfig{})
	for i, e := range all {
		if err := w.Write(uint64(i), e); err != nil {
			t.Fatal(err)
		}
	}
	if w.Size() != int64(rec.Len()) {
		t.Errorf("Size is %d, want %d", w.Size(), rec.Len())
	}
	for ending, b := range map[string][]byte{".rec": rec.Bytes(), ".idx": idx.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name+ending), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPackedImagesAreThoseOfTheFolder(t *testing.T) {
	folder, packed := t.TempDir(), t.TempDir()
	if err := photos.Make(folder, photos.Config{Images: 30, Classes: 3, Seed: 5, Largest: 40}); err != nil {
		t.Fatal(err)
	}
	want := encodedOf(t, open(t, folder, data.OpenOptions{}))
	writeRecords(t, packed, "set", want)
	sameEncoded(t, ".rec", encodedOf(t, open(t, filepath.Join(packed, "set.rec"), data.OpenOptions{})), want)

	w, err := data.NewTarWriter(data.TarConfig{MaxCount: 12, Create: func(name string) (io.WriteCloser, error) {
		return os.Create(filepath.Join(packed, name))
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range want {
		if err := w.Write(fmt.Sprintf("%08d", i), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sameEncoded(t, "tar", encodedOf(t, open(t, filepath.Join(packed, "shard-{000000..000002}.tar"), data.OpenOptions{})), want)

	var lst strings.Builder
	for i, e := range want {
		fmt.Fprintf(&lst, "%d\t%f\t%s\n", i, e.Labels[0], e.Name)
	}
	if err := os.WriteFile(filepath.Join(packed, "set.lst"), []byte(lst.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	sameEncoded(t, ".lst", encodedOf(t, open(t, filepath.Join(packed, "set.lst"), data.OpenOptions{Root: folder})), want)
}

func TestSeveralLabelsArePacked(t *testing.T) {
	dir := t.TempDir()
	want := []data.Encoded{
		{Image: plainPNG(t, 3, 2, 9), Labels: []float32{1, 0.25, -3e6}},
		{Image: plainPNG(t, 3, 2, 8), Labels: []float32{0, 1, 1 << 24}},
	}
	writeRecords(t, dir, "set", want)
	w, err := data.NewTarWriter(data.TarConfig{Create: func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) }})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range want {
		if err := w.Write(fmt.Sprint(i), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"set.rec", "shard-000000.tar"} {
		sameEncoded(t, name, encodedOf(t, open(t, filepath.Join(dir, name), data.OpenOptions{LabelWidth: 3})), want)
	}
}

func TestResyncGoesOnBehindDamage(t *testing.T) {
	dir := t.TempDir()
	var want []data.Encoded
	for i := range 5 {
		want = append(want, data.Encoded{Image: plainPNG(t, 3+i, 2, 9), Labels: []float32{1}})
	}
	writeRecords(t, dir, "set", want)
	path := filepath.Join(dir, "set.rec")
	rec, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The index is not read, and the head of the third record is damaged.
	at := bytes.Index(rec, want[2].Image) - 32
	rec[at]++
	for ending, b := range map[string][]byte{".rec": rec, ".idx": []byte("0\t0\n")} {
		if err := os.WriteFile(filepath.Join(dir, "set"+ending), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, path, data.OpenOptions{Resync: true})
	if m.Len() != len(want) {
		t.Fatalf("%d examples, want %d", m.Len(), len(want))
	}
	for i := range want {
		_, err := m.ReadEncoded(t.Context(), i)
		if _, bad := errors.AsType[*data.BadExampleError](err); bad != (i == 2) || (err != nil) != bad {
			t.Errorf("example %d: got error %v", i, err)
		}
	}
}

func TestAnImageIsDecodedAndMeasured(t *testing.T) {
	m := open(t, greys(t, 2), data.OpenOptions{Channels: 1})
	e, err := m.ReadEncoded(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	img, err := m.Decode(e.Image)
	if err != nil || img.Width != 6 || img.Height != 4 || img.Channels != 1 || img.Pix[0] != 41 {
		t.Errorf("got %+v and error %v, want 6×4 pixels of grey 41", img, err)
	}
	format, width, height, err := data.ImageSize(e.Image)
	if err != nil || format != "png" || width != 6 || height != 4 {
		t.Errorf("got %s of %d×%d and error %v, want a png of 6×4", format, width, height, err)
	}
	if _, _, _, err := data.ImageSize([]byte("no image")); err == nil {
		t.Error("what is no image has a size")
	}
}

func TestClassesBesidePackedImagesNameThem(t *testing.T) {
	dir := t.TempDir()
	writeRecords(t, dir, "set", []data.Encoded{
		{Image: plainPNG(t, 3, 2, 9), Labels: []float32{0}},
		{Image: plainPNG(t, 3, 2, 8), Labels: []float32{2}},
	})
	path := filepath.Join(dir, "set.rec")
	if got := open(t, path, data.OpenOptions{}).Classes(); got != nil {
		t.Errorf("without the file the classes are %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, data.ClassesFile), []byte("ant\nbig bee\r\ncat\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	names := []string{"ant", "big bee", "cat"}
	if got := open(t, path, data.OpenOptions{}).Classes(); !slices.Equal(got, names) {
		t.Errorf("the classes are %q, want %q", got, names)
	}
	if got, err := data.ReadClasses(t.Context(), filepath.Join(dir, data.ClassesFile)); err != nil || !slices.Equal(got, names) {
		t.Errorf("ReadClasses gives %q and error %v, want %q", got, err, names)
	}
	// Where others are wanted, labels follow the names.
	m := open(t, path, data.OpenOptions{Classes: []string{"cat", "dog", "ant", "big bee"}})
	for i, want := range []int{2, 0} {
		e, err := m.ReadEncoded(t.Context(), i)
		if err != nil || e.Labels[0] != float32(want) {
			t.Errorf("example %d is stored with labels %v, error %v; want %d", i, e.Labels, err, want)
		}
		label, err := m.Read(i, make([]uint8, m.Shape().Size()))
		if err != nil || label != want {
			t.Errorf("example %d has label %d, error %v; want %d", i, label, err, want)
		}
	}
	for content, want := range map[string]string{
		"":                "it is empty, want the name of a class on each line",
		"ant\n\ncat\n":    "line 2 is empty, want the name of class 1",
		"ant\nbee\nant\n": `lines 1 and 3 both name "ant", want each class once`,
	} {
		if err := os.WriteFile(filepath.Join(dir, data.ClassesFile), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := data.OpenImages(t.Context(), path, data.OpenOptions{}); err == nil || !strings.Contains(err.Error(), data.ClassesFile+" in "+dir+": "+want) {
			t.Errorf("%q: got error %v, want %s", content, err, want)
		}
	}
}
