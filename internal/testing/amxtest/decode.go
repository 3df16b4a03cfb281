package amxtest

import "encoding/binary"

// An operation is what an AMX instruction does.
type operation int

const (
	loadConfig operation = iota
	storeConfig
	release
	zero
	load
	store
	dot
)

// An instruction is one of the tile unit's.
type instruction struct {
	op   operation
	size int
	// Registers: of load, store and zero the first; of dot the sums, the rows and the columns.
	tile, a, b int
	// The operand in memory: base, index and displacement; -1 for none, and for the base of an
	// address relative to the next instruction.
	base, index, scale int
	relative           bool
	disp               int64
}

// decode is the instruction of the tile unit at the start of code, if there is one: VEX with three
// bytes, map 0F38, 128 bits, W 0 (Intel's manual, volume 2, section 2.3 and chapter 3).
func decode(code []byte) (in instruction, ok bool) {
	if len(code) < 15 || code[0] != 0xc4 || code[1]&0x1f != 2 || code[2]&0x84 != 0 {
		return in, false
	}
	notR, notX, notB := code[1]>>7&1, code[1]>>6&1, code[1]>>5&1
	v, prefix, opcode, modrm := int(^code[2]>>3&15), code[2]&3, code[3], code[4]
	mod, reg, rm := int(modrm>>6), int(modrm>>3&7), int(modrm&7)
	const none, p66, pF3, pF2 = 0, 1, 2, 3
	memory := mod != 3
	switch {
	case notR == 0:
		// There are eight registers.
		return in, false
	case opcode == 0x49 && prefix == none && memory && reg == 0:
		in.op = loadConfig
	case opcode == 0x49 && prefix == p66 && memory && reg == 0:
		in.op = storeConfig
	case opcode == 0x49 && prefix == none && modrm == 0xc0:
		in.op = release
	case opcode == 0x49 && prefix == pF2 && !memory && rm == 0:
		in.op, in.tile = zero, reg
	case opcode == 0x4b && (prefix == pF2 || prefix == p66) && memory && rm == 4:
		in.op, in.tile = load, reg
	case opcode == 0x4b && prefix == pF3 && memory && rm == 4:
		in.op, in.tile = store, reg
	case opcode == 0x5c && prefix == pF3 && !memory && v < 8 && notB == 1:
		in.op, in.tile, in.a, in.b = dot, reg, rm, v
	default:
		return in, false
	}
	if in.op != dot && v != 0 {
		return in, false
	}
	in.size = 5
	if !memory {
		return in, true
	}
	in.base, in.index = rm|int(1-notB)<<3, -1
	if rm == 4 {
		in.scaled(code[in.size], int(1-notB)<<3, int(1-notX)<<3)
	}
	switch {
	case mod == 1:
		in.disp = int64(int8(code[in.size]))
		in.size++
	case mod == 2 || mod == 0 && in.base&7 == 5:
		in.disp = int64(int32(binary.LittleEndian.Uint32(code[in.size:])))
		in.size += 4
		if mod == 0 {
			in.relative, in.base = rm == 5, -1
		}
	}
	return in, true
}

// scaled takes the byte of an address that has a base and an index. The high bits of both come from
// the prefix. Index 4 says that there is none.
func (in *instruction) scaled(sib byte, highBase, highIndex int) {
	in.size++
	in.scale = int(sib >> 6)
	in.base = int(sib&7) | highBase
	if i := int(sib>>3&7) | highIndex; i != 4 {
		in.index = i
	}
}
