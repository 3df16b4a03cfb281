package npy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A memory is a store of one file that counts requests.
type memory struct {
	data  []byte
	reads int
}

func (m *memory) URL() string { return "mem://test" }
func (m *memory) List(context.Context, string) iter.Seq2[objects.Info, error] {
	return maps.All(map[objects.Info]error{})
}
func (m *memory) Stat(context.Context, string) (objects.Info, error) {
	return objects.Info{}, fs.ErrNotExist
}
func (m *memory) ReadRange(_ context.Context, _ objects.Info, p []byte, off int64) error {
	m.reads++
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return io.ErrUnexpectedEOF
	}
	copy(p, m.data[off:])
	return nil
}
func (m *memory) Close() error { return nil }

func open(data []byte) (*Array, *memory, error) {
	m := &memory{data: data}
	a, err := Open(context.Background(), m, objects.Info{Name: "a.npy", Size: int64(len(data))})
	return a, m, err
}

// golden reads a file that NumPy 2.4 wrote.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantRows[T Number](t *testing.T, name string, dtype string, rowShape []int, want ...T) {
	t.Helper()
	a, m, err := open(golden(t, name))
	if err != nil {
		t.Error(err)
		return
	}
	if a.DType().String() != dtype || !slices.Equal(a.RowShape(), rowShape) {
		t.Errorf("%s: got rows %v of %v, want %v of %s", name, a.RowShape(), a.DType(), rowShape, dtype)
	}
	m.reads = 0
	got := make([]T, a.Rows()*a.RowValues())
	if err := Read(t.Context(), a, 0, a.Rows(), got); err != nil {
		t.Error(err)
		return
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
	if m.reads > 1 {
		t.Errorf("%s: all rows took %d requests, want 1", name, m.reads)
	}
	for i := range a.Rows() {
		row := make([]T, a.RowValues())
		if err := Read(t.Context(), a, i, 1, row); err != nil || !slices.Equal(row, got[i*len(row):(i+1)*len(row)]) {
			t.Errorf("%s: row %d alone is %v (%v)", name, i, row, err)
		}
	}
}

func TestRowsAreAsNumPyWroteThem(t *testing.T) {
	wantRows(t, "float32.npy", "float32", []int{3}, float32(0.5), -1, 2, 3, 4, 1e30)
	wantRows(t, "float32.npy", "float32", []int{3}, 0.5, -1, 2, 3, 4, float64(float32(1e30)))
	wantRows(t, "bigendian.npy", "int32", []int{2}, int64(1), -2, 300, -40000, math.MaxInt32, math.MinInt32)
	wantRows(t, "bigendian.npy", "int32", []int{2}, float32(1), -2, 300, -40000, math.MaxInt32, math.MinInt32)
	wantRows(t, "uint8.npy", "uint8", []int{2, 2, 3}, uint8(0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
	wantRows(t, "float16.npy", "float16", []int{}, float32(1), 0, 65504, 1.0/(1<<24), float32(math.Inf(1)), 0.0999755859375)
	wantRows(t, "bool.npy", "bool", []int{}, int32(1), 0, 1)
	wantRows(t, "int64.npy", "int64", []int{}, int64(7), -1, 1<<40)
	wantRows(t, "column.npy", "int16", []int{1}, int16(1), 2, 3)
	wantRows[float32](t, "empty.npy", "float32", []int{5})
	wantRows(t, "version2.npy", "uint16", []int{2}, uint16(1), 2)
	wantRows(t, "version3.npy", "uint16", []int{2}, uint16(1), 2)
}

func TestRawRowsAreLittleEndian(t *testing.T) {
	a, _, err := open(golden(t, "bigendian.npy"))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	if err := a.ReadRows(t.Context(), 1, 1, got); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0x2c, 1, 0, 0, 0xc0, 0x63, 0xff, 0xff}; !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	if r, ok := a.Range(1, 2); !ok || r.Off != 136 || r.Length != 16 {
		t.Errorf("rows 1 and 2 are at %d with %d bytes, want at 136 with 16", r.Off, r.Length)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}

func TestArraysThatCannotBeReadByRowsAreRefused(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"object.npy", "pickle"},
		{"struct.npy", "named fields"},
		{"fortran.npy", "numpy.ascontiguousarray"},
		{"scalar.npy", "single number"},
		{"string.npy", `"<U2"`},
		{"complex.npy", `"<c8"`},
	} {
		_, _, err := open(golden(t, tc.file))
		wantError(t, err, tc.want, "npy: mem://test: a.npy: ")
	}
}

