package f32

// The assembly does rows of whole vectors of 8 values; it asks for rows ahead of their use, for
// tables are larger than caches.

func wholeVectors(p Path, rows []int64, rowLen int) bool {
	return p >= AVX2 && rowLen%8 == 0 && len(rows) > 0
}

func gatherRowsWide(p Path, dst, table []float32, rows []int64, rowLen int) bool {
	if !wholeVectors(p, rows, rowLen) {
		return false
	}
	gatherRowsAVX2(&dst[0], &table[0], &rows[0], len(rows), rowLen)
	return true
}

func scatterRowsWide(p Path, table, src []float32, rows []int64, rowLen int) bool {
	if !wholeVectors(p, rows, rowLen) {
		return false
	}
	scatterRowsAVX2(&table[0], &src[0], &rows[0], len(rows), rowLen)
	return true
}

func addRowsWide(p Path, dst []float32, to []int64, src []float32, from []int64, rowLen int) bool {
	if !wholeVectors(p, to, rowLen) {
		return false
	}
	addRowsAVX2(&dst[0], &to[0], &src[0], &from[0], len(to), rowLen)
	return true
}
