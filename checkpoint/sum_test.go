package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// Each bit of a file counts: one that is flipped is found when the file is opened or verified, and
// by who reads the tensor. A flip in the name of the checksums makes a sound file without
// checksums; a reader that requires checksums refuses it.
func TestEveryFlippedBitIsFound(t *testing.T) {
	values := []float32{1, -2, 3.5}
	whole := encode(t, map[string]string{"note": `"paragon.crc32c":"00000000`, "z": "1"},
		Float32s("w", []int{3}, values), Uint8s("bytes", []int{2}, []uint8{3, 4}), Float32sAs("none", BF16, []int{0}, nil))
	if f := decode(t, whole); !f.HasChecksums() || f.Verify() != nil {
		t.Fatalf("whole: has checksums %v, verify: %v", f.HasChecksums(), f.Verify())
	}
	unnoticed := 0
	for at := range whole {
		for bit := range 8 {
			b := slices.Clone(whole)
			b[at] ^= 1 << bit
			f, err := NewFile(bytes.NewReader(b), int64(len(b)), "x.safetensors")
			if err == nil && f.HasChecksums() {
				err = f.Verify()
				got, raw := make([]float32, 3), make([]byte, 2)
				read := errors.Join(f.ReadFloat32s("w", got), f.ReadUint8s("bytes", raw))
				if read == nil || !errors.Is(read, ErrDamaged) || !strings.Contains(read.Error(), `x.safetensors: tensor "`) {
					t.Errorf("byte %d bit %d: read: got error %v, want one that names file and tensor", at, bit, read)
				}
			}
			if err == nil && !f.HasChecksums() {
				unnoticed++
				got := make([]float32, 3)
				if err := f.ReadFloat32s("w", got); err != nil || !slices.Equal(got, values) || f.Metadata()["z"] != "1" {
					t.Errorf("byte %d bit %d: got a file without checksums and %v (%v)", at, bit, got, err)
				}
				continue
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "x.safetensors") {
				t.Errorf("byte %d bit %d: got error %v, want %v", at, bit, err, ErrDamaged)
			}
		}
	}
	if unnoticed > 8*len(metaSums) {
		t.Errorf("%d flips made a file without checksums, want at most those in the %d bytes of their name", unnoticed, len(metaSums))
	}
	for n := range whole {
		if _, err := NewFile(bytes.NewReader(whole[:n]), int64(n), "x.safetensors"); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d bytes: got error %v", n, err)
		}
	}
}

// A tensor whose values change while it is written is an error, not a file that cannot be read.
func TestValuesThatChangeWhileTheyAreWrittenAreAnError(t *testing.T) {
	n := byte(0)
	err := Write(io.Discard, nil, []Tensor{Stream("w", U8, []int{1}, func(w io.Writer) error { n++; _, err := w.Write([]byte{n}); return err })})
	if !errors.Is(err, errChanged) || !strings.Contains(err.Error(), `"w"`) {
		t.Errorf("got error %v, want one that names the tensor", err)
	}
	if err := Write(io.Discard, map[string]string{metaSums: ""}, nil); err == nil {
		t.Error("metadata of that name: got no error")
	}
}

// Types that this package has no numbers of are listed and read as bytes; the others of the file
// are read as ever.
func TestOtherTypesDoNotKeepAFileFromBeingRead(t *testing.T) {
	for _, c := range []struct {
		dtype string
		shape string
		bytes int
	}{{"F8_E4M3", "[3]", 3}, {"F8_E5M2", "[1,2]", 2}, {"F8_E8M0", "[1]", 1}, {"F8_E4M3FNUZ", "[1]", 1}, {"F8_E5M2FNUZ", "[1]", 1}, {"C64", "[2]", 16},
		{"F4", "[2,3]", 3}, {"F6_E2M3", "[4]", 3}, {"F6_E3M2", "[2,4]", 6}, {"F9_OF_TOMORROW", "[7]", 11}} {
		b := raw(fmt.Sprintf(`{"other":{"dtype":%q,"shape":%s,"data_offsets":[0,%d]},"w":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}}`,
			c.dtype, c.shape, c.bytes, c.bytes, c.bytes+4), strings.Repeat("x", c.bytes)+"\x00\x00\x80\x3f")
		f, err := NewFile(bytes.NewReader(b), int64(len(b)), "x.safetensors")
		if err != nil {
			t.Errorf("%s: %v", c.dtype, err)
			continue
		}
		w, other := make([]float32, 1), make([]byte, c.bytes)
		if err := f.ReadFloat32s("w", w); err != nil || w[0] != 1 {
			t.Errorf("%s: w beside it: got %v (%v)", c.dtype, w, err)
		}
		if err := f.ReadBytes("other", other); err != nil || string(other) != strings.Repeat("x", c.bytes) {
			t.Errorf("%s: bytes: got %q (%v)", c.dtype, other, err)
		}
		if err := f.ReadFloat32s("other", w); err == nil || !strings.Contains(err.Error(), `tensor "other": got type `+c.dtype) {
			t.Errorf("%s: as numbers: got error %v, want one that names the type", c.dtype, err)
		}
		if f.HasChecksums() {
			t.Errorf("%s: got checksums, want none", c.dtype)
		}
	}
	size := raw(`{"c":{"dtype":"C64","shape":[2],"data_offsets":[0,8]}}`, "12345678")
	if _, err := NewFile(bytes.NewReader(size), int64(len(size)), "x"); !errors.Is(err, ErrDamaged) {
		t.Errorf("8 bytes for two of C64: got error %v", err)
	}
}

