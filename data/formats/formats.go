// Package formats adds formats to package data that need libraries of others. A program that
// imports it, if only for that,
//
//	import _ "github.com/paragon-train/paragon/data/formats"
//
// reads, besides what package data reads itself,
//
//   - tables of Parquet (data.OpenTable, data.OpenClicks), by row groups, compressed with snappy,
//     gzip, zstd, brotli or lz4_raw;
//   - images in Parquet, as Hugging Face's datasets keep them: a struct of bytes and a path, or
//     bytes, and a label;
//   - images as WebP, BMP and TIFF, besides JPEG and PNG;
//   - what is compressed with zstd.
//
// It is a module of its own, so that a program without it inherits none of these libraries.
package formats

import (
	"io"

	"github.com/klauspost/compress/zstd"
	_ "golang.org/x/image/bmp"  // registers the format
	_ "golang.org/x/image/tiff" // registers the format
	_ "golang.org/x/image/webp" // registers the format

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/formats/internal/parquet"
	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/table"
)

func init() {
	suffixes := []string{".parquet", ".pq"}
	table.Register(table.Format{Name: "parquet", Suffixes: suffixes, Open: parquet.Open})
	source.Register(source.Format{Name: "parquet", Suffixes: suffixes, Open: parquet.OpenImages})
	data.RegisterDecompressor("zstd", func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	})
}
