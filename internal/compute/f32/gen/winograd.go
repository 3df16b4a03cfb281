package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of WinogradArgs in winograd.go of package f32.
const winDst, winSrc, winCount, winAdd = 0, 288, 576, 584

// winograd writes the transforms of both of Winograd's algorithms, all made of the same linear
// combinations.
func winograd() {
	transforms(avx512, transformKinds)
	transforms(avx512half, []transform{transformKinds[0], transformKinds[2]})
	for _, t := range transforms4 {
		t.write(avx512)
		if t.fromMap || t.toMap {
			t.write(avx512half)
		}
		t.write(avx2)
	}
	for _, t := range transforms2 {
		t.write(avx2)
	}
}

// transforms2 are the transforms of transformKinds line by line, for AVX2. transforms4 are those of
// F(4×4, 3×3).
var transforms2 = []lineTransform{
	{"winogradInput", transformKinds[0].doc, 4, 4, nil, [][]int{{1, 2}, {0, 3}}, func(s isa, group int, d func(i int) reg.VecVirtual, _ []Op) []reg.VecVirtual {
		v, w := s.vec(), s.vec()
		if group == 0 {
			d1, d2 := d(1), d(2)
			VADDPS(d2, d1, v)
			VSUBPS(d1, d2, w)
		} else {
			VSUBPS(d(2), d(0), v)
			VSUBPS(d(3), d(1), w)
		}
		return []reg.VecVirtual{v, w}
	}, false, true, false},
	{"winogradWeight", transformKinds[1].doc, 3, 4, []float32{0.5}, [][]int{{1, 2}, {0, 3}}, func(s isa, group int, g func(i int) reg.VecVirtual, half []Op) []reg.VecVirtual {
		if group == 1 {
			return []reg.VecVirtual{s.copied(g(0)), s.copied(g(2))}
		}
		sum, plus, middle := s.vec(), s.vec(), g(1)
		VADDPS(g(2), g(0), sum)
		VADDPS(middle, sum, plus)
		VSUBPS(middle, sum, sum)
		VMULPS(half[0], plus, plus)
		VMULPS(half[0], sum, sum)
		return []reg.VecVirtual{plus, sum}
	}, false, false, false},
	{"winogradOutput", transformKinds[2].doc, 4, 2, nil, [][]int{{0, 1}}, func(s isa, _ int, m func(i int) reg.VecVirtual, _ []Op) []reg.VecVirtual {
		v, w, m1, m2 := s.vec(), s.vec(), m(1), m(2)
		VADDPS(m1, m(0), v)
		VADDPS(m2, v, v)
		VSUBPS(m2, m1, w)
		VSUBPS(m(3), w, w)
		return []reg.VecVirtual{v, w}
	}, true, false, true},
	{"winogradGradient", transformKinds[3].doc, 2, 4, nil, [][]int{{1, 2}, {0, 3}}, func(s isa, group int, g func(i int) reg.VecVirtual, _ []Op) []reg.VecVirtual {
		if group == 1 {
			return []reg.VecVirtual{s.copied(g(0)), s.copied(g(1))}
		}
		v, w, g0, g1 := s.vec(), s.vec(), g(0), g(1)
		VADDPS(g1, g0, v)
		VSUBPS(g1, g0, w)
		return []reg.VecVirtual{v, w}
	}, false, true, false},
	{"winogradTaps", transformKinds[4].doc, 4, 3, []float32{0.5}, [][]int{{0, 1, 2}}, func(s isa, _ int, m func(i int) reg.VecVirtual, half []Op) []reg.VecVirtual {
		plus, minus, first, m1, m2 := s.vec(), s.vec(), s.vec(), m(1), m(2)
		VADDPS(m2, m1, plus)
		VSUBPS(m2, m1, minus)
		VMULPS(half[0], plus, plus)
		VMULPS(half[0], minus, minus)
		VADDPS(plus, m(0), first)
		VSUBPS(m(3), plus, plus)
		return []reg.VecVirtual{first, minus, plus}
	}, false, false, false},
}

type transform struct {
	name, doc      string
	in, out        int
	f              func(d [][]reg.VecVirtual) [][]reg.VecVirtual
	add            bool
	fromMap, toMap bool // Src, Dst are of the images
}

var transformKinds = []transform{
	{"winogradInput", "is Winograd's Bᵀ·d·B: 4×4 pixels to 16 values.", 4, 4, func(d [][]reg.VecVirtual) [][]reg.VecVirtual {
		return twice(d, inputLine)
	}, false, true, false},
	{"winogradWeight", "is Winograd's G·g·Gᵀ: 3×3 taps to 16 values.", 3, 4, func(d [][]reg.VecVirtual) [][]reg.VecVirtual {
		half := avx512.constant(0x3f000000)
		return twice(d, func(v []reg.VecVirtual) []reg.VecVirtual { return weightLine(half, v) })
	}, false, false, false},
	{"winogradOutput", "is Winograd's Aᵀ·m·A: 16 values to 2×2 pixels.", 4, 2, func(d [][]reg.VecVirtual) [][]reg.VecVirtual {
		return twice(d, outputLine)
	}, true, false, true},
	{"winogradGradient", "is Winograd's G·g·Gᵀ of F(3×3, 2×2): 2×2 gradients to 16 values.", 2, 4, func(d [][]reg.VecVirtual) [][]reg.VecVirtual {
		return twice(d, gradientLine)
	}, false, true, false},
	{"winogradTaps", "is Winograd's Aᵀ·m·A of F(3×3, 2×2): 16 values to 3×3 taps.", 4, 3, func(d [][]reg.VecVirtual) [][]reg.VecVirtual {
		half := avx512.constant(0x3f000000)
		return twice(d, func(v []reg.VecVirtual) []reg.VecVirtual { return tapsLine(half, v) })
	}, false, false, false},
}

