package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A layer is a gzipped tar archive, in a file.
type layer struct {
	path string

	// digest is the hash of the archive, and diffID its hash without compression.
	digest, diffID v1.Hash

	size      int64
	mediaType types.MediaType

	// unpacked counts the bytes of the files in the layer.
	unpacked int64
}

func (l *layer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *layer) Size() (int64, error)                { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }
func (l *layer) Compressed() (io.ReadCloser, error)  { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// writeLayer makes a layer of files, in a new file of a folder.
func writeLayer(folder string, files []File, mediaType types.MediaType) (_ *layer, err error) {
	out, err := os.CreateTemp(folder, "layer-*.tar.gz")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	l := &layer{path: out.Name(), mediaType: mediaType}
	packed, plain := sha256.New(), sha256.New()
	buffered := bufio.NewWriterSize(out, 1<<20)
	z := gzip.NewWriter(io.MultiWriter(buffered, packed))
	archive := tar.NewWriter(io.MultiWriter(z, plain))
	for _, f := range files {
		n, err := writeFile(archive, f)
		if err != nil {
			return nil, fmt.Errorf("image: add %s: %w", f.Path, err)
		}
		l.unpacked += n
	}
	if err := errors.Join(archive.Close(), z.Close(), buffered.Flush()); err != nil {
		return nil, err
	}
	if l.size, err = out.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	l.digest, l.diffID = sum(packed), sum(plain)
	return l, nil
}

// writeFile adds a file to an archive. It belongs to root and has no time, so that the same content
// is the same archive.
func writeFile(archive *tar.Writer, f File) (int64, error) {
	h := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: int64(f.Mode.Perm())}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case f.isFolder():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return 0, archive.WriteHeader(h)
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		return 0, archive.WriteHeader(h)
	}
	r, size, err := f.open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := archive.WriteHeader(h); err != nil {
		return 0, err
	}
	// A file that grows is cut where it was; one that shrinks is an error.
	switch n, err := io.Copy(archive, io.LimitReader(r, size)); {
	case err != nil:
		return 0, err
	case n < size:
		return 0, fmt.Errorf("the file became shorter while it was read: %d bytes, then %d", size, n)
	}
	return size, nil
}
