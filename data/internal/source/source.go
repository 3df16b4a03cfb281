// Package source holds encoded examples of a data set by number, whatever format they lie in.
//
// The number of an example is a fixed function of the data: of the names of its files in order, and
// of its place in them. It never depends on who reads or when. So examples can be divided over
// workers by number, in any order, exactly once.
//
// Each format is a package below that makes a Source: folder, list, recordio, tarshards, mds,
// tfrecord.
package source

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Source has encoded examples. Its methods may be called from several goroutines at once.
type Source interface {
	// Len is the number of examples.
	Len() int
	// Read reads example i, from 0. It may use buf's memory, grown if need be; what it returns
	// is valid as long as buf is. An example that is damaged is a *BadError; other errors say
	// that the storage failed.
	Read(ctx context.Context, i int, buf []byte) (Example, error)
	// Range is where example i lies, for reading ahead; ok is false where that is not one range
	// of one object.
	Range(i int) (r objects.Range, ok bool)
	// Blocks are the numbers of the first examples of runs that are cheap to read together,
	// such as shards, rising from 0; nil: examples in any order are as cheap.
	Blocks() []int
	// Classes are the names of the classes by label; nil: the format has none.
	Classes() []string
	// Fingerprint tells one state of the data from another: it covers the names, sizes and
	// versions of all objects in order. It is the same for a copy of the same files in another
	// place unless their bytes are indexed differently; so it leaves out times of modification
	// and ETags.
	Fingerprint() string
	// Close gives back what the source holds. The store under it stays open.
	Close() error
}

// An Example is one encoded example.
type Example struct {
	// Image is an encoded image, such as the bytes of a JPEG file.
	Image []byte
	// Labels are the labels in the order of the format; one number for a class. Empty: the
	// format has none for this example.
	Labels []float32
	// Name says which example it is for messages, such as "train.rec, record 17 at byte 81920"
	// or a file's name.
	Name string
}

// A BadError is of an example that is damaged: the data is at fault, not the storage.
type BadError struct {
	Example int // its number in the source

	// Name is as Example.Name, with the offset where there is one.
	Name string

	// Err says what is wrong, and what was wanted.
	Err error
}

func (e *BadError) Error() string {
	return fmt.Sprintf("example %d (%s): %v", e.Example, e.Name, e.Err)
}

func (e *BadError) Unwrap() error { return e.Err }
