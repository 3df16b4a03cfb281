package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose is Tile.Transpose with AVX-512: 16 rows of 16 in registers, four rounds of exchanges at
// distance 1, 2, 4 and 8.
func transpose(shifted bool) {
	if shifted {
		TEXT("transposeShiftAVX512", NOSPLIT, "func(a *byte, shift *float32, floor float32)")
		Doc("transposeShiftAVX512 is Tile.TransposeShift; it always reads 16 rows.")
	} else {
		TEXT("transposeAVX512", NOSPLIT, "func(a *byte)")
		Doc("transposeAVX512 is Tile.Transpose; it always reads 16 rows.")
	}
	Pragma("noescape")
	args := Load(Param("a"), GP64()).(reg.GPVirtual)
	src, dst, i, m := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: args, Disp: transSrc}, src)
	MOVQ(Mem{Base: args, Disp: transDst}, dst)
	MOVQ(Mem{Base: args, Disp: transM}, m)
	k1, k2 := K(), K()
	KMOVQ(Mem{Base: args, Disp: transSrcMask}, k1)
	KMOVQ(Mem{Base: args, Disp: transDstMask}, k2)
	a := make([]reg.VecVirtual, 16)
	ahead := GP64()
	MOVQ(Mem{Base: args, Disp: transAhead}, ahead)
	LEAQ(Mem{Base: src, Index: ahead, Scale: 4}, ahead)
	for r := range a {
		a[r] = ZMM()
		MOVQ(Mem{Base: args, Disp: transSrcRow + 8*r}, i)
		VMOVUPS_Z(Mem{Base: src, Index: i, Scale: 4}, k1, a[r])
		PREFETCHT0(Mem{Base: ahead, Index: i, Scale: 4})
	}
	// Rounds 1 and 2 transpose the 4×4 blocks in each 128-bit lane; rounds 3 and 4 exchange
	// lanes.
	b := make([]reg.VecVirtual, 16)
	for r := range b {
		b[r] = ZMM()
	}
	for q := 0; q < 16; q += 2 { // rows r, r+1
		VUNPCKLPS(a[q+1], a[q], b[q])
		VUNPCKHPS(a[q+1], a[q], b[q+1])
	}
	for q := 0; q < 16; q += 4 {
		VUNPCKLPD(b[q+2], b[q], a[q])     // column 0, rows q..q+3
		VUNPCKHPD(b[q+2], b[q], a[q+1])   // column 1
		VUNPCKLPD(b[q+3], b[q+1], a[q+2]) // column 2
		VUNPCKHPD(b[q+3], b[q+1], a[q+3]) // column 3
	}
	// a[4g+c]: lanes l hold column 4l+c of rows 4g..4g+3. Wanted: for column 4l+c the lanes l
	// of a[c], a[4+c], a[8+c], a[12+c].
	for c := range 4 {
		VSHUFF32X4(Imm(0x88), a[4+c], a[c], b[c])      // g0l0 g0l2 g1l0 g1l2
		VSHUFF32X4(Imm(0xdd), a[4+c], a[c], b[4+c])    // g0l1 g0l3 g1l1 g1l3
		VSHUFF32X4(Imm(0x88), a[12+c], a[8+c], b[8+c]) // g2l0 g2l2 g3l0 g3l2
		VSHUFF32X4(Imm(0xdd), a[12+c], a[8+c], b[12+c])
	}
	for c := range 4 {
		VSHUFF32X4(Imm(0x88), b[8+c], b[c], a[c])       // l0
		VSHUFF32X4(Imm(0xdd), b[8+c], b[c], a[8+c])     // l2
		VSHUFF32X4(Imm(0x88), b[12+c], b[4+c], a[4+c])  // l1
		VSHUFF32X4(Imm(0xdd), b[12+c], b[4+c], a[12+c]) // l3
	}
	if shifted {
		add, least := b[0], b[1]
		VMOVUPS_Z(Mem{Base: gp("shift")}, k2, add)
		floor, err := Param("floor").Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSS(floor.Addr, least)
		for r := range a {
			VADDPS(add, a[r], a[r])
			VMAXPS(a[r], least, a[r]) // leaves a NaN
		}
	}
	for r := range a {
		MOVQ(Mem{Base: args, Disp: transDstRow + 8*r}, i)
		skip := fmt.Sprintf("skip%d", r)
		TESTQ(i, i)
		JLT(LabelRef(skip))
		VMOVUPS(a[r], k2, Mem{Base: dst, Index: i, Scale: 4})
		Label(skip)
		DECQ(m)
		JE(LabelRef("done"))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// transpose8 is Tile.Transpose, or TransposeShift, of a block of up to 8×8 values with AVX2.
func transpose8(shifted bool, ones Mem) {
	if shifted {
		avx2.text("transposeShift8", "func(a *byte, shift *float32, floor float32, i, j, n, m int)", "is Tile.TransposeShift of n rows from row i on and m columns from column j on, both 1 to 8; it always reads 8 rows.")
	} else {
		avx2.text("transpose8", "func(a *byte, i, j, n, m int)", "is Tile.Transpose of n rows from row i on and m columns from column j on, both 1 to 8; it always reads 8 rows.")
	}
	args, i, j, n, m := gp("a"), gp("i"), gp("j"), gp("n"), gp("m")
	src, dst, ahead, at := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: args, Disp: transSrc}, src)
	MOVQ(Mem{Base: args, Disp: transAhead}, ahead)
	LEAQ(Mem{Base: src, Index: j, Scale: 4}, src)
	LEAQ(Mem{Base: src, Index: ahead, Scale: 4}, ahead)
	MOVQ(Mem{Base: args, Disp: transDst}, dst)
	LEAQ(Mem{Base: dst, Index: i, Scale: 4}, dst)
	rows, columns := GP64(), GP64()
	LEAQ(Mem{Base: args, Index: i, Scale: 8}, rows)
	LEAQ(Mem{Base: args, Index: j, Scale: 8}, columns)
	read := firstLanes(ones, m)
	a, b := make([]reg.VecVirtual, 8), make([]reg.VecVirtual, 8)
	for r := range a {
		a[r], b[r] = YMM(), YMM()
		MOVQ(Mem{Base: rows, Disp: transSrcRow + 8*r}, at)
		VMASKMOVPS(Mem{Base: src, Index: at, Scale: 4}, read, a[r])
		PREFETCHT0(Mem{Base: ahead, Index: at, Scale: 4})
	}
	// Two rounds transpose the 4×4 blocks in each 128-bit lane, a third exchanges lanes.
	for q := 0; q < 8; q += 2 {
		VUNPCKLPS(a[q+1], a[q], b[q])
		VUNPCKHPS(a[q+1], a[q], b[q+1])
	}
	for q := 0; q < 8; q += 4 {
		VUNPCKLPD(b[q+2], b[q], a[q])
		VUNPCKHPD(b[q+2], b[q], a[q+1])
		VUNPCKLPD(b[q+3], b[q+1], a[q+2])
		VUNPCKHPD(b[q+3], b[q+1], a[q+3])
	}
	for c := range 4 {
		VPERM2F128(Imm(0x20), a[4+c], a[c], b[c])
		VPERM2F128(Imm(0x31), a[4+c], a[c], b[4+c])
	}
	write := firstLanes(ones, n)
	if shifted {
		add, least, shift := YMM(), YMM(), gp("shift")
		VMASKMOVPS(Mem{Base: shift, Index: i, Scale: 4}, write, add)
		floor, err := Param("floor").Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSS(floor.Addr, least)
		for r := range b {
			VADDPS(add, b[r], b[r])
			VMAXPS(b[r], least, b[r]) // leaves a NaN
		}
	}
	// Masked stores take many cycles on some CPUs: whole rows go without.
	CMPQ(n, Imm(8))
	JL(LabelRef("narrow"))
	store := func(kind string, put func(v reg.VecVirtual, m Mem)) {
		for r := range b {
			skip := fmt.Sprintf("%s%d", kind, r)
			MOVQ(Mem{Base: columns, Disp: transDstRow + 8*r}, at)
			TESTQ(at, at)
			JLT(LabelRef(skip))
			put(b[r], Mem{Base: dst, Index: at, Scale: 4})
			Label(skip)
			if r < 7 {
				CMPQ(m, Imm(uint64(r+1)))
				JE(LabelRef("done"))
			}
		}
	}
	store("wide", func(v reg.VecVirtual, m Mem) { VMOVUPS(v, m) })
	JMP(LabelRef("done"))
	Label("narrow")
	store("masked", func(v reg.VecVirtual, m Mem) { VMASKMOVPS(v, write, m) })
	Label("done")
	end()
}