func TestNumbersThatDoNotFitAreRefusedByRow(t *testing.T) {
	a, _, err := open(golden(t, "int64.npy"))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, Read(t.Context(), a, 0, 3, make([]int32, 3)), "row 2, number 0: got 1099511627776 of type int64, which is no int32")
	wantError(t, Read(t.Context(), a, 1, 1, make([]uint64, 1)), "row 1, number 0: got -1 of type int64, which is no uint64")
	wantError(t, Read(t.Context(), a, 2, 2, make([]int64, 3)), "got rows 2 to 3, want 0 to 2")
	wantError(t, Read(t.Context(), a, -1, 1, make([]int64, 3)), "got rows -1 to -1")
	wantError(t, Read(t.Context(), a, 0, 3, make([]int64, 2)), "room for 2 numbers, want 3")
	wantError(t, a.ReadRows(t.Context(), 0, 1, make([]byte, 7)), "room for 7 bytes, want 8")
	if a, _, err = open(golden(t, "float32.npy")); err != nil {
		t.Fatal(err)
	}
	wantError(t, Read(t.Context(), a, 0, 1, make([]int64, 3)), "got numbers of type float32, want integers")
}

// file makes a .npy file with a header of one's own.
func file(dict string, data int) []byte {
	return slices.Concat([]byte("\x93NUMPY\x01\x00"), []byte{byte(len(dict)), byte(len(dict) >> 8)}, []byte(dict), make([]byte, data))
}

