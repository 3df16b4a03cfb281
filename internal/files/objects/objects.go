// Package objects reads files where they lie: in folders, on web servers and in buckets.
//
// A Store has objects by name. List and Stat say what there is, as an Info each; ReadRange reads
// bytes of the very version that an Info describes, so that data that changes under a run is an
// error and never a mixture. An object is never written here.
//
// Open finds the store of a URL: a path or file:///path, http:// and https:// with ranged requests,
// and the schemes that were registered: a program that imports checkpoint/bucket knows s3, gs and
// azblob.
//
// Stores can be stacked: a cache on disk and a reader ahead are stores over another one.
package objects

import (
	"context"
	"errors"
	"iter"
)

// An Info describes one version of an object.
type Info struct {
	// Name is the object's name in its store, with slashes.
	Name string
	// Size is the object's length in bytes.
	Size int64
	// Version tells versions apart: an ETag, or the time of modification of a file in
	// nanoseconds. Empty: the store cannot tell.
	Version string
}

// A Store has objects. Its methods may be called from several goroutines at once. Errors name the
// store's URL, without secrets, and the object; errors.Is finds fs.ErrNotExist, fs.ErrPermission
// and ErrChanged in them, which no retry mends. Anything else was tried again, with back-off and a
// bound, before it came back.
type Store interface {
	// URL is the store's address for messages, without secrets.
	URL() string
	// List returns the objects whose names begin with the prefix, in the byte order of their
	// names. It ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Stat describes the object of a name.
	Stat(ctx context.Context, name string) (Info, error)
	// ReadRange fills p with the object's bytes from off on. Anything less is an error:
	// io.ErrUnexpectedEOF where the object ends before, ErrChanged where it has another version
	// by now.
	ReadRange(ctx context.Context, object Info, p []byte, off int64) error
	// Close gives back what the store holds. No other call may be under way.
	Close() error
}

// ErrChanged is in the error's chain if an object is no longer the one that an Info describes.
var ErrChanged = errors.New("the object has changed: a run reads data as it was when it was opened; leave it as it is, and give new data another name")

// A Range is some bytes of an object.
type Range struct {
	Object      Info
	Off, Length int64
}
