package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/files/objects"
)

func init() {
	checkpoint.RegisterPlace(memblob.Scheme, openMemory)
	objects.Register(memblob.Scheme, openMemoryObjects)
}

// open opens the bucket that the host names; what lies under the path is the place.
func open(ctx context.Context, u *url.URL) (checkpoint.Place, error) {
	b, err := openBucket(ctx, u)
	if err != nil {
		return nil, err
	}
	return place{b: b, prefix: prefix(u)}, nil
}

// openBucket opens the bucket of a URL, whatever the path.
func openBucket(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	whole := *u
	whole.Path, whole.RawPath = "", ""
	return blob.OpenBucket(ctx, whole.String())
}

// prefix is what the names in the place begin with in the bucket.
func prefix(u *url.URL) string {
	if path := strings.Trim(u.Path, "/"); path != "" {
		return path + "/"
	}
	return ""
}

// Of makes a Place of any bucket; closing it closes the bucket.
func Of(b *blob.Bucket) checkpoint.Place { return place{b: b} }

// A place is a prefix in a bucket. A bucket has no folders and no rename: an object appears
// whole, once its last byte is there, so that Write needs no second name.
type place struct {
	b      *blob.Bucket
	prefix string
	// keep says that Close leaves the bucket open.
	keep bool
}

// Write uploads an object. After an error, or a crash, the old one is still there.
func (p place) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := p.b.NewWriter(ctx, p.prefix+name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("bucket: write %s: %w", name, err)
	}
	n := &counter{w: w}
	if err := write(n); err != nil {
		// Close without it would make an object of what came.
		cancel()
		_ = w.Close()
		return fmt.Errorf("bucket: write %s: after %d bytes: %w", name, n.n, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("bucket: write %s: %d bytes: %w", name, n.n, err)
	}
	return nil
}

// A counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Open asks for the object's size; its bytes are asked for by each read.
func (p place) Open(ctx context.Context, name string) (checkpoint.Source, error) {
	a, err := p.b.Attributes(ctx, p.prefix+name)
	if err != nil {
		return nil, fmt.Errorf("bucket: open %s: %w", name, missing(err))
	}
	return &source{ctx: ctx, b: p.b, name: p.prefix + name, size: a.Size}, nil
}

// missing lets errors.Is find fs.ErrNotExist.
func missing(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// List returns the objects whose names begin with a prefix.
func (p place) List(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	// Objects come in the order of their names.
	for all := p.b.List(&blob.ListOptions{Prefix: p.prefix + prefix}); ; {
		object, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("bucket: list %q: %w", prefix, err)
		}
		names = append(names, object.Key[len(p.prefix):])
	}
}

// Remove removes an object. One that is not there is no error.
func (p place) Remove(ctx context.Context, name string) error {
	if err := p.b.Delete(ctx, p.prefix+name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("bucket: remove %s: %w", name, err)
	}
	return nil
}

func (p place) Close() error {
	if p.keep {
		return nil
	}
	return p.b.Close()
}

// A source reads an object. Reads that follow one another, as those of a file's tensors do, share
// one download; one that has broken is begun again where it ended, once.
type source struct {
	ctx  context.Context
	b    *blob.Bucket
	name string
	size int64

	// mu guards the rest.
	mu sync.Mutex
	r  *blob.Reader
	// next is the offset that r is at.
	next int64
}

// nearby is how much is read and thrown away rather than asked for anew.
const nearby = 1 << 20

func (s *source) Size() (int64, error) { return s.size, nil }

// ReadAt reads on where the read before ended, if it can: a request for each tensor would cost a
// round trip, and most files are read from their beginning to their end. A connection that
// breaks is made once more.
func (s *source) ReadAt(p []byte, at int64) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < 0 || at >= s.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), s.size-at)]
	for again := true; ; again = false {
		if err = s.seek(at + int64(n)); err == nil {
			var k int
			k, err = io.ReadFull(s.r, want[n:])
			n, s.next = n+k, s.next+int64(k)
		}
		if n == len(want) {
			if n < len(p) {
				return n, io.EOF
			}
			return n, nil
		}
		s.close()
		if !again || s.ctx.Err() != nil {
			return n, fmt.Errorf("bucket: read %s: byte %d of %d: %w", s.name, at+int64(n), s.size, missing(err))
		}
	}
}

// seek brings r to an offset.
func (s *source) seek(at int64) (err error) {
	if s.r != nil && s.next <= at && at-s.next <= nearby {
		k, err := io.CopyN(io.Discard, s.r, at-s.next)
		s.next += k
		return err
	}
	s.close()
	s.r, err = s.b.NewRangeReader(s.ctx, s.name, at, -1, nil)
	s.next = at
	return err
}

func (s *source) close() {
	if s.r != nil {
		_ = s.r.Close()
		s.r = nil
	}
}

func (s *source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	return nil
}

// memories are the buckets of mem://, which last as long as the process.
var memories struct {
	// mu guards byName.
	mu     sync.Mutex
	byName map[string]*blob.Bucket
}

// openMemory opens a bucket in memory, by its name.
func openMemory(_ context.Context, u *url.URL) (checkpoint.Place, error) {
	b, err := memory(u)
	if err != nil {
		return nil, err
	}
	return place{b: b, prefix: prefix(u), keep: true}, nil
}

func openMemoryObjects(_ context.Context, u *url.URL) (objects.Store, error) {
	b, err := memory(u)
	if err != nil {
		return nil, err
	}
	return newStore(b, u, dialect{listed: listedTime, stat: statTime, read: readTime}, true), nil
}

// memory is the bucket that a URL names.
func memory(u *url.URL) (*blob.Bucket, error) {
	if u.Host == "" {
		return nil, errors.New("got no name, want mem://name or mem://name/prefix")
	}
	memories.mu.Lock()
	defer memories.mu.Unlock()
	if memories.byName == nil {
		memories.byName = map[string]*blob.Bucket{}
	}
	b := memories.byName[u.Host]
	if b == nil {
		b = memblob.OpenBucket(nil)
		memories.byName[u.Host] = b
	}
	return b, nil
}
