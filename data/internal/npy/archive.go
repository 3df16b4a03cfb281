package npy

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// An Archive is a .npz file: a zip archive of arrays.
type Archive struct {
	store  objects.Store
	object objects.Info
	names  []string
	// left is how many bytes more may be loaded of arrays that are compressed.
	left uint64
}

// OpenArchive reads the list of arrays of a .npz file, of which limit bytes may be loaded: the
// arrays that are compressed.
func OpenArchive(ctx context.Context, store objects.Store, info objects.Info, limit int64) (*Archive, error) {
	z := &Archive{store: store, object: info, left: uint64(max(limit, 0))}
	files, err := z.directory(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		z.names = append(z.names, strings.TrimSuffix(f.Name, ".npy"))
	}
	return z, nil
}

// directory reads what the archive holds.
func (z *Archive) directory(ctx context.Context) (arrays []*zip.File, err error) {
	r, err := zip.NewReader(readerAt{ctx, z.store, z.object}, z.object.Size)
	if err != nil {
		return nil, z.failed(fmt.Errorf("as a .npz archive: %w", err))
	}
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, ".npy") {
			arrays = append(arrays, f)
		}
	}
	return arrays, nil
}

func (z *Archive) failed(err error) error {
	return fmt.Errorf("npy: %s: %s: %w", z.store.URL(), z.object.Name, err)
}

// Names are the arrays' names, in their order in the archive.
func (z *Archive) Names() []string { return slices.Clone(z.names) }

// Array opens the array of a name. One that is compressed is loaded whole, and its checksum is
// checked. It is for one goroutine at a time.
func (z *Archive) Array(ctx context.Context, name string) (*Array, error) {
	files, err := z.directory(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f *zip.File) bool { return f.Name == name+".npy" })
	if i < 0 {
		return nil, z.failed(fmt.Errorf("has no array %q, only %q", name, z.names))
	}
	f := files[i]
	if f.Flags&1 != 0 {
		return nil, z.failed(fmt.Errorf("array %q is encrypted", name))
	}
	a := &Array{name: z.object.Name + ": " + f.Name, store: z.store, object: z.object}
	switch f.Method {
	case zip.Store:
		base, err := f.DataOffset()
		if err != nil {
			return nil, a.failed(err)
		}
		size := int64(f.UncompressedSize64)
		if size < 0 || f.CompressedSize64 != f.UncompressedSize64 || size > z.object.Size-base {
			return nil, a.failed(fmt.Errorf("got %d bytes at byte %d, want them within the archive's %d", f.UncompressedSize64, base, z.object.Size))
		}
		if err := a.open(ctx, base, size); err != nil {
			return nil, a.failed(err)
		}
	case zip.Deflate:
		if f.UncompressedSize64 > z.left {
			return nil, a.failed(fmt.Errorf("got a compressed array of %d bytes, want at most %d: save it with numpy.savez, which can be read by parts",
				f.UncompressedSize64, z.left))
		}
		if err := a.inflate(ctx, f); err != nil {
			return nil, a.failed(err)
		}
		z.left -= f.UncompressedSize64
	default:
		return nil, a.failed(fmt.Errorf("got compression method %d, want 0 (numpy.savez) or 8 (numpy.savez_compressed)", f.Method))
	}
	return a, nil
}

// inflate loads the whole array.
func (a *Array) inflate(ctx context.Context, f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	// The size that the archive claims is taken on trust step by step only: memory grows with
	// what really comes.
	var all bytes.Buffer
	n, err := io.Copy(&all, io.LimitReader(r, int64(f.UncompressedSize64)+1))
	if err != nil {
		return fmt.Errorf("at byte %d of the array: %w", n, err)
	}
	if uint64(n) != f.UncompressedSize64 {
		return fmt.Errorf("got %d bytes after decompression, want %d", n, f.UncompressedSize64)
	}
	a.memory = all.Bytes()
	if len(a.memory) == 0 {
		return errShort
	}
	return a.open(ctx, 0, n)
}

// A readerAt is an object as an io.ReaderAt, for the length of one call that has ctx.
type readerAt struct {
	ctx    context.Context
	store  objects.Store
	object objects.Info
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	n := min(int64(len(p)), max(0, r.object.Size-off))
	if n > 0 {
		if err := r.store.ReadRange(r.ctx, r.object, p[:n], off); err != nil {
			return 0, err
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
