package objects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// A block's file is, little-endian:
//
//	offset  size   field
//	     0     8   magic      "PGNBLK1\n"
//	     8     8   length     of the data in bytes
//	    16    4n   checksums  CRC-32C of each page of 64 KiB, n = ⌈length/64 KiB⌉
//	16+4n     4   checksum   CRC-32C of all that stands before
//	20+4n  length  data
const (
	blockMagic = "PGNBLK1\n"
	blockPage  = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func blockPages(length int64) int64 { return (length + blockPage - 1) / blockPage }

func blockHeaderSize(length int64) int64 { return 20 + 4*blockPages(length) }

// blockFileSize is the size of the file of a block.
func blockFileSize(length int64) int64 { return blockHeaderSize(length) + length }

// blockHeader is what stands before the data of a block.
func blockHeader(data []byte) []byte {
	length := int64(len(data))
	h := make([]byte, 0, blockHeaderSize(length))
	h = append(h, blockMagic...)
	h = binary.LittleEndian.AppendUint64(h, uint64(length))
	for len(data) > 0 {
		n := min(len(data), blockPage)
		h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(data[:n], castagnoli))
		data = data[n:]
	}
	return binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
}

// errDamaged is in the chain of errors of blocks that are not as they were written.
var errDamaged = errors.New("the block is damaged")

// touchAfter is how old the time of a block's last use may be: it is not set by each read.
const touchAfter = time.Minute

// readBlockFile fills p with what a block has from off on, and verifies it. The range is in the
// block, whose length is known.
func readBlockFile(path string, length int64, p []byte, off int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != blockFileSize(length) {
		return fmt.Errorf("%w: it has %d bytes, want %d", errDamaged, info.Size(), blockFileSize(length))
	}
	header := make([]byte, blockHeaderSize(length))
	if _, err := f.ReadAt(header, 0); err != nil {
		return err
	}
	rest := header[:len(header)-4]
	if string(header[:8]) != blockMagic || binary.LittleEndian.Uint64(header[8:]) != uint64(length) ||
		binary.LittleEndian.Uint32(header[len(rest):]) != crc32.Checksum(rest, castagnoli) {
		return fmt.Errorf("%w: its header is not sound", errDamaged)
	}
	if err := readPages(f, header[16:len(rest)], length, p, off); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(info.ModTime()) > touchAfter {
		// Without the new time the block goes earlier than it should.
		_ = os.Chtimes(path, now, now)
	}
	return nil
}

// readPages reads the pages of a range, and verifies them.
func readPages(f io.ReaderAt, sums []byte, length int64, p []byte, off int64) error {
	first := off / blockPage
	end := min((off+int64(len(p))+blockPage-1)/blockPage*blockPage, length)
	whole := p
	if off != first*blockPage || off+int64(len(p)) != end {
		whole = make([]byte, end-first*blockPage)
	}
	if _, err := f.ReadAt(whole, blockHeaderSize(length)+first*blockPage); err != nil {
		return err
	}
	for i, left := first, whole; len(left) > 0; i++ {
		n := min(len(left), blockPage)
		if binary.LittleEndian.Uint32(sums[4*i:]) != crc32.Checksum(left[:n], castagnoli) {
			return fmt.Errorf("%w: page %d has another checksum", errDamaged, i)
		}
		left = left[n:]
	}
	copy(p, whole[off-first*blockPage:])
	return nil
}
