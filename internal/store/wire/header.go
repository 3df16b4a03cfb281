package wire

import (
	"encoding/binary"
	"fmt"
)

// A Header opens a frame. The package comment has its bytes.
type Header struct {
	Kind    Kind
	Head    int // bytes of the head
	Payload int // bytes of the payload
	// ID is that of the request on its connection; the answer repeats it.
	ID uint32
	// Lent: the payload, or the place for it, is memory that the sender lends the receiver, or
	// that the sender has filled: see package transport. Only processes of one host send such
	// frames.
	Lent bool
}

// flagLent is bit 0 of a header's byte 2.
const flagLent = 1

// Check reports a frame that is beyond the limits.
func (h Header) Check() error {
	if h.Head < 0 || h.Head > MaxHead {
		return fmt.Errorf("wire: %v frame: %w: a head of %d bytes, want at most %d", h.Kind, ErrMalformed, h.Head, MaxHead)
	}
	if h.Payload < 0 || h.Payload > MaxPayload {
		return fmt.Errorf("wire: %v frame: %w: a payload of %d bytes, want at most %d", h.Kind, ErrMalformed, h.Payload, MaxPayload)
	}
	return nil
}

// Put writes the header to the first HeaderSize bytes of b.
func (h Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	b[0], b[1], b[2], b[3] = Version, byte(h.Kind), 0, 0
	if h.Lent {
		b[2] = flagLent
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(h.Head))
	binary.LittleEndian.PutUint32(b[8:], uint32(h.Payload))
	binary.LittleEndian.PutUint32(b[12:], h.ID)
}

// ParseHeader reads a header from the first HeaderSize bytes of b and checks version, limits and
// zeros. It does not ask whether the kind is known: a request of an unknown kind is answered, and
// the connection stays open.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("wire: frame: %w: got %d bytes, want at least %d", ErrMalformed, len(b), HeaderSize)
	}
	if b[0] != Version {
		return Header{}, fmt.Errorf("wire: frame: %w: version %d, want %d", ErrMalformed, b[0], Version)
	}
	if b[2]&^flagLent|b[3] != 0 {
		return Header{}, fmt.Errorf("wire: frame: %w: bytes 2 and 3 are %d and %d, want 0 or %d, and 0", ErrMalformed, b[2], b[3], flagLent)
	}
	// Compared as uint32, so that nothing wraps where an int has 32 bits.
	head, payload := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if head > MaxHead || payload > MaxPayload {
		return Header{}, fmt.Errorf("wire: %v frame: %w: a head of %d and a payload of %d bytes, want at most %d and %d",
			Kind(b[1]), ErrMalformed, head, payload, MaxHead, MaxPayload)
	}
	return Header{Kind: Kind(b[1]), Head: int(head), Payload: int(payload), ID: binary.LittleEndian.Uint32(b[12:]), Lent: b[2] != 0}, nil
}
