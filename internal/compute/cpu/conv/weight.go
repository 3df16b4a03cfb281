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

	// n is the number of images, or of pairs of images where the tile reads pairs.
	n int

	// images is how many of these are in a block.
	images int

	blocks int

	// rowTiles are the tiles over channels. If flat, they are over the rows of taps, each of
	// rowParts tiles.
	rowTiles int

	rowParts int

	// panels are the tiles over output channels.
	panels int

	// taps is the number of taps of a tile: R·S, or 1 if flat.
	taps int

	// xPixels is the number of packed pixels of an image, with the padding if flat, and xStep that
	// of values from one to the next.
	xPixels, xStep int

	// padW is the width of a padded image, if flat; else used are the pixels that are packed.
	padW int
	used usedPixels

	// dyInPlace says that dy is read where it lies: it passes by only once for each tile, and
	// packing would cost as much.
	dyInPlace bool

	products weightProducts

	// sumLen is the values of a tile's sums, with the row of zeros.
	sumLen int

	// xLen and dyLen are the values of a packed block.
	xLen, dyLen int

	// slots is room for the sums of a task, if one block is all. Else each tile has its own room:
	// there are numSlots.
	slots    slots
	numSlots int
	task     func(i int)

	out  weightOut
	call weightCall
}

// A weightCall is the call under way.
type weightCall struct {
	x, dy f32.Array

	// block is the one that is multiplied. The next one is being packed.
	block int

	// px and pdy are packed blocks, even and odd ones.
	px, pdy [2][]float32

	sums []float32
}

func newWeightPlan(s Shape, t *f32.Tile, threads int) *weightPlan {
	swap := swapPays(s, t)
	if s.pointwise() {
		s = s.folded()
	}
	if swap {
		s = s.swapped()
	}
	w := &weightPlan{shape: s, tile: t, n: s.N, flat: s.C < fewChannels && s.R*s.S > 1 && !s.dilated()}
	if t.Pairs() {
		w.n = (s.N + 1) / 2
	}
	w.chooseRows()
	w.panels = (s.K + t.Cols - 1) / t.Cols
	w.chooseBlocks(w.arrangeX())
	w.products = w.plot()
	w.sumLen = (w.taps*w.rows + 1) * t.Cols
	w.out = weightOut{shape: s, tile: t, rows: w.rows, swap: swap, flat: w.flat, rowParts: w.rowParts}
	if !w.flat {
		w.out.source = sumRows(w.rows, w.taps, func(tap int) bool { return len(w.products.pairs[tap]) > 0 })
	}
	w.numSlots = w.panels * w.rowTiles
	if w.blocks == 1 {
		w.numSlots = min(threads, w.numSlots)
		w.slots = newSlots(w.numSlots)
	}
	w.task = w.runTask
	return w
}

// chooseRows chooses what the rows of a tile are, and how many: those with the least time, since
// small tiles use a multiplier less well.
func (w *weightPlan) chooseRows() {
	s, t := w.shape, w.tile
	depth := s.C
	w.taps = s.R * s.S
	if w.flat {
		depth, w.taps = s.C*s.S, 1
	}
	w.rows = t.OuterRows[0]
	for i, r := range t.OuterRows {
		if i < 2 && (depth+r-1)/r*r < (depth+w.rows-1)/w.rows*w.rows || depth <= r {
			w.rows = r
		}
	}
	w.rowTiles = (depth + w.rows - 1) / w.rows
	if w.flat {
		w.rowParts, w.rowTiles = w.rowTiles, w.rowTiles*s.R
	}
}

// arrangeX chooses which pixels of x are packed, and returns how many values an image of it has.
func (w *weightPlan) arrangeX() int {
	s := w.shape
	if w.flat {
		w.padW = (s.OutW()-1)*s.StrideW + s.S
		w.xPixels, w.xStep = w.padW*((s.OutH()-1)*s.StrideH+s.R), s.C
		w.dyInPlace = s.K%w.tile.Cols == 0 && !w.tile.Pairs()
		return w.xPixels * s.C
	}
	w.used = s.usedPixels()
	w.xPixels, w.xStep = w.used.n, w.rows
	return w.xPixels * w.rowTiles * w.rows
}

