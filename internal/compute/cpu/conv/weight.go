package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// blockValues is about how many values of x and dy are packed at a time.
	blockValues = 1 << 19

	// stepPixels is the pixels of a step: its parts of x and dy stay in the first-level cache while
	// all taps use them.
	stepPixels = 256

	// fewChannels is the number of channels below which the taps of a row together fill the tile's
	// rows.
	fewChannels = 8
)

// A weightPlan is backward-weight. The rows of a tile are input channels, its columns output
// channels, and the sum runs over pixels. Where the tile reads pairs, the images take part two by
// two: what is said of an image then holds for a pair of them, whose values lie side by side. With
// few channels a tile's rows are instead the channels of all taps of one row of taps, which lie
// side by side in x if its borders are padded with zeros.
type weightPlan struct {
	shape Shape
	tile  *f32.Tile

	// rows is that of a tile.
	rows int

	// flat says that rows are the (tap, channel) pairs of a row of taps.
	flat bool

	// swap says that x and dy have changed places, in shape too.
	swap bool

	// n is the number of images, or of pairs of images where the tile reads pairs.
	n int

	// images is how many of these are in a block.
	images int

	blocks int

	// rowTiles are the tiles over channels. If flat, they are over the rows of taps, each of
	// rowParts tiles.
	rowTiles int

	rowParts int
	panels   int // tiles over output channels

	// taps is the number of taps of a tile: R·S, or 1 if flat.
	taps int

	// xPixels is the number of packed pixels of an image, with the padding if flat.
	xPixels int

	xStep int // values between packed pixels

	// padW is the width of a padded image, if flat.
	padW int

	// dyInPlace says that dy is read where it lies: it passes by only once for each tile, and
	// packing would cost as much.
	dyInPlace bool

	// pixelOf has the packed number of each pixel of x, −1 if no tap meets it.
	pixelOf []int

	runs []run // the same as runs of pixels

	// pairs has, for each tap, the packed x and packed dy offset of each product, in order of dy's
	// pixels.
	pairs [][][2]uint32

	// bounds has, for each tap, the pairs before each step of a block, and at its end.
	bounds [][]int

	// steps are those in a full block.
	steps int

	// source has, for each (channel of a tile, tap) of w's order, its row in a tile's sums. It is
	// the row of zeros for taps that no pixel uses.
	source []int

	// sumLen is the values of a tile's sums, with the row of zeros.
	sumLen int

	xLen, dyLen int // values of a packed block

	// slots is room for the sums of a task, if one block is all.
	slots chan int

	numSlots int
	task     func(i int)

	// The call under way.
	// block is the one that is multiplied. The next one is being packed.
	block int

	dw      []float32
	x, dy   f32.Array
	px, pdy [2][]float32 // packed blocks, even and odd ones
	sums    []float32
}

func newWeightPlan(s Shape, t *f32.Tile, threads int) *weightPlan {
	swap := swapPays(s, t)
	if s.pointwise() {
		s = s.folded()
	}
	if swap {
		s = s.swapped()
	}
	w := &weightPlan{shape: s, tile: t, n: s.N, flat: s.C < fewChannels && s.R*s.S > 1, swap: swap}
	if t.Pairs() {
		w.n = (s.N + 1) / 2
	}
	outH, outW := s.OutH(), s.OutW()
	depth := s.C
	w.taps = s.R * s.S
	if w.flat {
		depth, w.taps = s.C*s.S, 1
	}
	w.rows = t.OuterRows[0]

	// The rows with the least time are taken. Small tiles use a multiplier less well.
	for i, r := range t.OuterRows {
		if i < 2 && (depth+r-1)/r*r < (depth+w.rows-1)/w.rows*w.rows || depth <= r {
			w.rows = r
		}
	}
	w.rowTiles = (depth + w.rows - 1) / w.rows
	w.panels = (s.K + t.Cols - 1) / t.Cols

	var xImage int // values of an image
	if w.flat {
		w.rowParts, w.rowTiles = w.rowTiles, w.rowTiles*s.R
		w.padW = (outW-1)*s.StrideW + s.S
		w.xPixels, w.xStep = w.padW*((outH-1)*s.StrideH+s.R), s.C
		xImage = w.xPixels * s.C
		w.dyInPlace = s.K%t.Cols == 0 && !t.Pairs()
	} else {
		w.xPixels, w.xStep = w.usePixels(), w.rows
		xImage = w.xPixels * w.rowTiles * w.rows
	}
	perImage := xImage + outH*outW*w.panels*t.Cols
	w.images = min(w.n, max(1, blockValues/perImage))
	w.blocks = (w.n + w.images - 1) / w.images
	w.images = (w.n + w.blocks - 1) / w.blocks // blocks of about the same size
	w.blocks = (w.n + w.images - 1) / w.images
	w.xLen = w.images * xImage
	if w.flat {
		// The last tile's idle rows reach beyond the last pixel.
		w.xLen += w.rows
	}
	if !w.dyInPlace {
		w.dyLen = w.images * outH * outW * w.panels * t.Cols
	}
	w.plotPairs()

	w.sumLen = (w.taps*w.rows + 1) * t.Cols
	for i := range w.rows {
		for tap := range s.R * s.S {
			switch {
			case w.flat: // see unpack
			case len(w.pairs[tap]) == 0:
				w.source = append(w.source, w.taps*w.rows)
			default:
				w.source = append(w.source, tap*w.rows+i)
			}
		}
	}
	if w.blocks == 1 {
		w.numSlots = min(threads, w.panels*w.rowTiles)
		w.slots = make(chan int, w.numSlots)
		for i := range w.numSlots {
			w.slots <- i
		}
	} else {
		w.numSlots = w.panels * w.rowTiles
	}
	w.task = w.runTask
	return w
}

