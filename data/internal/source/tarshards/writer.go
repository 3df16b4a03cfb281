package tarshards

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A WriterConfig says how samples are cut into shards.
type WriterConfig struct {
	// Name is the pattern of the shards' names with the place of a number from 0 on; empty is
	// "shard-%06d.tar".
	Name string
	// MaxCount is how many samples a shard has at most; 0 is 100,000.
	MaxCount int
	// MaxSize is from how many bytes of members on a shard is full; 0 is 3,000,000,000.
	MaxSize int64
	// Create makes the file of a shard. The writer closes it.
	Create func(name string) (io.WriteCloser, error)
}

// A Writer writes samples into shards that follow each other. The same samples make the same bytes.
type Writer struct {
	cfg WriterConfig

	// shards is how many were begun.
	shards int

	file  io.WriteCloser
	tar   *tar.Writer
	count int
	size  int64

	// keys are those of the shard that is open.
	keys map[string]bool
}

// A Member is a part of a sample: its bytes are stored as key.Extension.
type Member struct {
	Extension string // such as "jpg" or "cls"
	Data      []byte
}

// NewWriter makes a writer. It begins a shard with the first sample.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	cfg.Name = cmp.Or(cfg.Name, "shard-%06d.tar")
	cfg.MaxCount, cfg.MaxSize = cmp.Or(cfg.MaxCount, 100_000), cmp.Or(cfg.MaxSize, 3_000_000_000)
	if name := fmt.Sprintf(cfg.Name, 1); strings.Contains(name, "%!") || name == fmt.Sprintf(cfg.Name, 2) {
		return nil, fmt.Errorf("data: tar shards: got name %q, want one place for a number, such as shard-%%06d.tar", cfg.Name)
	}
	if cfg.MaxCount < 1 || cfg.MaxSize < 1 {
		return nil, fmt.Errorf("data: tar shards: got %d samples and %d bytes for a shard, want at least 1", cfg.MaxCount, cfg.MaxSize)
	}
	if cfg.Create == nil {
		return nil, errors.New("data: tar shards: got no Create, want a function that makes files")
	}
	return &Writer{cfg: cfg}, nil
}

// Write appends a sample: its members are stored by extension, as WebDataset's writer does. The key
// may have slashes, and no dot behind the last one.
func (w *Writer) Write(key string, members ...Member) error {
	if err := w.check(key, members); err != nil {
		return fmt.Errorf("data: tar shards: sample %q: %w", key, err)
	}
	if w.tar != nil && (w.count >= w.cfg.MaxCount || w.size >= w.cfg.MaxSize) {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.tar == nil {
		file, err := w.cfg.Create(fmt.Sprintf(w.cfg.Name, w.shards))
		if err != nil {
			return err
		}
		w.file, w.tar, w.count, w.size, w.keys = file, tar.NewWriter(file), 0, 0, map[string]bool{}
		w.shards++
	}
	if w.keys[key] {
		return fmt.Errorf("data: tar shards: sample %q is in shard %s already", key, fmt.Sprintf(w.cfg.Name, w.shards-1))
	}
	w.keys[key] = true
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Extension, b.Extension) })
	for _, m := range members {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: key + "." + m.Extension, Size: int64(len(m.Data)), Mode: 0o444, ModTime: time.Unix(0, 0)}
		if err := w.tar.WriteHeader(head); err != nil {
			return fmt.Errorf("data: tar shards: sample %q: %w", key, err)
		}
		if _, err := w.tar.Write(m.Data); err != nil {
			return fmt.Errorf("data: tar shards: sample %q: %w", key, err)
		}
		w.size += int64(len(m.Data))
	}
	w.count++
	return nil
}

// check refuses what would not be read back as it is.
func (w *Writer) check(key string, members []Member) error {
	if len(members) == 0 {
		return errors.New("got no members")
	}
	for k, m := range members {
		got, extension, ok := splitName(key + "." + m.Extension)
		if !ok || got != key || extension != m.Extension || m.Extension == "" || strings.ContainsAny(m.Extension, "/\x00") || strings.IndexByte(key, 0) >= 0 {
			return fmt.Errorf("got extension %q, want a key without dots behind the last slash, and an extension in lower case", m.Extension)
		}
		for _, other := range members[:k] {
			if other.Extension == m.Extension {
				return fmt.Errorf("got extension %q twice", m.Extension)
			}
		}
	}
	return nil
}

// finish ends the open shard.
func (w *Writer) finish() error {
	if w.tar == nil {
		return nil
	}
	err := errors.Join(w.tar.Close(), w.file.Close())
	w.tar, w.file = nil, nil
	if err != nil {
		return fmt.Errorf("data: tar shards: end %s: %w", fmt.Sprintf(w.cfg.Name, w.shards-1), err)
	}
	return nil
}

// Shards is how many shards were begun.
func (w *Writer) Shards() int { return w.shards }

// Close ends the last shard.
func (w *Writer) Close() error { return w.finish() }
