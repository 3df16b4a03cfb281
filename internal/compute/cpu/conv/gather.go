package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// maxReduction is the longest part of a reduction done in one go. Parts are summed apart and added
// up, so that rounding grows with the length of a part: at 512 it is less than half of what it is
// at 4096, and costs no more than 1 % of the time; at 256 it is a third, and costs 4 %.
const maxReduction = 512

// A gather is forward or backward-data: out[pixel] = Σ over taps of in[pixel that the tap meets] ·
// matrix of the tap.
type gather struct {
	tile *f32.Tile

	// n is the number of images.
	n         int
	inC, outC int

	// depth is the number of rows of a panel for each tap, and of values of an input pixel as the
	// tile reads them: inC, or the pairs of it. packRows is the same before rows are joined to
	// pairs.
	depth, packRows int

	// inPixels is the number of pixels of an input image; inImage and outImage are the numbers of
	// values of an image, as the tile reads and writes them.
	inPixels, inImage, outImage int

	// place is where tap r·S+s is in a panel; −1 for a tap in no class. used is the number of taps
	// in a panel.
	place []int
	used  int

	// tiles is the number of tiles of rows of all classes.
	classes []class
	tiles   int

	// panelLen is the number of values of a panel, and rowsLen that before its rows are joined to
	// pairs.
	panels, panelLen, rowsLen int

	// panelsAtOnce is the number of panels in a task. chunks is the number of groups of tiles, each
	// of which is a task for each group of panels.
	panelsAtOnce, chunks int

	// packSlices is the number of pieces that a panel is packed in, each some channels. packSlots
	// has the numbers of the places where the rows of a panel are that are not joined to pairs yet.
	packSlices int
	packSlots  slots

	// pairTasks is the number of pieces in which the input is rounded to pairs.
	pairTasks int

	call gatherCall

	// pack packs rows of channels c0 to c1 of the sum into those of a panel.
	pack               func(g *gather, dst []float32, panel, c0, c1 int)
	packTask, tileTask func(i int)
}

// A gatherCall is the call under way.
type gatherCall struct {
	out, in, w, packed []float32

	// rows are those of panels before they are joined to pairs, and pairs is the input, rounded.
	rows, pairs []float32

	// in16 and out16 are input and output that are bfloat16 (see stored.go).
	in16, out16 []uint16

	// add says that the result is added to what is in out.
	add bool
}

// A class is the output pixels that use the same taps.
type class struct {
	// parts are the reduction, in parts of about maxReduction.
	parts [][]f32.Segment

	// in and out have, for each pixel of an image, the offset of the first tap's input pixel, and
	// that of the output pixel.
	in, out []int

	// width is the number of pixels of a row of them, and tile0 the number of the first tile.
	width, tile0 int
}

// A plane is one image on one side of a convolution.
type plane struct{ h, w, channels int }

func (p plane) pixels() int { return p.h * p.w }

// gatherTaps are the rows and columns of a convolution's output by the taps that reach them.
type gatherTaps struct {
	rows, cols []axisClass

	// count is the number of taps in a column, and in a row.
	count [2]int
}

// newGather plans a gather of n images from in to out.
func newGather(t *f32.Tile, n int, in, out plane, taps gatherTaps, threads int) *gather {
	g := &gather{
		tile: t, n: n, inC: in.channels, outC: out.channels, depth: in.channels, packRows: in.channels,
		inPixels: in.pixels(), outImage: out.pixels() * out.channels,
	}
	if t.Pairs() {
		g.depth = (in.channels + 1) / 2

		// The unit of a tile multiplies whole steps.
		if t.Unit() == t {
			const step = f32.UnitDepth / 2
			g.depth = (g.depth + step - 1) / step * step
		}
		g.packRows = 2 * g.depth
	}
	g.pairTasks = max(1, n*in.pixels()*in.channels/pairGrain)
	g.inImage = in.pixels() * g.depth
	g.placeTaps(taps)
	for _, row := range taps.rows {
		for _, col := range taps.cols {
			g.addClass(row, col, in.w, out.w, taps.count[1])
		}
	}
	g.panels = (g.outC + t.Cols - 1) / t.Cols
	g.panelLen = g.used * g.depth * t.Cols
	g.rowsLen = g.used * g.packRows * t.Cols
	g.divide(threads)
	g.dividePacking(threads)
	g.packTask = g.runPack
	g.tileTask = g.runTask
	return g
}

