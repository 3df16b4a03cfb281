package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// metaSums is the key of the metadata with the file's checksums: CRC-32C (Castagnoli), eight
// hexadecimal digits each, a space between two. The first is that of everything before the data,
// with these eight digits as zeros; then comes one for each tensor, in the order of the data. The
// first one so stands for the whole file.
const metaSums = "paragon.crc32c"

// castagnoli is the polynomial that processors of amd64 and arm64 have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumPlaceholder is in the checksum's place while the checksum of a file is computed, as that field
// cannot cover itself.
const sumPlaceholder = "00000000"

// sumText is a checksum as it is written, always of the same length.
func sumText(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// parseSum is strict: one spelling for each number.
func parseSum(text string) (sum uint32, err error) {
	if len(text) != len(sumPlaceholder) || strings.Trim(text, "0123456789abcdef") != "" {
		return 0, fmt.Errorf("got the checksum %.20q, want eight hexadecimal digits", text)
	}
	_, err = fmt.Sscanf(text, "%08x", &sum)
	return sum, err
}

// fieldAt returns where the value behind a field's name begins in JSON text, or -1. A quote within
// a string has a backslash before it.
func fieldAt(text, field []byte) int {
	for from := 0; ; {
		i := bytes.Index(text[from:], field)
		if i < 0 {
			return -1
		}
		if at := from + i; at > 0 && text[at-1] != '\\' {
			return at + len(field)
		}
		from += i + len(field)
	}
}

// sealed puts the checksum of text in the place of noSum, the value of a field.
func sealed(text, field []byte) ([]byte, error) {
	at := fieldAt(text, field)
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(sumPlaceholder)) {
		return nil, fmt.Errorf("checkpoint: got text without %s%s", field, sumPlaceholder)
	}
	copy(text[at:], sumText(crc32.Checksum(text, castagnoli)))
	return text, nil
}

// unsealed returns the checksum that is the value of a field in text, and the one that text has.
func unsealed(text, field []byte) (noted, got uint32, err error) {
	at := fieldAt(text, field)
	if at < 0 || len(text) < at+len(sumPlaceholder) {
		return 0, 0, fmt.Errorf("got no checksum after %s", field)
	}
	if noted, err = parseSum(string(text[at : at+len(sumPlaceholder)])); err != nil {
		return 0, 0, err
	}
	got = crc32.Update(0, castagnoli, text[:at])
	got = crc32.Update(got, castagnoli, []byte(sumPlaceholder))
	return noted, crc32.Update(got, castagnoli, text[at+len(sumPlaceholder):]), nil
}

// summing is a writer that adds up the checksum of what is written, and passes it on.
type summing struct {
	w   io.Writer
	sum uint32
}

// Write adds up what it passes on.
func (s *summing) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	return n, err
}

// headerSums is where the header's text has its first checksum; quotes within strings are escaped,
// so it cannot be elsewhere.
var headerSums = []byte(`"` + metaSums + `":"`)

// errChanged: a tensor's values changed between the two passes of Write.
var errChanged = errors.New("its values changed while it was written")
