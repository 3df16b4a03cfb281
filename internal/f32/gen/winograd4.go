package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A largeTransform is left·d·leftᵀ of F(4×4, 3×3). A matrix of 6×6 values and what comes of it are more than the registers hold, so a
// loop takes two lines of the result after the other and reads d again for them.
type largeTransform struct {
	name, doc      string
	in, out        int
	constants      []uint32
	pairs          [][2]int                                                                           // lines that share terms
	line           func(pair int, d func(i int) reg.VecVirtual, k []reg.VecVirtual) [2]reg.VecVirtual // leaves d as it is
	add            bool
	fromMap, toMap bool // Src, Dst are of the images
}

const (
	sixth  = 0x3e2aaaab
	eight  = 0x41000000
	five   = 0x40a00000
	four   = 0x40800000
	two    = 0x40000000
	half1  = 0x3f000000
	fourth = 0x3e800000
)

var largeTransforms = []largeTransform{
	{"winograd4Input", "is Bᵀ·d·B of F(4×4, 3×3): 6×6 pixels to 36 values.", 6, 6, []uint32{two, four, five}, [][2]int{{1, 2}, {3, 4}, {0, 5}}, inputPair, false, true, false},
	{"winograd4Weight", "is G·g·Gᵀ of F(4×4, 3×3): 3×3 taps to 36 values.", 3, 6, []uint32{fourth, half1, sixth, sixth | 1<<31}, [][2]int{{0, 5}, {1, 2}, {3, 4}}, weightPair, false, false, false},
	{"winograd4Output", "is Aᵀ·m·A of F(4×4, 3×3): 36 values to 4×4 pixels.", 6, 4, []uint32{two, four, eight}, [][2]int{{0, 2}, {1, 3}}, outputPair, true, false, true},
}

// write writes a transform of images whose numbers lie in memory as s says; transformed numbers are float32.
func (t largeTransform) write(s isa) {
	s.text(t.name, "func(a *byte)", t.doc)
	source, dest := avx512, avx512
	if t.fromMap {
		source = s
	}
	if t.toMap {
		dest = s
	}
	store := dest.storer()
	var k []reg.VecVirtual
	for _, c := range t.constants {
		k = append(k, avx512.constant(c))
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
	for pair, rows := range t.pairs {
		var lines [2][]reg.VecVirtual
		for c := range t.in {
			r := t.line(pair, func(r int) reg.VecVirtual {
				v := ZMM()
				source.load(at(winSrc, r*t.in+c, source.size()), v)
				return v
			}, k)
			lines[0], lines[1] = append(lines[0], r[0]), append(lines[1], r[1])
		}
		for l, row := range rows {
			for p, columns := range t.pairs {
				values := t.line(p, func(c int) reg.VecVirtual { return lines[l][c] }, k)
				to := func(side int) Mem { return at(winDst, row*t.out+columns[side], dest.size()) }
				if t.add {
					label := fmt.Sprintf("store%d_%d", row, p)
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
	ADDQ(Imm(16), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	end()
}

func copied(v reg.VecVirtual) reg.VecVirtual {
	c := ZMM()
	VMOVAPS(v, c)
	return c
}

// inputPair: lines 1 and 2 are (d4−4·d2) ± (d3−4·d1), 3 and 4 are (d4−d2) ± 2·(d3−d1), 0 and 5 are 4·d0−5·d2+d4 and 4·d1−5·d3+d5.
func inputPair(pair int, d func(i int) reg.VecVirtual, k []reg.VecVirtual) [2]reg.VecVirtual {
	two, four, five := k[0], k[1], k[2]
	if pair == 2 {
		a, b := copied(d(4)), copied(d(5))
		VFMADD231PS(four, d(0), a)
		VFNMADD231PS(five, d(2), a)
		VFMADD231PS(four, d(1), b)
		VFNMADD231PS(five, d(3), b)
		return [2]reg.VecVirtual{a, b}
	}
	even, odd, plus := ZMM(), ZMM(), ZMM()
	if pair == 0 {
		VMOVAPS(d(4), even)
		VMOVAPS(d(3), odd)
		VFNMADD231PS(four, d(2), even)
		VFNMADD231PS(four, d(1), odd)
		VADDPS(odd, even, plus)
		VSUBPS(odd, even, even)
		return [2]reg.VecVirtual{plus, even}
	}
	VSUBPS(d(2), d(4), even)
	VSUBPS(d(1), d(3), odd)
	VMOVAPS(even, plus)
	VFMADD231PS(two, odd, plus)
	VFNMADD231PS(two, odd, even)
	return [2]reg.VecVirtual{plus, even}
}

// weightPair: lines 0 and 5 are g0/4 and g2, 1 and 2 are −(g0+g2±g1)/6, 3 and 4 are (g0/4+g2±g1/2)/6.
func weightPair(pair int, g func(i int) reg.VecVirtual, k []reg.VecVirtual) [2]reg.VecVirtual {
	quarter, half, sixth, minusSixth := k[0], k[1], k[2], k[3]
	plus, minus := ZMM(), ZMM()
	middle := g(1)
	switch pair {
	case 0:
		VMULPS(quarter, g(0), plus)
		VMOVAPS(g(2), minus)
	case 1:
		VADDPS(g(2), g(0), minus)
		VADDPS(middle, minus, plus)
		VSUBPS(middle, minus, minus)
		VMULPS(minusSixth, plus, plus)
		VMULPS(minusSixth, minus, minus)
	case 2:
		VMOVAPS(g(2), minus)
		VFMADD231PS(quarter, g(0), minus)
		VMOVAPS(minus, plus)
		VFMADD231PS(half, middle, plus)
		VFNMADD231PS(half, middle, minus)
		VMULPS(sixth, plus, plus)
		VMULPS(sixth, minus, minus)
	}
	return [2]reg.VecVirtual{plus, minus}
}

// outputPair: lines 0 and 2 are m0+(m1+m2)+(m3+m4) and (m1+m2)+4·(m3+m4), 1 and 3 are (m1−m2)+2·(m3−m4) and (m1−m2)+8·(m3−m4)+m5.
func outputPair(pair int, m func(i int) reg.VecVirtual, k []reg.VecVirtual) [2]reg.VecVirtual {
	two, four, eight := k[0], k[1], k[2]
	first, second, a, b := ZMM(), ZMM(), ZMM(), ZMM()
	m1, m2, m3, m4 := m(1), m(2), m(3), m(4)
	if pair == 0 {
		VADDPS(m2, m1, a)
		VADDPS(m4, m3, b)
		VADDPS(m(0), a, first)
		VADDPS(b, first, first)
		VMOVAPS(a, second)
		VFMADD231PS(four, b, second)
	} else {
		VSUBPS(m2, m1, a)
		VSUBPS(m4, m3, b)
		VMOVAPS(a, first)
		VFMADD231PS(two, b, first)
		VADDPS(m(5), a, second)
		VFMADD231PS(eight, b, second)
	}
	return [2]reg.VecVirtual{first, second}
}
