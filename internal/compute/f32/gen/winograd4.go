package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A lineTransform is left·d·leftᵀ. A matrix of 6×6 values and what comes of it are more than the
// registers of AVX-512 hold, and one of 4×4 values more than those of AVX2, so a loop takes some
// lines of the result after the others and reads d again for them.
type lineTransform struct {
	name, doc      string
	in, out        int
	constants      []float32
	groups         [][]int                                                                       // lines that share terms
	line           func(s isa, group int, d func(i int) reg.VecVirtual, k []Op) []reg.VecVirtual // leaves d as it is
	add            bool
	fromMap, toMap bool // Src, Dst are of the images
}

// F(4×4, 3×3) interpolates at 0, ±a, ±b and infinity. With these two, results are off by half, and
// at most by a seventh, of what 1 and 2 give; they and their products are exact.
const a, b = 3. / 4, 3. / 2

var transforms4 = []lineTransform{
	{"winograd4Input", "is Bᵀ·d·B of F(4×4, 3×3): 6×6 pixels to 36 values.", 6, 6,
		[]float32{a, a * a, b, b * b, a * a * b * b, a*a + b*b}, [][]int{{1, 2}, {3, 4}, {0, 5}}, inputPair, false, true, false},
	{"winograd4Weight", "is G·g·Gᵀ of F(4×4, 3×3): 3×3 taps to 36 values.", 3, 6,
		[]float32{a, a * a, 1 / (2 * a * a * (a*a - b*b)), b, b * b, 1 / (2 * b * b * (b*b - a*a)), 1 / (a * a * b * b)}, [][]int{{0, 5}, {1, 2}, {3, 4}}, weightPair, false, false, false},
	{"winograd4Output", "is Aᵀ·m·A of F(4×4, 3×3): 36 values to 4×4 pixels.", 6, 4,
		[]float32{a, a * a, a * a * a, b, b * b, b * b * b}, [][]int{{0, 2}, {1, 3}}, outputPair, true, false, true},
}

// write writes a transform of images whose numbers lie in memory as s says; transformed numbers are
// float32.
func (t lineTransform) write(s isa) {
	wide := s
	wide.half = false
	source, dest := wide, wide
	if t.fromMap {
		source = s
	}
	if t.toMap {
		dest = s
	}
	var k []Op

	// There are too few registers: constants are read where they are used.
	if s.lanes == 8 {
		k = t.table(s)
	}
	s.text(t.name, "func(a *byte)", t.doc)
	store := dest.storer()
	if s.lanes == 16 {
		for _, c := range t.constants {
			k = append(k, wide.constant(math.Float32bits(c)))
		}
	}
	args := gp("a")
	n, i, add := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: args, Disp: winCount}, n)
	if t.add {
		MOVQ(Mem{Base: args, Disp: winAdd}, add)
	}
	XORQ(i, i)
	Label("loop")
	at := func(table, j, size int) Mem {
		p := GP64()
		MOVQ(Mem{Base: args, Disp: table + 8*j}, p)
		return Mem{Base: p, Index: i, Scale: uint8(size)}
	}
	for g, rows := range t.groups {
		lines := make([][]reg.VecVirtual, len(rows))
		for c := range t.in {
			r := t.line(wide, g, func(r int) reg.VecVirtual {
				v := s.vec()
				source.load(at(winSrc, r*t.in+c, source.size()), v)
				return v
			}, k)
			for l := range lines {
				lines[l] = append(lines[l], r[l])
			}
		}
		for l, row := range rows {
			for g, columns := range t.groups {
				values := t.line(wide, g, func(c int) reg.VecVirtual { return lines[l][c] }, k)
				to := func(side int) Mem { return at(winDst, row*t.out+columns[side], dest.size()) }
				if t.add {
					label := fmt.Sprintf("store%d_%d", row, g)
					TESTQ(add, add)
					JE(LabelRef(label))
					for side, v := range values {
						VADDPS(dest.operand(to(side)), v, v)
					}
					Label(label)
				}
				for side, v := range values {
					store(v, to(side))
				}
			}
		}
	}
	ADDQ(Imm(uint64(s.lanes)), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	end()
}

