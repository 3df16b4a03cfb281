package logfile

import (
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const hexDigits = "0123456789abcdef"

// AppendSum ends the line that begins at byte from of b: with the CRC-32C of its bytes so far, a
// closing brace and a newline.
func AppendSum(b []byte, from int) []byte {
	sum := crc32.Checksum(b[from:], castagnoli)
	b = append(b, `,"sum":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[sum>>shift&15])
	}
	return append(b, "\"}\n"...)
}

// sumLen is the length of what AppendSum adds, without the newline.
const sumLen = len(`,"sum":"01234567"}`)

// CutSum is a line, without its newline, as it was before AppendSum. It is an error if the sum is
// not that of its bytes.
func CutSum(line []byte) (body []byte, err error) {
	if len(line) < sumLen {
		return nil, fmt.Errorf("got %d bytes, want at least %d", len(line), sumLen)
	}
	body, tail := line[:len(line)-sumLen], line[len(line)-sumLen:]
	if got, want := string(tail), fmt.Sprintf(`,"sum":"%08x"}`, crc32.Checksum(body, castagnoli)); got != want {
		return nil, fmt.Errorf("ends in %q, want %q", got, want)
	}
	return body, nil
}
