package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// unitPixelLen is the elements of one pixel of 32 images and 32 channels.
	unitPixelLen = f32.UnitBlock * f32.UnitDepth

	// unitBlockValues is about how many elements of x and dy are packed at a time: they stay in the
	// second-level cache.
	unitBlockValues = 1 << 20

	// unitLeastImages is the number of images below which steps are too empty.
	unitLeastImages = 4

	// unitPackGrain is about how many elements a task packs.
	unitPackGrain = 64 << 10

	// unitPanels is the most panels of one call.
	unitPanels = 16
)

// A unitWeight is backward-weight by the tile unit. The reduction goes over images: a step is one
// pixel of x and the pixel of dy that a tap pairs it with, in 32 images. So every product counts on
// maps of any size, and whatever the tap, what the unit reads lies aligned: packed x has, for each
// 32 channels and each pixel, rows of channels with 32 images each, packed dy rows of pairs of
// images. Both are packed for some rows of dy at a time, and multiplied for all taps while they
// stay in the cache. Threads share out tiles of dw, and taps of these where there are few, never
// the reduction: so the bits do not depend on their number.
type unitWeight struct {
	tile  *f32.Tile
	shape Shape
	out   weightOut

	// depth is the steps of images that are packed together.
	depth int

	imageBlocks int
	strips      []weightStrip

	// xPixels and dyPixels are those of the largest strip.
	xPixels, dyPixels int

	// rowTiles and panels are of 32 channels of x and of dy.
	rowTiles, panels int

	panelsAtOnce, panelTasks int

	// tapTasks are those of a tile of dw, each of some taps.
	tapTasks int

	// stay says that the sums of all tiles stay from one call of the tasks to the next.
	stay bool

	// sumLen is the values of a tile's sums. There are numSlots of them, and as many slots as
	// threads.
	sumLen   int
	numSlots int
	slots    slots

	packTask, task, unpackTask func(i int)

	call unitWeightCall
}

// A unitWeightCall is the call under way.
type unitWeightCall struct {
	x, dy f32.Array

	// px and pdy are packed, as pairs.
	px, pdy []float32

	// work is that of slots: rows of pairs on their way.
	work []float32

	// sums are those of all tiles.
	sums []float32

	// images is the block of images, and strip the strip, that are packed and multiplied. first and
	// last say that there is none before, and none after them.
	images      int
	strip       *weightStrip
	first, last bool

	// packs is the number of tasks that pack x. xPerTask and dyPerTask are the pixels of a task.
	packs               int
	xPerTask, dyPerTask int
}

// A weightStrip is some rows of dy and the pixels of x that they meet.
type weightStrip struct {
	// dy0 is the first of its dys pixels of dy.
	dy0, dys int

	// xs are pixels of x, packed in this order.
	xs []int

	// segments has those of each tap.
	segments [][]f32.Segment
}

// newUnitWeight plans backward-weight by the unit of t, or returns nil where that does not pay.
func newUnitWeight(s Shape, t *f32.Tile, threads int) *unitWeight {
	if s.N < unitLeastImages || s.C < fewChannels || s.K < fewChannels {
		return nil
	}
	swap := s.pointwise()

	// Then blocks lie as they do in dw.
	if swap {
		s = s.swapped()
	}
	taps := s.R * s.S
	u := &unitWeight{tile: t, shape: s, rowTiles: (s.C + f32.UnitBlock - 1) / f32.UnitBlock, panels: (s.K + f32.UnitBlock - 1) / f32.UnitBlock}
	used := make([]bool, taps)
	u.chooseStrips(used)
	u.chooseTasks(threads)
	u.out = weightOut{shape: s, tile: t, rows: f32.UnitBlock, swap: swap, source: sumRows(f32.UnitBlock, taps, func(tap int) bool { return used[tap] })}
	u.sumLen = taps*u.panelsAtOnce*f32.UnitBlock*f32.UnitBlock + f32.UnitBlock
	u.numSlots = threads
	if u.stay = u.imageBlocks*len(u.strips)*u.tapTasks > 1; u.stay {
		u.numSlots = u.rowTiles * u.panelTasks
	}
	u.slots = newSlots(threads)
	u.packTask, u.task, u.unpackTask = u.runPack, u.runTile, u.unpack
	return u
}

