package conv

// packImage copies image i of a block's x and dy into the order in which tiles read them: for each tile of channels,
// pixel after pixel, the channels of the tile; missing channels are zeros.
func (w *weightPlan) packImage(block, i int) {
	s, cols := w.shape, w.tile.Cols
	image := block*w.images + i
	px, pdy := w.px[block%2], w.pdy[block%2]
	outPixels := s.OutH() * s.OutW()
	dy := w.dy[image*outPixels*s.K : (image+1)*outPixels*s.K]
	for panel := range w.panels {
		k0 := panel * cols
		n := min(cols, s.K-k0)
		dst := pdy[(panel*w.images+i)*outPixels*cols:][:outPixels*cols]
		w.tile.CopyRows(dst, cols, dy[k0:], s.K, outPixels, n, cols)
	}
	x := w.x[image*s.H*s.W*s.C : (image+1)*s.H*s.W*s.C]
	if w.flat {
		w.packFlat(px[i*w.xPixels*w.xRow:], x)
		return
	}
	for rowTile := range w.rowTiles {
		c0 := rowTile * w.rows
		n := min(w.rows, s.C-c0)
		dst := px[(rowTile*w.images+i)*w.xPixels*w.rows:][:w.xPixels*w.rows]
		if w.xPixels == s.H*s.W {
			w.tile.CopyRows(dst, w.rows, x[c0:], s.C, w.xPixels, n, w.rows)
			continue
		}
		for _, r := range w.runs {
			w.tile.CopyRows(dst[r.to*w.rows:], w.rows, x[r.from*s.C+c0:], r.step*s.C, r.count, n, w.rows)
		}
	}
}

// packFlat lays, for each output pixel, all taps' channels side by side, zeros where a tap is outside.
func (w *weightPlan) packFlat(dst, x []float32) {
	s := w.shape
	outH, outW := s.OutH(), s.OutW()
	clear(dst[:outH*outW*w.xRow])
	for oh := range outH {
		h0 := oh*s.StrideH - s.PadH
		for r := max(0, -h0); r < min(s.R, s.H-h0); r++ {
			for ow := 0; ow < outW; {
				w0 := ow*s.StrideW - s.PadW
				lo, hi := max(0, -w0), min(s.S, s.W-w0)
				count := 1
				if lo == 0 && hi == s.S { // all taps inside: so they are up to where the last one leaves the image
					count = min(outW-ow, (s.W-s.S-w0)/s.StrideW+1)
				}
				if lo < hi {
					to := dst[(oh*outW+ow)*w.xRow+(r*s.S+lo)*s.C:]
					w.tile.CopyRows(to, w.xRow, x[((h0+r)*s.W+w0+lo)*s.C:], s.StrideW*s.C, count, (hi-lo)*s.C, (hi-lo)*s.C)
				}
				ow += count
			}
		}
	}
}