// chooseBlocks cuts the images into blocks of about the same size; xImage is the number of values
// of an image of x.
func (w *weightPlan) chooseBlocks(xImage int) {
	dyImage := w.shape.OutH() * w.shape.OutW() * w.panels * w.tile.Cols
	w.images = min(w.n, max(1, blockValues/(xImage+dyImage)))
	w.blocks = (w.n + w.images - 1) / w.images
	w.images = (w.n + w.blocks - 1) / w.blocks
	w.blocks = (w.n + w.images - 1) / w.images
	w.xLen = w.images * xImage
	if w.flat {
		// The last tile's idle rows reach beyond the last pixel.
		w.xLen += w.rows
	}
	if !w.dyInPlace {
		w.dyLen = w.images * dyImage
	}
}

func (w *weightPlan) scratchLen(bool) int {
	buffers := min(w.blocks, 2)
	return buffers*(w.xLen+w.dyLen) + w.numSlots*w.sumLen
}

func (w *weightPlan) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	if w.out.swap {
		x, dy = dy, x
	}
	w.out.dw, w.call.x, w.call.dy = dw, x, dy
	for i := range min(w.blocks, 2) {
		w.call.px[i], scratch = scratch[:w.xLen], scratch[w.xLen:]
		w.call.pdy[i], scratch = scratch[:w.dyLen], scratch[w.dyLen:]
	}
	w.call.sums = scratch[:w.numSlots*w.sumLen]
	w.call.block = -1
	p.Run(w.blockImages(0), w.task)
	for w.call.block = range w.blocks {
		p.Run(w.panels*w.rowTiles+w.blockImages(w.call.block+1), w.task)
	}
	w.out.dw, w.call = nil, weightCall{}
}

// blockImages is the number of images of a block.
func (w *weightPlan) blockImages(block int) int {
	return max(0, min(w.images, w.n-block*w.images))
}

// runTask is a tile of the block under way or, after those, an image of the next block to pack: one
// block is packed while the other is multiplied.
func (w *weightPlan) runTask(i int) {
	tiles := w.panels * w.rowTiles
	if w.call.block < 0 {
		tiles = 0
	}
	if i < tiles {
		w.runTile(i)
	} else {
		w.packImage(w.call.block+1, i-tiles)
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
	sums := w.call.sums[slot*w.sumLen : (slot+1)*w.sumLen]
	if w.call.block == 0 {
		clear(sums[w.taps*w.rows*w.tile.Cols:])
	}
	s := w.shape
	outPixels := s.OutH() * s.OutW()
	n := w.blockImages(w.call.block)
	px, pdy := w.call.px[w.call.block%2], w.call.pdy[w.call.block%2]
	if w.call.block == w.blocks-1 {
		w.out.fetch(panel, rowTile)
	}
	var a f32.OuterArgs
	if w.dyInPlace {
		a.B = w.call.dy.F32[w.call.block*w.images*outPixels*s.K+panel*w.tile.Cols:]
	} else {
		a.B = pdy[panel*w.images*outPixels*w.tile.Cols:]
	}
	if w.flat {
		a.A = px[rowTile/w.rowParts*w.padW*s.C+rowTile%w.rowParts*w.rows:]
	} else {
		a.A = px[rowTile*w.images*w.xPixels*w.rows:]
	}
	for step := range w.products.steps {
		for tap := range w.taps {
			// all is how many pairs this block has.
			all := len(w.products.pairs[tap]) / w.images * n
			from, to := min(all, w.products.bounds[tap][step]), min(all, w.products.bounds[tap][step+1])
			if step == 0 && w.call.block == 0 {
				a.Add = 0
			} else if a.Add = 1; from == to {
				continue
			}
			if all == 0 {
				continue
			}
			a.Pairs = w.products.pairs[tap][from:to]
			a.Out = sums[tap*w.rows*w.tile.Cols : (tap+1)*w.rows*w.tile.Cols]
			w.tile.Outer(&a, w.rows)
		}
	}
	if w.call.block == w.blocks-1 {
		w.out.write(sums, panel, rowTile)
	}
}
