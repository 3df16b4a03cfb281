package bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A dialect is how versions are asked for in one kind of bucket. Versions of one object are alike
// from all of its functions.
type dialect struct {
	listed func(*blob.ListObject) string
	stat   func(*blob.Attributes) string
	// read is the version of what is read; empty: the answer does not say.
	read func(*blob.Reader) string
	// beforeRead makes a request ask for a version, and be sent once; nil: it cannot.
	beforeRead func(version string, as func(any) bool) error
	// beforeList makes a request be sent once; nil: it need not.
	beforeList func(as func(any) bool) error
	// status is the code of HTTP in an error, or 0; nil: there is none.
	status func(error) int
	// check is an error if no request to the bucket of that name can be sent, whatever answers;
	// nil: it is not known before.
	check func(ctx context.Context, b *blob.Bucket, name string) error
}

// retries say how often requests are tried. Tests have shorter waits.
var retries objects.RetryConfig

// A store is the objects.Backend of a bucket.
type store struct {
	b *blob.Bucket
	// address is for messages.
	address string
	prefix  string
	dialect dialect
	// keep says that Close leaves the bucket open.
	keep bool
}

// opener opens URLs of a kind of bucket for reading. Each store has a dialect of its own.
func opener(d func() dialect) objects.Opener {
	return func(ctx context.Context, u *url.URL) (objects.Store, error) {
		b, err := openBucket(ctx, u)
		if err != nil {
			return nil, withoutURL(err)
		}
		dialect := d()
		if dialect.check != nil {
			if err := dialect.check(ctx, b, u.Host); err != nil {
				return nil, errors.Join(err, b.Close())
			}
		}
		return newStore(b, u, dialect, false), nil
	}
}

func newStore(b *blob.Bucket, u *url.URL, d dialect, keep bool) objects.Store {
	address := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return objects.NewRemote(&store{b: b, address: address.String(), prefix: prefix(u), dialect: d, keep: keep}, retries)
}

func (s *store) URL() string { return s.address }

// pageSize is the number of objects of a page, the most that S3 gives.
const pageSize = 1000

// Page implements objects.Backend.
func (s *store) Page(ctx context.Context, prefix, token string) (page []objects.Info, next string, err error) {
	page, _, next, err = s.list(ctx, prefix, token, "")
	return page, next, err
}

// Level implements objects.Leveler.
func (s *store) Level(ctx context.Context, prefix, token string) (page []objects.Info, folders []string, next string, err error) {
	return s.list(ctx, prefix, token, "/")
}

func (s *store) list(ctx context.Context, prefix, token, delimiter string) (page []objects.Info, folders []string, next string, err error) {
	from := []byte(token)
	if token == "" {
		from = blob.FirstPageToken
	}
	all, after, err := s.b.ListPage(ctx, from, pageSize, &blob.ListOptions{Prefix: s.prefix + prefix, Delimiter: delimiter, BeforeList: s.dialect.beforeList})
	if err != nil {
		return nil, nil, "", s.meaning(err)
	}
	page = make([]objects.Info, 0, len(all))
	for _, o := range all {
		name := strings.Clone(o.Key[len(s.prefix):])
		switch {
		case o.IsDir, delimiter != "" && strings.HasSuffix(name, "/") && name != prefix:
			// Some servers have the object that stands for a folder beside it.
			if len(folders) == 0 || folders[len(folders)-1] != name {
				folders = append(folders, name)
			}
		case strings.HasSuffix(name, "/"), name == "":
			// An empty object that stands for a folder.
		default:
			page = append(page, objects.Info{Name: name, Size: o.Size, Version: s.dialect.listed(o)})
		}
	}
	return page, folders, string(after), nil
}

func (s *store) Stat(ctx context.Context, name string) (objects.Info, error) {
	a, err := s.b.Attributes(ctx, s.prefix+name)
	if err != nil {
		return objects.Info{}, s.meaning(err)
	}
	return objects.Info{Name: name, Size: a.Size, Version: s.dialect.stat(a)}, nil
}

func (s *store) Get(ctx context.Context, object objects.Info, off, length int64) (io.ReadCloser, error) {
	var options blob.ReaderOptions
	if s.dialect.beforeRead != nil {
		options.BeforeRead = func(as func(any) bool) error { return s.dialect.beforeRead(object.Version, as) }
	}
	r, err := s.b.NewRangeReader(ctx, s.prefix+object.Name, off, length, &options)
	if err != nil {
		return nil, s.meaning(err)
	}
	// Not every server that speaks a cloud's protocol heeds the condition of a request.
	if v := s.dialect.read(r); v != "" && object.Version != "" && v != object.Version {
		err = fmt.Errorf("%w: it was %s, and is %s", objects.ErrChanged, object.Version, v)
	} else if r.Size() != object.Size {
		err = fmt.Errorf("%w: it had %d bytes, and has %d", objects.ErrChanged, object.Size, r.Size())
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

func (s *store) Close() error {
	if s.keep {
		return nil
	}
	return s.b.Close()
}

// meaning puts into an error what callers ask for by errors.Is.
func (s *store) meaning(err error) error {
	status := 0
	if s.dialect.status != nil {
		status = s.dialect.status(err)
	}
	code := gcerrors.Code(err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	err = withoutURL(err)
	switch {
	case status == 401 || status == 403 || code == gcerrors.PermissionDenied:
		return fmt.Errorf("%w: the program's credentials are wrong, or may not read this; its SDK takes them from the environment (AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS and the like) or the machine's role: %w",
			fs.ErrPermission, err)
	case code == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case status == 412 || status == 416 || code == gcerrors.FailedPrecondition:
		return fmt.Errorf("%w: %w", objects.ErrChanged, err)
	case status >= 300 && status < 500 && status != 408 && status != 429, code == gcerrors.InvalidArgument, code == gcerrors.Unimplemented, untrusted:
		return objects.Permanent(err)
	}
	return err
}

// withoutURL takes the URL off an error of HTTP: the signature of Azure is in its query.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// Versions of buckets without ETags in lists are times and sizes.

// timeVersion is an object's version where lists have none: another object of the same size and
// time is taken for the same.
func timeVersion(modified time.Time, size int64) string {
	return fmt.Sprintf("%d-%d", modified.UnixNano(), size)
}

func listedTime(o *blob.ListObject) string { return timeVersion(o.ModTime, o.Size) }
func statTime(a *blob.Attributes) string   { return timeVersion(a.ModTime, a.Size) }
func readTime(r *blob.Reader) string       { return timeVersion(r.ModTime(), r.Size()) }
