package conv

import "github.com/paragon-train/paragon/internal/compute/f32"

// packForward writes channels c0 to c1 of one panel of forward's weights to dst: row (place of tap,
// c), column k, from w[k][c][tap].
func packForward(g *gather, dst []float32, panel, c0, c1 int) {
	t, taps, cols := g.tile, len(g.place), g.tile.Cols

	// rowLen is that of one k.
	rowLen := g.inC * taps
	if g.used*4 <= taps {
		packFewForward(g, dst, panel, c0, c1)
		return
	}
	a := f32.TransposeArgs{Dst: dst, Src: g.call.w, Ahead: 64}
	for h := 0; h < cols; h += 16 {
		n := min(16, cols-h)

		// Columns beyond K repeat the last one. Their results are not stored.
		for i := range n {
			a.SrcRow[i] = min(panel*cols+h+i, g.outC-1)*rowLen + c0*taps
		}
		c, tap := c0, 0
		for j := c0 * taps; j < c1*taps; j += 16 {
			m := min(16, c1*taps-j)
			for q := range m {
				if at := g.place[tap]; at >= 0 {
					a.DstRow[q] = (at*g.packRows+c)*cols + h
				} else {
					a.DstRow[q] = -1
				}
				if tap++; tap == taps {
					c, tap = c+1, 0
				}
			}
			t.Transpose(&a, n, m)
			for i := range n {
				a.SrcRow[i] += 16
			}
		}
	}
}

// packBackward writes rows of channels k0 to k1 of one panel of backward-data's weights to dst: row
// (place of tap, k), column c, from w[k][c][tap].
func packBackward(g *gather, dst []float32, panel, k0, k1 int) {
	t, taps, cols := g.tile, len(g.place), g.tile.Cols
	channels := g.outC
	if taps == 1 {
		c0 := panel * cols
		n := min(cols, channels-c0)
		for k := k0; k < k1; k++ {
			copy(dst[k*cols:k*cols+n], g.call.w[k*channels+c0:])
			clear(dst[k*cols+n : (k+1)*cols])
		}
		return
	}
	if g.used*4 <= taps {
		packFewBackward(g, dst, panel, k0, k1)
		return
	}
	// Weights are fetched two k ahead.
	a := f32.TransposeArgs{Dst: dst, Src: g.call.w, Ahead: 2 * channels * taps}
	for k := k0; k < k1; k++ {
		for h := 0; h < cols; h += 16 {
			n := min(16, cols-h)
			for t0 := 0; t0 < taps; t0 += 16 {
				m := min(16, taps-t0)
				for i := range n {
					a.SrcRow[i] = (k*channels+min(panel*cols+h+i, channels-1))*taps + t0
				}
				g.tapRows(&a, t0, m, k, h)
				t.Transpose(&a, n, m)
			}
		}
	}
}

// tapRows says where in a panel, from column h on, the values of channel k for m taps from t0 on
// go.
func (g *gather) tapRows(a *f32.TransposeArgs, t0, m, k, h int) {
	for q := range m {
		if at := g.place[t0+q]; at >= 0 {
			a.DstRow[q] = (at*g.packRows+k)*g.tile.Cols + h
		} else {
			a.DstRow[q] = -1
		}
	}
}

// packFewForward is packForward where most taps are not used, value by value. Channels go by
// groups, whose rows of the panel stay in the first-level cache while all columns are written.
func packFewForward(g *gather, dst []float32, panel, from, to int) {
	const group = 128
	taps, cols := len(g.place), g.tile.Cols
	n := min(cols, g.outC-panel*cols)
	for c0 := from; c0 < to; c0 += group {
		c1 := min(to, c0+group)
		for tap, at := range g.place {
			if at < 0 {
				continue
			}
			rows := dst[(at*g.packRows+c0)*cols : (at*g.packRows+c1)*cols]
			clear(rows)
			for k := range n {
				at := (panel*cols+k)*g.inC + c0

				// The next k's weights are fetched.
				g.tile.Fetch(g.call.w[min((at+g.inC)*taps, len(g.call.w)):], 1, 1, (c1-c0)*taps)
				src := g.call.w[at*taps+tap:]
				for i, j := k, 0; i < len(rows); i, j = i+cols, j+taps {
					rows[i] = src[j]
				}
			}
		}
	}
}

// packFewBackward is packBackward where most taps are not used, value by value. Weights are read in
// the order in which they lie: a piece is not its panel's rows but as many rows of all panels,
// unless panels are joined to pairs afterwards.
func packFewBackward(g *gather, dst []float32, panel, k0, k1 int) {
	first := panel
	c0, c1 := panel*g.tile.Cols, min((panel+1)*g.tile.Cols, g.outC)
	if !g.tile.Pairs() {
		dst, first = g.call.packed, 0
		pieces := g.packTasks()
		i := panel*g.packSlices + k0*g.packSlices/g.inC
		k0, k1, c0, c1 = g.inC*i/pieces, g.inC*(i+1)/pieces, 0, g.outC
	}
	taps, cols := len(g.place), g.tile.Cols
	for k := k0; k < k1; k++ {
		w := g.call.w[k*g.outC*taps : (k+1)*g.outC*taps]
		for panel := c0 / cols; panel*cols < c1; panel++ {
			for tap, at := range g.place {
				if at < 0 {
					continue
				}
				row := dst[(panel-first)*g.rowsLen+(at*g.packRows+k)*cols:][:cols]
				n := min(cols, g.outC-panel*cols)
				src := w[panel*cols*taps+tap:]
				for i, j := 0, 0; i < n; i, j = i+1, j+taps {
					row[i] = src[j]
				}
				clear(row[n:])
			}
		}
	}
}
