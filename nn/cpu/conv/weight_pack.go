package conv

// packImage copies one image of the block's x and dy into the order in which tiles read them: for each tile of channels,
// pixel after pixel, the channels of the tile; missing channels are zeros.
func (w *weightPlan) packImage(i int) {
	s, cols := w.shape, w.tile.Cols
	image := w.block*w.images + i
	outPixels := s.OutH() * s.OutW()
	dy := w.dy[image*outPixels*s.K : (image+1)*outPixels*s.K]
	for panel := range w.panels {
		k0 := panel * cols
		n := min(cols, s.K-k0)
		dst := w.pdy[(panel*w.images+i)*outPixels*cols:][:outPixels*cols]
		copyColumns(dst, cols, dy[k0:], s.K, n)
	}
	x := w.x[image*s.H*s.W*s.C : (image+1)*s.H*s.W*s.C]
	if w.flat {
		w.packFlat(w.px[i*w.xPixels*w.xRow:], x)
		return
	}
	for rowTile := range w.rowTiles {
		c0 := rowTile * w.rows
		n := min(w.rows, s.C-c0)
		dst := w.px[(rowTile*w.images+i)*w.xPixels*w.rows:][:w.xPixels*w.rows]
		if w.xPixels == s.H*s.W {
			copyColumns(dst, w.rows, x[c0:], s.C, n)
			continue
		}
		for from, to := range w.pixelOf {
			if to >= 0 {
				copyColumns(dst[to*w.rows:(to+1)*w.rows], w.rows, x[from*s.C+c0:], s.C, n)
			}
		}
	}
}

// copyColumns copies the first n columns of rows of stride srcRow into rows of dstRow values that fill dst, zeros after them.
func copyColumns(dst []float32, dstRow int, src []float32, srcRow, n int) {
	for i, j := 0, 0; i < len(dst); i, j = i+dstRow, j+srcRow {
		copy(dst[i:i+n], src[j:j+n])
		clear(dst[i+n : i+dstRow])
	}
}

// packFlat lays, for each output pixel, all taps' channels side by side, zeros where a tap is outside.
func (w *weightPlan) packFlat(dst, x []float32) {
	s := w.shape
	outH, outW := s.OutH(), s.OutW()
	for oh := range outH {
		for ow := range outW {
			row := dst[(oh*outW+ow)*w.xRow:][:w.xRow]
			clear(row)
			h0, w0 := oh*s.StrideH-s.PadH, ow*s.StrideW-s.PadW
			lo, hi := max(0, -w0), min(s.S, s.W-w0)
			if lo >= hi {
				continue
			}
			for r := max(0, -h0); r < min(s.R, s.H-h0); r++ {
				copy(row[(r*s.S+lo)*s.C:(r*s.S+hi)*s.C], x[((h0+r)*s.W+w0+lo)*s.C:])
			}
		}
	}
}
