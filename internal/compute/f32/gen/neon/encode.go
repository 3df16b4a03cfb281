package main

import "fmt"

// Go's assembler knows few of the vector instructions, so all of them are written as words, each
// with its text as GNU's disassembler writes it: a test of package f32 compares the two. The codes
// are those of the Arm Architecture Reference Manual, chapter C7.

// A vec is the number of a vector register, a gpr that of a general one.
type (
	vec int
	gpr int
)

func (r gpr) String() string { return fmt.Sprintf("R%d", int(r)) }

// word writes an instruction.
func word(code uint32, format string, args ...any) {
	cur.line("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

func d5(v vec) uint32              { return uint32(v) }
func n5(v vec) uint32              { return uint32(v) << 5 }
func m5(v vec) uint32              { return uint32(v) << 16 }
func rn(r gpr) uint32              { return uint32(r) << 5 }
func rd(r gpr) uint32              { return uint32(r) }
func rm(r gpr) uint32              { return uint32(r) << 16 }
func x(r gpr) string               { return fmt.Sprintf("x%d", int(r)) }
func w(r gpr) string               { return fmt.Sprintf("w%d", int(r)) }
func shape(s string, v vec) string { return fmt.Sprintf("v%d.%s", int(v), s) }

// three is an instruction of three registers: dst, then the operands in the manual's order.
func three(name string, code uint32, dst, src string) func(d, n, m vec) {
	return func(d, n, m vec) {
		word(code|m5(m)|n5(n)|d5(d), "%s %s, %s, %s", name, shape(dst, d), shape(src, n), shape(src, m))
	}
}

// two is an instruction of two registers; rest is the text behind them.
func two(name string, code uint32, dst, src, rest string) func(d, n vec) {
	return func(d, n vec) { word(code|n5(n)|d5(d), "%s %s, %s%s", name, shape(dst, d), shape(src, n), rest) }
}

// shift is an instruction with a constant that the manual's immh:immb hold as base + sign·constant.
func shift(name string, code uint32, dst, src string, base, sign int) func(d, n vec, by int) {
	return func(d, n vec, by int) {
		word(code|uint32(base+sign*by)<<16|n5(n)|d5(d), "%s %s, %s, #%d", name, shape(dst, d), shape(src, n), by)
	}
}

var (
	fadd   = three("fadd", 0x4e20d400, "4s", "4s")
	fsub   = three("fsub", 0x4ea0d400, "4s", "4s")
	fmul   = three("fmul", 0x6e20dc00, "4s", "4s")
	fdiv   = three("fdiv", 0x6e20fc00, "4s", "4s")
	fmls   = three("fmls", 0x4ea0cc00, "4s", "4s")
	fmla   = three("fmla", 0x4e20cc00, "4s", "4s")
	fmax   = three("fmax", 0x4e20f400, "4s", "4s") // a NaN if one is
	fmin   = three("fmin", 0x4ea0f400, "4s", "4s")
	fcmeq  = three("fcmeq", 0x4e20e400, "4s", "4s")
	fcmge  = three("fcmge", 0x6e20e400, "4s", "4s")
	fcmgt  = three("fcmgt", 0x6ea0e400, "4s", "4s")
	faddp  = three("faddp", 0x6e20d400, "4s", "4s")
	fmaxp  = three("fmaxp", 0x6e20f400, "4s", "4s")
	faddD  = three("fadd", 0x4e60d400, "2d", "2d")
	fmlaD  = three("fmla", 0x4e60cc00, "2d", "2d")
	and    = three("and", 0x4e201c00, "16b", "16b")
	bic    = three("bic", 0x4e601c00, "16b", "16b") // n and not m
	orr    = three("orr", 0x4ea01c00, "16b", "16b")
	orn    = three("orn", 0x4ee01c00, "16b", "16b") // n or not m
	eor    = three("eor", 0x6e201c00, "16b", "16b")
	bsl    = three("bsl", 0x6e601c00, "16b", "16b") // n where d is 1, else m
	bit    = three("bit", 0x6ea01c00, "16b", "16b") // n where m is 1
	bif    = three("bif", 0x6ee01c00, "16b", "16b") // n where m is 0
	add4   = three("add", 0x4ea08400, "4s", "4s")
	sub4   = three("sub", 0x6ea08400, "4s", "4s")
	addp4  = three("addp", 0x4ea0bc00, "4s", "4s")
	addpB  = three("addp", 0x4e20bc00, "16b", "16b")
	cmhs   = three("cmhs", 0x6ea03c00, "4s", "4s") // n ≥ m, unsigned
	cmtst  = three("cmtst", 0x4ea08c00, "4s", "4s")
	addhn  = three("addhn", 0x0e604000, "4h", "4s") // the upper halves of sums
	zip1   = three("zip1", 0x4e803800, "4s", "4s")
	zip2   = three("zip2", 0x4e807800, "4s", "4s")
	zip1D  = three("zip1", 0x4ec03800, "2d", "2d")
	zip2D  = three("zip2", 0x4ec07800, "2d", "2d")
	zip1H  = three("zip1", 0x4e403800, "8h", "8h")
	uzp1H  = three("uzp1", 0x4e401800, "8h", "8h")
	uzp1B  = three("uzp1", 0x4e001800, "16b", "16b")
	bfmmla = three("bfmmla", 0x6e40ec00, "4s", "8h") // d += n·mᵀ, both 2×4

	fsqrt  = two("fsqrt", 0x6ea1f800, "4s", "4s", "")
	frintn = two("frintn", 0x4e218800, "4s", "4s", "")
	fcvtns = two("fcvtns", 0x4e21a800, "4s", "4s", "")
	fabs   = two("fabs", 0x4ea0f800, "4s", "4s", "")
	fneg   = two("fneg", 0x6ea0f800, "4s", "4s", "")
	above0 = two("fcmgt", 0x4ea0c800, "4s", "4s", ", #0.0")
	below0 = two("fcmlt", 0x4ea0e800, "4s", "4s", ", #0.0")
	fcvtlH = two("fcvtl", 0x0e217800, "4s", "4h", "")
	fcvtnH = two("fcvtn", 0x0e216800, "4h", "4s", "")
	fcvtl  = two("fcvtl", 0x0e617800, "2d", "2s", "")
	fcvtl2 = two("fcvtl2", 0x4e617800, "2d", "4s", "")
	bfcvtn = two("bfcvtn", 0x0ea16800, "4h", "4s", "")
	shll   = two("shll", 0x2e613800, "4s", "4h", ", #16")
	xtnH   = two("xtn", 0x0e612800, "4h", "4s", "")
	xtnB   = two("xtn", 0x0e212800, "8b", "8h", "")

	sshr = shift("sshr", 0x4f000400, "4s", "4s", 64, -1)
	ushr = shift("ushr", 0x6f000400, "4s", "4s", 64, -1)
	shl  = shift("shl", 0x4f005400, "4s", "4s", 32, 1)
	shrn = shift("shrn", 0x0f008400, "4h", "4s", 32, -1)
)

// fmlaBy adds n times lane i of m.
func fmlaBy(d, n, m vec, i int) {
	word(0x4f801000|uint32(i&1)<<21|uint32(i>>1)<<11|m5(m)|n5(n)|d5(d), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// fmulBy multiplies with lane i of m.
func fmulBy(d, n, m vec, i int) {
	word(0x4f809000|uint32(i&1)<<21|uint32(i>>1)<<11|m5(m)|n5(n)|d5(d), "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// dupLane is lane i of n in all lanes.
func dupLane(d, n vec, i int) {
	word(0x4e040400|uint32(i)<<19|n5(n)|d5(d), "dup v%d.4s, v%d.s[%d]", d, n, i)
}

func zero(v vec) { word(0x4f00e400|d5(v), "movi v%d.16b, #0x0", v) }

func mov(d, n vec) { word(0x4ea01c00|m5(n)|n5(n)|d5(d), "mov v%d.16b, v%d.16b", d, n) }

func dup(v vec, r gpr)      { word(0x4e040c00|rn(r)|d5(v), "dup v%d.4s, %s", v, w(r)) }
func dupB(v vec, r gpr)     { word(0x4e010c00|rn(r)|d5(v), "dup v%d.16b, %s", v, w(r)) }
func laneD0(r gpr, v vec)   { word(0x4e083c00|n5(v)|rd(r), "mov %s, v%d.d[0]", x(r), v) }
func laneH0(r gpr, v vec)   { word(0x0e023c00|n5(v)|rd(r), "umov %s, v%d.h[0]", w(r), v) }
func fromGPR(v vec, r gpr)  { word(0x9e670000|rn(r)|d5(v), "fmov d%d, %s", v, x(r)) }
func insertD1(v vec, r gpr) { word(0x4e181c00|rn(r)|d5(v), "mov v%d.d[1], %s", v, x(r)) }

// A mem is a place in memory: bytes after where base points.
type mem struct {
	base gpr
	off  int
}

func (m mem) plus(bytes int) mem { return mem{m.base, m.off + bytes} }

func (m mem) String() string {
	if m.off == 0 {
		return fmt.Sprintf("[%s]", x(m.base))
	}
	return fmt.Sprintf("[%s, #%d]", x(m.base), m.off)
}

// one is a load or store of one register of some bytes, named by letter.
func one(name, letter string, code uint32, bytes int) func(v vec, at mem) {
	return func(v vec, at mem) {
		if at.off%bytes != 0 || at.off < 0 || at.off/bytes >= 1<<12 {
			panic(fmt.Sprintf("gen: %s %s%d, %v: no such offset", name, letter, v, at))
		}
		word(code|uint32(at.off/bytes)<<10|rn(at.base)|d5(v), "%s %s%d, %v", name, letter, v, at)
	}
}

// onePost is such a load or store that moves the pointer on.
func onePost(name, letter string, code uint32) func(v vec, base gpr, step int) {
	return func(v vec, base gpr, step int) {
		word(code|uint32(step)<<12|rn(base)|d5(v), "%s %s%d, [%s], #%d", name, letter, v, x(base), step)
	}
}

var (
	ldrQ = one("ldr", "q", 0x3dc00000, 16)
	strQ = one("str", "q", 0x3d800000, 16)
	ldrD = one("ldr", "d", 0xfd400000, 8)
	strD = one("str", "d", 0xfd000000, 8)
	ldrS = one("ldr", "s", 0xbd400000, 4)
	strS = one("str", "s", 0xbd000000, 4)
	strH = one("str", "h", 0x7d000000, 2)

	ldrQPost = onePost("ldr", "q", 0x3cc00400)
	ldrDPost = onePost("ldr", "d", 0xfc400400)
	ldrSPost = onePost("ldr", "s", 0xbc400400)
	strQPost = onePost("str", "q", 0x3c800400)
)

// ldpQ and stpQ move two registers that lie side by side in memory.
func ldpQ(v, u vec, at mem)  { pairOf("ldp", 0xad400000, v, u, at) }
func stpQ(v, u vec, at mem)  { pairOf("stp", 0xad000000, v, u, at) }
func stnpQ(v, u vec, at mem) { pairOf("stnp", 0xac000000, v, u, at) } // past the caches

func pairOf(name string, code uint32, v, u vec, at mem) {
	if at.off%16 != 0 || at.off < -1024 || at.off > 1008 {
		panic(fmt.Sprintf("gen: %s q%d, q%d, %v: no such offset", name, v, u, at))
	}
	word(code|uint32(at.off/16&127)<<15|d5(u)<<10|rn(at.base)|d5(v), "%s q%d, q%d, %v", name, v, u, at)
}

// strQAt and strDAt store at base + index.
func strQAt(v vec, base, index gpr) {
	word(0x3ca06800|rm(index)|rn(base)|d5(v), "str q%d, [%s, %s]", v, x(base), x(index))
}

// loadD1 and loadS2 load the upper half, and the third quarter, of a register and move the pointer
// on.
func loadD1(v vec, base gpr) { word(0x4ddf8400|rn(base)|d5(v), "ld1 {v%d.d}[1], [%s], #8", v, x(base)) }
func loadS2(v vec, base gpr) { word(0x4ddf8000|rn(base)|d5(v), "ld1 {v%d.s}[2], [%s], #4", v, x(base)) }