func (w *weightPlan) scratchLen(bool) int {
	buffers := min(w.blocks, 2)
	return buffers*(w.xLen+w.dyLen) + w.numSlots*w.sumLen
}

func (w *weightPlan) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	if w.swap {
		x, dy = dy, x
	}
	w.dw, w.x, w.dy = dw, x, dy
	for i := range min(w.blocks, 2) {
		w.px[i], scratch = scratch[:w.xLen], scratch[w.xLen:]
		w.pdy[i], scratch = scratch[:w.dyLen], scratch[w.dyLen:]
	}
	w.sums = scratch[:w.numSlots*w.sumLen]
	w.block = -1
	p.Run(w.blockImages(0), w.task)
	for w.block = range w.blocks {
		p.Run(w.panels*w.rowTiles+w.blockImages(w.block+1), w.task)
	}
	w.dw, w.x, w.dy, w.sums = nil, f32.Array{}, f32.Array{}, nil
	w.px, w.pdy = [2][]float32{}, [2][]float32{}
}

// blockImages is the number of images of a block.
func (w *weightPlan) blockImages(block int) int {
	return max(0, min(w.images, w.n-block*w.images))
}

// runTask is a tile of the block under way or, after those, an image of the next block to pack: one
// block is packed while the other is multiplied.
func (w *weightPlan) runTask(i int) {
	tiles := w.panels * w.rowTiles
	if w.block < 0 {
		tiles = 0
	}
	if i < tiles {
		w.runTile(i)
	} else {
		w.packImage(w.block+1, i-tiles)
	}
}

// runTile adds the block's products to one tile's sums for all taps, and after the last block
// writes the tile to dw.
func (w *weightPlan) runTile(i int) {
	panel, rowTile := i/w.rowTiles, i%w.rowTiles
	slot := i
	if w.slots != nil {
		slot = <-w.slots
		defer func() { w.slots <- slot }()
	}
	sums := w.sums[slot*w.sumLen : (slot+1)*w.sumLen]
	if w.block == 0 {
		clear(sums[w.taps*w.rows*w.tile.Cols:])
	}
	s := w.shape
	outPixels := s.OutH() * s.OutW()
	n := w.blockImages(w.block)
	px, pdy := w.px[w.block%2], w.pdy[w.block%2]
	if w.block == w.blocks-1 {
		w.fetchOut(panel, rowTile)
	}
	var a f32.OuterArgs
	if w.dyInPlace {
		a.B = w.dy.F32[w.block*w.images*outPixels*s.K+panel*w.tile.Cols:]
	} else {
		a.B = pdy[panel*w.images*outPixels*w.tile.Cols:]
	}
	if w.flat {
		a.A = px[rowTile/w.rowParts*w.padW*s.C+rowTile%w.rowParts*w.rows:]
	} else {
		a.A = px[rowTile*w.images*w.xPixels*w.rows:]
	}
	for step := range w.steps {
		for tap := range w.taps {
			// all is how many pairs this block has.
			all := len(w.pairs[tap]) / w.images * n
			from, to := min(all, w.bounds[tap][step]), min(all, w.bounds[tap][step+1])
			if step == 0 && w.block == 0 {
				a.Add = 0
			} else if a.Add = 1; from == to {
				continue
			}
			if all == 0 {
				continue
			}
			a.Pairs = w.pairs[tap][from:to]
			a.Out = sums[tap*w.rows*w.tile.Cols : (tap+1)*w.rows*w.tile.Cols]
			w.tile.Outer(&a, w.rows)
		}
	}
	if w.block == w.blocks-1 {
		w.unpack(sums, panel, rowTile)
	}
}

// fetchOut fetches the part of dw that unpack will write.
func (w *weightPlan) fetchOut(panel, rowTile int) {
	if w.swap || w.flat {
		return
	}
	s, taps := w.shape, w.shape.R*w.shape.S
	k0, c0 := panel*w.tile.Cols, rowTile*w.rows
	w.tile.Fetch(w.dw[(k0*s.C+c0)*taps:], s.C*taps, min(w.tile.Cols, s.K-k0), min(w.rows, s.C-c0)*taps)
}

// unpack writes a tile's sums to dw.
func (w *weightPlan) unpack(sums []float32, panel, rowTile int) {
	if w.swap {
		w.copyOut(sums, panel, rowTile)
		return
	}
	s, cols := w.shape, w.tile.Cols
	taps := s.R * s.S
	a := f32.TransposeArgs{Dst: w.dw, Src: sums}
	if w.flat {
		r, first := rowTile/w.rowParts, rowTile%w.rowParts*w.rows
		for k := panel * cols; k < min(s.K, (panel+1)*cols); k++ {
			for i := range min(w.rows, s.S*s.C-first) {
				tap, c := r*s.S+(first+i)/s.C, (first+i)%s.C
				w.dw[(k*s.C+c)*taps+tap] = sums[i*cols+k-panel*cols]
			}
		}
		return
	}
	c0 := rowTile * w.rows

	// values are those of one output channel, which follow each other in dw.
	values := min(w.rows, s.C-c0) * taps
	for h := 0; h < cols; h += 16 {
		k0 := panel*cols + h
		m := min(16, cols-h, s.K-k0)
		if m <= 0 {
			return
		}
		for q := 0; q < values; q += 16 {
			n := min(16, values-q)
			for i := range n {
				a.SrcRow[i] = w.source[q+i]*cols + h
			}
			for j := range m {
				a.DstRow[j] = ((k0+j)*s.C+c0)*taps + q
			}
			w.tile.Transpose(&a, n, m)
		}
	}
}
