package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the argument structs in tile.go of package f32 (a test there compares them). Their
// pointers arrive as *byte, since avo knows only the types of the language.
const (
	gatherIn, gatherW, gatherOut, gatherSegs, gatherMask, gatherAdd, gatherInRow, gatherOutRow   = 0, 24, 48, 72, 96, 104, 112, 208
	segIn, segLen, segW, segSize                                                                 = 0, 8, 16, 24
	outerA, outerB, outerOut, outerPairs, outerAdd                                               = 0, 24, 48, 72, 96
	transDst, transSrc, transSrcMask, transDstMask, transM, transAhead, transSrcRow, transDstRow = 0, 24, 48, 56, 64, 72, 80, 208
)

func tiles() {
	for _, rows := range []int{12, 8, 4} {
		gather(avx512, rows)
		outer(avx512, rows)
	}
	for _, rows := range []int{6, 4, 2} {
		gather(avx2, rows)
		outer(avx2, rows)
	}
	transpose(false)
	transpose(true)
	ones := ones8()
	transpose8(false, ones)
	transpose8(true, ones)
	copyRows(1)
	copyRows(2)
	copyRowsAVX2(ones)
	fetch()
	peak(avx512)
	peak(avx2)
}

// masks loads the column masks of a two-vector tile.
func masks(p reg.GPVirtual, off int) (k1, k2 reg.OpmaskVirtual) {
	k1, k2 = K(), K()
	KMOVQ(Mem{Base: p, Disp: off}, k1)
	KSHIFTRQ(Imm(16), k1, k2)
	return k1, k2
}

// gather is Tile.Gather for a number of rows. The sums begin at zero, and what is in the output is
// added at the end: sums that are made in parts round less. The row pointers live in registers and
// all run over a segment together, by one index; each value is broadcast and multiplied with two
// vectors of the packed panel.
func gather(s isa, rows int) {
	TEXT(fmt.Sprintf("gather%d%s", rows, s.name), NOSPLIT, "func(a *byte)")
	Doc(fmt.Sprintf("gather%d%s is Tile.Gather for %d rows.", rows, s.name, rows))
	Pragma("noescape")
	local := AllocLocal(16)
	segPtr, segLeft := local, local.Offset(8)

	row := make([]reg.GPVirtual, rows)
	for i := range row {
		row[i] = GP64()
	}
	x, w := GP64(), GP64()
	vec := s.registers()
	acc := make([][2]reg.Register, rows)
	for i := range acc {
		acc[i] = [2]reg.Register{vec(), vec()}
	}
	b0, b1, v := vec(), vec(), vec()

	Load(Param("a"), row[0])
	MOVQ(Mem{Base: row[0], Disp: gatherSegs}, x)
	MOVQ(x, segPtr)
	MOVQ(Mem{Base: row[0], Disp: gatherSegs + 8}, x)
	MOVQ(x, segLeft)
	var k1, k2 reg.OpmaskVirtual
	if s.lanes == 16 {
		k1, k2 = masks(row[0], gatherMask)
	}
	for i := range acc {
		s.zero(acc[i][0])
		s.zero(acc[i][1])
	}
	// outRows points row[1:] ... at the output rows one after the other and calls f.
	outRows := func(f func(i int, m Mem)) {
		Load(Param("a"), w)
		MOVQ(Mem{Base: w, Disp: gatherOut}, x)
		for i := range acc {
			MOVQ(Mem{Base: w, Disp: gatherOutRow + 8*i}, row[i])
			f(i, Mem{Base: x, Index: row[i], Scale: 4})
		}
	}

	CMPQ(segLeft, Imm(0))
	JE(LabelRef("store"))
	Label("segment")
	// x: address just after the segment in a row at offset 0; then the rows; then x: −Len, w:
	// the panel.
	Load(Param("a"), row[0])
	MOVQ(segPtr, w)
	MOVQ(Mem{Base: w, Disp: segIn}, x)
	ADDQ(Mem{Base: w, Disp: segLen}, x)
	SHLQ(Imm(2), x)
	ADDQ(Mem{Base: row[0], Disp: gatherIn}, x)
	MOVQ(row[0], w)
	for i := range row {
		MOVQ(Mem{Base: w, Disp: gatherInRow + 8*i}, row[i])
		LEAQ(Mem{Base: x, Index: row[i], Scale: 4}, row[i])
	}
	MOVQ(Mem{Base: w, Disp: gatherW}, x)
	MOVQ(segPtr, w)
	MOVQ(Mem{Base: w, Disp: segW}, w)
	LEAQ(Mem{Base: x, Index: w, Scale: 4}, w)
	MOVQ(segPtr, x)
	MOVQ(Mem{Base: x, Disp: segLen}, x)
	NEGQ(x)

	Label("loop")
	VMOVUPS(Mem{Base: w}, b0)
	VMOVUPS(Mem{Base: w, Disp: s.bytes()}, b1)
	for i := range acc {
		VBROADCASTSS(Mem{Base: row[i], Index: x, Scale: 4}, v)
		s.multiplyAdd(b0, v, acc[i][0])
		s.multiplyAdd(b1, v, acc[i][1])
	}
	ADDQ(Imm(uint64(2*s.bytes())), w)
	INCQ(x)
	JNE(LabelRef("loop"))

	ADDQ(Imm(segSize), segPtr)
	DECQ(segLeft)
	JNE(LabelRef("segment"))

	Label("store")
	Load(Param("a"), w)
	CMPQ(Mem{Base: w, Disp: gatherAdd}, Imm(0))
	JE(LabelRef("overwrite"))
	outRows(func(i int, m Mem) {
		m2 := m.Offset(s.bytes())
		if s.lanes == 16 {
			VMOVUPS_Z(m, k1, b0)
			VMOVUPS_Z(m2, k2, b1)
			VADDPS(b0, acc[i][0], acc[i][0])
			VADDPS(b1, acc[i][1], acc[i][1])
		} else {
			VADDPS(m, acc[i][0], acc[i][0])
			VADDPS(m2, acc[i][1], acc[i][1])
		}
	})
	Label("overwrite")
	outRows(func(i int, m Mem) {
		m2 := m.Offset(s.bytes())
		if s.lanes == 16 {
			VMOVUPS(acc[i][0], k1, m)
			VMOVUPS(acc[i][1], k2, m2)
		} else {
			VMOVUPS(acc[i][0], m)
			VMOVUPS(acc[i][1], m2)
		}
	})
	VZEROUPPER()
	RET()
}

