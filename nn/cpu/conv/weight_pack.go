package conv

// packImage copies image i of a block's x and dy into the order in which tiles read them: for each tile of channels,
// pixel after pixel, the channels of the tile; missing channels are zeros.
func (w *weightPlan) packImage(block, i int) {
	s, cols := w.shape, w.tile.Cols
	image := block*w.images + i
	px, pdy := w.px[block%2], w.pdy[block%2]
	outPixels := s.OutH() * s.OutW()
	if !w.dyInPlace {
		dy := w.dy[image*outPixels*s.K : (image+1)*outPixels*s.K]
		for panel := range w.panels {
			k0 := panel * cols
			dst := pdy[(panel*w.images+i)*outPixels*cols:][:outPixels*cols]
			w.tile.CopyRows(dst, cols, dy[k0:], s.K, outPixels, min(cols, s.K-k0), cols)
		}
	}
	x := w.x[image*s.H*s.W*s.C : (image+1)*s.H*s.W*s.C]
	if w.flat {
		w.pad(px[i*w.xPixels*s.C:][:w.xPixels*s.C], x)
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

// pad copies an image into the middle of one with zeros around it, as far as taps reach.
func (w *weightPlan) pad(dst, x []float32) {
	s := w.shape
	row := w.padW * s.C
	left := min(s.PadW*s.C, row)
	n := min(s.W*s.C, row-left)
	for h := 0; len(dst) > 0; h, dst = h+1, dst[row:] {
		if from := h - s.PadH; from < 0 || from >= s.H {
			clear(dst[:row])
			continue
		}
		clear(dst[:left])
		copy(dst[left:left+n], x[(h-s.PadH)*s.W*s.C:])
		clear(dst[left+n : row])
	}
}
