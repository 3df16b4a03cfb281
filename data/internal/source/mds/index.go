package mds

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source"
)

const (
	// maxIndex bounds index.json.
	maxIndex = 256 << 20

	// maxShard is what offsets of 32 bits reach.
	maxShard = 1<<32 - 1

	// maxColumns bounds the columns of a sample.
	maxColumns = 1 << 10
)

// A shardInfo is what index.json says of a shard.
type shardInfo struct {
	Version         int       `json:"version"`
	Format          string    `json:"format"`
	ColumnNames     []string  `json:"column_names"`
	ColumnEncodings []string  `json:"column_encodings"`
	ColumnSizes     []*int64  `json:"column_sizes"`
	Compression     string    `json:"compression"`
	Raw             *fileInfo `json:"raw_data"`
	Zip             *fileInfo `json:"zip_data"`
	Samples         int64     `json:"samples"`
}

// A fileInfo is what index.json says of a file.
type fileInfo struct {
	Basename string            `json:"basename"`
	Bytes    int64             `json:"bytes"`
	Hashes   map[string]string `json:"hashes"`
}

// parseIndex reads index.json, and checks what will be relied on.
func parseIndex(text []byte) ([]shardInfo, error) {
	var index struct {
		Version int         `json:"version"`
		Shards  []shardInfo `json:"shards"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, err
	}
	if index.Version != 2 {
		return nil, fmt.Errorf("got version %d, want 2", index.Version)
	}
	total := int64(0)
	for k := range index.Shards {
		s := &index.Shards[k]
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("shard %d: %w", k, err)
		}
		if total += s.Samples; total > 1<<31-1 {
			return nil, errors.New("got more than 2,147,483,647 samples")
		}
	}
	if total == 0 {
		return nil, errors.New("it has no samples")
	}
	return index.Shards, nil
}

// check is an error if a shard cannot be what the index says, or if reading it would leave the
// folder or need offsets of more than 32 bits. After it sizes may be added without overflow.
func (s *shardInfo) check() error {
	switch {
	case s.Version != 2:
		return fmt.Errorf("got version %d, want 2", s.Version)
	case s.Format != "mds":
		return fmt.Errorf("got format %q, want mds", s.Format)
	case s.Raw == nil:
		return errors.New("has no raw_data")
	case len(s.ColumnNames) == 0 || len(s.ColumnNames) > maxColumns:
		return fmt.Errorf("got %d columns, want 1 to %d", len(s.ColumnNames), maxColumns)
	case len(s.ColumnNames) != len(s.ColumnEncodings) || len(s.ColumnNames) != len(s.ColumnSizes):
		return fmt.Errorf("got %d names of columns, %d encodings and %d sizes", len(s.ColumnNames), len(s.ColumnEncodings), len(s.ColumnSizes))
	case s.Samples < 0 || s.Samples > s.Raw.Bytes/4:
		return fmt.Errorf("got %d samples in %d bytes", s.Samples, s.Raw.Bytes)
	case s.Compression != "" && s.Zip == nil:
		return fmt.Errorf("has compression %q and no zip_data", s.Compression)
	}
	for _, f := range []*fileInfo{s.Raw, s.Zip} {
		if f == nil {
			continue
		}
		if !fs.ValidPath(f.Basename) || f.Basename == "." {
			return fmt.Errorf("got the name %q, which leads out of the folder", f.Basename)
		}
		if f.Bytes < 0 || f.Bytes > maxShard {
			return fmt.Errorf("%s: got %d bytes, want at most %d", f.Basename, f.Bytes, int64(maxShard))
		}
	}
	for _, size := range s.ColumnSizes {
		if size != nil && (*size < 0 || *size > maxShard) {
			return fmt.Errorf("got a column of %d bytes", *size)
		}
	}
	return nil
}

// compression is the name of the decompressor; empty: none.
func (s *shardInfo) compression() string {
	// A name such as "zstd:11" has a level.
	name, _, _ := strings.Cut(s.Compression, ":")
	switch name {
	case "gz":
		return "gzip"
	case "br":
		return "brotli"
	case "bz2":
		return "bzip2"
	}
	return name
}

// hashers are the hashes that are checked. MosaicML's others are not in Go's library.
var hashers = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// checkHashes compares data with the hashes that index.json has of a file.
func (f *fileInfo) checkHashes(data []byte) error {
	_, err := f.checkHashesOf(bytes.NewReader(data))
	return err
}

// checkHashesOf is checkHashes for data that come from r. It reports whether there is a hash that
// could be checked; without one it reads nothing. A difference is a source.Fault, other errors are
// of reading.
func (f *fileInfo) checkHashesOf(r io.Reader) (checked bool, err error) {
	var names []string
	var sums []hash.Hash
	var writers []io.Writer
	for _, name := range slices.Sorted(maps.Keys(f.Hashes)) {
		if h := hashers[name]; h != nil {
			sum := h()
			names, sums, writers = append(names, name), append(sums, sum), append(writers, sum)
		}
	}
	if len(sums) == 0 {
		return false, nil
	}
	if _, err := io.Copy(io.MultiWriter(writers...), r); err != nil {
		return true, err
	}
	for k, name := range names {
		if got := hex.EncodeToString(sums[k].Sum(nil)); got != strings.ToLower(f.Hashes[name]) {
			return true, source.Fault{Err: fmt.Errorf("%s: its %s is %s, and index.json says %s", f.Basename, name, got, f.Hashes[name])}
		}
	}
	return true, nil
}
