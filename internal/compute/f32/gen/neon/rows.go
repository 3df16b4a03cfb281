package main

// ahead is how many rows before its use a row is asked for: about what a core can have on its way
// from memory.
const ahead = 16

func init() {
	sets["rows"] = func() {
		walkRows("gatherRowsNEON", "func(dst, table *float32, rows *int64, n, rowLen int)", "sets row i of dst to row rows[i] of table.",
			"table", "rows", "dst", "", false)
		walkRows("scatterRowsNEON", "func(table, src *float32, rows *int64, n, rowLen int)", "sets row rows[i] of table to row i of src.",
			"src", "", "table", "rows", false)
		walkRows("addRowsNEON", "func(dst *float32, to *int64, src *float32, from *int64, n, rowLen int)", "adds row from[i] of src to row to[i] of dst.",
			"src", "from", "dst", "to", true)
	}
}

// walkRows goes over rows of whole vectors of two arrays; n is not 0. Rows of an array without row
// numbers come one after the other.
func walkRows(name, signature, doc, src, from, dst, to string, add bool) {
	text(name, signature, doc)
	n, rowLen, bytes := arg("n"), arg("rowLen"), r()
	g("LSL $2, %v, %v", rowLen, bytes)
	type array struct{ base, numbers, row gpr }
	arrays := make([]array, 2)
	numbered := []bool{from != "", to != ""}
	for i, name := range []string{src, dst} {
		arrays[i] = array{base: arg(name), row: r()}
		if numbered[i] {
			arrays[i].numbers = arg([]string{from, to}[i])
		}
	}
	label("row")
	g("CMP $%d, %v", ahead, n)
	g("BLE near")
	for i, a := range arrays {
		if !numbered[i] {
			continue
		}
		scope(func() {
			p, e := r(), r()
			ask := "ask" + string(rune('0'+i))
			g("MOVD %d(%v), %v", 8*ahead, a.numbers, p)
			g("MADD %v, %v, %v, %v", bytes, a.base, p, p)
			g("ADD %v, %v, %v", bytes, p, e)
			label(ask)
			g("PRFM (%v), PLDL1KEEP", p)
			g("ADD $64, %v, %v", p, p)
			g("CMP %v, %v", e, p)
			g("BLO %s", ask)
		})
	}
	label("near")
	for i, a := range arrays {
		if !numbered[i] {
			g("MOVD %v, %v", a.base, a.row)
			g("ADD %v, %v, %v", bytes, a.base, a.base)
			continue
		}
		g("MOVD (%v), %v", a.numbers, a.row)
		g("MADD %v, %v, %v, %v", bytes, a.base, a.row, a.row)
		g("ADD $8, %v, %v", a.numbers, a.numbers)
	}
	scope(func() {
		left, s, d := r(), stream{arrays[0].row, 4}, stream{arrays[1].row, 4}
		g("MOVD %v, %v", rowLen, left)
		loops("", left, []stream{s, d}, func(u int) {
			x, y := v(), v()
			ldrQ(x, s.at(u))
			if add {
				ldrQ(y, d.at(u))
				fadd(x, x, y)
			}
			strQ(x, d.at(u))
		})
	})
	g("SUBS $1, %v, %v", n, n)
	g("BNE row")
	end()
}
