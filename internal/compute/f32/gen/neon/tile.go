package main

import "fmt"

// Offsets of the argument structs in tile.go of package f32 (a test there compares them).
const (
	gatherIn, gatherW, gatherOut, gatherSegs, gatherAdd, gatherInRow, gatherOutRow = 0, 24, 48, 72, 104, 112, 208
	segIn, segLen, segW, segSize                                                   = 0, 8, 16, 24
	outerA, outerB, outerOut, outerPairs, outerAdd                                 = 0, 24, 48, 72, 96
)

// A tile is so many rows of 16 columns: with six rows 24 of the 32 registers hold sums.
const cols, quads = 16, 4

var tileRows = []int{6, 4, 2}

func init() {
	sets["tile"] = func() {
		for _, rows := range tileRows {
			gather(rows, single{})
			outerSingle(rows)
		}
		for _, rows := range tileRows {
			gather(rows, pairs{})
			outerPairsOf(rows)
		}
		transpose(false)
		transpose(true)
		copyRows()
		pairRows(isa{name: "BF16"}, false)
		pairRows(isa{name: "BF16"}, true)
		fetch()
		peak("NEON", fmla)
		peak("BF16", bfmmla)
	}
}

// An arithmetic is what a tile's registers hold and how they are multiplied.
type arithmetic interface {
	name() string
	sums(rows int) [][]vec

	// add adds the output to row i and what shares its registers.
	add(acc [][]vec, i int, row func(i int) gpr)

	store(acc [][]vec, i int, row func(i int) gpr)

	// step is the rows of the panel that main takes.
	step() int

	// group is the rows of the tile that share registers.
	group() int

	main(acc [][]vec, row []gpr, w gpr) // advances the pointers
	last(acc [][]vec, row []gpr, w gpr) // one row of the panel
}

// gather is Tile.Gather for a number of rows: a pointer walks along each row of the left operand
// and one along the panel.
func gather(rows int, s arithmetic) {
	text(fmt.Sprintf("gather%d%s", rows, s.name()), "func(a *byte)", fmt.Sprintf("is Tile.Gather for %d rows and all columns.", rows))
	args, seg, left, x, w := arg("a"), r(), r(), r(), r()
	row := make([]gpr, rows)
	for i := range row {
		row[i] = r()
	}
	acc := s.sums(rows)
	for _, a := range acc {
		for _, v := range a {
			zero(v)
		}
	}
	g("MOVD %d(%v), %v", gatherSegs, args, seg)
	g("MOVD %d(%v), %v", gatherSegs+8, args, left)
	out := func(i int) gpr {
		g("MOVD %d(%v), %v", gatherOutRow+8*i, args, row[i])
		g("ADD %v<<2, %v, %v", row[i], x, row[i])
		return row[i]
	}
	g("CBZ %v, store", left)
	label("segment")
	g("MOVD %d(%v), %v", segIn, seg, x)
	g("MOVD %d(%v), %v", gatherIn, args, w)
	g("ADD %v<<2, %v, %v", x, w, x)
	for i := range row {
		g("MOVD %d(%v), %v", gatherInRow+8*i, args, row[i])
		g("ADD %v<<2, %v, %v", row[i], x, row[i])
	}
	g("MOVD %d(%v), %v", segW, seg, x)
	g("MOVD %d(%v), %v", gatherW, args, w)
	g("ADD %v<<2, %v, %v", x, w, w)
	g("MOVD %d(%v), %v", segLen, seg, x)
	g("SUBS $%d, %v, %v", s.step(), x, x)
	g("BLT rest")
	label("loop")
	s.main(acc, row, w)
	g("SUBS $%d, %v, %v", s.step(), x, x)
	g("BGE loop")
	label("rest")
	g("ADDS $%d, %v, %v", s.step(), x, x)
	g("BEQ next")
	label("one")
	s.last(acc, row, w)
	g("SUBS $1, %v, %v", x, x)
	g("BNE one")
	label("next")
	g("ADD $%d, %v, %v", segSize, seg, seg)
	g("SUBS $1, %v, %v", left, left)
	g("BNE segment")
	label("store")
	g("MOVD %d(%v), %v", gatherOut, args, x)
	g("MOVD %d(%v), %v", gatherAdd, args, w)
	g("CBZ %v, write", w)
	for i := 0; i < rows; i += s.group() {
		s.add(acc, i, out)
	}
	label("write")
	for i := 0; i < rows; i += s.group() {
		s.store(acc, i, out)
	}
	end()
}

// single is float32: four values of each row are loaded at once and multiplied lane by lane with
// the panel's rows.
type single struct{}

func (single) name() string { return "NEON" }
func (single) step() int    { return 4 }
func (single) group() int   { return 1 }

func (single) sums(rows int) [][]vec {
	acc := make([][]vec, rows)
	for i := range acc {
		acc[i] = vs(quads)
	}
	return acc
}

