package tarshards

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/data/internal/source/skim"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A member is a file in a shard.
type member struct {
	name string

	// data is the offset of its first byte in the shard, a multiple of 512.
	data int64

	size int64
}

// errCut is of a shard that ends too early.
var errCut = errors.New("the shard is cut short; copy it anew")

// scan reads the heads of a shard in order and calls found for each file. Data are skipped.
func scan(ctx context.Context, store objects.Store, shard objects.Info, found func(member) error) error {
	heads := skim.New(ctx, store, shard)
	defer heads.Close()
	at := func(off int64, err error) error {
		return fmt.Errorf("%s: %s: at byte %d: %w", store.URL(), shard.Name, off, err)
	}

	// longName is that of the next member.
	var longName string
	next := pax{size: -1}
	for off := int64(0); ; {
		if off == shard.Size {
			return at(off, fmt.Errorf("%w: it ends without the empty blocks that every archive ends with", errCut))
		}
		if off > shard.Size-blockSize {
			return at(off, fmt.Errorf("%w: got %d bytes, want a head of %d", errCut, shard.Size-off, blockSize))
		}
		var block [blockSize]byte
		if err := heads.Read(block[:], off); err != nil {
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
				if err := heads.Read(note, data); err != nil {
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
