package main

// Offsets of TransposeArgs in tile.go of package f32 (a test there compares them).
const (
	transDst, transSrc, transSrcMask, transDstMask, transAhead, transSrcRow, transDstRow = 0, 24, 48, 56, 72, 80, 208
)

// transpose moves 4×4 blocks. Masks are given as numbers here: of the rows read and of the columns,
// both multiples of 4 and not 0. With shift it is Tile.TransposeShift.
func transpose(shift bool) {
	var low, add vec
	var shifts gpr
	if shift {
		text("transposeShiftNEON", "func(a *byte, shift *float32, floor float32)", "is Tile.TransposeShift, as transposeNEON.")
		low, add, shifts = broadcast("floor"), v(), arg("shift")
	} else {
		text("transposeNEON", "func(a *byte)", "is Tile.Transpose for SrcMask columns of DstMask rows, multiples of 4 and not 0; columns whose DstRow is negative are left out.")
	}
	args, i, j, iEnd, jEnd, src, dst, ahead := arg("a"), r(), r(), r(), r(), r(), r(), r()
	g("MOVD %d(%v), %v", transSrc, args, src)
	g("MOVD %d(%v), %v", transDst, args, dst)
	g("MOVD %d(%v), %v", transAhead, args, ahead)
	g("MOVD %d(%v), %v", transDstMask, args, iEnd)
	g("MOVD %d(%v), %v", transSrcMask, args, jEnd)
	g("MOVD $0, %v", i)
	label("rows")
	row := []gpr{r(), r(), r(), r()}
	scope(func() {
		t := r()
		for q, p := range row {
			g("ADD %v<<3, %v, %v", i, args, t)
			g("MOVD %d(%v), %v", transSrcRow+8*q, t, p)
			g("ADD %v<<2, %v, %v", p, src, p)
			g("ADD %v<<2, %v, %v", ahead, p, t)
			g("PRFM (%v), PLDL1KEEP", t)
		}
	})
	g("MOVD $0, %v", j)
	if shift {
		ldrQPost(add, shifts, 16)
	}
	label("columns")
	scope(func() {
		a, b := vs(4), vs(4)
		for q, p := range row {
			ldrQPost(a[q], p, 16)
		}
		zip1(b[0], a[0], a[2]) // 00 20 01 21
		zip2(b[1], a[0], a[2]) // 02 22 03 23
		zip1(b[2], a[1], a[3])
		zip2(b[3], a[1], a[3])
		zip1(a[0], b[0], b[2]) // 00 10 20 30
		zip2(a[1], b[0], b[2])
		zip1(a[2], b[1], b[3])
		zip2(a[3], b[1], b[3])
		t, to := r(), r()
		if shift {
			for q, x := range a {
				fadd(x, x, add)
				fcmgt(b[q], low, x)
				bit(x, low, b[q])
			}
		}
		for q := range a {
			skip := "skip" + string(rune('0'+q))
			g("ADD %v<<3, %v, %v", j, args, t)
			g("MOVD %d(%v), %v", transDstRow+8*q, t, to)
			g("TBNZ $63, %v, %s", to, skip)
			g("ADD %v<<2, %v, %v", to, dst, to)
			g("ADD %v<<2, %v, %v", i, to, to)
			strQ(a[q], mem{to, 0})
			label(skip)
		}
	})
	g("ADD $4, %v, %v", j, j)
	g("CMP %v, %v", jEnd, j)
	g("BLT columns")
	g("ADD $4, %v, %v", i, i)
	g("CMP %v, %v", iEnd, i)
	g("BLT rows")
	end()
}

// copyRows is Tile.CopyRows for rows of whole vectors.
func copyRows() {
	text("copyRowsNEON", "func(dst *float32, dstStride int, src *float32, srcStride, rows, n, zeros int)",
		"is Tile.CopyRows for n values and then zeros, multiples of 4, n not 0; strides in bytes, rows not 0.")
	filledRows([]gpr{arg("src")}, arg("srcStride"), func(from []gpr) vec {
		x := v()
		ldrQPost(x, from[0], 16)
		return x
	})
}

// filledRows writes rows of n values that body makes, a vector at a time, from pointers that it
// moves on, and of zeros after them.
func filledRows(src []gpr, srcStride gpr, body func(from []gpr) vec) {
	dst, dstStride, rows, n, zeros := arg("dst"), arg("dstStride"), arg("rows"), arg("n"), arg("zeros")
	from, to, left, none := make([]gpr, len(src)), r(), r(), v()
	zero(none)
	label("row")
	for i, p := range src {
		from[i] = r()
		g("MOVD %v, %v", p, from[i])
	}
	g("MOVD %v, %v", dst, to)
	g("MOVD %v, %v", n, left)
	label("vector")
	scope(func() { strQPost(body(from), to, 16) })
	g("SUBS $4, %v, %v", left, left)
	g("BNE vector")
	g("MOVD %v, %v", zeros, left)
	g("CBZ %v, next", left)
	label("zero")
	strQPost(none, to, 16)
	g("SUBS $4, %v, %v", left, left)
	g("BNE zero")
	label("next")
	for _, p := range src {
		g("ADD %v, %v, %v", srcStride, p, p)
	}
	g("ADD %v, %v, %v", dstStride, dst, dst)
	g("SUBS $1, %v, %v", rows, rows)
	g("BNE row")
	end()
}

// pairRows is Tile.PairRows, of float32 or of what is bfloat16 already, for rows of whole vectors.
func pairRows(s isa, joined bool) {
	name, params := "pairRowsLow", "low *"+s.element()
	if joined {
		name, params = "pairRows", "low, high *"+s.element()
	}
	s.text(name, "func(dst *float32, dstStride int, "+params+", srcStride, rows, n, zeros int)",
		"is Tile.PairRows for n values and then zeros, multiples of 4, n not 0; strides in bytes, rows not 0.")
	src := []gpr{arg("low")}
	if joined {
		src = append(src, arg("high"))
	}
	none := v()
	zero(none)
	filledRows(src, arg("srcStride"), func(from []gpr) vec {
		half := []vec{v(), none}
		if joined {
			half[1] = v()
		}
		for i, p := range from {
			if s.half {
				ldrDPost(half[i], p, 8)
			} else {
				ldrQPost(half[i], p, 16)
				bfcvtn(half[i], half[i])
			}
		}
		zip1H(half[0], half[0], half[1])
		return half[0]
	})
}

// fetch is Tile.Fetch.
func fetch() {
	text("fetch", "func(src *float32, stride, rows, n int)", "is Tile.Fetch; stride in bytes, rows and n not 0.")
	src, stride, rows, n := arg("src"), arg("stride"), arg("rows"), arg("n")
	at, last := r(), r()
	label("row")
	g("MOVD %v, %v", src, at)
	g("ADD %v<<2, %v, %v", n, src, last)
	label("line")
	g("PRFM (%v), PLDL1KEEP", at)
	g("ADD $64, %v, %v", at, at)
	g("CMP %v, %v", last, at)
	g("BLO line")
	g("ADD %v, %v, %v", stride, src, src)
	g("SUBS $1, %v, %v", rows, rows)
	g("BNE row")
	end()
}
