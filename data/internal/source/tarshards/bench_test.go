package tarshards

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// BenchmarkIndex indexes a local shard of samples as large as ImageNet's, whose images are holes of
// the file system:
//
//	go test -run XXX -bench Index -benchtime 5x ./data/internal/source/tarshards
func BenchmarkIndex(b *testing.B) {
	const samples, imageSize = 20_000, 110_000
	folder := b.TempDir()
	f, err := os.Create(filepath.Join(folder, "a.tar"))
	if err != nil {
		b.Fatal(err)
	}
	var block bytes.Buffer
	off := int64(0)
	add := func(name string, size int64) {
		block.Reset()
		if err := tar.NewWriter(&block).WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o444}); err != nil {
			b.Fatal(err)
		}
		if _, err := f.WriteAt(block.Bytes(), off); err != nil {
			b.Fatal(err)
		}
		off += blockSize + padded(size)
	}
	for i := range samples {
		add(fmt.Sprintf("n%08d/%08d.cls", i/1000, i), 3)
		add(fmt.Sprintf("n%08d/%08d.jpg", i/1000, i), imageSize)
	}
	if err := f.Truncate(off + 2*blockSize); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	store, err := objects.Open(b.Context(), folder)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%t", kept), func(b *testing.B) {
			index := filepath.Join(folder, "a.tar.index")
			for b.Loop() {
				if !kept {
					os.Remove(index)
				}
				s, err := Open(b.Context(), store, Config{})
				if err != nil {
					b.Fatal(err)
				}
				if s.Len() != samples {
					b.Fatalf("got %d samples, want %d", s.Len(), samples)
				}
			}
			b.ReportMetric(float64(samples)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
			if info, err := os.Stat(index); err == nil {
				b.ReportMetric(float64(info.Size())/samples, "index-bytes/sample")
			}
		})
	}
}