func TestHeadersAreReadStrictly(t *testing.T) {
	for _, dict := range []string{
		`{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }`,
		`{"shape":(2,2),"fortran_order":False,"descr":"<f4"}` + "\n",
		`{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L)}`,
		`{'descr': '|u1', 'fortran_order': True, 'shape': (16,)}   ` + "\n",
	} {
		if _, _, err := open(file(dict, 16)); err != nil {
			t.Errorf("%s: %v", dict, err)
		}
	}
	for _, tc := range []struct{ dict, want string }{
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, "cut short"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }`, "8 more follow"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }`, "larger than memory"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }`, "cut short"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (92233720368547758070,), }`, "a number of the shape"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }`, "a number of the shape"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (2), }`, "a comma"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (` + strings.Repeat("1,", 65) + `), }`, "64 dimensions"},
		{`{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2), }`, "True or False"},
		{`{'descr': '<f4', 'fortran_order': False, }`, `has no "shape"`},
		{`{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}`, "twice"},
		{`{'descr': __import__('os').system('x'), 'fortran_order': False, 'shape': (2, 2)}`, "want a string"},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'more': '1'}`, `got "more"`},
		{`{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)} + x`, "want the end"},
		{`{'descr': '<f\'4', 'fortran_order': False, 'shape': (2, 2)}`, "backslash"},
		{`{'descr': '<f1', 'fortran_order': False, 'shape': (2, 2)}`, "no type that is known"},
		{`{'descr': '|i4', 'fortran_order': False, 'shape': (2, 2)}`, "order of its bytes"},
		{`{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}`, "pickle"},
		{`[]`, "want {"},
		{``, "want {"},
	} {
		_, _, err := open(file(tc.dict, 16))
		wantError(t, err, tc.want)
	}
	_, _, err := open([]byte("PK\x03\x04 not an array"))
	wantError(t, err, "it is not a .npy file")
	_, _, err = open([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"))
	wantError(t, err, "got a header of 4294967295 bytes")
	_, _, err = open([]byte("\x93NUMPY\x09\x00\xff\xff\xff\xff{}"))
	wantError(t, err, "version 9.0")
}

// Cut anywhere, a file is an error and never a panic.
func TestFilesCutAnywhereAreErrors(t *testing.T) {
	for _, name := range []string{"float32.npy", "version2.npy", "uint8.npy"} {
		whole := golden(t, name)
		for n := range whole {
			if _, _, err := open(whole[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes: got no error", name, n, len(whole))
			}
		}
	}
}

func openArchive(data []byte) (*Archive, error) {
	return OpenArchive(context.Background(), &memory{data: data}, objects.Info{Name: "a.npz", Size: int64(len(data))}, 1<<30)
}

func TestArraysOfArchives(t *testing.T) {
	for _, name := range []string{"stored.npz", "deflated.npz"} {
		z, err := openArchive(golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := z.Names(); !slices.Equal(got, []string{"images", "labels"}) {
			t.Errorf("%s: got arrays %q", name, got)
		}
		images, err := z.Array(t.Context(), "images")
		if err != nil {
			t.Fatal(err)
		}
		row := make([]byte, 4)
		if err := images.ReadRows(t.Context(), 1, 1, row); err != nil || !bytes.Equal(row, []byte{4, 5, 6, 7}) {
			t.Errorf("%s: row 1 of images is %v (%v), want 4 5 6 7", name, row, err)
		}
		if _, ok := images.Range(0, 1); ok != (name == "stored.npz") {
			t.Errorf("%s: rows lie in the object: %t", name, ok)
		}
		labels, err := z.Array(t.Context(), "labels")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int32, 3)
		if err := Read(t.Context(), labels, 0, 3, got); err != nil || !slices.Equal(got, []int32{5, 6, 7}) {
			t.Errorf("%s: labels are %v (%v), want 5 6 7", name, got, err)
		}
		_, err = z.Array(t.Context(), "image")
		wantError(t, err, `has no array "image", only ["images" "labels"]`)
	}
}

// Whatever byte of an archive is flipped: the right rows or an error.
func TestArchivesWithFlippedBytesDoNotPanic(t *testing.T) {
	for _, name := range []string{"stored.npz", "deflated.npz"} {
		whole := golden(t, name)
		for i := range whole {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 0xff
			readAll(damaged)
		}
		for n := range whole {
			if _, err := openArchive(whole[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes: got no error", name, n, len(whole))
			}
		}
	}
}

// readAll reads all arrays of an archive and reports whether there was no error.
func readAll(data []byte) bool {
	z, err := openArchive(data)
	if err != nil {
		return false
	}
	for _, name := range z.Names() {
		a, err := z.Array(context.Background(), name)
		if err != nil || !readArray(a) {
			return false
		}
	}
	return true
}

func readArray(a *Array) bool {
	if a.RowBytes() > 1<<16 || a.Rows() > 1<<16 || a.Rows()*a.RowBytes() > 1<<20 {
		return true
	}
	return Read(context.Background(), a, 0, a.Rows(), make([]float64, a.Rows()*a.RowValues())) == nil
}

func TestErrorsOfTheStoreAreKept(t *testing.T) {
	m := &memory{data: golden(t, "int64.npy")}
	a, err := Open(t.Context(), m, objects.Info{Name: "a.npy", Size: int64(len(m.data))})
	if err != nil {
		t.Fatal(err)
	}
	m.data = m.data[:130]
	err = Read(t.Context(), a, 0, 3, make([]int64, 3))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want io.ErrUnexpectedEOF in it", err)
	}
	wantError(t, err, "rows 0 to 2")
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"float32.npy", "bigendian.npy", "version3.npy", "object.npy", "struct.npy", "column.npy"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, _, err := open(data)
		if err != nil {
			return
		}
		if !readArray(a) {
			t.Error("an array that was opened has a row that cannot be read")
		}
	})
}

func FuzzArchive(f *testing.F) {
	for _, name := range []string{"stored.npz", "deflated.npz"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) { readAll(data) })
}
