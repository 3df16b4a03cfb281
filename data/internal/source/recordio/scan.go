package recordio

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A scanner finds the records of a file in one pass over it.
type scanner struct {
	r    *objects.Reader
	size int64
}

// scan calls found with the offset of each record, rising. Without resync the first damage is an
// error. With it what is damaged counts as a record, which is an error when it is read, and the
// scan goes on with the next record that can be found.
func scan(ctx context.Context, store objects.Store, object objects.Info, resync bool, found func(off int64)) error {
	r := objects.NewReader(ctx, store, object)
	defer r.Close()
	s := scanner{r, object.Size}
	// before is where the record before began.
	before := int64(-4)
	for off, n := int64(0), 0; off < s.size; n++ {
		end, err := s.record(off)
		if err == nil {
			found(off)
			before, off = off, end
			continue
		}
		if _, ok := errors.AsType[damage](err); !ok {
			return err
		}
		if !resync {
			return fmt.Errorf("%s, record %d at byte %d: %w; launch data check finds what can be read", object.Name, n, off, err)
		}
		// The length of the record before may be what is damaged: then the next one begins
		// inside of it.
		next, err := s.search(before + 4)
		if err != nil {
			return err
		}
		if next == off {
			// The damage is further on in this record.
			if next, err = s.search(off + 4); err != nil {
				return err
			}
		}
		if next >= off {
			found(off)
			before = off
		}
		off = next
	}
	return nil
}

// A damage is an error of what the file has.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// record returns where the record ends that begins at off.
func (s *scanner) record(off int64) (end int64, err error) {
	for begins := true; ; begins = false {
		if s.size-off < headSize {
			return 0, damage{fmt.Errorf("the file ends at byte %d, %d bytes into a head of %d: it was cut, or not copied to its end", s.size, s.size-off, headSize)}
		}
		var b [headSize]byte
		if err := s.read(b[:], off); err != nil {
			return 0, err
		}
		h, err := parseHead(b[:], begins)
		if err != nil {
			if !begins {
				err = fmt.Errorf("at byte %d: %w", off, err)
			}
			return 0, damage{err}
		}
		off += headSize
		if padded(h.length) > s.size-off {
			return 0, damage{fmt.Errorf("a part of %d bytes at byte %d does not fit: the file ends at byte %d; it was cut, or not copied to its end", h.length, off, s.size)}
		}
		off += padded(h.length)
		if h.ends() {
			return off, nil
		}
	}
}

func (s *scanner) read(p []byte, off int64) error {
	if _, err := s.r.Seek(off, io.SeekStart); err != nil {
		return err
	}
	_, err := io.ReadFull(s.r, p)
	return err
}

// search returns where the next record begins at off or behind it; the end of the file if none
// does.
func (s *scanner) search(off int64) (int64, error) {
	b := make([]byte, 64<<10)
	for s.size-off >= headSize {
		b := b[:min(int64(len(b)), s.size-off)]
		if err := s.read(b, off); err != nil {
			return 0, err
		}
		for at := 0; at+headSize <= len(b); at += 4 {
			if beginsRecord(b[at:]) {
				return off + int64(at), nil
			}
		}
		// The last word may be the magic number of a head that goes on behind b.
		off += int64(len(b)-headSize)&^3 + 4
	}
	return s.size, nil
}
