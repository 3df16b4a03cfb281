package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// MaxHeader is the longest header that is written or read, in bytes, as in the
// format's own library.
const MaxHeader = 100_000_000

// An entry is a tensor's entry in the header.
type entry struct {
	DType   DType   `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// Write writes a safetensors file, with checksums. Tensors may come in any
// order; the same arguments give the same bytes.
func Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Tensor) int { return b.dtype.Bits() - a.dtype.Bits() })
	sizes, err := measure(tensors)
	if err != nil {
		return err
	}
	sums := make([]uint32, len(tensors))
	for i := range tensors {
		if sums[i], err = tensors[i].writeTo(io.Discard, sizes[i]); err != nil {
			return err
		}
	}
	header, err := encodeHeader(metadata, tensors, sizes, sums)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("checkpoint: write header of %d bytes: %w", len(header), err)
	}
	for i := range tensors {
		sum, err := tensors[i].writeTo(w, sizes[i])
		if err == nil && sum != sums[i] {
			err = fmt.Errorf("checkpoint: write tensor %s: %w", shown.Name(tensors[i].name), errChanged)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes the tensor's size bytes and returns their checksum.
func (t *Tensor) writeTo(w io.Writer, size int64) (uint32, error) {
	s := &summing{w: w}
	l := &limited{w: s, left: size}
	if err := t.write(l); err != nil {
		return 0, fmt.Errorf("checkpoint: write tensor %s: after %d of %d bytes: %w", shown.Name(t.name), size-l.left, size, err)
	}
	if l.left != 0 {
		return 0, fmt.Errorf("checkpoint: write tensor %s: got %d bytes, want %d", shown.Name(t.name), size-l.left, size)
	}
	return s.sum, nil
}

// limited refuses to write more than is left.
type limited struct {
	w    io.Writer
	left int64
}

// Write fails once more was written than the tensor has.
func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, fmt.Errorf("got %d bytes more than its shape has", int64(len(p))-l.left)
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}

// measure checks names and shapes, and returns the size of each tensor.
func measure(tensors []Tensor) (sizes []int64, err error) {
	seen, at := map[string]bool{}, int64(0)
	for _, t := range tensors {
		if err := checkName(t.name); err != nil {
			return nil, fmt.Errorf("checkpoint: write: %w", err)
		}
		if seen[t.name] {
			return nil, fmt.Errorf("checkpoint: write tensor %s: the name is used twice", shown.Name(t.name))
		}
		seen[t.name] = true
		n, err := t.bytes()
		if err == nil && at+n < at {
			err = fmt.Errorf("got %d bytes after %d, want fewer than 2⁶³ in all", n, at)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: write tensor %s: %w", shown.Name(t.name), err)
		}
		at += n
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// encodeHeader returns everything before the data: the length of the JSON, and the JSON, padded with
// spaces to a multiple of 8 bytes.
func encodeHeader(metadata map[string]string, tensors []Tensor, sizes []int64, sums []uint32) ([]byte, error) {
	own, err := withSums(metadata, sums)
	if err != nil {
		return nil, err
	}
	b := headerWriter{}
	b.Write(make([]byte, 8))
	if err := b.field('{', metadataName, own); err != nil {
		return nil, err
	}
	at := int64(0)
	for i, t := range tensors {
		shape := t.shape
		if shape == nil {
			// A number has no dimension, and its shape is written as [].
			shape = []int{}
		}
		if err := b.field(',', t.name, entry{t.dtype, shape, []int64{at, at + sizes[i]}}); err != nil {
			return nil, err
		}
		at += sizes[i]
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	header := b.Bytes()
	if len(header)-8 > MaxHeader {
		return nil, fmt.Errorf("checkpoint: write header: got %d bytes, want at most %d", len(header)-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return sealed(header, headerSums)
}

// withSums returns the metadata with the tensors' checksums, and room for the header's own.
func withSums(metadata map[string]string, sums []uint32) (map[string]string, error) {
	own := maps.Clone(metadata)
	if own == nil {
		own = map[string]string{}
	}
	for k, v := range own {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("checkpoint: write metadata %s: it is not UTF-8; encode it", shown.Name(k))
		}
	}
	if _, ok := own[metaSums]; ok {
		return nil, fmt.Errorf("checkpoint: write metadata %q: the name is that of the checksums, which are added; take another one", metaSums)
	}
	list := strings.Builder{}
	list.WriteString(sumPlaceholder)
	for _, sum := range sums {
		list.WriteString(" " + sumText(sum))
	}
	own[metaSums] = list.String()
	return own, nil
}

// A headerWriter writes the fields of a JSON object in the order of the calls, which is that of the
// data. encoding/json would sort the names of a map.
type headerWriter struct{ bytes.Buffer }

// field writes a byte, which is '{' for the first field and ',' for others, and a field. The names
// within the value are sorted.
func (b *headerWriter) field(before byte, name string, value any) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	b.WriteByte(before)
	b.Write(key)
	b.WriteByte(':')
	b.Write(text)
	return nil
}

// Save writes a safetensors file in place of the one at path, if any. After a
// crash either the new or the old file is there, complete.
func Save(path string, metadata map[string]string, tensors []Tensor) error {
	return save(vfs.OS{}, path, metadata, tensors)
}

// save is Save in a file system, which may be one that fails after each operation in turn.
func save(fsys vfs.FS, path string, metadata map[string]string, tensors []Tensor) error {
	if err := vfs.WriteFile(fsys, path, content(metadata, tensors)); err != nil {
		// The error names the path.
		return fmt.Errorf("checkpoint: save: %w", err)
	}
	return nil
}

// content writes a file through a buffer.
func content(metadata map[string]string, tensors []Tensor) func(io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		if err := Write(b, metadata, tensors); err != nil {
			return err
		}
		return b.Flush()
	}
}
