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

// tiles writes the products of tiles, for all heights that have registers enough, and the moves
// that prepare their operands.
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
	g := newGatherWriter(s, rows)
	g.begin()
	CMPQ(g.segLeft, Imm(0))
	JE(LabelRef("store"))
	Label("segment")
	g.point()
	Label("loop")
	g.multiply()
	INCQ(g.x)
	JNE(LabelRef("loop"))
	ADDQ(Imm(segSize), g.segPtr)
	DECQ(g.segLeft)
	JNE(LabelRef("segment"))
	Label("store")
	Load(Param("a"), g.w)
	CMPQ(Mem{Base: g.w, Disp: gatherAdd}, Imm(0))
	JE(LabelRef("overwrite"))
	g.outRows(g.add)
	Label("overwrite")
	g.outRows(g.store)
	VZEROUPPER()
	RET()
}

// A gatherWriter has the registers of one gather.
type gatherWriter struct {
	s isa

	// segPtr and segLeft are on the stack: the segment under way, and how many are left.
	segPtr, segLeft Mem

	// row has pointers to the rows. x is the index that runs over a segment, and w points to the
	// panel; both are scratch before.
	row  []reg.GPVirtual
	x, w reg.GPVirtual

	// acc are the sums of each row, b0 and b1 two vectors of the panel, and v a value of a row in
	// all lanes.
	acc       [][2]reg.Register
	b0, b1, v reg.Register

	// k1 and k2 are the column masks, where the instruction set has masks.
	k1, k2 reg.OpmaskVirtual
}

// newGatherWriter takes the registers that a gather of so many rows keeps: two sums for each row,
// and what is loaded for all of them.
func newGatherWriter(s isa, rows int) *gatherWriter {
	local := AllocLocal(16)
	g := &gatherWriter{s: s, segPtr: local, segLeft: local.Offset(8), row: make([]reg.GPVirtual, rows), acc: make([][2]reg.Register, rows)}
	for i := range g.row {
		g.row[i] = GP64()
	}
	g.x, g.w = GP64(), GP64()
	vec := s.registers()
	for i := range g.acc {
		g.acc[i] = [2]reg.Register{vec(), vec()}
	}
	g.b0, g.b1, g.v = vec(), vec(), vec()
	return g
}

// begin loads what stays the same, and sets the sums to zero.
func (g *gatherWriter) begin() {
	Load(Param("a"), g.row[0])
	MOVQ(Mem{Base: g.row[0], Disp: gatherSegs}, g.x)
	MOVQ(g.x, g.segPtr)
	MOVQ(Mem{Base: g.row[0], Disp: gatherSegs + 8}, g.x)
	MOVQ(g.x, g.segLeft)
	if g.s.lanes == 16 {
		g.k1, g.k2 = masks(g.row[0], gatherMask)
	}
	for i := range g.acc {
		g.s.zero(g.acc[i][0])
		g.s.zero(g.acc[i][1])
	}
}

// point makes the rows point just after the segment, w to the panel, and x −Len. In between x is
// the address just after the segment in a row at offset 0.
func (g *gatherWriter) point() {
	row, x, w := g.row, g.x, g.w
	Load(Param("a"), row[0])
	MOVQ(g.segPtr, w)
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
	MOVQ(g.segPtr, w)
	MOVQ(Mem{Base: w, Disp: segW}, w)
	LEAQ(Mem{Base: x, Index: w, Scale: 4}, w)
	MOVQ(g.segPtr, x)
	MOVQ(Mem{Base: x, Disp: segLen}, x)
	NEGQ(x)
}

// multiply adds the products of one value of each row.
func (g *gatherWriter) multiply() {
	VMOVUPS(Mem{Base: g.w}, g.b0)
	VMOVUPS(Mem{Base: g.w, Disp: g.s.bytes()}, g.b1)
	for i := range g.acc {
		VBROADCASTSS(Mem{Base: g.row[i], Index: g.x, Scale: 4}, g.v)
		g.s.multiplyAdd(g.b0, g.v, g.acc[i][0])
		g.s.multiplyAdd(g.b1, g.v, g.acc[i][1])
	}
	ADDQ(Imm(uint64(2*g.s.bytes())), g.w)
}

// outRows makes the rows the indices of the output rows, one after the other, and calls f with
// each row's memory.
func (g *gatherWriter) outRows(f func(i int, m Mem)) {
	Load(Param("a"), g.w)
	MOVQ(Mem{Base: g.w, Disp: gatherOut}, g.x)
	for i := range g.acc {
		MOVQ(Mem{Base: g.w, Disp: gatherOutRow + 8*i}, g.row[i])
		f(i, Mem{Base: g.x, Index: g.row[i], Scale: 4})
	}
}

// add adds what is in the output to a row's sums.
func (g *gatherWriter) add(i int, m Mem) {
	m2 := m.Offset(g.s.bytes())
	if g.s.lanes < 16 {
		VADDPS(m, g.acc[i][0], g.acc[i][0])
		VADDPS(m2, g.acc[i][1], g.acc[i][1])
		return
	}
	VMOVUPS_Z(m, g.k1, g.b0)
	VMOVUPS_Z(m2, g.k2, g.b1)
	VADDPS(g.b0, g.acc[i][0], g.acc[i][0])
	VADDPS(g.b1, g.acc[i][1], g.acc[i][1])
}

// store writes a row's sums.
func (g *gatherWriter) store(i int, m Mem) {
	m2 := m.Offset(g.s.bytes())
	if g.s.lanes < 16 {
		VMOVUPS(g.acc[i][0], m)
		VMOVUPS(g.acc[i][1], m2)
		return
	}
	VMOVUPS(g.acc[i][0], g.k1, m)
	VMOVUPS(g.acc[i][1], g.k2, m2)
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
