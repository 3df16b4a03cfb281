package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// Open opens the file and reads its header.
func Open(path string) (*File, error) { return open(vfs.OS{}, path) }

// open is Open in a file system, which may be one that fails.
func open(fsys vfs.FS, path string) (*File, error) {
	r, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return read(r, path)
}

// read reads the header of what r holds, and closes r with the File.
func read(r Source, name string) (*File, error) {
	size, err := r.Size()
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("checkpoint: open %s: %w", name, err)
	}
	f, err := NewFile(r, size, name)
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	f.close = r.Close
	return f, nil
}

// NewFile reads the header of size bytes of r; name is for errors.
func NewFile(r io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name, r: r, size: size, close: func() error { return nil }, byName: map[string]int{}}
	if err := f.readHeader(size); err != nil {
		head := make([]byte, min(size, 128))
		if _, readErr := r.ReadAt(head, 0); readErr == nil && isPickle(head) {
			return nil, pickleError(name)
		}
		return nil, fmt.Errorf("checkpoint: open %s: %w", name, err)
	}
	return f, nil
}

// readHeader reads and checks the header of a file of this size. No length in it is believed
// before it was compared with the size: memory is taken for what is there alone.
func (f *File) readHeader(size int64) error {
	var length [8]byte
	if size < 8 {
		return damaged("got %d bytes, want at least 8", size)
	}
	if _, err := f.r.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("read bytes 0 to 7: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader || int64(n) > size-8 {
		return damaged("header: got a length of %d bytes in a file of %d, want at most %d", n, size, min(MaxHeader, size-8))
	}
	head := make([]byte, 8+n)
	header := head[copy(head, length[:]):]
	if _, err := f.r.ReadAt(header, 8); err != nil && !(err == io.EOF && int64(n) == size-8) {
		return fmt.Errorf("read header, bytes 8 to %d: %w", 7+n, err)
	}
	if err := f.parse(header); err != nil {
		return damaged("header: %w", err)
	}
	slices.SortStableFunc(f.infos, func(a, b Info) int {
		switch {
		case a.offset != b.offset:
			if a.offset < b.offset {
				return -1
			}
			return 1
		case a.Bytes != b.Bytes:
			// An empty tensor comes before the one that begins where it does.
			if a.Bytes < b.Bytes {
				return -1
			}
			return 1
		}
		return 0
	})
	at := int64(0)
	for i := range f.infos {
		info := &f.infos[i]
		if info.offset != at {
			return damaged("tensor %s: data begins at %d, want %d, where the one before it ends", shown.Name(info.Name), info.offset, at)
		}
		at += info.Bytes
		info.offset += 8 + int64(n)
		f.byName[info.Name] = i
	}
	if end := 8 + int64(n) + at; end != size {
		return damaged("got %d bytes, want %d: header %d, data %d", size, end, 8+n, at)
	}
	if err := f.takeSums(head); err != nil {
		return damaged("header: %w", err)
	}
	return nil
}

// ReadBytes reads the tensor's bytes into dst, which has their length. Like all
// methods that read a whole tensor it compares the data with the file's
// checksum, if there is one: after ErrDamaged do not trust dst.
func (f *File) ReadBytes(name string, dst []byte) error {
	info, err := f.Tensor(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != info.Bytes {
		return fmt.Errorf("checkpoint: %s: tensor %s: got room for %d bytes, want %d", f.name, shown.Name(name), len(dst), info.Bytes)
	}
	return f.readWhole(info, dst)
}

// readWhole reads and compares all of a tensor's data.
func (f *File) readWhole(info Info, dst []byte) error {
	if err := f.readAt(info, dst, 0); err != nil {
		return err
	}
	return f.compare(info, crc32.Checksum(dst, castagnoli))
}

// Section returns a reader of the tensor's data, which it does not verify: see
// Verify.
func (f *File) Section(name string) (*io.SectionReader, error) {
	info, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f.r, info.offset, info.Bytes), nil
}

// readAt reads a part of a tensor, from an offset within it.
func (f *File) readAt(info Info, dst []byte, at int64) error {
	n, err := f.r.ReadAt(dst, info.offset+at)
	if n == len(dst) {
		return nil
	}
	return fmt.Errorf("checkpoint: %s: tensor %s: read byte %d of %d: %w", f.name, shown.Name(info.Name), at+int64(n), info.Bytes, err)
}

// ReadFloat32s reads a tensor of type F32, F16, BF16 or F64 (which is rounded)
// into dst, which has as many elements.
func (f *File) ReadFloat32s(name string, dst []float32) error {
	info, err := f.sized(name, len(dst), F32, F16, BF16, F64)
	if err != nil {
		return err
	}
	switch info.DType {
	case F32:
		return scan(f, info, dst, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	case F16:
		return scan(f, info, dst, func(b []byte) float32 { return f32.Float16Value(binary.LittleEndian.Uint16(b)) })
	case BF16:
		return scan(f, info, dst, func(b []byte) float32 { return f32.BFloat16Value(binary.LittleEndian.Uint16(b)) })
	}
	return scan(f, info, dst, func(b []byte) float32 {
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	})
}

// ReadFloat64s reads a tensor of type F64.
func (f *File) ReadFloat64s(name string, dst []float64) error {
	info, err := f.sized(name, len(dst), F64)
	if err != nil {
		return err
	}
	return scan(f, info, dst, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
}

// ReadInt64s reads a tensor of type I64.
func (f *File) ReadInt64s(name string, dst []int64) error {
	info, err := f.sized(name, len(dst), I64)
	if err != nil {
		return err
	}
	return scan(f, info, dst, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
}

// ReadUint8s reads a tensor of type U8.
func (f *File) ReadUint8s(name string, dst []uint8) error {
	info, err := f.sized(name, len(dst), U8)
	if err != nil {
		return err
	}
	return f.readWhole(info, dst)
}

// sized returns the tensor if it has n elements of one of the types.
func (f *File) sized(name string, n int, types ...DType) (Info, error) {
	info, err := f.Tensor(name)
	if err != nil {
		return Info{}, err
	}
	if !slices.Contains(types, info.DType) {
		return Info{}, fmt.Errorf("checkpoint: %s: tensor %s: got type %s, want one of %v", f.name, shown.Name(name), info.DType, types)
	}
	if want := info.Bytes / int64(info.DType.Size()); int64(n) != want {
		return Info{}, fmt.Errorf("checkpoint: %s: tensor %s: got room for %d values, want %d for shape %v", f.name, shown.Name(name), n, want, info.Shape)
	}
	return info, nil
}

// scan reads the tensor's values through a small buffer.
func scan[T any](f *File, info Info, dst []T, get func(b []byte) T) error {
	const buffer = 256 << 10
	size := info.DType.Size()
	b, sum := make([]byte, min(buffer, len(dst)*size)), uint32(0)
	for done := 0; done < len(dst); {
		k := min(len(dst)-done, buffer/size)
		if err := f.readAt(info, b[:k*size], int64(done*size)); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, b[:k*size])
		for i := range k {
			dst[done+i] = get(b[i*size : i*size+size])
		}
		done += k
	}
	return f.compare(info, sum)
}
