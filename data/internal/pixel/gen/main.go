// Command gen writes the amd64 assembly of package pixel with avo. Package pixel's go:generate line
// runs it.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	transform()
	smooth()
	convert()
	down()
	across()
	Generate()
}

var constants = map[string]Mem{}

// words is a vector of eight equal int32 in memory.
func words(name string, v int32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL("c"+name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, I32(v))
	}
	constants[name] = m
	return m
}

// bytes16 is 16 bytes in memory. −1 is a byte that a shuffle makes 0.
func bytes16(name string, v [16]int) Mem {
	m := GLOBL("b"+name, RODATA|NOPTR)
	for i, b := range v {
		DATA(i, U8(uint8(b)))
	}
	return m
}

func ymm() reg.VecVirtual { return YMM() }

// op3 returns a new vector: f(a, b) in avo's order of operands.
func add(a, b reg.VecVirtual) reg.VecVirtual { c := ymm(); VPADDD(b, a, c); return c }
func sub(a, b reg.VecVirtual) reg.VecVirtual { c := ymm(); VPSUBD(b, a, c); return c }
func mul(a reg.VecVirtual, m Mem) reg.VecVirtual {
	c := ymm()
	VPMULLD(m, a, c)
	return c
}

// butterfly leaves in s the eight values of which the inverse transform of s consists, rounded and
// shifted.
func butterfly(s *[8]reg.VecVirtual, shift uint64, round Mem) {
	z := mul(add(s[2], s[6]), words("0541", 4433))
	low := add(z, mul(s[6], words("m1847", -15137)))
	high := add(z, mul(s[2], words("0765", 6270)))
	sum, diff := add(s[0], s[4]), sub(s[0], s[4])
	VPSLLD(Imm(13), sum, sum)
	VPSLLD(Imm(13), diff, diff)
	VPADDD(round, sum, sum)
	VPADDD(round, diff, diff)
	e0, e3 := add(sum, high), sub(sum, high)
	e1, e2 := add(diff, low), sub(diff, low)

	z3, z4 := add(s[7], s[3]), add(s[5], s[1])
	z5 := mul(add(z3, z4), words("1175", 9633))
	z3 = add(z5, mul(z3, words("m1961", -16069)))
	z4 = add(z5, mul(z4, words("m0390", -3196)))
	z1 := mul(add(s[7], s[1]), words("m0899", -7373))
	z2 := mul(add(s[5], s[3]), words("m2562", -20995))
	o0 := add(add(mul(s[7], words("0298", 2446)), z1), z3)
	o1 := add(add(mul(s[5], words("2053", 16819)), z2), z4)
	o2 := add(add(mul(s[3], words("3072", 25172)), z2), z3)
	o3 := add(add(mul(s[1], words("1501", 12299)), z1), z4)

	s[0], s[7] = add(e0, o3), sub(e0, o3)
	s[1], s[6] = add(e1, o2), sub(e1, o2)
	s[2], s[5] = add(e2, o1), sub(e2, o1)
	s[3], s[4] = add(e3, o0), sub(e3, o0)
	for _, v := range s {
		VPSRAD(Imm(shift), v, v)
	}
}

// transpose turns eight vectors of eight int32 around.
func transpose(s *[8]reg.VecVirtual) {
	var t [8]reg.VecVirtual
	for i := 0; i < 8; i += 2 {
		t[i], t[i+1] = ymm(), ymm()
		VPUNPCKLDQ(s[i+1], s[i], t[i])
		VPUNPCKHDQ(s[i+1], s[i], t[i+1])
	}
	// t[0] is a0 b0 a1 b1 | a4 b4 a5 b5, t[1] a2 b2 a3 b3 | …, of rows a and b; t[2], t[3] of c
	// and d.
	var u [8]reg.VecVirtual
	for i := 0; i < 8; i += 4 {
		for j := range 4 {
			u[i+j] = ymm()
		}
		VPUNPCKLQDQ(t[i+2], t[i], u[i])
		VPUNPCKHQDQ(t[i+2], t[i], u[i+1])
		VPUNPCKLQDQ(t[i+3], t[i+1], u[i+2])
		VPUNPCKHQDQ(t[i+3], t[i+1], u[i+3])
	}
	for j := range 4 {
		s[j], s[j+4] = ymm(), ymm()
		VPERM2I128(Imm(0x20), u[j+4], u[j], s[j])
		VPERM2I128(Imm(0x31), u[j+4], u[j], s[j+4])
	}
}

