package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// ErrDamaged: a file is not a complete safetensors file, or does not have its
// checksums.
var ErrDamaged = errors.New("damaged file")

// ErrNoTensor: the file has no tensor of this name.
var ErrNoTensor = errors.New("no such tensor")

// An Info describes a tensor, as its file's header does.
type Info struct {
	Name  string
	DType DType
	Shape []int
	// Bytes is the length of its data.
	Bytes int64

	// offset is where its data begin in the file, and sum is their checksum, where the file has
	// checksums.
	offset int64
	sum    uint32
}

// A File is a safetensors file open for reading.
//
// Its header has been checked as a whole: the types, shapes and offsets of its tensors agree with
// one another and with the size of the file, so that no length in it leads to memory being taken
// that the file could not fill. Data are read only when asked for.
type File struct {
	name     string
	r        io.ReaderAt
	close    func() error
	metadata map[string]string
	// infos are in the order of their data, and byName has their indices.
	infos  []Info
	byName map[string]int
	size   int64
	// summed says that the file has checksums, and sum is the header's.
	summed bool
	sum    uint32
}

// Close closes what Open opened.
func (f *File) Close() error { return f.close() }

// Metadata returns the file's metadata, without its checksums.
func (f *File) Metadata() map[string]string {
	m := make(map[string]string, len(f.metadata))
	for k, v := range f.metadata {
		m[k] = v
	}
	return m
}

// Tensors returns the file's tensors, in the order of the data.
func (f *File) Tensors() []Info {
	list := slices.Clone(f.infos)
	for i := range list {
		list[i].Shape = slices.Clone(list[i].Shape)
	}
	return list
}

// Tensor returns the Info of the named tensor.
func (f *File) Tensor(name string) (Info, error) {
	i, ok := f.byName[name]
	if !ok {
		return Info{}, fmt.Errorf("checkpoint: %s: tensor %s: %w", f.name, shown.Name(name), ErrNoTensor)
	}
	info := f.infos[i]
	info.Shape = slices.Clone(info.Shape)
	return info, nil
}

// damaged makes the error about a file that was changed or cut since it was written.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

const metadataName = "__metadata__"
