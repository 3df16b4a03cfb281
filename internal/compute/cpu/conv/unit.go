package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A unitGather is forward or backward-data by the tile unit. A register of the unit holds 16 rows
// that lie a constant stride apart, so the rows of a class of pixels (see gather) are cut into
// units of 16 that do, in one of two ways, whichever is expected to take less time:
//
//   - The input lies as images do, and a unit is up to 16 pixels of one image, along a row or a
//     column of the class. Stored as bfloat16, of whole steps of channels, it is read in place. For
//     maps of some 16 pixels a side and more.
//   - The input is copied such that the same pixel of some images lie side by side, and a unit is
//     that pixel in 16 images. All units are full, whatever the size of the maps, and no product
//     with padding is computed. For small maps, and linear layers.
//
// A block is two units against one panel of packed weights. Sums of some blocks are left in the
// cache by one call of the unit, and then go to the output, rounded if that is bfloat16.
type unitGather struct {
	// g packs weights, and has the classes.
	g *gather

	tile *f32.Tile

	// images are those of a frame. Rows of it lie side by side; in the first way there is 1.
	images int

	frames int

	// frame is how many elements of the input are in a frame, as the unit reads it.
	frame int

	// width is the number of elements of a pixel.
	width int

	classes []unitClass

	// blocks are those of a frame.
	blocks []unitBlock

	// idle is how many elements the idle rows of a unit may read behind the copied input.
	idle int

	panelsAtOnce, groups int
	blocksAtOnce         int
	chunks               int
	sumLen               int
	slots                slots

	// rows are the offsets of the first rows of the blocks of a slot's call.
	rows [][16][2]int

	taskCopy, taskBlocks func(i int)
	copyTasks            int

	call unitCall
}

// A unitCall is the call under way.
type unitCall struct {
	// in16 is the input as the unit reads it, and from is where it is copied from, if it is.
	in16 []uint16
	from f32.Array

	out f32.Array

	// add says that the result is added to what is in out.
	add bool

	sums []float32

	// packs is the number of tasks that pack weights, before those that copy.
	packs int
}

// A unitClass is a class as the unit computes it.
type unitClass struct {
	// segments are in elements of the input, and in steps.
	segments []f32.Segment

	// stride and out are the elements from row to row of the input and of the output.
	stride, out int

	// low is the first of the offsets that a row reads, and high is behind the last.
	low, high int

	// empty is true if no tap reaches these pixels.
	empty bool
}

// A unit is up to 16 rows: offsets of the first in a frame's input and, less that of the frame, in
// the output.
type unit struct{ in, out, rows, image int }

// A unitBlock is two units of a class; the second has no rows where their number is odd.
type unitBlock struct {
	class int
	units [2]unit
}

// newUnitGather plans by the tile unit what g does; g is one of the unit's tile.
func newUnitGather(g *gather, threads int) *unitGather {
	apart, joined := arrange(g, 1), arrange(g, groupedImages(g.n))
	u := apart
	if joined.cost() < apart.cost() {
		u = joined
	}
	u.divide(threads)
	u.taskCopy, u.taskBlocks = u.runCopy, u.runBlocks
	u.copyTasks = max(1, min(g.n, g.n*g.inPixels*g.inC/pairGrain))
	return u
}

// groupedImages is how many images lie side by side where they do: one or two units.
func groupedImages(n int) int {
	if n > f32.UnitRows {
		return 2 * f32.UnitRows
	}
	return f32.UnitRows
}

