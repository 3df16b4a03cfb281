package tarshards

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/objects"
)

// A member is a file in a shard.
type member struct {
	name string
	data int64 // offset of its first byte in the shard, a multiple of 512
	size int64
}

// errCut is of a shard that ends too early.
var errCut = errors.New("the shard is cut short")

// scan reads the heads of a shard in order and calls found for each file. Data are skipped.
func scan(ctx context.Context, store objects.Store, shard objects.Info, found func(member) error) error {
	heads := newHeads(ctx, store, shard)
	defer heads.Close()
	at := func(off int64, err error) error {
		return fmt.Errorf("%s: %s: at byte %d: %w", store.URL(), shard.Name, off, err)
	}
	var longName string // of the next member
	next := pax{size: -1}
	for off := int64(0); ; {
		if off == shard.Size {
			return at(off, fmt.Errorf("%w: it ends without the empty blocks that every archive ends with", errCut))
		}
		if off > shard.Size-blockSize {
			return at(off, fmt.Errorf("%w: got %d bytes, want a head of %d", errCut, shard.Size-off, blockSize))
		}
		var block [blockSize]byte
		if err := heads.read(block[:], off); err != nil {
			return at(off, err)
		}
		h, zero, err := parseHead(&block)
		switch {
		case err != nil && off == 0 && block[0] == 0x1f && block[1] == 0x8b:
			return at(off, errGzip)
		case err != nil:
			return at(off, err)
		case zero:
			return nil
		}
		data := off + blockSize
		switch h.kind {
		case kindLongName, kindLongLink, kindPax, kindPaxGlobal:
			if h.size > maxNote {
				return at(off, fmt.Errorf("got %d bytes that describe the next member, want at most %d", h.size, maxNote))
			}
			if h.size > shard.Size-data {
				return at(off, fmt.Errorf("%w: a description of %d bytes begins at byte %d of %d", errCut, h.size, data, shard.Size))
			}
			if h.kind == kindLongName || h.kind == kindPax || h.kind == kindPaxGlobal {
				note := make([]byte, h.size)
				if err := heads.read(note, data); err != nil {
					return at(data, err)
				}
				switch h.kind {
				case kindLongName:
					longName = text(note)
				case kindPax:
					if next, err = parsePax(note); err != nil {
						return at(data, err)
					}
				case kindPaxGlobal:
					if _, err := parsePax(note); err != nil {
						return at(data, err)
					}
				}
			}
			off = data + padded(h.size)
			continue
		case kindSparse:
			return at(off, fmt.Errorf("%s: %w", h.name, errSparse))
		}
		name, size := h.name, h.size
		if longName != "" {
			name = longName
		}
		if next.path != "" {
			name = next.path
		}
		if next.size >= 0 && h.kind == kindFile {
			size = next.size
		}
		longName, next = "", pax{size: -1}
		if len(name) > maxName {
			return at(off, fmt.Errorf("got a name of %d bytes, want at most %d", len(name), maxName))
		}
		if size > shard.Size-data {
			return at(off, fmt.Errorf("%w: %s has %d bytes from byte %d on, and the shard has %d in all", errCut, name, size, data, shard.Size))
		}
		if h.kind == kindFile {
			if err := found(member{name, data, size}); err != nil {
				return at(off, err)
			}
		}
		off = data + padded(size)
		if off > shard.Size {
			return at(shard.Size, fmt.Errorf("%w: the zeros that fill the last block of %s are missing", errCut, name))
		}
	}
}

// errGzip is of a compressed archive.
var errGzip = errors.New("the archive is compressed, so that no example can be read without all before it: " +
	"decompress it (gunzip, zstd -d); images are compressed already")

// windowOfFile is how much of a local file is read at once for a head: the head, and often that of a small member behind it.
const windowOfFile = 4096

// heads reads the blocks of heads in rising order. In a local file each is a small read. Elsewhere, where a request takes longer
// than the bytes between two heads, the data between them are read as well, in large requests ahead; large members are jumped over.
type heads struct {
	ctx    context.Context
	store  objects.Store
	shard  objects.Info
	stream *objects.Reader // nil: local
	window []byte
	start  int64 // of the window
}

func newHeads(ctx context.Context, store objects.Store, shard objects.Info) *heads {
	h := &heads{ctx: ctx, store: store, shard: shard}
	if !sidecar.Local(store) {
		h.stream = objects.NewReader(ctx, store, shard)
	}
	return h
}

// read fills p, which lies within the shard.
func (h *heads) read(p []byte, off int64) error {
	if h.stream != nil {
		if _, err := h.stream.Seek(off, io.SeekStart); err != nil {
			return err
		}
		_, err := io.ReadFull(h.stream, p)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if len(p) > windowOfFile {
		return h.store.ReadRange(h.ctx, h.shard, p, off)
	}
	if off < h.start || off+int64(len(p)) > h.start+int64(len(h.window)) {
		n := min(windowOfFile, h.shard.Size-off)
		if cap(h.window) == 0 {
			h.window = make([]byte, windowOfFile)
		}
		h.start, h.window = off, h.window[:n]
		if err := h.store.ReadRange(h.ctx, h.shard, h.window, off); err != nil {
			h.window = h.window[:0]
			return err
		}
	}
	copy(p, h.window[off-h.start:])
	return nil
}

func (h *heads) Close() error {
	if h.stream != nil {
		return h.stream.Close()
	}
	return nil
}