func transform() {
	TEXT("transformAVX2", NOSPLIT, "func(dst *uint8, stride int, block *int16)")
	Doc("transformAVX2 is transform.")
	Pragma("noescape")
	dst, stride, block := Load(Param("dst"), GP64()), Load(Param("stride"), GP64()), Load(Param("block"), GP64())
	var s [8]reg.VecVirtual
	for i := range s {
		s[i] = ymm()
		VPMOVSXWD(Mem{Base: block, Disp: 16 * i}, s[i])
	}
	butterfly(&s, 11, words("round11", 1<<10))
	transpose(&s)
	// Each vector is a column of the first pass, with a lane for each row.
	butterfly(&s, 18, words("round18", 1<<17))
	// 128 is added to 16 bits, and what is outside of 0 to 255 is cut on the way to 8. A byte
	// shuffle brings the four columns of a row together.
	center := GLOBL("center", RODATA|NOPTR)
	for i := range 16 {
		DATA(2*i, I16(128))
	}
	rows := GLOBL("rows", RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(uint8(i%4*4+i/4%4)))
	}
	var q [2]reg.VecVirtual
	for i := range q {
		a, b := ymm(), ymm()
		VPACKSSDW(s[4*i+1], s[4*i], a)
		VPACKSSDW(s[4*i+3], s[4*i+2], b)
		VPADDW(center, a, a)
		VPADDW(center, b, b)
		q[i] = ymm()
		VPACKUSWB(b, a, q[i])
		VPSHUFB(rows, q[i], q[i])
	}
	low, high := ymm(), ymm()
	VPUNPCKLDQ(q[1], q[0], low)  // rows 0, 1 | 4, 5
	VPUNPCKHDQ(q[1], q[0], high) // rows 2, 3 | 6, 7
	for _, upper := range []bool{false, true} {
		for _, v := range []reg.VecVirtual{low, high} {
			x := v.AsX()
			if upper {
				x = XMM()
				VEXTRACTI128(Imm(1), v, x)
			}
			VMOVQ(x, Mem{Base: dst})
			ADDQ(stride, dst)
			VPEXTRQ(Imm(1), x, Mem{Base: dst})
			ADDQ(stride, dst)
		}
	}
	VZEROUPPER()
	RET()
}

func smooth() {
	TEXT("smoothAVX2", NOSPLIT, "func(dst, in, near *uint8, n int)")
	Doc("smoothAVX2 is smooth for n samples, a multiple of 16.")
	Pragma("noescape")
	dst, in, near := Load(Param("dst"), GP64()), Load(Param("in"), GP64()), Load(Param("near"), GP64())
	n := Load(Param("n"), GP64())
	eight, seven := GLOBL("eight", RODATA|NOPTR), Mem{}
	for i := range 16 {
		DATA(2*i, I16(8))
	}
	seven = GLOBL("seven", RODATA|NOPTR)
	for i := range 16 {
		DATA(2*i, I16(7))
	}
	// three returns 3·a + b of 16-bit values.
	three := func(a, b reg.VecVirtual) reg.VecVirtual {
		c := ymm()
		VPADDW(a, a, c)
		VPADDW(a, c, c)
		VPADDW(b, c, c)
		return c
	}
	Label("more")
	var sums [3]reg.VecVirtual
	for i := range sums {
		a, b := ymm(), ymm()
		VPMOVZXBW(Mem{Base: in, Disp: i}, a)
		VPMOVZXBW(Mem{Base: near, Disp: i}, b)
		sums[i] = three(a, b)
	}
	left, right := three(sums[1], sums[0]), three(sums[1], sums[2])
	VPADDW(eight, left, left)
	VPADDW(seven, right, right)
	VPSRLW(Imm(4), left, left)
	VPSRLW(Imm(4), right, right)
	VPSLLW(Imm(8), right, right)
	VPOR(left, right, right)
	VMOVDQU(right, Mem{Base: dst})
	ADDQ(Imm(16), in)
	ADDQ(Imm(16), near)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), n)
	JNE(LabelRef("more"))
	VZEROUPPER()
	RET()
}