// arrange plans the units for frames of so many images.
func arrange(g *gather, images int) *unitGather {
	u := &unitGather{g: g, tile: g.tile, images: images, frames: (g.n + images - 1) / images, width: 2 * g.depth}
	u.frame = g.inPixels * u.width * images
	for i := range g.classes {
		c := &g.classes[i]
		uc := unitClass{stride: u.width, out: g.outImage, empty: len(c.parts) == 0}
		var units []unit
		if images > 1 {
			for p := range c.in {
				for first := 0; first < images; first += f32.UnitRows {
					units = append(units, unit{in: 2*c.in[p]*images + first*u.width, out: c.out[p], rows: f32.UnitRows, image: first})
				}
			}
		} else {
			units, uc.stride, uc.out = lines(c)
		}
		for _, part := range c.parts {
			for _, s := range part {
				seg := f32.Segment{In: 2 * s.In * images, Len: s.Len / (f32.UnitDepth / 2), W: 2 * s.W}
				if images == 1 {
					uc.segments = append(uc.segments, seg)
				} else {
					// The taps' pixels are further apart than their channels.
					uc.segments = append(uc.segments, spread(seg, g.depth, images)...)
				}
			}
		}
		for _, s := range uc.segments {
			uc.low = min(uc.low, s.In)
			uc.high = max(uc.high, s.In+s.Len*f32.UnitDepth)
		}
		for len(units) > 0 {
			b := unitBlock{class: i, units: [2]unit{units[0]}}
			if len(units) > 1 {
				b.units[1] = units[1]
			} else {
				b.units[1] = unit{in: units[0].in}
			}
			u.blocks = append(u.blocks, b)
			units = units[min(2, len(units)):]
		}
		u.classes = append(u.classes, uc)
		u.idle = max(u.idle, f32.UnitRows*uc.stride)
	}
	return u
}

// spread cuts a segment over the channels of several pixels of so many pairs, which follow each
// other in a row of the input no more where images lie side by side.
func spread(s f32.Segment, depth, images int) []f32.Segment {
	// steps are those of a pixel.
	steps := depth / (f32.UnitDepth / 2)
	all := make([]f32.Segment, 0, s.Len/steps)
	for done := 0; done < s.Len; done += steps {
		all = append(all, f32.Segment{In: s.In + done/steps*2*depth*images, Len: steps, W: s.W + done*f32.UnitDepth*f32.UnitBlock})
	}
	return all
}

// lines cuts a class of one image into units along its rows or its columns, whichever are fewer.
func lines(c *class) (units []unit, stride, out int) {
	best := -1
	for _, along := range []bool{true, false} {
		var all []unit
		w, h := c.width, len(c.in)/c.width
		n, across, step := w, h, 1
		if !along {
			n, across, step = h, w, w
		}
		inStep, outStep := 0, 0
		if n > 1 {
			inStep, outStep = 2*(c.in[step]-c.in[0]), c.out[step]-c.out[0]
		}
		for a := range across {
			first := a * w
			if !along {
				first = a
			}
			for i := 0; i < n; {
				p := first + i*step
				rows := 1
				for rows < f32.UnitRows && i+rows < n && 2*(c.in[p+rows*step]-c.in[p]) == rows*inStep && c.out[p+rows*step]-c.out[p] == rows*outStep {
					rows++
				}
				all = append(all, unit{in: 2 * c.in[p], out: c.out[p], rows: rows})
				i += rows
			}
		}
		if best < 0 || len(all) < best {
			best, units, stride, out = len(all), all, inStep, outStep
		}
	}
	return units, stride, out
}

// cost estimates cycles of one core: half a block takes 32 cycles a step for each panel; the copy
// of the input moves 8 bytes a cycle.
func (u *unitGather) cost() float64 {
	steps := 0
	for _, b := range u.blocks {
		for _, s := range u.classes[b.class].segments {
			steps += s.Len
		}
	}
	cycles := 64 * float64(steps*u.frames*u.g.panels)
	if u.images > 1 {
		cycles += float64(u.frames*u.frame) * 2 / 8
	}
	return cycles
}

