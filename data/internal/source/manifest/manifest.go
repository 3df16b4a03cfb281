// Package manifest keeps the names, sizes and versions of many objects in little memory: for 10
// million files of ImageNet's names some 40 bytes each.
//
// The entries lie one after another in one slice of bytes:
//
//	uvarint  length of the name
//	         the name
//	uvarint  the size and 1; 0: unknown
//	byte     the form of the version: none, file, hexadecimal or text
//	         the version in that form
//
// The place of every 16th entry is known; the ones between are found from there.
package manifest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// step is how many entries there are from one known place to the next.
const step = 16

// The forms of a version.
const (
	noVersion = iota
	// A file's version is a time and the size, as "time-size": the time as a uvarint.
	fileVersion
	// A hexadecimal version is an ETag of 32 digits in quotes: 16 bytes.
	hexVersion
	// A text version is any other: a uvarint and as many bytes.
	textVersion
)

// A Manifest has entries by number. Appending is for one goroutine; what has been appended may be
// read by several.
type Manifest struct {
	bytes  []byte
	places []uint64
	n      int
}

// Len is the number of entries.
func (m *Manifest) Len() int { return m.n }

// Append adds an entry. A negative size is unknown.
func (m *Manifest) Append(o objects.Info) {
	if m.n%step == 0 {
		m.places = append(m.places, uint64(len(m.bytes)))
	}
	m.n++
	m.bytes = binary.AppendUvarint(m.bytes, uint64(len(o.Name)))
	m.bytes = append(m.bytes, o.Name...)
	m.bytes = binary.AppendUvarint(m.bytes, uint64(max(o.Size, -1)+1))
	m.bytes = appendVersion(m.bytes, o.Version, o.Size)
}

func appendVersion(b []byte, version string, size int64) []byte {
	if version == "" {
		return append(b, noVersion)
	}
	time, _, _ := strings.Cut(version, "-")
	if n, err := strconv.ParseUint(time, 10, 64); err == nil && fileText(n, size) == version {
		return binary.AppendUvarint(append(b, fileVersion), n)
	}
	if digest, ok := quotedHex(version); ok {
		return append(append(b, hexVersion), digest[:]...)
	}
	return append(binary.AppendUvarint(append(b, textVersion), uint64(len(version))), version...)
}

func fileText(time uint64, size int64) string {
	return strconv.FormatUint(time, 10) + "-" + strconv.FormatInt(size, 10)
}

func quotedHex(version string) (digest [16]byte, ok bool) {
	if len(version) != 34 || version[0] != '"' || version[33] != '"' {
		return digest, false
	}
	if _, err := hex.Decode(digest[:], []byte(version[1:33])); err != nil {
		return digest, false
	}
	return digest, hexText(digest[:]) == version
}

func hexText(digest []byte) string { return `"` + hex.EncodeToString(digest) + `"` }

// Trim gives back memory that was taken for more entries.
func (m *Manifest) Trim() {
	m.bytes = exact(m.bytes)
	m.places = exact(m.places)
}

// exact returns s in memory of its size. slices.Clip would keep all that append took.
func exact[E any](s []E) []E {
	if len(s) == cap(s) {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// At returns entry i.
func (m *Manifest) At(i int) objects.Info {
	var o objects.Info
	name, rest := m.name(i)
	o.Name = string(name)
	size, n := binary.Uvarint(rest)
	o.Size = int64(size) - 1
	o.Version = version(rest[n:], o.Size)
	return o
}

// Name returns the name of entry i as bytes of the manifest.
func (m *Manifest) Name(i int) []byte {
	name, _ := m.name(i)
	return name
}

// Size is the size of entry i; −1: unknown.
func (m *Manifest) Size(i int) int64 {
	_, rest := m.name(i)
	size, _ := binary.Uvarint(rest)
	return int64(size) - 1
}

// name returns the name of entry i and what follows it.
func (m *Manifest) name(i int) (name, rest []byte) {
	if i < 0 || i >= m.n {
		panic(fmt.Sprintf("manifest: entry %d of %d", i, m.n))
	}
	b := m.bytes[m.places[i/step]:]
	for range i % step {
		b = skip(b)
	}
	length, n := binary.Uvarint(b)
	return b[n:][:length:length], b[n+int(length):]
}

// skip returns what follows an entry.
func skip(b []byte) []byte {
	length, n := binary.Uvarint(b)
	b = b[n+int(length):]
	_, n = binary.Uvarint(b)
	return b[n+versionLen(b[n:]):]
}

// versionLen is the number of bytes of the version that b begins with.
func versionLen(b []byte) int {
	switch b[0] {
	case fileVersion:
		_, n := binary.Uvarint(b[1:])
		return 1 + n
	case hexVersion:
		return 17
	case textVersion:
		length, n := binary.Uvarint(b[1:])
		return 1 + n + int(length)
	}
	return 1
}

// version reads the version that b begins with, of an object of that size.
func version(b []byte, size int64) string {
	switch b[0] {
	case fileVersion:
		time, _ := binary.Uvarint(b[1:])
		return fileText(time, size)
	case hexVersion:
		return hexText(b[1:17])
	case textVersion:
		_, used := binary.Uvarint(b[1:])
		return string(b[1+used : versionLen(b)])
	}
	return ""
}

// Bytes is how much memory the manifest takes, near enough.
func (m *Manifest) Bytes() int {
	return cap(m.bytes) + cap(m.places)*8
}
