package jpeg

// lookBits is how many bits find a code, and its value if that is short, in one look.
const lookBits = 10

// An entry of a table's look says what the next bits are. Its parts, from the lowest bit: 6 bits,
// the length of the code, and of the value with hasValue; hasValue; 4 bits from bit 8, the run of
// zeros; 4 bits, the size of the value; 16 bits, the value. 0 is a code that is longer than
// lookBits.
type entry uint32

const hasValue = 0x80

// A table has the codes of a DHT segment. Its symbols are a run of zeros (4 bits) and the size of a
// value (4 bits).
type table struct {
	there bool
	look  [1 << lookBits]entry
	// For longer codes, by length: the largest code, left-aligned to 16 bits, plus 1; and the
	// place of the first symbol less its code.
	limit   [17]uint32
	offset  [17]int32
	symbols [256]uint8
}

// build takes the counts of codes by length, and the symbols in the order of their codes. It says
// whether they are codes at all.
func (t *table) build(counts []byte, symbols []byte) bool {
	*t = table{there: true}
	copy(t.symbols[:], symbols)
	code, at := uint32(0), 0
	for length := 1; length <= 16; length++ {
		n := uint32(counts[length-1])
		if code+n > 1<<length {
			return false
		}
		t.offset[length] = int32(at) - int32(code)
		for range n {
			if length <= lookBits {
				t.enter(code, uint(length), t.symbols[at])
			}
			code++
			at++
		}
		t.limit[length] = code << (16 - length)
		code <<= 1
	}
	return true
}

// enter writes the entries that begin with a code.
func (t *table) enter(code uint32, length uint, symbol uint8) {
	run, size := uint32(symbol>>4), uint(symbol&15)
	free := lookBits - length
	plain := entry(uint32(length) | run<<8 | uint32(size)<<12)
	for rest := range uint32(1) << free {
		e := plain
		if size > 0 && size <= free {
			v := extend(int(rest>>(free-size)), size)
			e = entry(uint32(length+size)|hasValue|run<<8|uint32(size)<<12) | entry(uint32(uint16(int16(v)))<<16)
		}
		t.look[code<<free|rest] = e
	}
}

// long finds a code that is longer than lookBits in the upper bits of acc. An entry of 0 is none.
func (t *table) long(acc uint64) entry {
	next := uint32(acc >> 48)
	for length := lookBits + 1; length <= 16; length++ {
		if next < t.limit[length] {
			s := uint32(t.symbols[uint8(int32(next>>(16-length))+t.offset[length])])
			return entry(uint32(length) | s>>4<<8 | s&15<<12)
		}
	}
	return 0
}

// next returns the run and the size of the next symbol, and its value.
func (b *bits) next(t *table) (run, size int, value int, ok bool) {
	if b.n < 32 {
		b.fill()
	}
	e := t.look[b.acc>>(64-lookBits)]
	if e == 0 {
		if e = t.long(b.acc); e == 0 {
			return 0, 0, 0, false
		}
	}
	b.acc <<= e & 63
	b.n -= int(e & 63)
	run, size = int(e>>8&15), int(e>>12&15)
	switch {
	case e&hasValue != 0:
		value = int(int32(e) >> 16)
	case size > 0:
		value = extend(int(b.acc>>(64-uint(size))), uint(size))
		b.acc <<= uint(size)
		b.n -= size
	}
	return run, size, value, true
}