// chooseStrips cuts the images into blocks, and the rows of dy into strips, that stay in the cache
// when they are packed, and marks the taps that any pixel uses.
func (u *unitWeight) chooseStrips(used []bool) {
	s := u.shape
	steps := (s.N + f32.UnitDepth - 1) / f32.UnitDepth

	// values is how many a step of images has.
	values := func(rows int) int {
		return unitPixelLen * (rows*s.OutW()*u.panels + min(s.H, (rows-1)*s.StrideH+s.R)*s.W*u.rowTiles)
	}
	u.depth, u.imageBlocks = 1, steps
	rows := s.OutH()
	if steps*values(rows) <= unitBlockValues {
		u.depth, u.imageBlocks = steps, 1
	} else {
		for rows > 1 && values(rows) > unitBlockValues {
			rows--
		}
	}
	strips := (s.OutH() + rows - 1) / rows
	for i := range strips {
		u.strips = append(u.strips, u.newStrip(s.OutH()*i/strips, s.OutH()*(i+1)/strips, used))
		last := &u.strips[i]
		u.xPixels, u.dyPixels = max(u.xPixels, len(last.xs)), max(u.dyPixels, last.dys)
	}
}

// chooseTasks shares out panels, and taps where there are few tiles, such that there are enough
// tasks.
func (u *unitWeight) chooseTasks(threads int) {
	enough := 1
	if threads > 1 {
		enough = 4 * threads
	}
	u.panelsAtOnce, u.tapTasks = 1, 1
	if taps := u.shape.R * u.shape.S; taps == 1 {
		least := (enough + u.rowTiles - 1) / u.rowTiles
		u.panelsAtOnce = max(1, min(unitPanels, u.panels/least))
	} else if tiles := u.rowTiles * u.panels; tiles < enough {
		u.tapTasks = min(taps, (enough+tiles-1)/tiles)
	}
	u.panelTasks = (u.panels + u.panelsAtOnce - 1) / u.panelsAtOnce
}

// newStrip plans rows from to to of dy, and marks the taps that they use.
func (u *unitWeight) newStrip(from, to int, used []bool) weightStrip {
	s := u.shape
	strip := weightStrip{dy0: from * s.OutW(), dys: (to - from) * s.OutW(), segments: make([][]f32.Segment, len(used))}

	// of is the place of a pixel of x among those packed, plus 1.
	of := make([]int, s.H*s.W)
	each := func(f func(tap, x, dy int)) {
		s.eachProduct(func(tap, x, dy int) {
			if dy >= strip.dy0 && dy < strip.dy0+strip.dys {
				f(tap, x, dy-strip.dy0)
			}
		})
	}
	each(func(_, x, _ int) { of[x] = 1 })
	for x, is := range of {
		if is != 0 {
			strip.xs = append(strip.xs, x)
			of[x] = len(strip.xs)
		}
	}
	length := u.depth * unitPixelLen
	each(func(tap, x, dy int) {
		used[tap] = true
		seg := f32.Segment{In: (of[x] - 1) * length, Len: u.depth, W: dy * length}
		if all := strip.segments[tap]; len(all) > 0 {
			if last := &all[len(all)-1]; last.In+last.Len*unitPixelLen == seg.In && last.W+last.Len*unitPixelLen == seg.W {
				last.Len += seg.Len
				return
			}
		}
		strip.segments[tap] = append(strip.segments[tap], seg)
	})
	return strip
}