// divide chooses the tasks: some panels that stay in the second-level cache, and some blocks.
func (u *unitGather) divide(threads int) {
	// cache is in pairs of weights, and sums is how many of blocks stay near.
	const cache, sums = 256 << 10, 16
	g := u.g
	u.groups = max(1, (g.panels*g.panelLen+cache-1)/cache)
	u.groups = min(u.groups, g.panels)
	u.panelsAtOnce = (g.panels + u.groups - 1) / u.groups
	u.groups = (g.panels + u.panelsAtOnce - 1) / u.panelsAtOnce
	u.blocksAtOnce = max(1, sums/u.panelsAtOnce)
	total := u.frames * len(u.blocks)
	u.chunks = 1
	if threads > 1 {
		u.chunks = (4*threads + u.groups - 1) / u.groups
	}
	u.chunks = max(1, min(max(u.chunks, total/64), total))
	u.sumLen = u.blocksAtOnce * u.panelsAtOnce * f32.UnitBlock * f32.UnitBlock
	u.slots = newSlots(min(threads, u.chunks*u.groups))
	u.rows = make([][16][2]int, cap(u.slots))
}

// inPlace is true if the unit reads an input of bfloat16 as it lies. Its idle rows then read
// neighbours, for which there must be enough of them.
func (u *unitGather) inPlace(half bool) bool {
	if !half || u.g.inC != u.width {
		return false
	}
	if u.images > 1 {
		return u.g.inPixels == 1 && u.g.n%u.images == 0
	}
	return u.g.n*u.frame >= u.idle+u.frame
}

// copyLen is the number of elements of a copied input.
func (u *unitGather) copyLen() int { return u.frames*u.frame + u.idle }

func (u *unitGather) scratchLen(half bool) int {
	n := u.g.packedLen() + cap(u.slots)*u.sumLen
	if !u.inPlace(half) {
		n += (u.copyLen() + 1) / 2
	}
	return n
}

func (u *unitGather) run(p *pool.Pool, out, in f32.Array, w, scratch []float32, add bool) {
	g := u.g
	g.call.w = w
	g.takePacked(scratch)
	scratch = scratch[g.packedLen():]
	u.call.sums, scratch = scratch[:cap(u.slots)*u.sumLen], scratch[cap(u.slots)*u.sumLen:]
	u.call.out, u.call.from, u.call.add = out, in, add
	copies := u.copyTasks
	if u.inPlace(in.BF16 != nil) {
		u.call.in16, copies = in.BF16, 0
	} else {
		u.call.in16 = f32.HalvesOf(scratch[:(u.copyLen()+1)/2])
	}
	u.call.packs = 0
	if g.used > 0 {
		u.call.packs = g.packTasks()
		p.Run(u.call.packs+copies, u.taskCopy)
	}
	p.Run(u.groups*u.chunks, u.taskBlocks)
	g.call = gatherCall{}
	u.call = unitCall{}
}

// runCopy packs a piece of the weights or, after those, copies some images.
func (u *unitGather) runCopy(i int) {
	if i < u.call.packs {
		u.g.runPack(i)
		return
	}
	i -= u.call.packs
	for image := u.g.n * i / u.copyTasks; image < u.g.n*(i+1)/u.copyTasks; image++ {
		u.copyImage(image)
	}
}

// copyImage rounds an image, or moves its numbers, to where the unit reads them: channels up to
// whole steps, zeros behind them.
func (u *unitGather) copyImage(image int) {
	g := u.g
	from := u.call.from.Part(image*g.inPixels*g.inC, (image+1)*g.inPixels*g.inC)
	stride := u.images * u.width
	to := u.call.in16[image/u.images*u.frame+image%u.images*u.width:]
	to = to[:(g.inPixels-1)*stride+u.width]
	if from.F32 != nil && g.inC == u.width {
		u.tile.PackPairRows(f32.PairsOf(to), stride/2, from.F32, g.inPixels, g.depth)
		return
	}
	for p := range g.inPixels {
		pixel := to[p*stride:][:u.width]
		if from.BF16 != nil {
			copy(pixel, from.BF16[p*g.inC:][:g.inC])
		} else {
			f32.ToBFloat16(pixel[:g.inC], from.F32[p*g.inC:][:g.inC])
		}
		clear(pixel[g.inC:])
	}
}

