package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrMalformed is in the chain of every error about bytes that do not have the format of their
// kind.
var ErrMalformed = errors.New("malformed")

// A coder walks the fields of one message, in both directions: encoding it appends them to b,
// decoding it takes them from b. Each message lists its fields once, so the two cannot disagree.
// After the first error decoding does nothing more.
type coder struct {
	b        []byte
	decoding bool
	kind     Kind
	// off is, when decoding, how many bytes are taken.
	off int
	err error
}

// AppendHead appends the encoded head to b and returns the extended slice.
func AppendHead(b []byte, m Message) []byte {
	c := coder{b: b}
	if c.frequent(m) {
		return c.b
	}
	seldom := coder{b: b}
	m.fields(&seldom)
	return seldom.b
}

// DecodeHead reads the whole of b into m. Strings and slices of m do not alias b; PushMany and
// PushedMany reuse the memory of their lists.
func DecodeHead(m Message, b []byte) error {
	c := coder{b: b, decoding: true, kind: m.Kind()}
	if c.frequent(m) {
		return c.end()
	}
	seldom := coder{b: b, decoding: true, kind: m.Kind()}
	m.fields(&seldom)
	return seldom.end()
}

// frequent codes the fields of a message of those that come by the hundred thousand a second, and
// reports whether m is one. Their methods are called by name: of a call behind the interface the
// compiler must assume that it keeps the coder, which is then allocated.
func (c *coder) frequent(m Message) bool {
	switch m := m.(type) {
	case *Push:
		m.fields(c)
	case *Pull:
		m.fields(c)
	case *Ack:
		m.fields(c)
	case *Value:
		m.fields(c)
	case *PushMany:
		m.fields(c)
	case *PushedMany:
		m.fields(c)
	case *PushRows:
		m.fields(c)
	case *PullRows:
		m.fields(c)
	default:
		return false
	}
	return true
}

func (c *coder) fail(f string, a ...any) { c.failErr(fmt.Errorf(f, a...)) }
func (c *coder) failErr(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("wire: %v head: %w: %w", c.kind, ErrMalformed, err)
	}
}

// take returns the next n bytes, or nil after an error.
func (c *coder) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if len(c.b)-c.off < n {
		c.fail("got %d bytes, want at least %d", len(c.b), c.off+n)
		return nil
	}
	p := c.b[c.off : c.off+n]
	c.off += n
	return p
}

// A window is n bytes of a head whose fields have fixed places in it. The heads that come most
// often are coded in one: their length is checked once, not at each field. The fields must fill the
// window.
type window struct {
	c *coder
	// b is nil after an error: no field may be coded.
	b []byte
	// base is the window's place in the head.
	base int
}

// window returns the next n bytes, and reports whether fields may be coded.
func (c *coder) window(n int) (w window, ok bool) {
	if c.decoding {
		w = window{c, c.take(n), c.off - n}
		return w, w.b != nil
	}
	at := len(c.b)
	c.b = slices.Grow(c.b, n)[:at+n]
	return window{c, c.b[at:], at}, true
}

func (w *window) u8(at int, v *uint8) {
	if w.c.decoding {
		*v = w.b[at]
	} else {
		w.b[at] = *v
	}
}

func (w *window) u32(at int, v *uint32) {
	if w.c.decoding {
		*v = binary.LittleEndian.Uint32(w.b[at:])
	} else {
		binary.LittleEndian.PutUint32(w.b[at:], *v)
	}
}

func (w *window) u64(at int, v *uint64) {
	if w.c.decoding {
		*v = binary.LittleEndian.Uint64(w.b[at:])
	} else {
		binary.LittleEndian.PutUint64(w.b[at:], *v)
	}
}

func (w *window) f32(at int, v *float32) {
	if w.c.decoding {
		*v = math.Float32frombits(binary.LittleEndian.Uint32(w.b[at:]))
	} else {
		binary.LittleEndian.PutUint32(w.b[at:], math.Float32bits(*v))
	}
}

func (w *window) f64(at int, v *float64) {
	if w.c.decoding {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(w.b[at:]))
	} else {
		binary.LittleEndian.PutUint64(w.b[at:], math.Float64bits(*v))
	}
}

func (w *window) bool(at int, v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	if w.u8(at, &u); !w.c.decoding {
		return
	}
	if *v = u == 1; u > 1 {
		w.c.fail("byte %d: a bool is 0 or 1, got %d", w.base+at, u)
	}
}