// xLen and dyLen are the pairs of a packed block.
func (u *unitWeight) xLen() int  { return u.xPixels * u.rowTiles * u.depth * unitPixelLen / 2 }
func (u *unitWeight) dyLen() int { return u.dyPixels * u.panels * u.depth * unitPixelLen / 2 }

func (u *unitWeight) scratchLen(bool) int {
	return u.xLen() + u.dyLen() + cap(u.slots)*unitPixelLen/2 + u.numSlots*u.sumLen
}

func (u *unitWeight) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	if u.out.swap {
		x, dy = dy, x
	}
	c := &u.call
	u.out.dw, c.x, c.dy = dw, x, dy
	c.px, scratch = scratch[:u.xLen()], scratch[u.xLen():]
	c.pdy, scratch = scratch[:u.dyLen()], scratch[u.dyLen():]
	c.work, c.sums = scratch[:cap(u.slots)*unitPixelLen/2], scratch[cap(u.slots)*unitPixelLen/2:]
	c.xPerTask = max(1, unitPackGrain/(u.rowTiles*u.depth*unitPixelLen))
	c.dyPerTask = max(1, unitPackGrain/(u.panels*u.depth*unitPixelLen))
	for c.images = range u.imageBlocks {
		for i := range u.strips {
			c.strip = &u.strips[i]
			c.first, c.last = c.images == 0 && i == 0, c.images == u.imageBlocks-1 && i == len(u.strips)-1
			c.packs = (len(c.strip.xs) + c.xPerTask - 1) / c.xPerTask
			p.Run(c.packs+(c.strip.dys+c.dyPerTask-1)/c.dyPerTask, u.packTask)
			p.Run(u.rowTiles*u.panelTasks*u.tapTasks, u.task)
		}
	}
	if u.tapTasks > 1 {
		p.Run(u.rowTiles*u.panelTasks, u.unpackTask)
	}
	u.out.dw, u.call = nil, unitWeightCall{}
}

// runPack packs some pixels of x or, after those, of dy.
func (u *unitWeight) runPack(i int) {
	c := &u.call
	if i >= c.packs {
		from := (i - c.packs) * c.dyPerTask
		for p := from; p < min(c.strip.dys, from+c.dyPerTask); p++ {
			u.packDy(p)
		}
		return
	}
	slot := <-u.slots
	defer func() { u.slots <- slot }()
	work := c.work[slot*unitPixelLen/2:][:unitPixelLen/2]
	from := i * c.xPerTask
	for p := from; p < min(len(c.strip.xs), from+c.xPerTask); p++ {
		u.packX(p, work)
	}
}

// packDy packs pixel p of the strip's dy.
func (u *unitWeight) packDy(p int) {
	for panel := range u.panels {
		for step := range u.depth {
			to := ((panel*u.dyPixels+p)*u.depth + step) * unitPixelLen / 2
			u.pairImages(u.call.pdy[to:][:unitPixelLen/2], u.call.dy, step, imagePixel{u.call.strip.dy0 + p, u.shape.OutH() * u.shape.OutW(), panel * f32.UnitBlock, u.shape.K})
		}
	}
}

// packX packs pixel p of the strip's x by way of work.
func (u *unitWeight) packX(p int, work []float32) {
	a := f32.TransposeArgs{Dst: u.call.px, Src: work}
	for tile := range u.rowTiles {
		for step := range u.depth {
			u.pairImages(work, u.call.x, step, imagePixel{u.call.strip.xs[p], u.shape.H * u.shape.W, tile * f32.UnitBlock, u.shape.C})
			to := ((tile*u.xPixels+p)*u.depth + step) * unitPixelLen / 2
			for half := 0; half < f32.UnitBlock; half += f32.UnitRows {
				// Pairs of images become columns, and channels rows.
				for i := range f32.UnitRows {
					a.SrcRow[i], a.DstRow[i] = i*f32.UnitBlock+half, to+(half+i)*f32.UnitDepth/2
				}
				u.tile.Transpose(&a, f32.UnitRows, f32.UnitRows)
			}
		}
	}
}

