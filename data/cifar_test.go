package data

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallCIFAR returns the list of two inner files of a few records, and their
// bytes.
func smallCIFAR() ([]cifarFile, map[string][]byte) {
	files := []cifarFile{{name: "data_batch_1.bin", records: 3}, {name: "test_batch.bin", records: 2, test: true}}
	contents := map[string][]byte{}
	for k, f := range files {
		b := make([]byte, f.records*cifarRecord)
		for i := range b {
			b[i] = byte(i*7 + i/1024 + k)
		}
		for i := range f.records {
			b[i*cifarRecord] = byte((i + k) % 10)
		}
		sum := sha1.Sum(b)
		files[k].sha1 = hex.EncodeToString(sum[:])
		contents[f.name] = b
	}
	return files, contents
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func archiveOf(t *testing.T, files []cifarFile, contents map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, f := range files {
		b, ok := contents[f.name]
		if !ok {
			continue
		}
		if err := a.WriteHeader(&tar.Header{Name: "cifar-10-batches-bin/" + f.name, Mode: 0o644, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCIFARLoadsFromArchiveFolderAndFolderWithArchive(t *testing.T) {
	files, contents := smallCIFAR()
	flat, nested, packed := t.TempDir(), t.TempDir(), t.TempDir()
	for name, b := range contents {
		writeFile(t, filepath.Join(flat, name), b)
		writeFile(t, filepath.Join(nested, "cifar-10-batches-bin", name), b)
	}
	archive := filepath.Join(packed, "cifar-10-binary.tar.gz")
	writeFile(t, archive, archiveOf(t, files, contents))
	for _, where := range []string{flat, nested, packed, archive} {
		train, test, err := loadCIFAR(where, files)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if train.Len() != 3 || test.Len() != 2 || train.Label(2) != 2 || test.Label(1) != 2 {
			t.Errorf("%s: got %d and %d images, labels %v and %v", where, train.Len(), test.Len(), train.labels, test.labels)
		}
		pixels := make([]uint8, cifarShape.Size())
		if _, err := train.Read(1, pixels); err != nil || !bytes.Equal(pixels, contents["data_batch_1.bin"][cifarRecord+1:2*cifarRecord]) {
			t.Errorf("%s: image 1: got other pixels than the file's (%v)", where, err)
		}
	}
}

func TestDamagedCIFARIsAnErrorWithFileAndByte(t *testing.T) {
	files, contents := smallCIFAR()
	change := func(edit func(b []byte) []byte) map[string][]byte {
		c := map[string][]byte{"test_batch.bin": contents["test_batch.bin"]}
		if b := edit(bytes.Clone(contents["data_batch_1.bin"])); b != nil {
			c["data_batch_1.bin"] = b
		}
		return c
	}
	for _, c := range []struct {
		name     string
		contents map[string][]byte
		want     []string
	}{
		{"short", change(func(b []byte) []byte { return b[:7000] }), []string{"data_batch_1.bin", "image 2 of 3: ends at byte 7000, want 9219", "fetch it again"}},
		{"empty", change(func(b []byte) []byte { return []byte{} }), []string{"image 0 of 3: ends at byte 0, want 3073"}},
		{"long", change(func(b []byte) []byte { return append(b, 1) }), []string{"more bytes follow byte 9219"}},
		{"pixel", change(func(b []byte) []byte { b[5000] ^= 1; return b }), []string{"bytes 0 to 9218: got SHA-1", "want " + files[0].sha1}},
		{"label", change(func(b []byte) []byte { b[cifarRecord] = 200; return b }), []string{"byte 3073: got label 200, want 0 to 9"}},
		{"missing", change(func(b []byte) []byte { return nil }), []string{"data_batch_1.bin"}},
	} {
		folder, archive := t.TempDir(), filepath.Join(t.TempDir(), "a.tar.gz")
		for name, b := range c.contents {
			writeFile(t, filepath.Join(folder, name), b)
		}
		writeFile(t, archive, archiveOf(t, files, c.contents))
		for _, where := range []string{folder, archive} {
			_, _, err := loadCIFAR(where, files)
			if err == nil {
				t.Errorf("%s in %s: got no error", c.name, filepath.Base(where))
				continue
			}
			for _, want := range append(c.want, where) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got error %q, want %q in it", c.name, err, want)
				}
			}
		}
	}
}

func TestADamagedArchiveIsAnError(t *testing.T) {
	files, contents := smallCIFAR()
	good := archiveOf(t, files, contents)
	path := filepath.Join(t.TempDir(), "a.tar.gz")

	// The last 8 bytes are gzip's own check.
	for n := 0; n < len(good)-8; n += 97 {
		writeFile(t, path, good[:n])
		if _, _, err := loadCIFAR(path, files); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("cut to %d of %d bytes: got error %v, want one that names the file", n, len(good), err)
		}
	}
	for n := 12; n < len(good)-1100; n += 61 {
		bad := bytes.Clone(good)
		bad[n] ^= 0x55
		writeFile(t, path, bad)
		if _, _, err := loadCIFAR(path, files); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d changed: got error %v, want one that names the file", n, err)
		}
	}
	if _, _, err := loadCIFAR(filepath.Join(t.TempDir(), "none"), files); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none: no such file or directory; fetch") {
		t.Errorf("no such path: got error %v, want advice", err)
	}
	if _, _, err := loadCIFAR(t.TempDir(), files); err == nil || !strings.Contains(err.Error(), "fetch the binary version") {
		t.Errorf("empty folder: got error %v, want advice", err)
	}
}