func (single) add(acc [][]vec, i int, row func(int) gpr) {
	scope(func() {
		from, a, b := row(i), v(), v()
		for j := 0; j < quads; j += 2 {
			ldpQ(a, b, mem{from, 16 * j})
			fadd(acc[i][j], acc[i][j], a)
			fadd(acc[i][j+1], acc[i][j+1], b)
		}
	})
}

func (single) store(acc [][]vec, i int, row func(int) gpr) {
	to := row(i)
	stpQ(acc[i][0], acc[i][1], mem{to, 0})
	stpQ(acc[i][2], acc[i][3], mem{to, 32})
}

func (s single) main(acc [][]vec, row []gpr, w gpr) {
	scope(func() {
		a := vs(len(row))
		for i, p := range row {
			ldrQPost(a[i], p, 16)
		}
		for k := range 4 {
			s.multiply(acc, mem{w, 4 * cols * k}, func(i int) (vec, int) { return a[i], k })
		}
		g("ADD $%d, %v, %v", 4*4*cols, w, w)
	})
}

func (s single) last(acc [][]vec, row []gpr, w gpr) {
	scope(func() {
		a := vs(len(row))
		for i, p := range row {
			ldrSPost(a[i], p, 4)
		}
		s.multiply(acc, mem{w, 0}, func(i int) (vec, int) { return a[i], 0 })
		g("ADD $%d, %v, %v", 4*cols, w, w)
	})
}

// multiply adds the products of a row of the panel with a lane for each row of the tile.
func (single) multiply(acc [][]vec, b mem, a func(i int) (vec, int)) {
	scope(func() {
		b0, b1 := v(), v()
		for q := 0; q < quads; q += 2 {
			ldpQ(b0, b1, b.plus(16*q))
			for i := range acc {
				x, lane := a(i)
				fmlaBy(acc[i][q], b0, x, lane)
				fmlaBy(acc[i][q+1], b1, x, lane)
			}
		}
	})
}

// pairs is pairs of bfloat16, by BFMMLA: a register of sums holds 2×2 of the tile's, of two rows
// and two columns, and an instruction adds the products of two pairs for each. Two rows of the
// panel are joined so that a column's pairs lie side by side.
type pairs struct{}

func (pairs) name() string { return "BF16" }
func (pairs) step() int    { return 2 }
func (pairs) group() int   { return 2 }

// sums[i/2][j/2] is rows i, i+1 and columns j, j+1.
func (pairs) sums(rows int) [][]vec {
	acc := make([][]vec, rows/2)
	for i := range acc {
		acc[i] = vs(cols / 2)
	}
	return acc
}

func (pairs) add(acc [][]vec, i int, row func(int) gpr) {
	scope(func() {
		p, q, a, b, c := row(i), row(i+1), v(), v(), v()
		for j := range quads {
			ldrQ(a, mem{p, 16 * j})
			ldrQ(b, mem{q, 16 * j})
			zip1D(c, a, b)
			zip2D(a, a, b)
			fadd(acc[i/2][2*j], acc[i/2][2*j], c)
			fadd(acc[i/2][2*j+1], acc[i/2][2*j+1], a)
		}
	})
}

func (pairs) store(acc [][]vec, i int, row func(int) gpr) {
	scope(func() {
		p, q, a, b := row(i), row(i+1), v(), v()
		for j := range quads {
			zip1D(a, acc[i/2][2*j], acc[i/2][2*j+1])
			zip2D(b, acc[i/2][2*j], acc[i/2][2*j+1])
			strQ(a, mem{p, 16 * j})
			strQ(b, mem{q, 16 * j})
		}
	})
}

func (s pairs) main(acc [][]vec, row []gpr, w gpr) {
	scope(func() {
		a := vs(len(acc))
		for i := range a {
			ldrDPost(a[i], row[2*i], 8)
			loadD1(a[i], row[2*i+1])
		}
		s.multiply(acc, a, mem{w, 0}, mem{w, 4 * cols})
		g("ADD $%d, %v, %v", 2*4*cols, w, w)
	})
}

func (s pairs) last(acc [][]vec, row []gpr, w gpr) {
	scope(func() {
		a := vs(len(acc))
		for i := range a {
			ldrSPost(a[i], row[2*i], 4)
			loadS2(a[i], row[2*i+1])
		}
		s.multiply(acc, a, mem{w, 0}, mem{})
		g("ADD $%d, %v, %v", 4*cols, w, w)
	})
}

// multiply adds the products of one or two rows of the panel, which begin at b and c, with a.
func (pairs) multiply(acc [][]vec, a []vec, b, c mem) {
	scope(func() {
		x0, x1, y0, y1, low := v(), v(), v(), v(), v()
		for q := 0; q < quads; q += 2 {
			ldpQ(x0, x1, b.plus(16*q))
			if c == (mem{}) {
				zero(y0)
				zero(y1)
			} else {
				ldpQ(y0, y1, c.plus(16*q))
			}
			zip1(low, x0, y0)
			zip2(x0, x0, y0)
			zip1(y0, x1, y1)
			zip2(x1, x1, y1)
			for j, joined := range []vec{low, x0, y0, x1} {
				for i := range acc {
					bfmmla(acc[i][2*q+j], a[i], joined)
				}
			}
		}
	})
}