// end reports the first error, or that bytes are left over.
func (c *coder) end() error {
	if c.err == nil && c.off != len(c.b) {
		c.fail("got %d bytes, want %d", len(c.b), c.off)
	}
	return c.err
}

func (c *coder) u8(v *uint8) {
	if !c.decoding {
		c.b = append(c.b, *v)
	} else if p := c.take(1); p != nil {
		*v = p[0]
	}
}

func (c *coder) u16(v *uint16) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint16(c.b, *v)
	} else if p := c.take(2); p != nil {
		*v = binary.LittleEndian.Uint16(p)
	}
}

func (c *coder) u32(v *uint32) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint32(c.b, *v)
	} else if p := c.take(4); p != nil {
		*v = binary.LittleEndian.Uint32(p)
	}
}

func (c *coder) u64(v *uint64) {
	if !c.decoding {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
	} else if p := c.take(8); p != nil {
		*v = binary.LittleEndian.Uint64(p)
	}
}

func (c *coder) code(v *Code) {
	u := uint16(*v)
	if c.u16(&u); c.decoding {
		*v = Code(u)
	}
}

func (c *coder) i32(v *int32) {
	u := uint32(*v)
	if c.u32(&u); c.decoding {
		*v = int32(u)
	}
}

func (c *coder) i64(v *int64) {
	u := uint64(*v)
	if c.u64(&u); c.decoding {
		*v = int64(u)
	}
}

func (c *coder) f32(v *float32) {
	u := math.Float32bits(*v)
	if c.u32(&u); c.decoding {
		*v = math.Float32frombits(u)
	}
}

func (c *coder) f64(v *float64) {
	u := math.Float64bits(*v)
	if c.u64(&u); c.decoding {
		*v = math.Float64frombits(u)
	}
}

func (c *coder) bool(v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	c.u8(&u)
	if c.decoding {
		if u > 1 {
			c.fail("byte %d: a bool is 0 or 1, got %d", c.off-1, u)
			return
		}
		*v = u == 1
	}
}

func (c *coder) string(v *string) { c.text(v, MaxString) }

// text codes a string of at most so many bytes.
func (c *coder) text(v *string, most uint32) {
	n := uint32(len(*v))
	c.u32(&n)
	if !c.decoding {
		c.b = append(c.b, *v...)
		return
	}
	if n > most {
		c.fail("byte %d: a string of %d bytes, want at most %d", c.off-4, n, most)
		return
	}
	p := c.take(int(n))
	if c.err != nil {
		return
	}
	if !utf8.Valid(p) {
		c.fail("byte %d: a string that is not UTF-8", c.off-int(n))
		return
	}
	*v = string(p)
}

// count codes the length of a list of at most so many items, which take at least size bytes each.
// Decoding is an error if the remaining bytes are too few for that length, so that the caller may
// allocate it.
func (c *coder) count(have, size int, most uint32) int {
	n := uint32(have)
	c.u32(&n)
	if !c.decoding {
		return have
	}
	if c.err == nil && n > most {
		c.fail("byte %d: a list of %d items, want at most %d", c.off-4, n, most)
	}
	if c.err == nil && int(n)*size > len(c.b)-c.off {
		c.fail("byte %d: a list of %d items in %d bytes, want at least %d each", c.off-4, n, len(c.b)-c.off, size)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// bytes codes at most so many bytes, which decoding copies. None are decoded as nil.
func (c *coder) bytes(v *[]byte, most uint32) {
	n := c.count(len(*v), 1, most)
	if !c.decoding {
		c.b = append(c.b, *v...)
		return
	}
	*v = append([]byte(nil), c.take(n)...)
}

// list codes a list; each codes one item of it, which takes at least size bytes. An empty list is
// decoded as nil.
func list[T any](c *coder, v *[]T, size int, each func(*coder, *T)) {
	n := c.count(len(*v), size, MaxList)
	if c.decoding {
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}

// reusedList codes the length of a list of at most so many items, which take at least size bytes
// each, and makes *v as long when decoding, in the memory that it has. The caller codes the items,
// and must set all of each. (A function for it would make the coder escape to the heap.)
func reusedList[T any](c *coder, v *[]T, size int, most uint32) {
	n := c.count(len(*v), size, most)
	if !c.decoding {
		return
	}
	if cap(*v) < n {
		*v = make([]T, n)
	}
	*v = (*v)[:n]
}

func (c *coder) strings(v *[]string) { list(c, v, 4, (*coder).string) }