// outer is Tile.Outer for a number of rows.
func outer(s isa, rows int) {
	TEXT(fmt.Sprintf("outer%d%s", rows, s.name), NOSPLIT, "func(a *byte)")
	Doc(fmt.Sprintf("outer%d%s is Tile.Outer for %d rows.", rows, s.name, rows))
	Pragma("noescape")
	args := Load(Param("a"), GP64()).(reg.GPVirtual)
	a, b, out, pair, left := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: args, Disp: outerA}, a)
	MOVQ(Mem{Base: args, Disp: outerB}, b)
	MOVQ(Mem{Base: args, Disp: outerOut}, out)
	MOVQ(Mem{Base: args, Disp: outerPairs}, pair)
	MOVQ(Mem{Base: args, Disp: outerPairs + 8}, left)
	vec := s.registers()
	acc := make([][2]reg.Register, rows)
	for i := range acc {
		acc[i] = [2]reg.Register{vec(), vec()}
		s.zero(acc[i][0])
		s.zero(acc[i][1])
	}
	at := func(i, half int) Mem { return Mem{Base: out, Disp: (2*i + half) * s.bytes()} }
	TESTQ(left, left)
	JE(LabelRef("store"))
	b0, b1, v := vec(), vec(), vec()
	ia, ib := GP64(), GP64()
	Label("loop")
	MOVL(Mem{Base: pair}, ia.As32())
	MOVL(Mem{Base: pair, Disp: 4}, ib.As32())
	VMOVUPS(Mem{Base: b, Index: ib, Scale: 4}, b0)
	VMOVUPS(Mem{Base: b, Index: ib, Scale: 4, Disp: s.bytes()}, b1)
	for i := range acc {
		VBROADCASTSS(Mem{Base: a, Index: ia, Scale: 4, Disp: 4 * i}, v)
		s.multiplyAdd(b0, v, acc[i][0])
		s.multiplyAdd(b1, v, acc[i][1])
	}
	ADDQ(Imm(8), pair)
	DECQ(left)
	JNE(LabelRef("loop"))
	Label("store")
	CMPQ(Mem{Base: args, Disp: outerAdd}, Imm(0))
	JE(LabelRef("overwrite"))
	for i := range acc {
		VADDPS(at(i, 0), acc[i][0], acc[i][0])
		VADDPS(at(i, 1), acc[i][1], acc[i][1])
	}
	Label("overwrite")
	for i := range acc {
		VMOVUPS(acc[i][0], at(i, 0))
		VMOVUPS(acc[i][1], at(i, 1))
	}
	VZEROUPPER()
	RET()
}

// peak is a loop of 24 independent multiply-adds: the ceiling of everything else.
func peak(s isa) {
	TEXT("peak"+s.name, NOSPLIT, "func(n int)")
	Doc(fmt.Sprintf("peak%s does n times 12 multiply-adds of %d values, none of which waits for another.", s.name, s.lanes))
	n := Load(Param("n"), GP64())
	vec := s.registers()
	acc := make([]reg.Register, 12)
	for i := range acc {
		acc[i] = vec()
		s.zero(acc[i])
	}
	x := vec()
	s.zero(x)
	Label("loop")
	for i := range acc {
		s.multiplyAdd(x, x, acc[i])
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
