package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// ErrMalformed is wrapped by errors about bytes that are no chunk.
var ErrMalformed = errors.New("malformed chunk")

// latest bounds the times of spans, in nanoseconds of Unix time, and maxOffset the offsets of
// clocks, so that no sum of them overflows.
const (
	// latest is in the year 2116.
	latest = 1 << 62

	maxOffset = 1 << 61
)

// Decode reads a chunk of Encode. A span's Key is an index of names; names[0] is empty. Spans of
// kinds that this version does not know are left out. Decode allocates at most ten times the size
// of the chunk. Its errors wrap ErrMalformed.
func Decode(chunk []byte) (spans []Span, names []string, err error) {
	if len(chunk) > MaxChunk {
		return nil, nil, fmt.Errorf("trace: %w of %d bytes, want at most %d", ErrMalformed, len(chunk), MaxChunk)
	}
	r := reader{b: chunk}
	if format := r.byte(); r.err == nil && format != chunkFormat {
		return nil, nil, fmt.Errorf("trace: %w of format %d, want %d", ErrMalformed, format, chunkFormat)
	}
	names = make([]string, 1, 1+r.count("names", 1))
	for len(names) < cap(names) && r.err == nil {
		names = append(names, r.name())
	}
	n := r.count("spans", leastSpan)
	spans = make([]Span, 0, n)
	previous := int64(0)
	for range n {
		var s Span
		s.Kind = Kind(r.byte())
		s.Begin = previous + r.varint()
		previous = s.Begin
		length := r.uvarint("length", latest)
		s.Step = r.uvarint("step", math.MaxUint64)
		s.Key = uint32(r.uvarint("name", uint64(len(names)-1)))
		s.Shard = uint32(r.uvarint("shard", math.MaxUint32))
		s.Round = r.uvarint("round", math.MaxUint64)
		s.Peer = r.uvarint("peer", math.MaxUint64)
		s.Bytes = r.uvarint("bytes", math.MaxUint64)
		s.End = s.Begin + int64(length)
		if r.err == nil && (s.Begin < 0 || s.Begin > latest || s.End > latest) {
			r.fail("span %d is from %d for %d ns, want times from 0 to %d", len(spans), s.Begin, length, int64(latest))
		}
		if r.err != nil {
			return nil, nil, r.err
		}
		if s.Kind.Valid() {
			spans = append(spans, s)
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes are left over", len(r.b))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	return spans, names, nil
}

// A reader takes numbers from bytes. After the first error it gives zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("trace: %w: %s", ErrMalformed, fmt.Sprintf(format, args...))
		r.b = nil
	}
}

func (r *reader) byte() uint8 {
	if len(r.b) == 0 {
		r.fail("it ends too early")
		return 0
	}
	x := r.b[0]
	r.b = r.b[1:]
	return x
}

func (r *reader) uvarint(what string, most uint64) uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends within a number, or the number has more than 64 bits")
		return 0
	}
	r.b = r.b[n:]
	if x > most {
		r.fail("%s %d, want at most %d", what, x, most)
		return 0
	}
	return x
}

func (r *reader) varint() int64 {
	x, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("it ends within a number, or the number has more than 64 bits")
		return 0
	}
	r.b = r.b[n:]
	return x
}

// count reads how many things follow, of at least so many bytes each: memory may be taken for them.
func (r *reader) count(what string, least int) int {
	n := r.uvarint("number of "+what, MaxChunk)
	if int(n)*least > len(r.b) {
		r.fail("%d %s in %d bytes, want at least %d bytes each", n, what, len(r.b), least)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	n := int(r.uvarint("length of a name", MaxName))
	if n > len(r.b) {
		r.fail("a name of %d bytes in %d", n, len(r.b))
		return ""
	}
	name := string(r.b[:n])
	if !utf8.ValidString(name) {
		r.fail("a name that is not UTF-8")
		return ""
	}
	r.b = r.b[n:]
	return name
}
