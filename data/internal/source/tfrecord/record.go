package tfrecord

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/paragon-train/paragon/data/internal/source/skim"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A record is, little-endian:
//
//	offset  size  field
//	     0     8  n, the length of the data
//	     8     4  masked CRC-32C of these 8 bytes
//	    12     n  the data
//	  12+n     4  masked CRC-32C of the data
const (
	headSize  = 12
	frameSize = headSize + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a record: a CRC of data that has CRCs in it would be weak.
func masked(p []byte) uint32 {
	c := crc32.Checksum(p, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

var (
	errCut = errors.New("the file is cut short")
	errZip = errors.New("the file is compressed (GZIP or ZLIB), so that no example can be read without all before it: " +
		"decompress it (gunzip); images are compressed already")
)

// parseHead returns the length of the data of a record.
func parseHead(head []byte) (uint64, error) {
	if got, want := binary.LittleEndian.Uint32(head[8:]), masked(head[:8]); got != want {
		return 0, fmt.Errorf("the checksum of the length is %08x, want %08x: the file is damaged, or no TFRecord file", got, want)
	}
	return binary.LittleEndian.Uint64(head), nil
}

// looksZipped reports whether a file begins as a compressed one.
func looksZipped(p []byte) bool {
	return p[0] == 0x1f && p[1] == 0x8b || p[0] == 0x78 && binary.BigEndian.Uint16(p)%31 == 0
}

// scan reads the heads of the records of a file in order and calls found with the size of each
// record. Data are skipped.
func scan(ctx context.Context, store objects.Store, file objects.Info, found func(size int64)) error {
	heads := skim.New(ctx, store, file)
	defer heads.Close()
	at := func(off int64, err error) error {
		return fmt.Errorf("%s: %s: at byte %d: %w", store.URL(), file.Name, off, err)
	}
	for off := int64(0); off < file.Size; {
		left := file.Size - off
		if left < frameSize {
			return at(off, fmt.Errorf("%w: got %d bytes, want a record of at least %d", errCut, left, frameSize))
		}
		var head [headSize]byte
		if err := heads.Read(head[:], off); err != nil {
			return at(off, err)
		}
		n, err := parseHead(head[:])
		switch {
		case err != nil && off == 0 && looksZipped(head[:]):
			return at(off, errZip)
		case err != nil:
			return at(off, err)
		case n > uint64(left-frameSize):
			return at(off, fmt.Errorf("%w: a record of %d bytes begins, and %d are left", errCut, n, left-frameSize))
		}
		size := int64(n) + frameSize
		found(size)
		off += size
	}
	return nil
}

// parseIdx reads an index of "offset size" lines, as tfrecord2idx writes them, into the records'
// offsets and the end of the last. ok is false if these are not all bytes of a file of this size.
func parseIdx(text []byte, fileSize int64) (offsets []int64, ok bool) {
	at := int64(0)
	offsets = append(offsets, 0)
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) != 2 {
			return nil, false
		}
		off, err1 := strconv.ParseInt(string(words[0]), 10, 64)
		size, err2 := strconv.ParseInt(string(words[1]), 10, 64)
		if err1 != nil || err2 != nil || off != at || size < frameSize || size > fileSize-at {
			return nil, false
		}
		at += size
		offsets = append(offsets, at)
	}
	return offsets, at == fileSize
}

// An index of our own is the sizes of the records as varints.

func appendSize(index []byte, size int64) []byte { return binary.AppendUvarint(index, uint64(size)) }

// parseIndex is parseIdx for an index of our own.
func parseIndex(index []byte, fileSize int64) (offsets []int64, ok bool) {
	at := int64(0)
	offsets = append(offsets, 0)
	for len(index) > 0 {
		size, used := binary.Uvarint(index)
		if used <= 0 || size < frameSize || size > uint64(fileSize-at) {
			return nil, false
		}
		index = index[used:]
		at += int64(size)
		offsets = append(offsets, at)
	}
	return offsets, at == fileSize
}

// Append appends a record with these data to a file's bytes.
func Append(file, data []byte) []byte {
	var head [headSize]byte
	binary.LittleEndian.PutUint64(head[:], uint64(len(data)))
	binary.LittleEndian.PutUint32(head[8:], masked(head[:8]))
	file = append(file, head[:]...)
	file = append(file, data...)
	return binary.LittleEndian.AppendUint32(file, masked(data))
}
