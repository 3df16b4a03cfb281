package conv

import "github.com/paragon-train/paragon/internal/f32"

// packForward writes one panel of forward's weights: row (place of tap, c), column k, from w[k][c][tap].
func packForward(g *gather, panel int) {
	t, taps, cols := g.tile, len(g.place), g.tile.Cols
	dst := g.packed[panel*g.panelLen : (panel+1)*g.panelLen]
	rowLen := g.inC * taps // of one k
	a := f32.TransposeArgs{Dst: dst, Src: g.w, Ahead: 64}
	for h := 0; h < cols; h += 16 {
		n := min(16, cols-h)
		for i := range n { // columns beyond K repeat the last one; nobody stores what they give
			a.SrcRow[i] = min(panel*cols+h+i, g.outC-1) * rowLen
		}
		c, tap := 0, 0
		for j := 0; j < rowLen; j += 16 {
			m := min(16, rowLen-j)
			for q := range m {
				if at := g.place[tap]; at >= 0 {
					a.DstRow[q] = (at*g.inC+c)*cols + h
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

// packBackward writes one panel of backward-data's weights: row (place of tap, k), column c, from w[k][c][tap].
func packBackward(g *gather, panel int) {
	t, taps, cols := g.tile, len(g.place), g.tile.Cols
	dst := g.packed[panel*g.panelLen : (panel+1)*g.panelLen]
	channels := g.outC
	if taps == 1 {
		c0 := panel * cols
		n := min(cols, channels-c0)
		for k := range g.inC {
			copy(dst[k*cols:k*cols+n], g.w[k*channels+c0:])
			clear(dst[k*cols+n : (k+1)*cols])
		}
		return
	}
	a := f32.TransposeArgs{Dst: dst, Src: g.w, Ahead: 2 * channels * taps} // two k ahead
	for k := range g.inC {
		for h := 0; h < cols; h += 16 {
			n := min(16, cols-h)
			for t0 := 0; t0 < taps; t0 += 16 {
				m := min(16, taps-t0)
				for i := range n {
					a.SrcRow[i] = (k*channels+min(panel*cols+h+i, channels-1))*taps + t0
				}
				for q := range m {
					if at := g.place[t0+q]; at >= 0 {
						a.DstRow[q] = (at*g.inC+k)*cols + h
					} else {
						a.DstRow[q] = -1
					}
				}
				t.Transpose(&a, n, m)
			}
		}
	}
}
