package source

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Format makes sources of files that a package of another module reads, such as Parquet.
type Format struct {
	Name string
	// Suffixes are how the names of its files end, in lower case: ".parquet".
	Suffixes []string
	// Open makes a source of files, sorted by name.
	Open func(ctx context.Context, store objects.Store, files []objects.Info, columns Columns) (Source, error)
}

// Columns are the names of those that have the images and the labels. Empty: those that mostly do.
type Columns struct{ Image, Label string }

var (
	formatsMu sync.Mutex // guards formats
	formats   []Format
)

// Register adds a format, which a package does as it is imported. A second one of the same name
// panics.
func Register(f Format) {
	formatsMu.Lock()
	defer formatsMu.Unlock()
	if slices.ContainsFunc(formats, func(o Format) bool { return o.Name == f.Name }) {
		panic(fmt.Sprintf("data: the format of images %q is registered twice", f.Name))
	}
	formats = append(formats, f)
}

// Registered are the formats that were registered.
func Registered() []Format {
	formatsMu.Lock()
	defer formatsMu.Unlock()
	return slices.Clone(formats)
}