func convert() {
	TEXT("convertAVX2", NOSPLIT, "func(dst, y, cb, cr *uint8, n int)")
	Doc("convertAVX2 is convert for n pixels, a multiple of 8.")
	Pragma("noescape")
	dst, y, cb, cr := Load(Param("dst"), GP64()), Load(Param("y"), GP64()), Load(Param("cb"), GP64()), Load(Param("cr"), GP64())
	n := Load(Param("n"), GP64())
	// Red and green are in the halves of one vector, blue in another; two shuffles each make 16
	// and 8 bytes.
	r := func(i int) int { return i }
	g := func(i int) int { return 8 + i }
	const no = 0x80
	first, firstBlue := [16]int{}, [16]int{}
	second, secondBlue := [16]int{}, [16]int{}
	for i := range 24 {
		pixel, a, b := i/3, no, no
		switch i % 3 {
		case 0:
			a = r(pixel)
		case 1:
			a = g(pixel)
		case 2:
			b = pixel
		}
		if i < 16 {
			first[i], firstBlue[i] = a, b
		} else {
			second[i-16], secondBlue[i-16] = a, b
		}
	}
	for i := 8; i < 16; i++ {
		second[i], secondBlue[i] = no, no
	}
	m1, m2, m3, m4 := bytes16("first", first), bytes16("firstBlue", firstBlue), bytes16("second", second), bytes16("secondBlue", secondBlue)
	center, half := words("128", 128), words("half16", 1<<15)
	Label("more")
	vy, vb, vr := ymm(), ymm(), ymm()
	VPMOVZXBD(Mem{Base: y}, vy)
	VPMOVZXBD(Mem{Base: cb}, vb)
	VPMOVZXBD(Mem{Base: cr}, vr)
	VPSUBD(center, vb, vb)
	VPSUBD(center, vr, vr)
	red, blue := mul(vr, words("red", 91881)), mul(vb, words("blue", 116130))
	green := add(mul(vb, words("greenB", -22554)), mul(vr, words("greenR", -46802)))
	for _, v := range []reg.VecVirtual{red, green, blue} {
		VPADDD(half, v, v)
		VPSRAD(Imm(16), v, v)
		VPADDD(vy, v, v)
	}
	// Lanes: red 0-3, green 0-3 | red 4-7, green 4-7; then all red, all green.
	rg, bb := ymm(), ymm()
	VPACKSSDW(green, red, rg)
	VPERMQ(Imm(0xd8), rg, rg)
	VPACKSSDW(blue, blue, bb)
	VPERMQ(Imm(0xd8), bb, bb)
	upper, bytes, blues := XMM(), XMM(), XMM()
	VEXTRACTI128(Imm(1), rg, upper)
	VPACKUSWB(upper, rg.AsX(), bytes)
	VPACKUSWB(bb.AsX(), bb.AsX(), blues)
	a, b := XMM(), XMM()
	VPSHUFB(m1, bytes, a)
	VPSHUFB(m2, blues, b)
	VPOR(a, b, a)
	VMOVDQU(a, Mem{Base: dst})
	VPSHUFB(m3, bytes, a)
	VPSHUFB(m4, blues, b)
	VPOR(a, b, a)
	VMOVQ(a, Mem{Base: dst, Disp: 16})
	ADDQ(Imm(24), dst)
	ADDQ(Imm(8), y)
	ADDQ(Imm(8), cb)
	ADDQ(Imm(8), cr)
	SUBQ(Imm(8), n)
	JNE(LabelRef("more"))
	VZEROUPPER()
	RET()
}

