package tarshards

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// blockSize is the unit of a tar archive: heads have one block, and data fill whole ones.
	blockSize = 512
	// maxNote bounds what describes the member that follows: a long name, or PAX records.
	maxNote = 1 << 20
	// maxName bounds a member's name.
	maxName = 1 << 16
)

// A head is the block before a member's data.
type head struct {
	name string
	size int64

	// kind is '0' for a file, '5' for a directory, 'L' for a long name, 'x' for PAX records, and so
	// on.
	kind byte
}

// The kinds of heads that need more than a glance.
const (
	kindFile = '0'

	// kindLongName is GNU's: the data are the name of the next member.
	kindLongName = 'L'

	kindLongLink = 'K'

	// kindPax says that the data are records of the next member.
	kindPax = 'x'

	kindPaxGlobal  = 'g'
	kindSparse     = 'S' // GNU: a file with holes
	kindContiguous = '7'
)

// parseHead reads a block; zero says that it is empty, as at the end of an archive.
func parseHead(b *[blockSize]byte) (h head, zero bool, err error) {
	if *b == [blockSize]byte{} {
		return head{}, true, nil
	}
	if err := checkSum(b); err != nil {
		return head{}, false, err
	}
	h.kind = b[156]
	if h.size, err = parseSize(b[124:136]); err != nil {
		return head{}, false, err
	}
	h.name = text(b[:100])
	if string(b[257:263]) == "ustar\x00" {
		if prefix := text(b[345:500]); prefix != "" {
			h.name = prefix + "/" + h.name
		}
	}
	switch h.kind {
	case 0, kindContiguous:
		h.kind = kindFile
	}
	if h.kind == kindFile && strings.HasSuffix(h.name, "/") {
		// Archives older than POSIX write directories in this way.
		h.kind = '5'
	}
	if h.kind >= '1' && h.kind <= '6' {
		// Links, devices and directories have no data, whatever their size says.
		h.size = 0
	}
	return h, false, nil
}

// checkSum compares the sum that the head has with that of its bytes, with spaces in the sum's
// place. Old programs added the bytes as signed ones.
func checkSum(b *[blockSize]byte) error {
	want, err := parseOctal(b[148:156])
	if err != nil {
		return fmt.Errorf("no tar head: its checksum is %q", b[148:156])
	}
	var unsigned, signed int64
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	if want != unsigned && want != signed {
		return fmt.Errorf("no tar head, or a damaged one: its checksum is %d, want %d", want, unsigned)
	}
	return nil
}

// text is what comes before the first zero byte.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func parseOctal(b []byte) (int64, error) {
	s := strings.Trim(string(b), " \x00")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 8, 63)
	return int64(n), err
}

// parseSize reads a size in octal digits, or in base 256 if the first bit is set.
func parseSize(b []byte) (int64, error) {
	if b[0]&0x80 == 0 {
		n, err := parseOctal(b)
		if err != nil {
			return 0, fmt.Errorf("got size %q, want octal digits", b)
		}
		return n, nil
	}
	if b[0] != 0x80 || b[1]|b[2]|b[3] != 0 || b[4]&0x80 != 0 {
		return 0, fmt.Errorf("got a negative size or one of more than 63 bits (% x)", b)
	}
	return int64(binary.BigEndian.Uint64(b[4:12])), nil
}

// errSparse is of members with holes.
var errSparse = errors.New("a file with holes (a sparse one) has its data in pieces: pack the shard without --sparse")

// A pax has what PAX records say of the next member.
type pax struct {
	path string

	// size is −1 if it is not said.
	size int64
}

// parsePax reads records of the form "length key=value\n".
func parsePax(b []byte) (p pax, err error) {
	p.size = -1
	for len(b) > 0 {
		space := bytes.IndexByte(b[:min(len(b), 20)], ' ')
		if space < 0 {
			return p, fmt.Errorf("got PAX record %q, want \"length key=value\"", b[:min(len(b), 40)])
		}
		n, err := strconv.ParseUint(string(b[:space]), 10, 32)
		if err != nil || n > uint64(len(b)) || n < uint64(space)+3 || b[n-1] != '\n' {
			return p, fmt.Errorf("got PAX record %q, whose length is wrong", b[:min(len(b), 40)])
		}
		record := string(b[space+1 : n-1])
		b = b[n:]
		key, value, ok := strings.Cut(record, "=")
		if !ok {
			return p, fmt.Errorf("got PAX record %q, want \"length key=value\"", record[:min(len(record), 40)])
		}
		switch {
		case strings.HasPrefix(key, "GNU.sparse."):
			return p, errSparse
		case key == "path":
			if strings.IndexByte(value, 0) >= 0 {
				return p, errors.New("got a PAX path with a zero byte in it")
			}
			p.path = value
		case key == "size":
			size, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return p, fmt.Errorf("got PAX size %q, want digits", value)
			}
			p.size = int64(size)
		}
	}
	return p, nil
}

// padded is the size of data with the zeros that fill its last block.
func padded(size int64) int64 {
	if size > math.MaxInt64-blockSize {
		return math.MaxInt64
	}
	return (size + blockSize - 1) / blockSize * blockSize
}
