package data

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func idx(dims []uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0x800|uint32(len(dims)))
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, body...)
}

func TestMNISTLoadsPlainFilesOfAnySize(t *testing.T) {
	dir := t.TempDir()
	for _, prefix := range []string{"train", "t10k"} {
		writeFile(t, filepath.Join(dir, prefix+"-images-idx3-ubyte"), idx([]uint32{2, 2, 3}, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}))
		writeFile(t, filepath.Join(dir, prefix+"-labels-idx1-ubyte"), idx([]uint32{2}, []byte{9, 4}))
	}
	train, _, err := LoadMNIST(dir)
	if err != nil {
		t.Fatal(err)
	}
	if train.Shape() != (Shape{1, 2, 3}) || train.Len() != 2 || train.Label(0) != 9 || !bytes.Equal(train.Pixels(1), []byte{6, 7, 8, 9, 10, 11}) {
		t.Errorf("got %d images of %v, labels %v, pixels %v", train.Len(), train.Shape(), train.labels, train.pixels)
	}
	writeFile(t, filepath.Join(dir, "train-labels-idx1-ubyte"), idx([]uint32{1}, []byte{9}))
	if _, _, err := LoadMNIST(dir); err == nil || !strings.Contains(err.Error(), "has 2 images") {
		t.Errorf("2 images and 1 label: got error %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "t10k-images-idx3-ubyte")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "train-labels-idx1-ubyte"), idx([]uint32{2}, []byte{9, 4}))
	if _, _, err := LoadMNIST(dir); err == nil || !strings.Contains(err.Error(), "t10k-images-idx3-ubyte") {
		t.Errorf("missing file: got error %v, want its name", err)
	}
}

func TestDamagedIdxIsAnErrorWithFileAndByte(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"magic", []byte{0, 0, 8, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1}, "byte 0: got magic 0x00000809, want 0x00000803"},
		{"header", []byte{0, 0, 8, 3, 0}, "header: ends at byte 5, want 16"},
		{"huge", idx([]uint32{1 << 31, 28, 28}, nil), "byte 4: got 2147483648 images"},
		{"wide", idx([]uint32{1, 28, 1 << 31}, nil), "byte 4: got 1 images of 28×2147483648"},
		{"zero", idx([]uint32{1, 0, 28}, nil), "byte 4"},
		{"short", idx([]uint32{10, 28, 28}, make([]byte, 100)), "pixels: ends at byte 116, want 7856"},
		{"long", idx([]uint32{1, 1, 1}, make([]byte, 2)), "more bytes follow byte 17"},
	} {
		s := &source{name: "images", r: bytes.NewReader(c.b)}
		if _, _, err := readIdxImages(s); err == nil || !strings.Contains(err.Error(), "data: images: "+c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
	s := &source{name: "labels", r: bytes.NewReader(idx([]uint32{3}, []byte{1, 2, 10}))}
	if _, err := readIdxLabels(s, 10); err == nil || !strings.Contains(err.Error(), "byte 10: got label 10, want 0 to 9") {
		t.Errorf("label 10: got error %v", err)
	}
}

func FuzzIdx(f *testing.F) {
	f.Add(idx([]uint32{2, 2, 3}, make([]byte, 12)))
	f.Add(idx([]uint32{2}, []byte{1, 2}))
	f.Add(idx([]uint32{1 << 20, 1 << 9, 1}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if shape, pixels, err := readIdxImages(&source{name: "f", r: bytes.NewReader(b)}); err == nil {
			if again := idx([]uint32{uint32(len(pixels) / shape.Size()), uint32(shape.Height), uint32(shape.Width)}, pixels); !bytes.Equal(again, b) {
				t.Errorf("images: got %x, want %x", again, b)
			}
		}
		if labels, err := readIdxLabels(&source{name: "f", r: bytes.NewReader(b)}, 10); err == nil {
			if again := idx([]uint32{uint32(len(labels))}, labels); !bytes.Equal(again, b) {
				t.Errorf("labels: got %x, want %x", again, b)
			}
		}
	})
}
