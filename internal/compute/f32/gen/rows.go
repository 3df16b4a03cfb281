package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ahead is how many rows before its use a row is asked for: about what a core can have on its way
// from memory.
const ahead = 16

// tableRows writes the functions over rows of tables. A row is a whole number of vectors of 8
// values.
func tableRows() {
	walkRows("gatherRowsAVX2", "func(dst, table *float32, rows *int64, n, rowLen int)", "sets row i of dst to row rows[i] of table.",
		func(w *walk) {
			w.src, w.from = Load(Param("table"), GP64()).(reg.GPVirtual), Load(Param("rows"), GP64()).(reg.GPVirtual)
			w.dst = Load(Param("dst"), GP64()).(reg.GPVirtual)
		}, false)
	walkRows("scatterRowsAVX2", "func(table, src *float32, rows *int64, n, rowLen int)", "sets row rows[i] of table to row i of src.",
		func(w *walk) {
			w.dst, w.to = Load(Param("table"), GP64()).(reg.GPVirtual), Load(Param("rows"), GP64()).(reg.GPVirtual)
			w.src = Load(Param("src"), GP64()).(reg.GPVirtual)
		}, false)
	walkRows("addRowsAVX2", "func(dst *float32, to *int64, src *float32, from *int64, n, rowLen int)", "adds row from[i] of src to row to[i] of dst.",
		func(w *walk) {
			w.dst, w.to = Load(Param("dst"), GP64()).(reg.GPVirtual), Load(Param("to"), GP64()).(reg.GPVirtual)
			w.src, w.from = Load(Param("src"), GP64()).(reg.GPVirtual), Load(Param("from"), GP64()).(reg.GPVirtual)
		}, true)
}

// A walk goes over rows of two arrays. Rows of an array without row numbers come one after the
// other.
type walk struct {
	src, dst, from, to reg.GPVirtual
}

// walkRows writes a loop over n rows: it copies, or with add adds, a row of src to one of dst. Row
// numbers are read ahead of their use and their rows asked for, since rows of a large table are
// nowhere near.
func walkRows(name, signature, doc string, arrays func(w *walk), add bool) {
	TEXT(name, NOSPLIT, signature)
	Doc(name + " " + doc)
	Pragma("noescape")
	var w walk
	arrays(&w)
	n, bytes := Load(Param("n"), GP64()), Load(Param("rowLen"), GP64())
	SHLQ(Imm(2), bytes)
	i, soon := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, soon)

	// Below it there is a row to ask for.
	SUBQ(Imm(ahead), soon)
	JMP(LabelRef("test"))
	Label("row")
	s, d, j := GP64(), GP64(), GP64()
	// Ask for a row to come, of each array that has row numbers.
	CMPQ(i, soon)
	JGE(LabelRef("near"))
	for k, at := range []reg.GPVirtual{w.from, w.to} {
		if at == nil {
			continue
		}
		base := w.src
		if k == 1 {
			base = w.dst
		}
		p, e := GP64(), GP64()
		MOVQ(Mem{Base: at, Index: i, Scale: 8, Disp: 8 * ahead}, p)
		IMULQ(bytes, p)
		ADDQ(base, p)
		MOVQ(p, e)
		ADDQ(bytes, e)
		label := "ask" + string(rune('0'+k))
		Label(label)
		PREFETCHT0(Mem{Base: p})
		ADDQ(Imm(64), p)
		CMPQ(p, e)
		JLT(LabelRef(label))
	}
	Label("near")
	rowOf(s, w.src, w.from, i, bytes)
	rowOf(d, w.dst, w.to, i, bytes)
	XORQ(j, j)
	Label("vector")
	v := YMM()
	VMOVUPS(Mem{Base: s, Index: j, Scale: 1}, v)
	if add {
		VADDPS(Mem{Base: d, Index: j, Scale: 1}, v, v)
	}
	VMOVUPS(v, Mem{Base: d, Index: j, Scale: 1})
	ADDQ(Imm(32), j)
	CMPQ(j, bytes)
	JLT(LabelRef("vector"))
	// Rows without numbers: on to the next.
	if w.from == nil {
		ADDQ(bytes, w.src)
	}
	if w.to == nil {
		ADDQ(bytes, w.dst)
	}
	INCQ(i)
	Label("test")
	CMPQ(i, n)
	JLT(LabelRef("row"))
	end()
}

// rowOf sets p to where a row begins: by its number if the array has row numbers, else where the
// array has come to.
func rowOf(p, base, at, i reg.GPVirtual, bytes reg.Register) {
	if at == nil {
		MOVQ(base, p)
		return
	}
	MOVQ(Mem{Base: at, Index: i, Scale: 8}, p)
	IMULQ(bytes, p)
	ADDQ(base, p)
}
