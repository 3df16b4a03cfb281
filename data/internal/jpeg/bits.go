package jpeg

import "encoding/binary"

// A bits reads the codes of a scan. Its next bits are the upper n of acc; a byte 0 after 0xff is
// left out.
type bits struct {
	data []byte
	p    int // the next byte
	acc  uint64
	n    int
	// padded is how many of the n bits are made up, since a marker or the end has come.
	padded int
}

// begin starts at byte p.
func (b *bits) begin(p int) { b.p, b.acc, b.n, b.padded = p, 0, 0, 0 }

// fill has at least 48 bits ready afterwards.
func (b *bits) fill() {
	if b.p+8 <= len(b.data) {
		w := binary.BigEndian.Uint64(b.data[b.p:])
		// A byte of 0xff is a byte 0 of the complement.
		if c := ^w; (c-0x0101010101010101)&^c&0x8080808080808080 == 0 {
			b.acc |= w >> b.n
			more := (63 - b.n) >> 3
			b.p += more
			b.n += more << 3
			return
		}
	}
	for b.n <= 48 {
		if b.padded > 0 || b.p >= len(b.data) {
			b.padded += 8
			b.n += 8
			continue
		}
		c := b.data[b.p]
		if c == 0xff {
			if b.p+1 >= len(b.data) || b.data[b.p+1] != 0 {
				// Bits of the marker may stand below the n that count.
				b.acc = b.acc >> (64 - b.n) << (64 - b.n)
				b.padded += 8
				b.n += 8
				continue
			}
			b.p++
		}
		b.p++
		b.acc |= uint64(c) << (56 - b.n)
		b.n += 8
	}
}

// take returns the next s bits, 1 to 16.
func (b *bits) take(s uint) int {
	if b.n < 16 {
		b.fill()
	}
	v := int(b.acc >> (64 - s))
	b.acc <<= s
	b.n -= int(s)
	return v
}

// short says that more bits were read than there are.
func (b *bits) short() bool { return b.n < b.padded }

// extend is the value of size bits v: those that begin with 0 are negative.
func extend(v int, size uint) int {
	if v < 1<<(size-1) {
		return v - 1<<size + 1
	}
	return v
}
