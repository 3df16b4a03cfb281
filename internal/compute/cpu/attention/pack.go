package attention

// partKeys is how many positions are paired at a time.
const partKeys = 64

// transpose sets dst[j·dstStride + i] = src[i·srcStride + j] for i < n and j < m.
func (l *Plan) transpose(w *worker, dst []float32, dstStride int, src []float32, srcStride, n, m int) {
	a := &w.turn
	for i := 0; i < n; i += 16 {
		rows := min(16, n-i)
		a.Dst = dst[i:]
		for j := 0; j < m; j += 16 {
			width := min(16, m-j)
			a.Src = src[i*srcStride+j:]
			for r := range rows {
				a.SrcRow[r] = r * srcStride
			}
			for q := range width {
				a.DstRow[q] = (j + q) * dstStride
			}
			l.single.Transpose(a, rows, width)
		}
	}
}

// packRows sets rows of dst, depthD values each, to n positions of a head from t on.
func (l *Plan) packRows(dst []float32, x *Heads, b, t, h, n int) {
	if !l.tile.Pairs() {
		l.single.CopyRows(dst, l.D, x.Data[l.at(x, b, t, h):], x.Position, n, l.D, l.D)
		return
	}
	for i := range n {
		l.tile.PackPairs(dst[i*l.depthD:(i+1)*l.depthD], x.Data[l.at(x, b, t+i, h):][:l.D])
	}
}

// packTurned sets rows of dst, one for each of D numbers and dstStride apart, to n positions of a
// head, transposed.
func (l *Plan) packTurned(w *worker, dst []float32, dstStride int, x *Heads, b, h, n int) {
	src := x.Data[l.at(x, b, 0, h):]
	if !l.tile.Pairs() {
		l.transpose(w, dst, dstStride, src, x.Position, n, l.D)
		return
	}
	// Pairs are numbers of two positions that follow each other.
	for t := 0; t < n; t += partKeys {
		rows := min(partKeys, n-t)
		l.pairRows(w.pairs, l.D, src[t*x.Position:], x.Position, rows, l.D, l.D)
		l.transpose(w, dst[t/2:], dstStride, w.pairs, l.D, (rows+1)/2, l.D)
	}
}

// pairRows makes pairs of rows that follow each other: the first width values of dst are the pairs of
// n numbers, and zeros. The last row of an odd number is paired with zeros.
func (l *Plan) pairRows(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	whole := rows / 2
	if whole > 0 {
		l.tile.PairRows(dst, dstStride, src, src[srcStride:], 2*srcStride, whole, n, width)
	}
	if rows%2 != 0 {
		l.tile.PairRows(dst[whole*dstStride:], dstStride, src[(rows-1)*srcStride:], nil, srcStride, 1, n, width)
	}
}

// packPanel sets dst to n positions of a head from t on, at most a panel, transposed: a row for each
// of D numbers, or for each pair of them. Columns that are not there are zeros.
func (l *Plan) packPanel(w *worker, dst []float32, x *Heads, b, t, h, n int) {
	if n < l.cols {
		clear(dst[:l.depthD*l.cols])
	}
	if !l.tile.Pairs() {
		l.transpose(w, dst, l.cols, x.Data[l.at(x, b, t, h):], x.Position, n, l.D)
		return
	}
	l.packRows(w.pairs, x, b, t, h, n)
	l.transpose(w, dst, l.cols, w.pairs, l.depthD, n, l.depthD)
}

// packColumns sets dst to n positions of a head from t on, at most a panel, as the rows of the right
// operand of a product over them: in panels of D, panel values apart. Rows up to a panel's width that
// are not there are zeros.
func (l *Plan) packColumns(dst []float32, panel int, x *Heads, b, t, h, n int) {
	rows := l.depth(l.cols)
	for i := range l.panelsD {
		width := min(l.cols, l.D-i*l.cols)
		src, to := x.Data[l.at(x, b, t, h)+i*l.cols:], dst[i*panel:][:rows*l.cols]
		if n < l.cols {
			clear(to)
		}
		if l.tile.Pairs() {
			l.pairRows(to, l.cols, src, x.Position, n, width, l.cols)
		} else {
			l.single.CopyRows(to, l.cols, src, x.Position, n, width, l.cols)
		}
	}
}

// packKeys packs the keys and values of a head of all examples for a pass, if they are not.
func (l *Plan) packKeys(w *worker, head int, backward bool) {
	if w.packed == head {
		return
	}
	w.packed = head
	b, h := head/l.Hk, head%l.Hk
	if !backward {
		keys := l.S
		if l.in.First != nil {
			keys = l.in.First[b] + l.T
		}
		l.packRows(w.keys, &l.in.K, b, 0, h, keys)
		l.packTurned(w, w.turned, l.stride, &l.in.V, b, h, keys)
		return
	}
	l.packRows(w.keys, &l.in.K, b, 0, h, l.S)
	l.packRows(w.values, &l.in.V, b, 0, h, l.S)
	l.packTurned(w, w.turned, l.stride, &l.in.K, b, h, l.S)
}