// placeTaps chooses the order of the taps in a panel.
func (g *gather) placeTaps(taps gatherTaps) {
	placeR, usedR := tapOrder(taps.count[0], taps.rows)
	placeS, usedS := tapOrder(taps.count[1], taps.cols)
	g.used = usedR * usedS
	for r := range taps.count[0] {
		for s := range taps.count[1] {
			if placeR[r] < 0 || placeS[s] < 0 {
				g.place = append(g.place, -1)
			} else {
				g.place = append(g.place, placeR[r]*usedS+placeS[s])
			}
		}
	}
}

// addClass adds the pixels that are in a class of rows and in one of columns. inW and outW are the
// widths of images, and tapsInRow is the number of taps in a row.
func (g *gather) addClass(row, col axisClass, inW, outW, tapsInRow int) {
	t := g.tile
	c := class{tile0: g.tiles, width: len(col.out)}
	for i, h := range row.out {
		for j, w := range col.out {
			c.in = append(c.in, (row.first[i]*inW+col.first[j])*g.depth)
			c.out = append(c.out, (h*outW+w)*g.outC)
		}
	}
	var segs []f32.Segment
	for i, r := range row.taps {
		for j, s := range col.taps {
			segs = append(segs, f32.Segment{In: (row.delta[i]*inW + col.delta[j]) * g.depth, Len: g.depth, W: g.place[r*tapsInRow+s] * g.depth * t.Cols})
		}
	}
	limit := maxReduction
	if t.Unit() == t {
		limit = max(1, len(segs)*g.depth)
	}
	c.parts = split(merge(segs, t.Cols), limit, t.Cols)
	g.tiles += (g.n*len(c.in) + t.Rows - 1) / t.Rows
	g.classes = append(g.classes, c)
}

// dividePacking chooses the pieces in which panels are packed. Weights pass through once, so that a
// piece is small; rows are joined to pairs in memory of a thread that stays in its cache, so that a
// panel of those is one.
func (g *gather) dividePacking(threads int) {
	// grain is the number of weights that a piece reads. With fewer channels than least, reading
	// jumps about.
	const grain, least = 16 << 10, 64
	g.packSlices = 1
	if !g.tile.Pairs() {
		g.packSlices = max(1, min(g.inC/least, g.inC*len(g.place)*g.tile.Cols/grain))
		return
	}
	g.packSlots = newSlots(min(threads, g.panels))
}

// merge joins segments that follow each other both in the input and in the panel.
func merge(segs []f32.Segment, cols int) []f32.Segment {
	var out []f32.Segment
	for _, s := range segs {
		if n := len(out) - 1; n >= 0 && out[n].In+out[n].Len == s.In && out[n].W+out[n].Len*cols == s.W {
			out[n].Len += s.Len
		} else {
			out = append(out, s)
		}
	}
	return out
}

// split cuts a reduction into parts of at most limit, of about the same length.
func split(segs []f32.Segment, limit, cols int) [][]f32.Segment {
	total := 0
	for _, s := range segs {
		total += s.Len
	}
	if total == 0 {
		return nil
	}
	n := (total + limit - 1) / limit
	parts := make([][]f32.Segment, n)
	done := 0
	for i := range parts {
		for room := total*(i+1)/n - done; room > 0; {
			s := &segs[0]
			l := min(s.Len, room)
			parts[i] = append(parts[i], f32.Segment{In: s.In, Len: l, W: s.W})
			s.In, s.Len, s.W = s.In+l, s.Len-l, s.W+l*cols
			if s.Len == 0 {
				segs = segs[1:]
			}
			room -= l
			done += l
		}
	}
	return parts
}

// divide chooses the tasks. If all panels fit into the second-level cache together, a task is a
// chunk of pixels, small enough to stay there too, with all panels; else it is one panel with as
// many pixels as leave enough tasks to balance threads.
func (g *gather) divide(threads int) {
	// cache is in values.
	const cache = 96 << 10

	// enough is a number of tasks. least is the least number of tiles of a task: times panels about
	// as much work.
	enough, least := 1, 8
	if threads > 1 {
		enough = 4 * threads
	}
	if g.panels*g.panelLen <= cache {
		g.panelsAtOnce = g.panels
		least = max(1, 8/g.panels)
		g.chunks = max(enough, g.n*g.inImage/(cache/2))
	} else {
		g.panelsAtOnce = 1
		g.chunks = (enough + g.panels - 1) / g.panels
	}
	g.chunks = max(1, min(g.chunks, g.tiles/least))
}

// packedLen is the number of values that the packed weights take, and what is needed to join their
// rows.
func (g *gather) packedLen() int { return g.panels*g.panelLen + cap(g.packSlots)*g.rowsLen }

