package main

// Offsets of WinogradArgs in winograd.go of package f32.
const winDst, winSrc, winCount, winAdd = 0, 288, 576, 584

func init() {
	sets["winograd"] = func() {
		for _, k := range transformKinds {
			k.write(neon, neon)
		}
		transformKinds[0].write(half, neon)
		transformKinds[2].write(neon, half)
		transformKinds[2].write(neon, halfFast)
	}
}

type transform struct {
	name, doc string
	in, out   int

	// line transforms a line of the matrix. It may overwrite d.
	line func(d []vec, half vec) []vec

	halves bool // line uses a vector of 0.5
	add    bool
}

var transformKinds = []transform{
	{"winogradInput", "is Winograd's Bᵀ·d·B: 4×4 pixels to 16 values.", 4, 4, inputLine, false, false},
	{"winogradWeight", "is Winograd's G·g·Gᵀ: 3×3 taps to 16 values.", 3, 4, weightLine, true, false},
	{"winogradOutput", "is Winograd's Aᵀ·m·A: 16 values to 2×2 pixels.", 4, 2, outputLine, false, true},
	{"winogradGradient", "is Winograd's G·g·Gᵀ of F(3×3, 2×2): 2×2 gradients to 16 values.", 2, 4, gradientLine, false, false},
	{"winogradTaps", "is Winograd's Aᵀ·m·A of F(3×3, 2×2): 16 values to 3×3 taps.", 4, 3, tapsLine, true, false},
}

// write writes a transform of values that lie in memory as from and to say. Pointers to what is
// read stay in registers.
func (k transform) write(from, to isa) {
	name := to
	if from.half {
		name = from
	}
	name.text(k.name, "func(a *byte)", k.doc)
	args, n, i := arg("a"), r(), r()
	src := make([]gpr, k.in*k.in)
	for j := range src {
		src[j] = r()
		g("MOVD %d(%v), %v", winSrc+8*j, args, src[j])
	}
	g("MOVD %d(%v), %v", winCount, args, n)
	g("MOVD $0, %v", i) // bytes of the destination
	var h vec
	if k.halves {
		h = constant(0x3f000000)
	}
	narrow := to.rounder()
	label("loop")
	scope(func() {
		d := make([][]vec, k.in)
		for j, p := range src {
			x := v()
			if from.half {
				ldrDPost(x, p, 8)
				shll(x, x)
			} else {
				ldrQPost(x, p, 16)
			}
			d[j/k.in] = append(d[j/k.in], x)
		}
		m := k.twice(d, h)
		t := []gpr{r(), r()}
		at := func(j int) gpr {
			p := t[j%len(t)]
			g("MOVD %d(%v), %v", winDst+8*j, args, p)
			g("ADD %v, %v, %v", i, p, p)
			return p
		}
		if k.add {
			g("MOVD %d(%v), %v", winAdd, args, t[0])
			g("CBZ %v, store", t[0])
			for j := range k.out * k.out {
				scope(func() {
					x := v()
					to.read(x, mem{at(j), 0})
					fadd(m[j/k.out][j%k.out], m[j/k.out][j%k.out], x)
				})
			}
			label("store")
		}
		for j := range k.out * k.out {
			narrow.write(m[j/k.out][j%k.out], mem{at(j), 0})
		}
	})
	g("ADD $%d, %v, %v", vecLanes*to.size(), i, i)
	g("SUBS $%d, %v, %v", vecLanes, n, n)
	g("BNE loop")
	end()
}

// twice applies a transform to all columns and then to all rows.
func (k transform) twice(d [][]vec, half vec) [][]vec {
	for range 2 {
		d = transposed(d)
		for j := range d {
			d[j] = k.line(d[j], half)
		}
	}
	return d
}

func transposed(d [][]vec) [][]vec {
	t := make([][]vec, len(d[0]))
	for j := range t {
		for i := range d {
			t[j] = append(t[j], d[i][j])
		}
	}
	return t
}

// give frees registers that a line no longer needs.
func give(all ...vec) {
	for _, x := range all {
		cur.vecs[x] = false
	}
}

// inputLine: (d0−d2, d1+d2, d2−d1, d1−d3).
func inputLine(d []vec, _ vec) []vec {
	a := v()
	fadd(a, d[1], d[2])
	fsub(d[0], d[0], d[2])
	fsub(d[2], d[2], d[1])
	fsub(d[1], d[1], d[3])
	give(d[3])
	return []vec{d[0], a, d[2], d[1]}
}

// weightLine: (g0, (g0+g1+g2)/2, (g0−g1+g2)/2, g2).
func weightLine(d []vec, half vec) []vec {
	s, p := v(), v()
	fadd(s, d[0], d[2])
	fadd(p, s, d[1])
	fsub(s, s, d[1])
	fmul(p, p, half)
	fmul(s, s, half)
	give(d[1])
	return []vec{d[0], p, s, d[2]}
}

// outputLine: (m0+m1+m2, m1−m2−m3).
func outputLine(m []vec, _ vec) []vec {
	fadd(m[0], m[0], m[1])
	fadd(m[0], m[0], m[2])
	fsub(m[1], m[1], m[2])
	fsub(m[1], m[1], m[3])
	give(m[2], m[3])
	return []vec{m[0], m[1]}
}

// gradientLine: (g0, g0+g1, g0−g1, g1).
func gradientLine(d []vec, _ vec) []vec {
	p, m := v(), v()
	fadd(p, d[0], d[1])
	fsub(m, d[0], d[1])
	return []vec{d[0], p, m, d[1]}
}

// tapsLine: (m0+(m1+m2)/2, (m1−m2)/2, (m1+m2)/2−m3).
func tapsLine(m []vec, half vec) []vec {
	p := v()
	fadd(p, m[1], m[2])
	fsub(m[1], m[1], m[2])
	fmul(p, p, half)
	fmul(m[1], m[1], half)
	fadd(m[0], m[0], p)
	fsub(p, p, m[3])
	give(m[2], m[3])
	return []vec{m[0], m[1], p}
}