// ones8 is 8 numbers whose bits are all set, and 8 zeros.
func ones8() Mem {
	m := GLOBL("ones8", RODATA|NOPTR)
	for i := range 16 {
		v := U32(0)
		if i < 8 {
			v = 0xffffffff
		}
		DATA(4*i, v)
	}
	return m
}

// copyRows is Tile.CopyRows with AVX-512 for rows of up to one or two vectors.
func copyRows(vectors int) {
	TEXT(fmt.Sprintf("copyRows%dAVX512", vectors), NOSPLIT, "func(dst *float32, dstStride int, src *float32, srcStride int, rows int, srcMask, dstMask uint64)")
	Doc(fmt.Sprintf("copyRows%dAVX512 is Tile.CopyRows for rows of %d vectors; strides in bytes, rows not 0.", vectors, vectors))
	Pragma("noescape")
	dst, dstStride := gp("dst"), gp("dstStride")
	src, srcStride := gp("src"), gp("srcStride")
	left, read, write := gp("rows"), gp("srcMask"), gp("dstMask")
	k, m := make([]reg.OpmaskVirtual, vectors), make([]reg.OpmaskVirtual, vectors)
	for i := range k {
		k[i], m[i] = K(), K()
		KMOVW(read.As32(), k[i])
		KMOVW(write.As32(), m[i])
		SHRQ(Imm(16), read)
		SHRQ(Imm(16), write)
	}
	Label("loop")
	for i := range k {
		v := ZMM()
		VMOVUPS_Z(Mem{Base: src, Disp: 64 * i}, k[i], v)
		VMOVUPS(v, m[i], Mem{Base: dst, Disp: 64 * i})
	}
	ADDQ(srcStride, src)
	ADDQ(dstStride, dst)
	DECQ(left)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// firstLanes is a mask of the first k lanes of a vector, k from 0 to 8.
func firstLanes(ones Mem, k reg.GPVirtual) reg.VecVirtual {
	at, negative, v := GP64(), GP64(), YMM()
	LEAQ(ones.Offset(32), at) // 8−k ones are left out
	MOVQ(k, negative)
	NEGQ(negative)
	LEAQ(Mem{Base: at, Index: negative, Scale: 4}, at)
	VMOVDQU(Mem{Base: at}, v)
	return v
}

// copyRowsAVX2 is Tile.CopyRows with AVX2 for rows of up to two vectors. Rows are read by masks and
// written in pieces of 8, 4, 2 values and one: masked stores take many cycles on some CPUs.
func copyRowsAVX2(ones Mem) {
	avx2.text("copyRows", "func(dst *float32, dstStride int, src *float32, srcStride int, rows, n, width int)", "is Tile.CopyRows for rows of up to 16 values; strides in bytes, rows not 0.")
	dst, dstStride, src, srcStride, left, n, width := gp("dst"), gp("dstStride"), gp("src"), gp("srcStride"), gp("rows"), gp("n"), gp("width")
	eight, beyond, zero := GP64(), GP64(), GP64()
	MOVQ(U32(8), eight)
	XORQ(zero, zero)
	MOVQ(n, beyond)
	SUBQ(eight, beyond)
	CMOVQLT(zero, beyond)
	CMPQ(n, eight)
	CMOVQGT(eight, n)
	low, high := firstLanes(ones, n), firstLanes(ones, beyond)
	v, w, x, to := YMM(), YMM(), XMM(), GP64()
	Label("loop")
	MOVQ(dst, to)
	VMASKMOVPS(Mem{Base: src}, low, v)
	CMPQ(width, Imm(8))
	JLT(LabelRef("rest"))
	VMASKMOVPS(Mem{Base: src, Disp: 32}, high, w)
	VMOVUPS(v, Mem{Base: to})
	ADDQ(Imm(32), to)
	CMPQ(width, Imm(16))
	JLT(LabelRef("second"))
	VMOVUPS(w, Mem{Base: to})
	JMP(LabelRef("next"))
	Label("second")
	VMOVAPS(w, v)
	Label("rest")
	VMOVAPS(v.AsX(), x)
	TESTQ(U32(4), width)
	JE(LabelRef("two"))
	VMOVUPS(x, Mem{Base: to})
	ADDQ(Imm(16), to)
	VEXTRACTF128(Imm(1), v, x)
	Label("two")
	TESTQ(U32(2), width)
	JE(LabelRef("one"))
	VMOVLPS(x, Mem{Base: to})
	ADDQ(Imm(8), to)
	VPERMILPS(Imm(0xee), x, x)
	Label("one")
	TESTQ(U32(1), width)
	JE(LabelRef("next"))
	VMOVSS(x, Mem{Base: to})
	Label("next")
	ADDQ(srcStride, src)
	ADDQ(dstStride, dst)
	DECQ(left)
	JNE(LabelRef("loop"))
	end()
}

// fetch is Tile.Fetch.
func fetch() {
	TEXT("fetch", NOSPLIT, "func(src *float32, stride int, rows int, n int)")
	Doc("fetch is Tile.Fetch; stride in bytes, rows and n not 0.")
	Pragma("noescape")
	src, stride, rows, n := gp("src"), gp("stride"), gp("rows"), gp("n")
	at := GP64()
	SHLQ(Imm(2), n)
	Label("row")
	XORQ(at, at)
	Label("line")
	PREFETCHT0(Mem{Base: src, Index: at, Scale: 1})
	ADDQ(Imm(64), at)
	CMPQ(at, n)
	JLT(LabelRef("line"))
	ADDQ(stride, src)
	DECQ(rows)
	JNE(LabelRef("row"))
	RET()
}
