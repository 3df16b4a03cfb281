package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx512bf16 is AVX-512 whose values are pairs of bfloat16 where they are multiplied. Neither avo
// nor Go's assembler knows the instructions, so they are written as bytes, and the vector registers
// have to be chosen here.
var avx512bf16 = isa{name: "BF16", lanes: 16, pairs: true}

// registers returns a function that gives a vector register that is not in use yet in the function
// under way.
func (s isa) registers() func() reg.Register {
	if !s.pairs {
		return func() reg.Register { return s.vec() }
	}
	all := []reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
	return func() reg.Register {
		r := all[0]
		all = all[1:]
		return r
	}
}

// multiplyAdd adds a·b to sum; of pairs, both products.
func (s isa) multiplyAdd(a, b, sum reg.Register) {
	if s.pairs {
		vdpbf16ps(a, b, sum)
	} else {
		VFMADD231PS(a, b, sum)
	}
}

// vdpbf16ps adds to each float32 of sum the two products of the bfloat16 pairs of a and b, the
// upper one first.
func vdpbf16ps(a, b, sum reg.Register) { evex(2, 0x52, a, b, sum) }

// vcvtne2ps2bf16 rounds 32 float32 to bfloat16: those of low to the lower half of dst, those of
// high to the upper.
func vcvtne2ps2bf16(low, high, dst reg.Register) { evex(3, 0x72, low, high, dst) }

// evex writes an instruction of three 512-bit registers with an opcode of map 0F38 and a prefix (2:
// F3, 3: F2); src1 is the register in VEX.vvvv, src2 that in ModRM.rm (Intel's manual, volume 2,
// section 2.7).
func evex(prefix, opcode int, src2, src1, dst reg.Register) {
	d, v, m := number(dst), number(src1), number(src2)
	not := func(x, bit int) int { return ^x >> bit & 1 }
	bytes := []int{
		0x62,
		not(d, 3)<<7 | not(m, 4)<<6 | not(m, 3)<<5 | not(d, 4)<<4 | 2,
		(^v&15)<<3 | 1<<2 | prefix,
		2<<5 | not(v, 4)<<3,
		opcode,
		0xc0 | d&7<<3 | m&7,
	}
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(bytes[0] | bytes[1]<<8 | bytes[2]<<16 | bytes[3]<<24)}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(bytes[4] | bytes[5]<<8)}})
}

func number(r reg.Register) int { return int(reg.ToPhysical(r).PhysicalIndex()) }

// bf16 writes tiles that multiply pairs of bfloat16, and what makes pairs of rows.
func bf16() {
	for _, rows := range []int{12, 8, 4} {
		gather(avx512bf16, rows)
		outer(avx512bf16, rows)
	}
	order := GLOBL("pairOrder", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U16(i))
		DATA(4*i+2, U16(16+i))
	}
	pairRows(order, 1)
	pairRows(order, 2)
	packPairs()
	peak(avx512bf16)
}

// pairRows is Tile.PairRows for rows of up to one or two vectors.
func pairRows(order Mem, vectors int) {
	TEXT(fmt.Sprintf("pairRows%dBF16", vectors), NOSPLIT, "func(dst *float32, dstStride int, low, high *float32, srcStride int, rows int, lowMask, highMask, dstMask uint64)")
	Doc(fmt.Sprintf("pairRows%dBF16 is Tile.PairRows for rows of %d vectors; strides in bytes, rows not 0.", vectors, vectors))
	Pragma("noescape")
	dst, dstStride := gp("dst"), gp("dstStride")
	low, high, srcStride := gp("low"), gp("high"), gp("srcStride")
	left, readLow, readHigh, write := gp("rows"), gp("lowMask"), gp("highMask"), gp("dstMask")
	k := make([][3]reg.OpmaskVirtual, vectors)
	for i := range k {
		for j, mask := range []reg.GPVirtual{readLow, readHigh, write} {
			k[i][j] = K()
			KMOVW(mask.As32(), k[i][j])
			SHRQ(Imm(16), mask)
		}
	}
	vec := avx512bf16.registers()
	index, a, b := vec(), vec(), vec()
	VMOVUPS(order, index)
	Label("loop")
	for i := range k {
		VMOVUPS_Z(Mem{Base: low, Disp: 64 * i}, k[i][0], a)
		VMOVUPS_Z(Mem{Base: high, Disp: 64 * i}, k[i][1], b)
		vcvtne2ps2bf16(a, b, a)
		VPERMW(a, index, a)
		VMOVUPS(a, k[i][2], Mem{Base: dst, Disp: 64 * i})
	}
	ADDQ(srcStride, low)
	ADDQ(srcStride, high)
	ADDQ(dstStride, dst)
	DECQ(left)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// packPairs is Tile.PackPairRows for rows of whole vectors; one row is Tile.PackPairs.
func packPairs() {
	TEXT("packPairsBF16", NOSPLIT, "func(dst *float32, dstStride int, x *float32, rows, n int)")
	Doc("packPairsBF16 sets rows of n pairs, dstStride bytes apart, from values that follow each other; n is a multiple of 16, no number is 0.")
	Pragma("noescape")
	dst, dstStride, x, rows, n := gp("dst"), gp("dstStride"), gp("x"), gp("rows"), gp("n")
	vec := avx512bf16.registers()
	a, b := vec(), vec()
	to, left := GP64(), GP64()
	Label("row")
	MOVQ(dst, to)
	MOVQ(n, left)
	Label("loop")
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Disp: 64}, b)
	vcvtne2ps2bf16(a, b, a)
	VMOVUPS(a, Mem{Base: to})
	ADDQ(Imm(128), x)
	ADDQ(Imm(64), to)
	SUBQ(Imm(16), left)
	JNE(LabelRef("loop"))
	ADDQ(dstStride, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
