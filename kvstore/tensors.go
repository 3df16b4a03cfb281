package kvstore

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unsafe"
)

// A safetensors file is the length of its header (uint64, little-endian), the header (JSON: for each tensor its type, shape
// and place in the data, and metadata of strings) and the data. See https://huggingface.co/docs/safetensors.

// tensorHead is one tensor's entry in the header.
type tensorHead struct {
	Type    string    `json:"dtype"`
	Shape   []uint64  `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// maxHeader is the longest header, as the format has it.
const maxHeader = 100 << 20

// A tensorWriter writes tensors to a temporary file as they come; commit makes it the file.
type tensorWriter struct {
	path  string
	data  *os.File // the tensors, without the header, whose length is not known before the last
	out   *bufio.Writer
	heads map[string]tensorHead
	names []string
	size  uint64
	code  room
}

func createTensors(path string) (*tensorWriter, error) {
	dir, name := filepath.Split(path)
	if name == "" {
		return nil, fmt.Errorf("got a folder, want a file")
	}
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+name+".*.data")
	if err != nil {
		return nil, err
	}
	return &tensorWriter{path: path, data: f, out: bufio.NewWriterSize(f, 1<<20), heads: map[string]tensorHead{}}, nil
}

func (w *tensorWriter) add(name string, shape []uint64, values []float32) error {
	if _, ok := w.heads[name]; ok || name == "__metadata__" {
		return fmt.Errorf("tensor %q: two keys, or a key and a slot, have this name", name)
	}
	b := w.code.floats(littleEndian, values)
	w.heads[name] = tensorHead{Type: "F32", Shape: slices.Clone(shape), Offsets: [2]uint64{w.size, w.size + uint64(len(b))}}
	w.names = append(w.names, name)
	w.size += uint64(len(b))
	_, err := w.out.Write(b)
	return err
}

// commit puts header and data together and gives the file its name.
func (w *tensorWriter) commit(metadata map[string]string) error {
	header := map[string]any{"__metadata__": metadata}
	for name, h := range w.heads {
		header[name] = h
	}
	text, err := json.Marshal(header) // sorts the names
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return fmt.Errorf("got a header of %d bytes, want at most %d", len(text), maxHeader)
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := w.data.Seek(0, io.SeekStart); err != nil {
		return err
	}
	dir, name := filepath.Split(w.path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+name+".*.new")
	if err != nil {
		return err
	}
	err = func() error {
		if _, err := f.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))); err != nil {
			return err
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
		if _, err := io.Copy(f, w.data); err != nil {
			return err
		}
		if err := f.Chmod(0o644); err != nil {
			return err
		}
		return f.Sync()
	}()
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), w.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	if d, err := os.Open(dir); err == nil { // so that the name outlives a power cut; not all file systems can
		d.Sync()
		d.Close()
	}
	return nil
}

// abandon removes what is not committed.
func (w *tensorWriter) abandon() {
	w.data.Close()
	os.Remove(w.data.Name())
}

// A tensorReader reads a safetensors file. Its header has been checked.
type tensorReader struct {
	file     *os.File
	from     int64 // where the data begin
	heads    map[string]tensorHead
	metadata map[string]string
}

func openTensors(path string) (*tensorReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &tensorReader{file: f, heads: map[string]tensorHead{}}
	if err := r.header(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *tensorReader) close() { r.file.Close() }

func (r *tensorReader) header() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	var length [8]byte
	if _, err := r.file.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("header: got a file of %d bytes: %w", info.Size(), err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > info.Size()-8 {
		return fmt.Errorf("header: got a length of %d in a file of %d bytes: the file is damaged or cut off, or no safetensors file", n, info.Size())
	}
	text := make([]byte, n)
	if _, err := r.file.ReadAt(text, 8); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(text, &header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	r.from = int64(8 + n)
	room := uint64(info.Size() - r.from)
	for name, raw := range header {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &r.metadata); err != nil {
				return fmt.Errorf("header: metadata: %w", err)
			}
			continue
		}
		var h tensorHead
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("header: tensor %q: %w", name, err)
		}
		if h.Offsets[0] > h.Offsets[1] || h.Offsets[1] > room {
			return fmt.Errorf("tensor %q: got bytes %d to %d, but the file has %d bytes of data: it is cut off or damaged", name, h.Offsets[0], h.Offsets[1], room)
		}
		r.heads[name] = h
	}
	return nil
}

// has checks that a tensor is there with so many float32 values.
func (r *tensorReader) has(name string, n uint64) error {
	h, ok := r.heads[name]
	switch {
	case !ok:
		return fmt.Errorf("tensor %q: it is missing", name)
	case h.Type != "F32":
		return fmt.Errorf("tensor %q: got type %s, want F32", name, h.Type)
	case h.Offsets[1]-h.Offsets[0] != 4*n || n > 1<<60:
		return fmt.Errorf("tensor %q: got %d bytes, want %d for %d values", name, h.Offsets[1]-h.Offsets[0], 4*n, n)
	}
	return nil
}

// read returns a tensor that has has found.
func (r *tensorReader) read(name string) ([]float32, error) {
	h := r.heads[name]
	values := make([]float32, (h.Offsets[1]-h.Offsets[0])/4)
	var scratch room
	b := scratch.landing(littleEndian, values)
	if _, err := r.file.ReadAt(b, r.from+int64(h.Offsets[0])); err != nil && len(b) > 0 {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	decodeFloats(littleEndian, values, b)
	return values, nil
}

// viewFloats views bytes, which come from a room, as values in this machine's order.
func viewFloats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
