package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// A Place stores files by name: a folder, or a prefix of a bucket. Names are relative paths with
// slashes. Calls for different names may be made concurrently.
type Place interface {
	// Write replaces the file by what write writes: completely if it returns nil; otherwise the
	// file is as before. It returns when ctx ends, if the place can do that.
	Write(ctx context.Context, name string, write func(io.Writer) error) error
	// Open opens the file for reading until Close or the end of ctx. The error is
	// fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (Source, error)
	// List returns the names of all files whose name begins with prefix, sorted; none if the
	// place does not exist yet.
	List(ctx context.Context, prefix string) ([]string, error)
	// Remove removes the file, if it exists.
	Remove(ctx context.Context, name string) error
	Close() error
}

// ErrScheme is what errors.Is finds in the error of a URI that this program cannot open.
var ErrScheme = errors.New("unknown scheme")

// An Opener opens the place that a URL names.
type Opener func(ctx context.Context, u *url.URL) (Place, error)

var (
	// openersMu guards openers.
	openersMu sync.Mutex
	openers   = map[string]Opener{}
)

// RegisterPlace makes OpenPlace use open for URLs of a scheme, as importing checkpoint/bucket does
// for those of object stores. A scheme that is registered already is a panic: two packages of one
// program claim it.
func RegisterPlace(scheme string, open Opener) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if openers[scheme] != nil || scheme == "file" {
		panic(fmt.Sprintf("checkpoint: RegisterPlace: scheme %q is registered already", scheme))
	}
	openers[scheme] = open
}

// OpenPlace opens the place that a URI names: the path of a folder, file:///path, or a URL of a
// registered scheme, such as s3://bucket/prefix in a program that imports checkpoint/bucket. The
// folder or prefix need not exist.
func OpenPlace(ctx context.Context, uri string) (Place, error) {
	scheme, _, ok := strings.Cut(uri, "://")
	if !ok || scheme == "file" {
		folder, err := LocalPath(uri)
		if err != nil {
			return nil, err
		}
		return Folder(folder), nil
	}
	openersMu.Lock()
	open := openers[scheme]
	known := make([]string, 0, len(openers))
	for s := range openers {
		known = append(known, s+"://")
	}
	openersMu.Unlock()
	if open == nil {
		slices.Sort(known)
		return nil, fmt.Errorf("checkpoint: %s: %w: got scheme %q, want a path, file:///path or one of %q; a program that imports checkpoint/bucket knows s3, gs and azblob", uri, ErrScheme, scheme, known)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	place, err := open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: open %s: %w", redacted(u), err)
	}
	return place, nil
}

// redacted returns the URL without its password and query, which may be secret.
func redacted(u *url.URL) string {
	v := *u
	v.RawQuery = ""
	return v.Redacted()
}

// LocalPath returns the path that a URI names: a path itself, or file:///path. For a bucket's URI
// the error is ErrScheme.
func LocalPath(uri string) (string, error) {
	scheme, _, ok := strings.Cut(uri, "://")
	switch {
	case uri == "":
		return "", errors.New("checkpoint: got no path")
	case !ok:
		return uri, nil
	case scheme != "file":
		return "", fmt.Errorf("checkpoint: %s: %w: got scheme %q, want a path or file:///path", uri, ErrScheme, scheme)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("checkpoint: %s: %w: got host %q, want none: file:///path", uri, ErrScheme, u.Host)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("checkpoint: %s: %w: got a %q or %q, which end a URI's path; write %%3F or %%23, or give the plain path", uri, ErrScheme, "?", "#")
	}
	return u.Path, nil
}

// Join returns the URI of a file in a place; a URL's query stays at its end.
func Join(place string, names ...string) string {
	if strings.Contains(place, "://") {
		if u, err := url.Parse(place); err == nil {
			return u.JoinPath(names...).String()
		}
	}
	return filepath.Join(append([]string{place}, names...)...)
}

// SplitURI splits the URI of a file into the URI of its place, for OpenPlace, and its name there.
func SplitURI(uri string) (place, name string, err error) {
	if scheme, _, ok := strings.Cut(uri, "://"); !ok || scheme == "file" {
		file, err := LocalPath(uri)
		return filepath.Dir(file), filepath.Base(file), err
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "", "", fmt.Errorf("checkpoint: %w", err)
	}
	dir, name := path.Split(u.Path)
	if name == "" {
		return "", "", fmt.Errorf("checkpoint: %s: got no name of a file, want one after the last slash", redacted(u))
	}
	u.Path, u.RawPath = dir, ""
	return u.String(), name, nil
}

// SaveTo is Save to a file in a place.
func SaveTo(ctx context.Context, place Place, name string, metadata map[string]string, tensors []Tensor) error {
	if err := place.Write(ctx, name, content(metadata, tensors)); err != nil {
		// The error names the file.
		return fmt.Errorf("checkpoint: save: %w", err)
	}
	return nil
}

// SaveURI is Save to the file that a URI names.
func SaveURI(ctx context.Context, uri string, metadata map[string]string, tensors []Tensor) error {
	if file, err := LocalPath(uri); err == nil {
		return Save(file, metadata, tensors)
	}
	at, name, err := SplitURI(uri)
	if err != nil {
		return err
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return err
	}
	return errors.Join(SaveTo(ctx, place, name, metadata, tensors), place.Close())
}

// OpenIn is Open of a file in a place.
func OpenIn(ctx context.Context, place Place, name string) (*File, error) {
	r, err := place.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return read(r, name)
}

// OpenURI opens the file that a URI names.
func OpenURI(ctx context.Context, uri string) (*File, error) {
	if file, err := LocalPath(uri); err == nil {
		return Open(file)
	}
	at, name, err := SplitURI(uri)
	if err != nil {
		return nil, err
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return nil, err
	}
	f, err := OpenIn(ctx, place, name)
	if err != nil {
		return nil, errors.Join(err, place.Close())
	}
	shut := f.close
	f.close = func() error { return errors.Join(shut(), place.Close()) }
	return f, nil
}

// Folder returns the Place of a folder of this machine, which is created with the first file.
func Folder(dir string) Place { return folder{vfs.OS{}, dir} }
