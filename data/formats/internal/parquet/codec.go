package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecLZO    = 3
	codecBrotli = 4
	codecLZ4    = 5
	codecZstd   = 6
	codecLZ4Raw = 7
)

// checkCodec refuses codecs that are not read.
func checkCodec(codec int) error {
	switch codec {
	case codecNone, codecSnappy, codecGzip, codecBrotli, codecZstd, codecLZ4Raw:
		return nil
	case codecLZO:
		return errors.New("it is compressed with LZO, which is not read: write it with snappy or zstd")
	case codecLZ4:
		return errors.New("it is compressed with Hadoop's LZ4, which is not read: write it with lz4_raw, snappy or zstd")
	}
	return fmt.Errorf("it is compressed with codec %d, which is unknown", codec)
}

// zstdReaders are decoders that write no further than the room that they get.
var zstdReaders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	return d
}}

// decompress fills dst, no more and no less, from src.
func decompress(codec int, dst, src []byte) error {
	var n int
	var err error
	switch codec {
	case codecNone:
		n = len(src)
		if n == len(dst) {
			copy(dst, src)
		}
	case codecSnappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
	case codecLZ4Raw:
		n, err = lz4.UncompressBlock(src, dst)
	case codecZstd:
		switch d := zstdReaders.Get().(type) {
		case error:
			return d
		case *zstd.Decoder:
			defer zstdReaders.Put(d)
			var out []byte
			out, err = d.DecodeAll(src, dst[:0:len(dst)])
			n = len(out)
		}
	case codecGzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			return readAll(z, dst)
		}
	case codecBrotli:
		return readAll(brotli.NewReader(bytes.NewReader(src)), dst)
	default:
		err = checkCodec(codec)
	}
	if err == nil && n != len(dst) {
		err = fmt.Errorf("%d bytes come out, want %d", n, len(dst))
	}
	return err
}

// readAll fills dst, at whose end r must end.
func readAll(r io.Reader, dst []byte) error {
	if _, err := io.ReadFull(r, dst); err != nil {
		return fmt.Errorf("fewer than %d bytes come out: %w", len(dst), err)
	}
	var one [1]byte
	n, err := io.ReadFull(r, one[:])
	if n > 0 {
		return fmt.Errorf("more than %d bytes come out", len(dst))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