// runBlocks computes some blocks of all frames against one group of panels.
func (u *unitGather) runBlocks(task int) {
	slot := <-u.slots
	defer func() { u.slots <- slot }()
	group, chunk := task/u.chunks, task%u.chunks
	panel := group * u.panelsAtOnce
	total := u.frames * len(u.blocks)
	rows := &u.rows[slot]

	// skip is the number of idle rows before those wanted.
	var skip [16][2]int
	a := f32.BlockArgs{
		A: u.call.in16, B: f32.HalvesOf(u.g.call.packed[panel*u.g.panelLen:]), Sums: u.call.sums[slot*u.sumLen:][:u.sumLen],
		Step: f32.UnitDepth, Panels: min(u.panelsAtOnce, u.g.panels-panel), Panel: 2 * u.g.panelLen,
	}
	for at, end := total*chunk/u.chunks, total*(chunk+1)/u.chunks; at < end; {
		first := at % len(u.blocks)
		frame, class := at/len(u.blocks), u.blocks[first].class
		n := 1
		for n < u.blocksAtOnce && at+n < end && first+n < len(u.blocks) && u.blocks[first+n].class == class {
			n++
		}
		c := &u.classes[class]
		for i := range n {
			for j, un := range u.blocks[first+i].units {
				rows[i][j], skip[i][j] = u.place(c, frame*u.frame+un.in, un.rows)
			}
		}
		if !c.empty {
			a.Rows, a.Segments, a.Stride = rows[:n], c.segments, c.stride
			u.tile.Blocks(&a)
		}
		for i := range n {
			for j, un := range u.blocks[first+i].units {
				first := frame*u.images + un.image
				if u.images > 1 {
					un.rows = min(un.rows, u.g.n-first)
				}
				if un.rows <= 0 {
					continue
				}
				out := first*u.g.outImage + un.out
				for p := range a.Panels {
					k := (panel + p) * f32.UnitBlock
					from := ((i*a.Panels+p)*f32.UnitBlock + j*f32.UnitRows + skip[i][j]) * f32.UnitBlock
					u.store(c, out+k, min(f32.UnitBlock, u.g.outC-k), un.rows, a.Sums[from:])
				}
			}
		}
		at += n
	}
}

// place is the first of the 16 rows that the unit reads for a unit whose rows begin at offset in,
// and the number of idle rows before them: where the input ends, idle rows are those before, not
// those behind.
func (u *unitGather) place(c *unitClass, in, rows int) (first, skip int) {
	if over := in + (f32.UnitRows-1)*c.stride + c.high - len(u.call.in16); over > 0 && c.stride > 0 {
		skip = min((over+c.stride-1)/c.stride, f32.UnitRows-rows)
	}
	return in - skip*c.stride, skip
}

// store writes rows of sums, or adds them, to the output from offset out on.
func (u *unitGather) store(c *unitClass, out, cols, rows int, sums []float32) {
	if c.empty {
		if !u.call.add {
			for i := range rows {
				row := u.call.out.Part(out+i*c.out, out+i*c.out+cols)
				clear(row.F32)
				clear(row.BF16)
			}
		}
		return
	}
	switch {
	case u.call.out.BF16 != nil:
		var at [f32.MaxTileRows]int
		for i := 0; i < rows; i += len(at) {
			n := min(len(at), rows-i)
			for j := range n {
				at[j] = out + (i+j)*c.out
			}
			u.tile.NarrowRows(u.call.out.BF16, &at, sums[i*f32.UnitBlock:], n, cols, u.call.add)
		}
	case u.call.add:
		for i := range rows {
			f32.AddTo(u.call.out.F32[out+i*c.out:][:cols], sums[i*f32.UnitBlock:][:cols])
		}
	default:
		u.tile.CopyRows(u.call.out.F32[out:], c.out, sums, f32.UnitBlock, rows, cols, cols)
	}
}
