package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/data/internal/source"
)

const (
	magic      = 0xced7230a
	headSize   = 8
	headerSize = 24
	// maxPart is the largest length that a part can say.
	maxPart = 1<<29 - 1
)

// Kinds of parts.
const (
	whole = iota
	first
	middle
	last
)

// A head is what stands before a part.
type head struct {
	kind   int
	length int64
}

// parseHead reads a head, which begins a record or goes on with one.
func parseHead(b []byte, begins bool) (head, error) {
	if got := binary.LittleEndian.Uint32(b); got != magic {
		return head{}, fmt.Errorf("got %#08x, want the magic number %#08x", got, uint32(magic))
	}
	word := binary.LittleEndian.Uint32(b[4:])
	h := head{int(word >> 29), int64(word & maxPart)}
	switch {
	case begins && h.kind != whole && h.kind != first:
		return h, fmt.Errorf("got a part of kind %d, want the beginning of a record, 0 or 1", h.kind)
	case !begins && h.kind != middle && h.kind != last:
		return h, fmt.Errorf("got a part of kind %d, want one that goes on with the record, 2 or 3", h.kind)
	case (h.kind == first || h.kind == middle) && h.length%4 != 0:
		return h, fmt.Errorf("a part that another one follows has %d bytes, want a multiple of 4", h.length)
	}
	return h, nil
}

// padded is how many bytes a part of that length takes after its head.
func padded(length int64) int64 { return (length + 3) &^ 3 }

func (h head) ends() bool { return h.kind == whole || h.kind == last }

// beginsRecord reports whether a record begins with these 8 bytes. In sound files no other bytes at
// a multiple of 4 look so.
func beginsRecord(b []byte) bool {
	_, err := parseHead(b, true)
	return err == nil
}

// assemble puts the parts of the record together with which b begins, in b's own memory, and
// returns the record and how many bytes it took.
func assemble(b []byte) (record []byte, used int, err error) {
	end := headSize
	for begins := true; ; begins = false {
		if len(b)-used < headSize {
			return nil, 0, fmt.Errorf("the data ends %d bytes into a head of %d bytes", len(b)-used, headSize)
		}
		h, err := parseHead(b[used:], begins)
		if err != nil {
			return nil, 0, err
		}
		if !begins {
			// The magic number was left out between the parts.
			binary.LittleEndian.PutUint32(b[end:], magic)
			end += 4
		}
		used += headSize
		if padded(h.length) > int64(len(b)-used) {
			return nil, 0, fmt.Errorf("a part of %d bytes has only %d before the data ends or the next record begins", h.length, len(b)-used)
		}
		end += copy(b[end:], b[used:used+int(h.length)])
		used += int(padded(h.length))
		if h.ends() {
			return b[headSize:end], used, nil
		}
	}
}

// parseRecord splits a record into labels and image.
func parseRecord(record []byte) (labels []float32, image []byte, err error) {
	if len(record) < headerSize {
		return nil, nil, fmt.Errorf("the record has %d bytes, want a header of %d and an image", len(record), headerSize)
	}
	flag := binary.LittleEndian.Uint32(record)
	image = record[headerSize:]
	if flag == 0 {
		labels = []float32{math.Float32frombits(binary.LittleEndian.Uint32(record[4:]))}
	} else {
		if int64(flag)*4 > int64(len(image)) {
			return nil, nil, fmt.Errorf("the header says %d labels, but %d bytes follow", flag, len(image))
		}
		labels = make([]float32, flag)
		for i := range labels {
			labels[i] = math.Float32frombits(binary.LittleEndian.Uint32(image[4*i:]))
		}
		image = image[4*int(flag):]
	}
	if len(image) == 0 {
		return nil, nil, errors.New("no image follows the labels")
	}
	return labels, image, nil
}

// decode returns the example in the bytes from one record's beginning to the next one's; it uses
// their memory.
func decode(b []byte) (source.Example, error) {
	record, used, err := assemble(b)
	if err != nil {
		return source.Example{}, err
	}
	// An .idx file may leave records out, so that others follow. Anything else is damage that
	// fell upon the length.
	if rest := b[used:]; len(rest) > 0 && (len(rest) < headSize || !beginsRecord(rest)) {
		return source.Example{}, fmt.Errorf("the record ends after %d bytes, and no record begins there", used)
	}
	labels, image, err := parseRecord(record)
	return source.Example{Image: image, Labels: labels}, err
}
