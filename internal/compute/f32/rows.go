package f32

import "fmt"

// The functions over rows of tables. A table holds rows of rowLen values one after the other, and
// rows are named by number, in any order; a number beyond its table panics.

// GatherRows sets row i of dst to row rows[i] of table.
func GatherRows(dst, table []float32, rows []int64, rowLen int) {
	within("GatherRows", table, rows, rowLen)
	sameRows("GatherRows", dst, len(rows), rowLen)
	if gatherRowsWide(kernels.tile.path, dst, table, rows, rowLen) {
		return
	}
	if rowLen == 1 {
		for i, r := range rows {
			dst[i] = table[r]
		}
		return
	}
	for i, r := range rows {
		copy(dst[i*rowLen:(i+1)*rowLen], table[int(r)*rowLen:])
	}
}

// ScatterRows sets row rows[i] of table to row i of src, in order.
func ScatterRows(table, src []float32, rows []int64, rowLen int) {
	within("ScatterRows", table, rows, rowLen)
	sameRows("ScatterRows", src, len(rows), rowLen)
	if scatterRowsWide(kernels.tile.path, table, src, rows, rowLen) {
		return
	}
	if rowLen == 1 {
		for i, r := range rows {
			table[r] = src[i]
		}
		return
	}
	for i, r := range rows {
		copy(table[int(r)*rowLen:(int(r)+1)*rowLen], src[i*rowLen:])
	}
}

// AddRows adds row from[i] of src to row to[i] of dst, in order.
func AddRows(dst []float32, to []int64, src []float32, from []int64, rowLen int) {
	within("AddRows", dst, to, rowLen)
	within("AddRows", src, from, rowLen)
	if len(to) != len(from) {
		panic(fmt.Sprintf("f32: AddRows: %d rows to add to and %d to add", len(to), len(from)))
	}
	if addRowsWide(kernels.tile.path, dst, to, src, from, rowLen) {
		return
	}
	for i, r := range to {
		d, s := dst[int(r)*rowLen:(int(r)+1)*rowLen], src[int(from[i])*rowLen:(int(from[i])+1)*rowLen]
		for j, x := range s {
			d[j] += x
		}
	}
}

func sameRows(op string, x []float32, rows, rowLen int) {
	if rowLen <= 0 || len(x)/rowLen != rows || len(x)%rowLen != 0 {
		panic(fmt.Sprintf("f32: %s: got %d values for %d rows of %d", op, len(x), rows, rowLen))
	}
}

func within(op string, table []float32, rows []int64, rowLen int) {
	if rowLen <= 0 {
		panic(fmt.Sprintf("f32: %s: got rows of %d values", op, rowLen))
	}
	most, n := uint64(0), uint64(len(table)/rowLen)
	for _, r := range rows {
		most = max(most, uint64(r))
	}
	if len(rows) > 0 && most >= n {
		panic(fmt.Sprintf("f32: %s: got row %d of a table of %d", op, int64(most), n))
	}
}