// testManifest is as package worker has one.
type testManifest struct {
	Steps int `json:"steps"`
	Manifest
}

func TestAManifestKnowsItsFiles(t *testing.T) {
	ctx, place := context.Background(), Folder(t.TempDir())
	step := &Saved{Steps: 7}
	for name, value := range map[string]float32{StoreFile: 1, WorkerFile(0): 2, WorkerFile(2): 3} {
		if err := SaveTo(ctx, place, step.Name(name), nil, []Tensor{Float32s("w", []int{1}, []float32{value})}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := step.FileSums(ctx, place, 3)
	if err != nil || len(files) != 3 {
		t.Fatalf("got %v (%v), want three files: rank 1 has none here", files, err)
	}
	if err := WriteManifest(ctx, place, 7, testManifest{7, Sealed(files)}); err != nil {
		t.Fatal(err)
	}
	all, err := ListSaved(ctx, place)
	if err != nil || len(all) != 1 || !all[0].Complete() {
		t.Fatalf("got %v (%v)", all, err)
	}
	var m testManifest
	own, err := all[0].ReadManifest(ctx, place, &m)
	if err != nil || m.Steps != 7 || !slices.Equal(own.Files, files) {
		t.Fatalf("got %+v, %+v (%v)", m, own, err)
	}
	if err := step.Verify(ctx, place, own); err != nil {
		t.Error(err)
	}
	if err := SaveTo(ctx, place, step.Name(WorkerFile(2)), nil, []Tensor{Float32s("w", []int{1}, []float32{4})}); err != nil {
		t.Fatal(err)
	}
	if err := step.Verify(ctx, place, own); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "worker-2.safetensors") {
		t.Errorf("another file in its place: got error %v", err)
	}
	if err := place.Remove(ctx, step.Name(WorkerFile(2))); err != nil {
		t.Fatal(err)
	}
	if err := step.Verify(ctx, place, own); !errors.Is(err, ErrDamaged) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is gone: got error %v", err)
	}
}

func manifestOf(t testing.TB, m testManifest) []byte {
	t.Helper()
	disk := folder{&vfs.Mem{}, "."}
	if err := WriteManifest(context.Background(), disk, 7, m); err != nil {
		t.Fatal(err)
	}
	text, err := readText(context.Background(), disk, (&Saved{Steps: 7}).Name(ManifestFile), manifestLimit)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEveryFlippedBitOfAManifestIsFound(t *testing.T) {
	whole := manifestOf(t, testManifest{7, Sealed([]FileSum{{StoreFile, 100, "01234567"}, {"worker-0.safetensors", 3, "89abcdef"}})})
	for at := range whole {
		for bit := range 8 {
			b := slices.Clone(whole)
			b[at] ^= 1 << bit
			var m testManifest
			if own, err := parseManifest(b, &m); err == nil {
				t.Errorf("byte %d bit %d: got no error and %+v", at, bit, own)
			}
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(manifestOf(f, testManifest{7, Sealed([]FileSum{{StoreFile, 100, "01234567"}})}))
	f.Add([]byte(`{"steps": 3}`))
	f.Add([]byte(`{"manifest_crc32c": "00000000", "files": null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m testManifest
		own, err := parseManifest(b, &m)
		if err != nil {
			return
		}
		for _, x := range own.Files {
			if strings.ContainsAny(x.Name, "/") || x.Name == "" {
				t.Errorf("got the file name %q", x.Name)
			}
		}
		if own.Checksum == "" {
			return
		}
		var again testManifest
		if _, err := parseManifest(manifestOf(t, testManifest{m.Steps, Sealed(own.Files)}), &again); err != nil {
			t.Errorf("written again: %v", err)
		}
	})
}
