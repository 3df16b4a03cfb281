package photos

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A set is the same each time, its images can be decoded and have several sizes, and a photograph
// that was given is in it.
func TestASetIsMadeAlikeEachTime(t *testing.T) {
	real := t.TempDir()
	photograph := Draw(99, Config{Classes: 2, Seed: 3, Largest: 40})
	if err := os.WriteFile(filepath.Join(real, "cat.JPG"), photograph, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Images: 17, Classes: 3, Seed: 5, Largest: 64, Real: real}
	folders := []string{t.TempDir(), t.TempDir()}
	for _, folder := range folders {
		if err := Make(folder, cfg); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Files(folders[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 17 || files[0].Label != 0 || files[16].Label != 2 {
		t.Fatalf("got %d files from label %d to %d, want 17 from 0 to 2", len(files), files[0].Label, files[len(files)-1].Label)
	}
	sizes, found := make(map[[2]int]bool), 0
	for _, f := range files {
		a, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(folders[1], f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two sets of one config", f.Name)
		}
		if bytes.Equal(a, photograph) {
			found++
		}
		c, err := jpeg.DecodeConfig(bytes.NewReader(a))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		sizes[[2]int{c.Width, c.Height}] = true
	}
	if len(sizes) < 8 || found != 1 {
		t.Errorf("got %d sizes and the photograph %d times, want several and once", len(sizes), found)
	}
}

// A record is cut where its magic number stands, as dmlc's writer does: the bytes are those of its
// description.
func TestRecordsAreCutAtTheirMagicNumber(t *testing.T) {
	magic := binary.LittleEndian.AppendUint32(nil, recordMagic)
	u32 := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct{ payload, want []byte }{
		"whole":  {[]byte("hello"), join(magic, u32(5), []byte("hello\x00\x00\x00"))},
		"magic":  {magic, join(magic, u32(1<<29), magic, u32(3<<29))},
		"inside": {join([]byte("abcd"), magic, magic, []byte("e")), join(magic, u32(1<<29|4), []byte("abcd"), magic, u32(2<<29), magic, u32(3<<29|1), []byte("e\x00\x00\x00"))},
		"aside":  {join([]byte("ab"), magic, []byte("c")), join(magic, u32(7), []byte("ab"), magic, []byte("c\x00"))},
	} {
		if got := appendRecord(nil, c.payload); !bytes.Equal(got, c.want) {
			t.Errorf("%s: got %x, want %x", name, got, c.want)
		}
	}
}

// Packed images have the bytes and the order of the folder.
func TestPackedImagesAreThoseOfTheFolder(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	if err := Make(folder, Config{Images: 7, Classes: 2, Largest: 24}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Record(filepath.Join(dir, "set.rec"), folder), Tars(dir, folder, 3)); err != nil {
		t.Fatal(err)
	}
	files, err := Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := os.ReadFile(filepath.Join(dir, "set.rec"))
	if err != nil {
		t.Fatal(err)
	}
	shards, err := filepath.Glob(filepath.Join(dir, "shard-*.tar"))
	if err != nil || len(shards) != 3 {
		t.Fatalf("got shards %q and error %v, want 3", shards, err)
	}
	var members [][]byte
	for _, shard := range shards {
		content, err := os.ReadFile(shard)
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(bytes.NewReader(content))
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(h.Name) == ".jpg" {
				members = append(members, b)
			}
		}
	}
	for i, f := range files {
		image, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if n := int(binary.LittleEndian.Uint32(rec[4:])); !bytes.Equal(rec[32:8+n], image) {
			t.Errorf("record %d is not %s", i, f.Name)
		} else {
			rec = rec[8+(n+3)&^3:]
		}
		if !bytes.Equal(members[i], image) {
			t.Errorf("member %d is not %s", i, f.Name)
		}
	}
}
