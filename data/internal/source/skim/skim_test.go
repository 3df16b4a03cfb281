package skim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func TestPiecesAreTheObjects(t *testing.T) {
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i >> 3 * 7)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	local, err := objects.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	for _, store := range []objects.Store{local, objectstest.New(map[string][]byte{"x": data})} {
		info, err := store.Stat(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		r := New(t.Context(), store, info)
		for _, piece := range [][2]int{{0, 12}, {12, 512}, {4000, 200}, {4100, 5000}, {200_000, 7}, {200_000, 0}, {299_990, 10}, {100, 3}} {
			p := make([]byte, piece[1])
			if err := r.Read(p, int64(piece[0])); err != nil || !bytes.Equal(p, data[piece[0]:piece[0]+piece[1]]) {
				t.Errorf("%s: %d bytes at %d are others (%v)", store.URL(), piece[1], piece[0], err)
			}
		}
		for _, off := range []int64{299_995, 300_000} {
			if err := r.Read(make([]byte, 10), off); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: behind the end: got %v, want io.ErrUnexpectedEOF", store.URL(), err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