// transforms writes transforms of images whose numbers lie in memory as s says; transformed numbers
// are float32.
func transforms(s isa, kinds []transform) {
	for _, k := range kinds {
		s.text(k.name, "func(a *byte)", k.doc)
		source, dest := avx512, avx512
		if k.fromMap {
			source = s
		}
		if k.toMap {
			dest = s
		}
		store := dest.storer()
		args := gp("a")
		n, i := GP64(), GP64()
		MOVQ(Mem{Base: args, Disp: winCount}, n)
		XORQ(i, i)
		add := GP64()
		if k.add {
			MOVQ(Mem{Base: args, Disp: winAdd}, add)
		}
		Label("loop")
		at := func(table, j, size int) Mem {
			p := GP64()
			MOVQ(Mem{Base: args, Disp: table + 8*j}, p)
			return Mem{Base: p, Index: i, Scale: uint8(size)}
		}
		d := make([][]reg.VecVirtual, k.in)
		for r := range d {
			for c := range k.in {
				v := ZMM()
				source.load(at(winSrc, r*k.in+c, source.size()), v)
				d[r] = append(d[r], v)
			}
		}
		r := k.f(d)
		if k.add {
			TESTQ(add, add)
			JE(LabelRef("store"))
			for h := range r {
				for w, v := range r[h] {
					VADDPS(dest.operand(at(winDst, h*k.out+w, dest.size())), v, v)
				}
			}
			Label("store")
		}
		for h := range r {
			for w, v := range r[h] {
				store(v, at(winDst, h*k.out+w, dest.size()))
			}
		}
		ADDQ(Imm(16), i)
		CMPQ(i, n)
		JLT(LabelRef("loop"))
		end()
	}
}

// twice applies a transform to all columns and then to all rows.
func twice(d [][]reg.VecVirtual, f func(v []reg.VecVirtual) []reg.VecVirtual) [][]reg.VecVirtual {
	t := transposed(d)
	for j := range t {
		t[j] = f(t[j])
	}
	d = transposed(t)
	for i := range d {
		d[i] = f(d[i])
	}
	return d
}

func transposed(d [][]reg.VecVirtual) [][]reg.VecVirtual {
	t := make([][]reg.VecVirtual, len(d[0]))
	for j := range t {
		for i := range d {
			t[j] = append(t[j], d[i][j])
		}
	}
	return t
}

// inputLine: (d0−d2, d1+d2, d2−d1, d1−d3).
func inputLine(d []reg.VecVirtual) []reg.VecVirtual {
	a := ZMM()
	VADDPS(d[2], d[1], a)
	VSUBPS(d[2], d[0], d[0])
	VSUBPS(d[1], d[2], d[2])
	VSUBPS(d[3], d[1], d[1])
	return []reg.VecVirtual{d[0], a, d[2], d[1]}
}

// weightLine: (g0, (g0+g1+g2)/2, (g0−g1+g2)/2, g2).
func weightLine(half reg.VecVirtual, g []reg.VecVirtual) []reg.VecVirtual {
	s, p, m := ZMM(), ZMM(), ZMM()
	VADDPS(g[2], g[0], s)
	VADDPS(g[1], s, p)
	VSUBPS(g[1], s, m)
	VMULPS(half, p, p)
	VMULPS(half, m, m)
	return []reg.VecVirtual{g[0], p, m, g[2]}
}

// outputLine: (m0+m1+m2, m1−m2−m3).
func outputLine(m []reg.VecVirtual) []reg.VecVirtual {
	VADDPS(m[1], m[0], m[0])
	VADDPS(m[2], m[0], m[0])
	VSUBPS(m[2], m[1], m[1])
	VSUBPS(m[3], m[1], m[1])
	return []reg.VecVirtual{m[0], m[1]}
}

// gradientLine: (g0, g0+g1, g0−g1, g1).
func gradientLine(g []reg.VecVirtual) []reg.VecVirtual {
	p, m := ZMM(), ZMM()
	VADDPS(g[1], g[0], p)
	VSUBPS(g[1], g[0], m)
	return []reg.VecVirtual{g[0], p, m, g[1]}
}

// tapsLine: (m0+(m1+m2)/2, (m1−m2)/2, (m1+m2)/2−m3).
func tapsLine(half reg.VecVirtual, m []reg.VecVirtual) []reg.VecVirtual {
	p, d := ZMM(), ZMM()
	VADDPS(m[2], m[1], p)
	VSUBPS(m[2], m[1], d)
	VMULPS(half, p, p)
	VMULPS(half, d, d)
	VADDPS(p, m[0], m[0])
	VSUBPS(m[3], p, p)
	return []reg.VecVirtual{m[0], d, p}
}