// An imagePixel is 32 channels, from c0, of a pixel of images of so many pixels and channels.
type imagePixel struct{ pixel, pixels, c0, channels int }

// pairImages sets 16 rows of pairs to channels of a pixel in 32 images two by two; what is not there
// is zero.
func (u *unitWeight) pairImages(dst []float32, all f32.Array, step int, p imagePixel) {
	image := (u.call.images*u.depth + step) * f32.UnitDepth
	there := max(0, min(f32.UnitDepth, u.shape.N-image))
	n, size := min(f32.UnitBlock, p.channels-p.c0), p.pixels*p.channels
	at := image*size + p.pixel*p.channels + p.c0
	rows := there / 2
	pair := func(dst []float32, low, high f32.Array, rows int) {
		if low.BF16 != nil {
			u.tile.PairRowsBFloat16(dst, f32.UnitBlock, low.BF16, high.BF16, 2*size, rows, n, f32.UnitBlock)
		} else {
			u.tile.PairRows(dst, f32.UnitBlock, low.F32, high.F32, 2*size, rows, n, f32.UnitBlock)
		}
	}
	if rows > 0 {
		pair(dst, all.Part(at, all.Len()), all.Part(at+size, all.Len()), rows)
	}
	if there%2 != 0 {
		pair(dst[rows*f32.UnitBlock:], all.Part(at+2*rows*size, all.Len()), f32.Array{}, 1)
		rows++
	}
	clear(dst[rows*f32.UnitBlock:])
}

// runTile adds the block's products to one tile of dw, or to those of some panels, for some taps.
// After the last block it writes the tile, if no other task adds to it.
func (u *unitWeight) runTile(task int) {
	tile, part := task/u.tapTasks, task%u.tapTasks
	slot := tile
	if !u.stay {
		slot = <-u.slots
		defer func() { u.slots <- slot }()
	}
	rowTile, panel := u.place(tile)
	sums := u.call.sums[slot*u.sumLen:][:u.sumLen]
	length := u.depth * unitPixelLen
	rows := [1][2]int{{rowTile * u.xPixels * length, rowTile*u.xPixels*length + unitPixelLen/2}}
	a := f32.BlockArgs{A: f32.HalvesOf(u.call.px), B: f32.HalvesOf(u.call.pdy)[panel*u.dyPixels*length:], Rows: rows[:], Stride: f32.UnitDepth, Step: unitPixelLen,
		Panels: min(u.panelsAtOnce, u.panels-panel), Panel: u.dyPixels * length}
	if !u.call.first {
		a.Add = 1
	}
	taps := len(u.call.strip.segments)
	for tap := taps * part / u.tapTasks; tap < taps*(part+1)/u.tapTasks; tap++ {
		a.Segments, a.Sums = u.call.strip.segments[tap], sums[tap*f32.UnitBlock*f32.UnitBlock:]
		u.tile.Blocks(&a)
	}
	if u.call.last && u.tapTasks == 1 {
		u.write(tile, sums)
	}
}

// place is the tile of x and the first panel of dy of a tile of dw.
func (u *unitWeight) place(tile int) (rowTile, panel int) {
	return tile / u.panelTasks, tile % u.panelTasks * u.panelsAtOnce
}

// unpack writes a tile of dw to which several tasks have added.
func (u *unitWeight) unpack(tile int) { u.write(tile, u.call.sums[tile*u.sumLen:][:u.sumLen]) }

// write moves a tile's sums to dw.
func (u *unitWeight) write(tile int, sums []float32) {
	rowTile, panel := u.place(tile)

	// The last block is for taps that no pixel uses.
	clear(sums[u.sumLen-f32.UnitBlock:])
	for p := range min(u.panelsAtOnce, u.panels-panel) {
		u.out.write(sums[p*f32.UnitBlock*f32.UnitBlock:], panel+p, rowTile)
	}
}