// table puts a vector of each constant into memory.
func (t lineTransform) table(s isa) (k []Op) {
	if len(t.constants) == 0 {
		return nil
	}
	m := GLOBL(t.name+s.name+"Constants", RODATA|NOPTR)
	for i, c := range t.constants {
		k = append(k, m.Offset(i*s.bytes()))
		for l := range s.lanes {
			DATA(i*s.bytes()+4*l, U32(math.Float32bits(c)))
		}
	}
	return k
}

func (s isa) copied(v reg.VecVirtual) reg.VecVirtual {
	c := s.vec()
	VMOVAPS(v, c)
	return c
}

// inputPair: lines 1 and 2 are (d4−b²·d2) ± a·(d3−b²·d1), 3 and 4 are (d4−a²·d2) ± b·(d3−a²·d1), 0
// and 5 are a²b²·d0−(a²+b²)·d2+d4 and a²b²·d1−(a²+b²)·d3+d5.
func inputPair(s isa, pair int, d func(i int) reg.VecVirtual, k []Op) []reg.VecVirtual {
	if pair == 2 {
		product, sum := k[4], k[5]
		first, last := s.copied(d(4)), s.copied(d(5))
		VFMADD231PS(product, d(0), first)
		VFNMADD231PS(sum, d(2), first)
		VFMADD231PS(product, d(1), last)
		VFNMADD231PS(sum, d(3), last)
		return []reg.VecVirtual{first, last}
	}
	point, square := k[0], k[3]
	if pair == 1 {
		point, square = k[2], k[1]
	}
	even, odd := s.copied(d(4)), s.copied(d(3))
	VFNMADD231PS(square, d(2), even)
	VFNMADD231PS(square, d(1), odd)
	return s.plusMinus(even, point, odd)
}

// plusMinus is even ± point·odd; it overwrites even.
func (s isa) plusMinus(even reg.VecVirtual, point Op, odd reg.VecVirtual) []reg.VecVirtual {
	plus := s.copied(even)
	VFMADD231PS(point, odd, plus)
	VFNMADD231PS(point, odd, even)
	return []reg.VecVirtual{plus, even}
}

// weightPair: lines 0 and 5 are g0/a²b² and g2, 1 and 2 are (g0+a²·g2 ± a·g1)/(2a²·(a²−b²)), 3 and
// 4 are the same with a and b exchanged.
func weightPair(s isa, pair int, g func(i int) reg.VecVirtual, k []Op) []reg.VecVirtual {
	if pair == 0 {
		first := s.vec()
		VMULPS(k[6], g(0), first)
		return []reg.VecVirtual{first, s.copied(g(2))}
	}
	k = k[3*(pair-1):]
	even := s.copied(g(0))
	VFMADD231PS(k[1], g(2), even)
	r := s.plusMinus(even, k[0], g(1))
	VMULPS(k[2], r[0], r[0])
	VMULPS(k[2], r[1], r[1])
	return r
}

// outputPair: lines 0 and 2 are m0+(m1+m2)+(m3+m4) and a²·(m1+m2)+b²·(m3+m4), 1 and 3 are
// a·(m1−m2)+b·(m3−m4) and a³·(m1−m2)+b³·(m3−m4)+m5.
func outputPair(s isa, pair int, m func(i int) reg.VecVirtual, k []Op) []reg.VecVirtual {
	first, second, x, y := s.vec(), s.vec(), s.vec(), s.vec()
	m1, m2, m3, m4 := m(1), m(2), m(3), m(4)
	if pair == 0 {
		VADDPS(m2, m1, x)
		VADDPS(m4, m3, y)
		VADDPS(m(0), x, first)
		VADDPS(y, first, first)
		VMULPS(k[1], x, second)
		VFMADD231PS(k[4], y, second)
		return []reg.VecVirtual{first, second}
	}
	VSUBPS(m2, m1, x)
	VSUBPS(m4, m3, y)
	VMULPS(k[0], x, first)
	VFMADD231PS(k[3], y, first)
	VMOVAPS(m(5), second)
	VFMADD231PS(k[2], x, second)
	VFMADD231PS(k[5], y, second)
	return []reg.VecVirtual{first, second}
}
