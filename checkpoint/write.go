package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/vfs"
)

// MaxHeader is the longest header that is written or read, in bytes; it is
// that of the format's own library.
const MaxHeader = 100_000_000

const metadataName = "__metadata__"

// An entry is what the header says of a tensor.
type entry struct {
	DType   DType   `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// Write writes a safetensors file. Tensors may come in any order; the bytes
// depend on what is given alone.
func Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Tensor) int { return b.dtype.Size() - a.dtype.Size() })
	header, sizes, err := encodeHeader(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("checkpoint: write header of %d bytes: %w", len(header), err)
	}
	for i, t := range tensors {
		l := &limited{w: w, left: sizes[i]}
		if err := t.write(l); err != nil {
			return fmt.Errorf("checkpoint: write tensor %q: after %d of %d bytes: %w", t.name, sizes[i]-l.left, sizes[i], err)
		}
		if l.left != 0 {
			return fmt.Errorf("checkpoint: write tensor %q: got %d bytes, want %d", t.name, sizes[i]-l.left, sizes[i])
		}
	}
	return nil
}

// limited refuses to write more than is left.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, fmt.Errorf("got %d bytes more than its shape has", int64(len(p))-l.left)
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}

// encodeHeader returns everything before the data, and the size of each
// tensor.
func encodeHeader(metadata map[string]string, tensors []Tensor) (header []byte, sizes []int64, err error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	field := func(name string, value any) error {
		if !utf8.ValidString(name) {
			return fmt.Errorf("checkpoint: write tensor %q: its name is not UTF-8", name)
		}
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
		return nil
	}
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, nil, fmt.Errorf("checkpoint: write metadata %q: it is not UTF-8; encode it", k)
		}
	}
	if len(metadata) > 0 {
		if err := field(metadataName, metadata); err != nil { // json sorts the keys
			return nil, nil, err
		}
	}
	seen, at := map[string]bool{}, int64(0)
	for _, t := range tensors {
		if seen[t.name] || t.name == metadataName || t.name == "" {
			return nil, nil, fmt.Errorf("checkpoint: write tensor %q: want a name that is not empty, not %s and not there twice", t.name, metadataName)
		}
		seen[t.name] = true
		n, err := t.bytes()
		if err == nil && at+n < at {
			err = fmt.Errorf("got %d bytes after %d, want fewer than 2⁶³ in all", n, at)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("checkpoint: write tensor %q: %w", t.name, err)
		}
		shape := t.shape
		if shape == nil {
			shape = []int{} // a number
		}
		if err := field(t.name, entry{t.dtype, shape, []int64{at, at + n}}); err != nil {
			return nil, nil, err
		}
		at += n
		sizes = append(sizes, n)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	header = b.Bytes()
	if len(header)-8 > MaxHeader {
		return nil, nil, fmt.Errorf("checkpoint: write header: got %d bytes, want at most %d", len(header)-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, sizes, nil
}

// Save writes a safetensors file in place of the one at path, if any. It is
// there whole after a crash, or what was there before is.
func Save(path string, metadata map[string]string, tensors []Tensor) error {
	return save(vfs.OS{}, path, metadata, tensors)
}

func save(fsys vfs.FS, path string, metadata map[string]string, tensors []Tensor) error {
	if err := vfs.WriteFile(fsys, path, content(metadata, tensors)); err != nil {
		return fmt.Errorf("checkpoint: save: %w", err) // which names the path
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