// An outerArgs is where the registers of Tile.Outer point.
type outerArgs struct{ a, b, out, pair, left, add gpr }

// outer begins Tile.Outer; the list of pairs follows.
func outer(rows int, s arithmetic) (o outerArgs, acc [][]vec) {
	text(fmt.Sprintf("outer%d%s", rows, s.name()), "func(a *byte)", fmt.Sprintf("is Tile.Outer for %d rows.", rows))
	args := arg("a")
	o = outerArgs{r(), r(), r(), r(), r(), r()}
	g("MOVD %d(%v), %v", outerA, args, o.a)
	g("MOVD %d(%v), %v", outerB, args, o.b)
	g("MOVD %d(%v), %v", outerOut, args, o.out)
	g("MOVD %d(%v), %v", outerPairs, args, o.pair)
	g("MOVD %d(%v), %v", outerPairs+8, args, o.left)
	acc = s.sums(rows)
	for _, a := range acc {
		for _, v := range a {
			zero(v)
		}
	}
	g("MOVD %d(%v), %v", outerAdd, args, o.add)
	g("CBZ %v, store", o.left)
	return o, acc
}

// row points a register at row i of the output.
func (o outerArgs) row(i int) gpr {
	to := r()
	g("ADD $%d, %v, %v", 4*cols*i, o.out, to)
	return to
}

// next points registers at what a pair of offsets says, and the list at the next pair.
func (o outerArgs) next() (a, b gpr) {
	a, b = r(), r()
	g("MOVWU (%v), %v", o.pair, a)
	g("MOVWU 4(%v), %v", o.pair, b)
	g("ADD $8, %v, %v", o.pair, o.pair)
	g("ADD %v<<2, %v, %v", a, o.a, a)
	g("ADD %v<<2, %v, %v", b, o.b, b)
	return a, b
}

func outerSingle(rows int) {
	s := single{}
	o, acc := outer(rows, s)
	label("loop")
	scope(func() {
		from, b := o.next()
		a := vs((rows + 3) / 4)
		column(a, from, rows)
		s.multiply(acc, mem{b, 0}, func(i int) (vec, int) { return a[i/4], i % 4 })
	})
	g("SUBS $1, %v, %v", o.left, o.left)
	g("BNE loop")
	storeOuter(o, acc, rows, s)
}

// column loads so many values, four to a register.
func column(a []vec, from gpr, rows int) {
	for i := 0; i < rows; i += 4 {
		part(a[i/4], from, i, rows)
	}
}

// part loads values i to i+4 of so many, or i and i+1.
func part(x vec, from gpr, i, rows int) {
	if rows-i >= 4 {
		ldrQ(x, mem{from, 4 * i})
	} else {
		ldrD(x, mem{from, 4 * i})
	}
}

func storeOuter(o outerArgs, acc [][]vec, rows int, s arithmetic) {
	label("store")
	g("CBZ %v, write", o.add)
	for i := 0; i < rows; i += s.group() {
		scope(func() { s.add(acc, i, o.row) })
	}
	label("write")
	for i := 0; i < rows; i += s.group() {
		scope(func() { s.store(acc, i, o.row) })
	}
	end()
}

func outerPairsOf(rows int) {
	s := pairs{}
	o, acc := outer(rows, s)
	// both multiplies what one or two pairs of offsets say.
	both := func(two bool) {
		scope(func() {
			a := vs(len(acc))
			from, b := o.next()
			var next gpr
			var c mem
			if two {
				next, c.base = o.next()
			}
			scope(func() {
				for i := 0; i < rows; i += 4 {
					x, y := v(), v()
					part(x, from, i, rows)
					if two {
						part(y, next, i, rows)
					} else {
						zero(y)
					}
					zip1(a[i/2], x, y)
					if i+2 < rows {
						zip2(a[i/2+1], x, y)
					}
				}
			})
			s.multiply(acc, a, mem{b, 0}, c)
		})
	}
	g("SUBS $2, %v, %v", o.left, o.left)
	g("BLT rest")
	label("loop")
	both(true)
	g("SUBS $2, %v, %v", o.left, o.left)
	g("BGE loop")
	label("rest")
	g("ADDS $2, %v, %v", o.left, o.left)
	g("BEQ store")
	both(false)
	storeOuter(o, acc, rows, s)
}

// peak is a loop of 24 independent multiply-adds, the ceiling of everything else: four pipelines
// that take up to six cycles are full with it.
func peak(name string, multiply func(d, n, m vec)) {
	text("peak"+name, "func(n int)", "does n times 24 multiply-adds of vectors, none of which waits for another.")
	n, acc, x := arg("n"), vs(24), v()
	for _, a := range acc {
		zero(a)
	}
	zero(x)
	label("loop")
	for _, a := range acc {
		multiply(a, x, x)
	}
	g("SUBS $1, %v, %v", n, n)
	g("BNE loop")
	end()
}
