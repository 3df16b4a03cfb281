package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of fields in Thrift's compact protocol.
const (
	kindTrue   = 1
	kindFalse  = 2
	kindByte   = 3
	kindInt16  = 4
	kindInt32  = 5
	kindInt64  = 6
	kindDouble = 7
	kindBinary = 8
	kindList   = 9
	kindSet    = 10
	kindMap    = 11
	kindStruct = 12
	kindUUID   = 13
)

// maxDepth bounds structs within structs.
const maxDepth = 32

var errThrift = errors.New("metadata is damaged")

// A thrift reads Thrift's compact protocol. The first error stays, and everything read after it is
// zero. It takes no memory by what the bytes claim: lists grow as their elements come.
type thrift struct {
	b     []byte
	at    int
	depth int
	err   error
}

// fail notes an error and takes the rest of the bytes away, so that whatever is read next ends at
// once and no loop goes on.
func (t *thrift) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%w at its byte %d: %s", errThrift, t.at, fmt.Sprintf(format, args...))
	}
	t.b = t.b[:t.at]
}

// byte reads one byte.
func (t *thrift) byte() byte {
	if t.at >= len(t.b) {
		t.fail("it ends")
		return 0
	}
	t.at++
	return t.b[t.at-1]
}

// varint reads an unsigned number of as many bytes as it needs.
func (t *thrift) varint() uint64 {
	v, n := binary.Uvarint(t.b[t.at:])
	if n <= 0 {
		t.fail("a number does not end")
		return 0
	}
	t.at += n
	return v
}

// int is an integer of a kind of field.
func (t *thrift) int(kind byte) int64 {
	switch kind {
	case kindByte:
		return int64(int8(t.byte()))
	case kindInt16, kindInt32, kindInt64:
		v := t.varint()
		return int64(v>>1) ^ -int64(v&1)
	}
	t.fail("got a field of kind %d, want an integer", kind)
	return 0
}

// int32 is an integer that fits.
func (t *thrift) int32(kind byte) int {
	v := t.int(kind)
	if v != int64(int32(v)) {
		t.fail("got %d, want a number of 32 bits", v)
		return 0
	}
	return int(v)
}

// bool is a truth value. In a struct its kind is the value and no bytes follow.
func (t *thrift) bool(kind byte) bool {
	if kind != kindTrue && kind != kindFalse {
		t.fail("got a field of kind %d, want a truth value", kind)
	}
	return kind == kindTrue
}

// binary is the bytes of a text. They are part of what is read, and no copy.
func (t *thrift) binary(kind byte) []byte {
	if kind != kindBinary {
		t.fail("got a field of kind %d, want bytes", kind)
		return nil
	}
	n := t.varint()
	if n > uint64(len(t.b)-t.at) {
		t.fail("got %d bytes of text, want at most the %d that are left", n, len(t.b)-t.at)
		return nil
	}
	t.at += int(n)
	return t.b[t.at-int(n) : t.at]
}

// object reads a struct: field reads one, or skips it.
func (t *thrift) object(kind byte, field func(id int, kind byte)) {
	if kind != kindStruct {
		t.fail("got a field of kind %d, want a struct", kind)
		return
	}
	if t.depth++; t.depth > maxDepth {
		t.fail("structs lie deeper than %d", maxDepth)
	}
	defer func() { t.depth-- }()
	id := 0
	for t.err == nil {
		head := t.byte()
		if head == 0 {
			return
		}
		if delta := int(head >> 4); delta != 0 {
			id += delta
		} else {
			id = int(int16(t.int(kindInt16)))
		}
		field(id, head&15)
	}
}

// list reads a list: element reads one, or skips it.
func (t *thrift) list(kind byte, element func(kind byte)) {
	if kind != kindList && kind != kindSet {
		t.fail("got a field of kind %d, want a list", kind)
		return
	}
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.varint()
	}

	// An element has a byte at least.
	if n > uint64(len(t.b)-t.at) {
		t.fail("got a list of %d, want at most the %d bytes that are left", n, len(t.b)-t.at)
		return
	}
	for range n {
		if t.err != nil {
			return
		}
		element(head & 15)
	}
}

// skip reads a field that is not wanted.
func (t *thrift) skip(kind byte) {
	switch kind {
	case kindTrue, kindFalse:
	case kindByte, kindInt16, kindInt32, kindInt64:
		t.int(kind)
	case kindDouble, kindUUID:
		n := 8
		if kind == kindUUID {
			n = 16
		}
		for range n {
			t.byte()
		}
	case kindBinary:
		t.binary(kind)
	case kindList, kindSet:
		if t.depth++; t.depth > maxDepth {
			t.fail("lists lie deeper than %d", maxDepth)
		}
		t.list(kind, t.skipElement)
		t.depth--
	case kindMap:
		t.skipMap()
	case kindStruct:
		t.object(kind, func(_ int, kind byte) { t.skip(kind) })
	default:
		t.fail("got a field of kind %d, which is unknown", kind)
	}
}

// skipElement skips an element of a list, where a truth value has a byte of its own.
func (t *thrift) skipElement(kind byte) {
	if kind == kindTrue || kind == kindFalse {
		t.byte()
		return
	}
	t.skip(kind)
}

// skipMap reads a map that is not wanted: the number of pairs and, unless that is 0, a byte with
// the kinds of keys and values.
func (t *thrift) skipMap() {
	n := t.varint()
	if n == 0 {
		return
	}
	kinds := t.byte()
	if n > uint64(len(t.b)-t.at) {
		t.fail("got a map of %d, want at most the %d bytes that are left", n, len(t.b)-t.at)
		return
	}
	if t.depth++; t.depth > maxDepth {
		t.fail("maps lie deeper than %d", maxDepth)
	}
	for range n {
		if t.err != nil {
			break
		}
		t.skipElement(kinds >> 4)
		t.skipElement(kinds & 15)
	}
	t.depth--
}
