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
	s := &scanner{heads: skim.New(ctx, store, shard), size: shard.Size, next: pax{size: -1}}
	defer s.heads.Close()
	for !s.ended {
		if err := s.step(found); err != nil {
			return fmt.Errorf("%s: %s: at byte %d: %w", store.URL(), shard.Name, s.off, err)
		}
	}
	return nil
}

// A scanner goes over the heads of a shard.
type scanner struct {
	heads *skim.Reader

	// size is the shard's.
	size int64

	// off is where the next head begins or, with an error, where it was found. ended says that the
	// archive is over.
	off   int64
	ended bool

	// longName and next describe the next member.
	longName string
	next     pax
}

// step reads one head, and what it says of the next one.
func (s *scanner) step(found func(member) error) error {
	h, zero, err := s.head()
	switch {
	case err != nil:
		return err
	case zero:
		s.ended = true
		return nil
	}
	switch h.kind {
	case kindLongName, kindLongLink, kindPax, kindPaxGlobal:
		return s.describe(h)
	case kindSparse:
		return fmt.Errorf("%s: %w", h.name, errSparse)
	}
	return s.member(h, found)
}

func (s *scanner) head() (h head, zero bool, err error) {
	if s.off == s.size {
		return h, false, fmt.Errorf("%w: it ends without the empty blocks that every archive ends with", errCut)
	}
	if s.off > s.size-blockSize {
		return h, false, fmt.Errorf("%w: got %d bytes, want a head of %d", errCut, s.size-s.off, blockSize)
	}
	var block [blockSize]byte
	if err := s.heads.Read(block[:], s.off); err != nil {
		return h, false, err
	}
	h, zero, err = parseHead(&block)
	if err != nil && s.off == 0 && block[0] == 0x1f && block[1] == 0x8b {
		err = errGzip
	}
	return h, zero, err
}

// describe reads what a head's data say of the next member.
func (s *scanner) describe(h head) (err error) {
	data := s.off + blockSize
	if h.size > maxNote {
		return fmt.Errorf("got %d bytes that describe the next member, want at most %d", h.size, maxNote)
	}
	if h.size > s.size-data {
		return fmt.Errorf("%w: a description of %d bytes begins at byte %d of %d", errCut, h.size, data, s.size)
	}
	if h.kind != kindLongLink {
		s.off = data
		note := make([]byte, h.size)
		if err := s.heads.Read(note, data); err != nil {
			return err
		}
		switch h.kind {
		case kindLongName:
			s.longName = text(note)
		case kindPax:
			s.next, err = parsePax(note)
		case kindPaxGlobal:
			_, err = parsePax(note)
		}
		if err != nil {
			return err
		}
	}
	s.off = data + padded(h.size)
	return nil
}

// member passes over a member. found is called if it is a file.
func (s *scanner) member(h head, found func(member) error) error {
	name, size := h.name, h.size
	if s.longName != "" {
		name = s.longName
	}
	if s.next.path != "" {
		name = s.next.path
	}
	if s.next.size >= 0 && h.kind == kindFile {
		size = s.next.size
	}
	s.longName, s.next = "", pax{size: -1}
	if len(name) > maxName {
		return fmt.Errorf("got a name of %d bytes, want at most %d", len(name), maxName)
	}
	data := s.off + blockSize
	if size > s.size-data {
		return fmt.Errorf("%w: %s has %d bytes from byte %d on, and the shard has %d in all", errCut, name, size, data, s.size)
	}
	if h.kind == kindFile {
		if err := found(member{name, data, size}); err != nil {
			return err
		}
	}
	if s.off = data + padded(size); s.off > s.size {
		s.off = s.size
		return fmt.Errorf("%w: the zeros that fill the last block of %s are missing", errCut, name)
	}
	return nil
}

// errGzip is of a compressed archive.
var errGzip = errors.New("the archive is compressed, so that no example can be read without all before it: " +
	"decompress it (gunzip, zstd -d); images are compressed already")
