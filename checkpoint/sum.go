package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/shown"
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

// takeSums takes the checksums from the metadata, and compares the first one with the header. head
// is the header's whole text, with its length.
func (f *File) takeSums(head []byte) error {
	text, ok := f.metadata[metaSums]
	if !ok {
		return nil
	}
	delete(f.metadata, metaSums)
	noted, got, err := unsealed(head, headerSums)
	if err != nil {
		return fmt.Errorf("%s in the metadata: %w", metaSums, err)
	}
	if noted != got {
		return fmt.Errorf("got the checksum %08x, want %08x as recorded in it", got, noted)
	}
	list := strings.Split(text, " ")
	if len(list) != 1+len(f.infos) {
		return fmt.Errorf("%s in the metadata: got %d checksums, want %d: of the header and of each tensor", metaSums, len(list), 1+len(f.infos))
	}
	for i := range f.infos {
		if f.infos[i].sum, err = parseSum(list[1+i]); err != nil {
			return fmt.Errorf("%s in the metadata: tensor %s: %w", metaSums, shown.Name(f.infos[i].Name), err)
		}
	}
	f.sum, f.summed = noted, true
	return nil
}

// HasChecksums reports whether the file has checksums, as all files of this package do. Data of
// other files, or of files of older versions, is not verified.
func (f *File) HasChecksums() bool { return f.summed }

// Verify reads the whole file and compares it with its checksums: an error names the tensor, and is
// ErrDamaged. Without checksums it does nothing.
func (f *File) Verify() error {
	if !f.summed {
		return nil
	}
	buffer := make([]byte, 1<<20)
	for _, info := range f.infos {
		sum := uint32(0)
		for at := int64(0); at < info.Bytes; {
			b := buffer[:min(int64(len(buffer)), info.Bytes-at)]
			if err := f.readAt(info, b, at); err != nil {
				return err
			}
			sum = crc32.Update(sum, castagnoli, b)
			at += int64(len(b))
		}
		if err := f.compare(info, sum); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the checksum of a tensor that was read with the file's.
func (f *File) compare(info Info, sum uint32) error {
	if !f.summed || sum == info.sum {
		return nil
	}
	return fmt.Errorf("checkpoint: %s: tensor %s: %w", f.name, shown.Name(info.Name), damaged("its %d bytes have the checksum %08x, want %08x", info.Bytes, sum, info.sum))
}

// errChanged: a tensor's values changed between the two passes of Write.
var errChanged = errors.New("its values changed while it was written")