// takePacked is the memory of packedLen values.
func (g *gather) takePacked(scratch []float32) {
	g.call.packed, g.call.rows = scratch[:g.panels*g.panelLen], scratch[g.panels*g.panelLen:g.packedLen()]
}

// compute is the call under way once input and output are known; so many tasks prepare the input.
func (g *gather) compute(p *pool.Pool, w, scratch []float32, add bool, tasks int) {
	g.call.add, g.call.w = add, w
	g.takePacked(scratch)
	if g.used > 0 {
		p.Run(g.packTasks()+tasks, g.packTask)
	}
	groups := (g.panels + g.panelsAtOnce - 1) / g.panelsAtOnce
	p.Run(groups*g.chunks, g.tileTask)
	g.call = gatherCall{}
}

// packTasks is the number of pieces in which all panels are packed.
func (g *gather) packTasks() int { return g.panels * g.packSlices }

// packPiece is the panel of a piece, and its channels.
func (g *gather) packPiece(i int) (panel, c0, c1 int) {
	groups, slice := g.inC/16, i%g.packSlices
	if c1 = (slice + 1) * groups / g.packSlices * 16; slice == g.packSlices-1 {
		c1 = g.inC
	}
	return i / g.packSlices, slice * groups / g.packSlices * 16, c1
}

// runPack packs one piece of a panel or, after those, rounds one piece of the input.
func (g *gather) runPack(i int) {
	if i >= g.packTasks() {
		if g.call.in16 != nil {
			g.takeInput(i - g.packTasks())
		} else {
			g.roundInput(i - g.packTasks())
		}
		return
	}
	panel, c0, c1 := g.packPiece(i)
	dst := g.call.packed[panel*g.panelLen:][:g.panelLen]
	if !g.tile.Pairs() {
		g.pack(g, dst, panel, c0, c1)
		return
	}
	slot := <-g.packSlots
	defer func() { g.packSlots <- slot }()
	rows := g.call.rows[slot*g.rowsLen:][:g.rowsLen]
	g.pack(g, rows, panel, c0, c1)
	g.joinRows(dst, rows)
}

// runTask computes the tiles of one chunk against one group of panels.
func (g *gather) runTask(i int) {
	group, chunk := i/g.chunks, i%g.chunks
	from, to := g.tiles*chunk/g.chunks, g.tiles*(chunk+1)/g.chunks
	for ci := range g.classes {
		c := &g.classes[ci]
		end := g.tiles
		if ci+1 < len(g.classes) {
			end = g.classes[ci+1].tile0
		}
		lo, hi := max(from, c.tile0), min(to, end)
		if lo < hi {
			g.runClass(c, group*g.panelsAtOnce, (lo-c.tile0)*g.tile.Rows, min((hi-c.tile0)*g.tile.Rows, g.n*len(c.in)))
		}
	}
}

// runClass computes rows lo to hi of a class (row = image · pixels of the class + pixel) for the
// panels of a task.
func (g *gather) runClass(c *class, panel0, lo, hi int) {
	if g.call.out16 != nil {
		g.runClassStored(c, panel0, lo, hi)
		return
	}
	cols, pixels := g.tile.Cols, len(c.in)
	panel1 := min(g.panels, panel0+g.panelsAtOnce)

	// Without parts no tap reaches these pixels.
	if len(c.parts) == 0 {
		if g.call.add {
			return
		}
		for row := lo; row < hi; row++ {
			out := row/pixels*g.outImage + c.out[row%pixels]
			clear(g.call.out[out+panel0*cols : out+min(g.outC, panel1*cols)])
		}
		return
	}
	a := f32.GatherArgs{In: g.call.in}
	if g.tile.Pairs() {
		a.In = g.call.pairs
	}
	for pi, part := range c.parts {
		a.Segments = part
		if pi > 0 || g.call.add {
			a.Add = 1
		}
		image, pixel := lo/pixels, lo%pixels
		for row := lo; row < hi; row += g.tile.Rows {
			n := min(g.tile.Rows, hi-row)
			for i := range n {
				a.InRow[i] = image*g.inImage + c.in[pixel]
				a.OutRow[i] = image*g.outImage + c.out[pixel]
				if pixel++; pixel == pixels {
					image, pixel = image+1, 0
				}
			}
			for panel := panel0; panel < panel1; panel++ {
				a.W = g.call.packed[panel*g.panelLen:][:g.panelLen]
				a.Out = g.call.out[panel*cols:]
				g.tile.Gather(&a, n, min(cols, g.outC-panel*cols))
			}
		}
	}
}