func down() {
	TEXT("downAVX2", NOSPLIT, "func(dst, src *uint8, stride, n int, weights *int32, count int)")
	Doc("downAVX2 is down for n bytes, at least 32.")
	Pragma("noescape")
	dst, src, stride := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("stride"), GP64())
	n, weights, count := Load(Param("n"), GP64()), Load(Param("weights"), GP64()), Load(Param("count"), GP64())
	order := GLOBL("order", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	half, orders := ymm(), ymm()
	VMOVDQU(words("half22", 1<<21), half)
	VMOVDQU(order, orders)
	at, last := GP64(), GP64()
	XORQ(at, at)
	MOVQ(n, last)
	SUBQ(Imm(32), last)
	Label("more")
	var sums [4]reg.VecVirtual
	for i := range sums {
		sums[i] = ymm()
		VMOVDQA(half, sums[i])
	}
	p, i := GP64(), GP64()
	LEAQ(Mem{Base: src, Index: at, Scale: 1}, p)
	XORQ(i, i)
	Label("row")
	w := ymm()
	VPBROADCASTD(Mem{Base: weights, Index: i, Scale: 4}, w)
	for j := range sums {
		v := ymm()
		VPMOVZXBD(Mem{Base: p, Disp: 8 * j}, v)
		VPMULLD(w, v, v)
		VPADDD(v, sums[j], sums[j])
	}
	ADDQ(stride, p)
	INCQ(i)
	CMPQ(i, count)
	JNE(LabelRef("row"))
	for j := range sums {
		VPSRAD(Imm(22), sums[j], sums[j])
	}
	VPACKSSDW(sums[1], sums[0], sums[0])
	VPACKSSDW(sums[3], sums[2], sums[2])
	VPACKUSWB(sums[2], sums[0], sums[0])
	VPERMD(sums[0], orders, sums[0])
	VMOVDQU(sums[0], Mem{Base: dst, Index: at, Scale: 1})
	// The last 32 bytes are written again, where 32 does not divide n.
	CMPQ(at, last)
	JE(LabelRef("done"))
	ADDQ(Imm(32), at)
	CMPQ(at, last)
	CMOVQGT(last, at)
	JMP(LabelRef("more"))
	Label("done")
	VZEROUPPER()
	RET()
}

func across() {
	TEXT("acrossAVX2", NOSPLIT, "func(dst0, dst1, src0, src1 *uint8, first, count *int32, n int, weights *int32, each int)")
	Doc("acrossAVX2 is across for two rows. It reads one byte behind the last pixel that counts.")
	Pragma("noescape")
	dst0, dst1 := Load(Param("dst0"), GP64()), Load(Param("dst1"), GP64())
	src0, src1 := Load(Param("src0"), GP64()), Load(Param("src1"), GP64())
	first, count, n := Load(Param("first"), GP64()), Load(Param("count"), GP64()), Load(Param("n"), GP64())
	weights, each := Load(Param("weights"), GP64()), Load(Param("each"), GP64())
	half := XMM()
	VMOVDQU(words("half22", 1<<21), half)
	x := GP64()
	XORQ(x, x)
	Label("pixel")
	a, b := XMM(), XMM()
	VMOVDQA(half, a)
	VMOVDQA(half, b)
	from, left, w := GP64(), GP64(), GP64()
	MOVLQSX(Mem{Base: first, Index: x, Scale: 4}, from)
	LEAQ(Mem{Base: from, Index: from, Scale: 2}, from)
	MOVLQSX(Mem{Base: count, Index: x, Scale: 4}, left)
	XORQ(w, w)
	TESTQ(left, left)
	JE(LabelRef("sum"))
	Label("tap")
	f, p, q := XMM(), XMM(), XMM()
	VPBROADCASTD(Mem{Base: weights, Index: w, Scale: 4}, f)
	VPMOVZXBD(Mem{Base: src0, Index: from, Scale: 1}, p)
	VPMOVZXBD(Mem{Base: src1, Index: from, Scale: 1}, q)
	VPMULLD(f, p, p)
	VPMULLD(f, q, q)
	VPADDD(p, a, a)
	VPADDD(q, b, b)
	ADDQ(Imm(3), from)
	INCQ(w)
	CMPQ(w, left)
	JNE(LabelRef("tap"))
	Label("sum")
	VPSRAD(Imm(22), a, a)
	VPSRAD(Imm(22), b, b)
	VPACKSSDW(b, a, a)
	VPACKUSWB(a, a, a)
	r := GP64()
	VMOVQ(a, r)
	MOVW(r.As16(), Mem{Base: dst0})
	SHRQ(Imm(16), r)
	MOVB(r.As8(), Mem{Base: dst0, Disp: 2})
	SHRQ(Imm(16), r)
	MOVW(r.As16(), Mem{Base: dst1})
	SHRQ(Imm(16), r)
	MOVB(r.As8(), Mem{Base: dst1, Disp: 2})
	ADDQ(Imm(3), dst0)
	ADDQ(Imm(3), dst1)
	LEAQ(Mem{Base: weights, Index: each, Scale: 4}, weights)
	INCQ(x)
	CMPQ(x, n)
	JNE(LabelRef("pixel"))
	VZEROUPPER()
	RET()
}
