package table

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Config says how files are read. A format ignores what it has no use for.
type Config struct {
	// Limit is the most bytes that one decoded block may take.
	Limit int64
	// IndexDir is where indexes are kept. Empty: in the user's cache folder, if they took long.
	IndexDir string
	// Delimiter, Quotes, NoHeader, Names and Null are of text.
	Delimiter byte
	Quotes    bool
	NoHeader  bool
	Names     []string
	Null      []string
	// Kinds are wanted, by a column's name.
	Kinds map[string]Kind
}

// A Format makes sources of files.
type Format struct {
	// Name is that of TableConfig.Format.
	Name string
	// Suffixes are how the names of its files end, in lower case: ".parquet".
	Suffixes []string
	// Open makes a source of one file.
	Open func(ctx context.Context, store objects.Store, object objects.Info, cfg Config) (Source, error)
}

var (
	formatsMu sync.Mutex
	formats   []Format
)

// Register adds a format of another module, which calls it as it is imported. A second one of the
// same name panics.
func Register(f Format) {
	formatsMu.Lock()
	defer formatsMu.Unlock()
	if slices.ContainsFunc(formats, func(o Format) bool { return o.Name == f.Name }) {
		panic(fmt.Sprintf("data: the table format %q is registered twice", f.Name))
	}
	formats = append(formats, f)
}

// Registered are the formats that were registered.
func Registered() []Format {
	formatsMu.Lock()
	defer formatsMu.Unlock()
	return slices.Clone(formats)
}

// Digest is a short hash of texts for fingerprints.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
