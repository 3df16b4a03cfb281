package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ErrScheme is in the error's chain if a URL has a scheme that this program cannot open.
var ErrScheme = errors.New("unknown scheme")

// An Opener opens the store that a URL names: objects have the names that follow its path.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

var (
	// openersMu guards openers.
	openersMu sync.Mutex

	openers = map[string]Opener{}
)

// Register makes Open use open for URLs of a scheme, as importing checkpoint/bucket does for those
// of buckets. A scheme that is registered already is a panic: two packages of one program claim it.
func Register(scheme string, open Opener) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if openers[scheme] != nil || scheme == "http" || scheme == "https" || scheme == "file" {
		panic(fmt.Sprintf("objects: Register: scheme %q is registered already", scheme))
	}
	openers[scheme] = open
}

// Open opens the store that a URL names: the path of a folder, file:///path, http:// and https://
// with ranged requests, or a URL of a registered scheme. A local folder must exist; of another
// store only the first call tells whether it is there.
func Open(ctx context.Context, address string) (Store, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok || scheme == "file" {
		folder, err := localPath(address)
		if err != nil {
			return nil, err
		}
		return openFolder(folder)
	}
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	return openURL(ctx, u)
}

// OpenFile opens the store of the folder or prefix in which one object lies, and describes it.
func OpenFile(ctx context.Context, address string) (Store, Info, error) {
	store, name, err := openParent(ctx, address)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := store.Stat(ctx, name)
	if err != nil {
		return nil, Info{}, errors.Join(err, store.Close())
	}
	return store, info, nil
}

// openParent opens the folder or prefix of an object, and returns the object's name in it.
func openParent(ctx context.Context, address string) (Store, string, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok || scheme == "file" {
		file, err := localPath(address)
		if err != nil {
			return nil, "", err
		}
		if file, err = filepath.Abs(file); err != nil {
			return nil, "", fmt.Errorf("objects: open %s: %w", address, err)
		}
		store, err := openFolder(filepath.Dir(file))
		return store, filepath.Base(file), err
	}
	u, err := parse(address)
	if err != nil {
		return nil, "", err
	}
	dir, name := path.Split(u.Path)
	if name == "" {
		return nil, "", fmt.Errorf("objects: open %s: got a folder, want one object", redacted(u))
	}
	u.Path, u.RawPath = dir, ""
	store, err := openURL(ctx, u)
	return store, name, err
}

// openURL opens a URL by what was registered for its scheme.
func openURL(ctx context.Context, u *url.URL) (Store, error) {
	openersMu.Lock()
	open := openers[u.Scheme]
	known := slices.Sorted(maps.Keys(openers))
	openersMu.Unlock()
	// A table of these would bring the HTTP client into programs that open nothing.
	if u.Scheme == "http" || u.Scheme == "https" {
		open = openHTTP
	}
	if open == nil {
		known = slices.Sorted(slices.Values(append(known, "file", "http", "https")))
		return nil, fmt.Errorf("objects: open %s: %w: got %q, want a path or one of %q; "+
			"a program that imports checkpoint/bucket knows s3, gs and azblob", redacted(u), ErrScheme, u.Scheme, known)
	}
	store, err := open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("objects: open %s: %w", redacted(u), err)
	}
	return store, nil
}
