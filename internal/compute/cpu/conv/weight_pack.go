package conv

import "github.com/paragon-train/paragon/internal/compute/f32"

// packImage copies image i of a block's x and dy into the order in which tiles read them: for each
// tile of channels, pixel after pixel, the channels of the tile; missing channels are zeros.
func (w *weightPlan) packImage(block, i int) {
	s, cols := w.shape, w.tile.Cols
	image := block*w.images + i
	x, x2 := pairOf(w.tile, w.call.x, image, s.H*s.W*s.C)
	dy, dy2 := pairOf(w.tile, w.call.dy, image, s.OutH()*s.OutW()*s.K)
	px, pdy := w.call.px[block%2], w.call.pdy[block%2]
	outPixels := s.OutH() * s.OutW()
	if !w.dyInPlace {
		for panel := range w.panels {
			k0 := panel * cols
			dst := pdy[(panel*w.images+i)*outPixels*cols:][:outPixels*cols]
			copyRows(w.tile, dst, cols, dy, dy2, copiedRows{k0, s.K, outPixels, min(cols, s.K-k0), cols})
		}
	}
	if w.flat {
		w.pad(px[i*w.xPixels*s.C:][:w.xPixels*s.C], x, x2)
		return
	}
	for rowTile := range w.rowTiles {
		c0 := rowTile * w.rows
		n := min(w.rows, s.C-c0)
		dst := px[(rowTile*w.images+i)*w.xPixels*w.rows:][:w.xPixels*w.rows]
		if w.xPixels == s.H*s.W {
			copyRows(w.tile, dst, w.rows, x, x2, copiedRows{c0, s.C, w.xPixels, n, w.rows})
			continue
		}
		for _, r := range w.used.runs {
			copyRows(w.tile, dst[r.to*w.rows:], w.rows, x, x2, copiedRows{r.from*s.C + c0, r.step * s.C, r.count, n, w.rows})
		}
	}
}

// pairOf is image i of x or dy or, where the tile reads pairs, the two images of pair i. Of an odd
// number of images the last has no second one.
func pairOf(t *f32.Tile, all f32.Array, i, size int) (image, second f32.Array) {
	if !t.Pairs() {
		return all.Part(i*size, (i+1)*size), f32.Array{}
	}
	at := 2 * i * size
	if at+size < all.Len() {
		second = all.Part(at+size, at+2*size)
	}
	return all.Part(at, at+size), second
}

// copiedRows are rows of n values of an image, stride apart, the first at offset at. Each becomes one
// of width values.
type copiedRows struct{ at, stride, rows, n, width int }

// copyRows is Tile.CopyRows from an image, or Tile.PairRows from two.
func copyRows(t *f32.Tile, dst []float32, dstStride int, image, second f32.Array, r copiedRows) {
	image, second = image.Part(r.at, image.Len()), second.Part(r.at, second.Len())
	switch {
	case !t.Pairs():
		t.CopyRows(dst, dstStride, image.F32, r.stride, r.rows, r.n, r.width)
	case image.BF16 != nil:
		t.PairRowsBFloat16(dst, dstStride, image.BF16, second.BF16, r.stride, r.rows, r.n, r.width)
	default:
		t.PairRows(dst, dstStride, image.F32, second.F32, r.stride, r.rows, r.n, r.width)
	}
}

// pad copies an image into the middle of one with zeros around it, as far as taps reach.
func (w *weightPlan) pad(dst []float32, x, x2 f32.Array) {
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
		if from := (h - s.PadH) * s.W * s.C; w.tile.Pairs() {
			copyRows(w.tile, dst[left:left+n], n, x, x2, copiedRows{from, n, 1, n, n})
		} else {
			copy(dst[left:left+n], x.F32[from:])
		}
		clear(dst[left+n : row])
	}
}
