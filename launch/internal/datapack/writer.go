package datapack

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
)

// A writer writes the images of one part.
type writer interface {
	// write writes image k of the part, which is example i of the source.
	write(k, i int, e data.Encoded) error
	close() error
}

func (c *Config) newWriter(p part, out *output) (writer, error) {
	if c.tar() {
		return c.newTarWriter(p, out)
	}
	return c.newRecWriter(p, out)
}

// A recWriter writes a .rec file and its index.
type recWriter struct {
	rec, idx *fileWriter
	w        *data.RecordWriter
	images   int
}

func (c *Config) newRecWriter(p part, out *output) (*recWriter, error) {
	w := &recWriter{}
	var err error
	w.rec, err = out.create(p.prefix+".rec", func(bytes int64) {
		out.files = append(out.files, File{p.prefix + ".rec", w.images, bytes})
	})
	if err != nil {
		return nil, err
	}
	if w.idx, err = out.create(p.prefix+".idx", func(int64) {}); err != nil {
		return nil, errors.Join(err, w.rec.Close())
	}
	w.w = data.NewRecordWriter(w.rec, w.idx, data.RecordConfig{PackLabel: c.PackLabel})
	return w, nil
}

func (w *recWriter) write(_, i int, e data.Encoded) error {
	w.images++
	return w.w.Write(uint64(i), e)
}

func (w *recWriter) close() error { return errors.Join(w.rec.Close(), w.idx.Close()) }

// A tarWriter writes shards.
type tarWriter struct {
	out *output
	p   part
	w   *data.TarWriter
	// images is how many the open shard has.
	images int
}

func (c *Config) newTarWriter(p part, out *output) (*tarWriter, error) {
	w := &tarWriter{out: out, p: p}
	cfg := data.TarConfig{
		// A percent sign in the prefix stands for itself.
		Name:    strings.ReplaceAll(filepath.Base(p.prefix), "%", "%%") + "-%06d.tar",
		MaxSize: c.ShardSize,
		Create:  w.create,
	}
	if p.shards > 0 {
		cfg.MaxCount = (len(p.images) + p.shards - 1) / p.shards
		cfg.MaxSize = 1 << 62
	}
	var err error
	w.w, err = data.NewTarWriter(cfg)
	return w, err
}

func (w *tarWriter) create(name string) (io.WriteCloser, error) {
	name = filepath.Join(filepath.Dir(w.p.prefix), name)
	w.images = 0
	return w.out.create(name, func(bytes int64) {
		w.out.files = append(w.out.files, File{name, w.images, bytes})
	})
}

func (w *tarWriter) write(_, i int, e data.Encoded) error {
	// After Write the example may be in a new shard.
	if err := w.w.Write(fmt.Sprintf("%08d", i), e); err != nil {
		return err
	}
	w.images++
	return nil
}

func (w *tarWriter) close() error { return w.w.Close() }
