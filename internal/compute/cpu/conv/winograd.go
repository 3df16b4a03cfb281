package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A winograd is forward or backward-data of a 3×3 convolution with stride 1 by Winograd's F(2×2,
// 3×3) or F(4×4, 3×3): the output is cut into patches of 2×2 or 4×4 pixels, each the result of 4×4
// or 6×6 input pixels, and 16 or 36 products of (patches × channels) and (channels × output
// channels) matrices take the place of the 36 or 144 taps of a patch. A task transforms some
// patches, multiplies them and transforms back, while they stay in the second-level cache.
//
// It adds and subtracts inputs before it multiplies, so an error is relative to the largest values
// of the input pixels and not only to those that count.
type winograd struct {
	// g packs the weights tap by tap.
	g *gather

	// side is that of a patch, 2 or 4 pixels, and reach that of its input, 4 or 6. There are reach²
	// matrices.
	side, reach, matrices int
	tile                  *f32.Tile

	// window is how taps meet the input, and in and out are an image of either side.
	window  window
	in, out plane

	// patches are those of all images. A task takes perTask of them.
	patches        patchGrid
	perTask, tasks int

	// depth is the number of values of a pixel as the tile reads them: its channels, or pairs of
	// them.
	depth int

	// matrixLen is the number of values of one packed matrix, all panels.
	matrixLen int

	// inStride and outStride are the distances between the matrices of a task's patches.
	inStride, outStride int

	// slotLen is the number of values that a task needs.
	slotLen int
	slots   slots

	// zeros is a pixel of padding.
	zeros []float32

	call winogradCall

	packTask, patchTask func(i int)
}

// A winogradCall is the call under way.
type winogradCall struct {
	// weights are the matrices, and work is the memory of tasks.
	weights, work []float32
	out, in       f32.Array

	// add says that the result is added to what is in out.
	add bool
}

// A window is how the taps of a convolution meet its input. pad is the number of rows and columns
// of padding before the first input pixel; flip says that the last tap meets the first pixel.
type window struct {
	flip              bool
	taps, stride, pad [2]int
}

// newWinograd plans by Winograd, with patches of side×side pixels, what g does, if that is
// possible; else it returns nil.
func newWinograd(g *gather, side int, o window, in, out plane, threads int) *winograd {
	t := g.tile
	if o.taps != [2]int{3, 3} || o.stride != [2]int{1, 1} || o.pad[0] < 0 || o.pad[1] < 0 || g.used != 9 ||
		g.inC%16 != 0 || g.outC%t.Cols != 0 || t.Cols%16 != 0 || t.Pairs() && (side != 2 || g.inC%32 != 0) {
		return nil
	}
	w := &winograd{
		g: g, side: side, reach: side + 2, matrices: (side + 2) * (side + 2), tile: t,
		window: o, in: in, out: out, patches: newPatchGrid(g.n, out.h, out.w, side), depth: g.depth, zeros: make([]float32, g.inC),
	}
	w.divide(threads)
	w.matrixLen = g.depth * g.outC

	// The 16 more keep the matrices from being all in the same lines of the cache.
	w.inStride, w.outStride = w.perTask*g.depth+16, w.perTask*g.outC+16
	w.slotLen = w.matrices*(w.inStride+w.outStride) + g.outC
	if t.Pairs() {
		w.slotLen += 16 * g.inC
	}
	w.slots = newSlots(min(threads, w.tasks))
	w.packTask, w.patchTask = w.runPack, w.runPatches
	return w
}

// divide chooses the tasks: as many patches as stay in the second-level cache on both sides, about;
// but not so few that the weights, which every task reads, are read too often, least where they
// come from beyond that cache. Tasks are equal, the same number for each thread.
func (w *winograd) divide(threads int) {
	// cache and large are in values, least and most in patches.
	const cache, least, most, large = 96 << 10, 24, 48, 2 << 20
	g, t := w.g, w.tile
	w.perTask = min(max(cache/(w.matrices*(g.depth+g.outC)), least), most)
	switch {
	case t.Pairs():
		// Weights and transformed pixels take half the room.
		w.perTask = min(max(2*cache/(w.matrices*(g.depth+g.outC)), least), 2*most)
	case w.matrices*g.inC*g.outC > large:
		w.perTask = 2 * most
	}
	w.tasks = (w.patches.all + w.perTask - 1) / w.perTask
	w.tasks = (w.tasks + threads - 1) / threads * threads
	w.perTask = (w.patches.all + w.tasks - 1) / w.tasks
	w.perTask = (w.perTask + t.Rows - 1) / t.Rows * t.Rows
	w.tasks = (w.patches.all + w.perTask - 1) / w.perTask
}

// directCycles estimates the cycles of the plain way on a core that does two multiply-adds of 16
// values, or of 16 pairs, each.
func (g *gather) directCycles() float64 {
	direct := 0.0
	for _, c := range g.classes {
		taps := 0
		for _, part := range c.parts {
			for _, s := range part {
				taps += s.Len / g.depth
			}
		}
		direct += float64(g.n*len(c.in)*taps) * float64(g.inC) * float64(g.outC) / 32
	}
	if g.tile.Pairs() {
		direct /= 2
	}
	return direct
}

// cycles is the same for w.
func (w *winograd) cycles() float64 {
	in, out := float64(w.g.inC), float64(w.g.outC)
	products := float64(w.matrices) * float64((w.patches.all+3)/4*4) * in * out / 32
	transforms := float64(w.patches.all) * (60*in/16 + 40*out/16)
	weights := in * out / 16 * 50
	if w.side == 4 {
		transforms = float64(w.patches.all) * (180*in/16 + 130*out/16)
		weights = in * out / 16 * 150
	}
	if w.tile.Pairs() {
		products /= 2
		transforms += float64(w.patches.all) * 20 * in / 16
		weights += in * out / 16 * 20
	}
	return 1.1*products + transforms + weights
}

// faster reports whether w is expected to be faster than the plain way.
func (w *winograd) faster() bool { return w.cycles() < 0.95*w.g.directCycles() }

// scratchLen is the matrices and, in the same place one after the other, the packed taps and what
// tasks need.
func (w *winograd) scratchLen(bool) int {
	pack := w.rowsLen()
	if w.tile.Pairs() {
		pack += cap(w.slots) * winJoined * 16 * w.tile.Cols
	}
	return w.matrices*w.matrixLen + max(pack, cap(w.slots)*w.slotLen)
}

// rowsLen is the number of values of the packed taps.
func (w *winograd) rowsLen() int { return w.g.panels * w.g.rowsLen }

// winJoined are the channels whose 16 matrices are transformed together, in the first-level cache
// about, before they are joined to pairs.
const winJoined = 32

func (w *winograd) run(p *pool.Pool, out, in f32.Array, weights, scratch []float32, add bool) {
	g := w.g
	w.call.weights, w.call.work = scratch[:w.matrices*w.matrixLen], scratch[w.matrices*w.matrixLen:]
	g.call.w, g.call.packed = weights, w.call.work[:w.rowsLen()]
	w.call.out, w.call.in, w.call.add = out, in, add
	p.Run(g.packTasks(), w.packTask)
	p.Run(w.tasks, w.patchTask)
	g.call = gatherCall{}
	w.call = winogradCall{}
}

// runPack packs some channels of one panel of the taps and transforms them to those of a panel of
// each of the matrices.
func (w *winograd) runPack(piece int) {
	g := w.g
	panel, c0, c1 := g.packPiece(piece)
	g.pack(g, g.call.packed[panel*g.rowsLen:][:g.rowsLen], panel, c0, c1)
	if w.tile.Pairs() {
		w.joinMatrices(panel)
		return
	}
	n, from := g.inC*w.tile.Cols, c0*w.tile.Cols
	a := f32.WinogradArgs{Count: (c1 - c0) * w.tile.Cols}
	for i := range 9 {
		tap := i
		if w.window.flip {
			tap = 8 - i
		}
		a.Src[i] = &g.call.packed[panel*g.rowsLen+g.place[tap]*n+from]
	}
	for i := range w.matrices {
		a.Dst[i] = &w.call.weights[i*w.matrixLen+panel*n+from]
	}
	if w.side == 4 {
		w.tile.Winograd4Weight(&a)
	} else {
		w.tile.WinogradWeight(&a)
	}
}

// joinMatrices transforms a packed panel, some channels at a time, and joins what that gives to
// pairs.
func (w *winograd) joinMatrices(panel int) {
	slot := <-w.slots
	defer func() { w.slots <- slot }()
	g, cols := w.g, w.tile.Cols
	const rows = winJoined
	work := w.call.work[w.rowsLen()+slot*16*rows*cols:][:16*rows*cols]
	a := f32.WinogradArgs{Count: rows * cols}
	for c := 0; c < g.inC; c += rows {
		for i := range 9 {
			tap := i
			if w.window.flip {
				tap = 8 - i
			}
			a.Src[i] = &g.call.packed[panel*g.rowsLen+(g.place[tap]*g.inC+c)*cols]
		}
		for i := range 16 {
			a.Dst[i] = &work[i*rows*cols]
		}
		w.tile.WinogradWeight(&a)
		for i := range 16 {
			m, to := work[i*rows*cols:][:rows*cols], i*w.matrixLen+(panel*w.depth+c/2)*cols
			w.tile.PairRows(w.call.weights[to:], cols, m, m[cols:], 2*cols, rows/2, cols, cols)
		}
	}
}

func (w *winograd) runPatches(task int) {
	slot := <-w.slots
	defer func() { w.slots <- slot }()
	work := w.call.work[slot*w.slotLen : (slot+1)*w.slotLen]
	in, work := work[:w.matrices*w.inStride], work[w.matrices*w.inStride:]
	out, spare := work[:w.matrices*w.outStride], work[w.matrices*w.outStride:]
	pixels := spare[w.g.outC:]
	first := task * w.perTask
	n := min(w.perTask, w.patches.all-first)
	w.transformIn(in, pixels, first, n)
	next := w.ahead(task + cap(w.slots))
	w.multiply(out, in, n, &next)
	w.transformOut(out, spare, first, n)
}

// eachPatch calls f with the output position of the first pixel of n patches.
func (w *winograd) eachPatch(first, n int, f func(i, image, h, v int)) {
	for i := range n {
		image, h, v := w.patches.at(first + i)
		f(i, image, h, v)
	}
}

// transformIn transforms patches to rows of the matrices. Where the tile reads pairs, each is
// rounded on its way, from pixels.
func (w *winograd) transformIn(dst, pixels []float32, first, n int) {
	c, half := w.g.inC, w.call.in.BF16 != nil
	a := f32.WinogradArgs{Count: c}
	w.eachPatch(first, n, func(i, image, h, v int) {
		for y := range w.reach {
			for x := range w.reach {
				row, col := h+y-w.window.pad[0], v+x-w.window.pad[1]
				switch at := ((image*w.in.h+row)*w.in.w + col) * c; {
				case row < 0 || row >= w.in.h || col < 0 || col >= w.in.w:
					a.Src[y*w.reach+x] = &w.zeros[0]
				case half:
					a.Src[y*w.reach+x] = f32.Half(&w.call.in.BF16[at])
				default:
					a.Src[y*w.reach+x] = &w.call.in.F32[at]
				}
			}
		}
		if w.tile.Pairs() {
			for m := range w.matrices {
				a.Dst[m] = &pixels[m*c]
			}
			w.inputTransform(&a, half)
			w.tile.PackPairRows(dst[i*w.depth:], w.inStride, pixels, w.matrices, w.depth)
			return
		}
		for m := range w.matrices {
			a.Dst[m] = &dst[m*w.inStride+i*c]
		}
		w.inputTransform(&a, half)
	})
}

// inputTransform is the transform of input pixels; half: that are bfloat16.
func (w *winograd) inputTransform(a *f32.WinogradArgs, half bool) {
	switch {
	case w.side == 4 && half:
		w.tile.Winograd4InputBFloat16(a)
	case w.side == 4:
		w.tile.Winograd4Input(a)
	case half:
		w.tile.WinogradInputBFloat16(a)
	default:
		w.tile.WinogradInput(a)
	}
}

// outputTransform is the transform to output pixels; half: that are bfloat16.
func (w *winograd) outputTransform(a *f32.WinogradArgs, half bool) {
	switch {
	case w.side == 4 && half:
		w.tile.Winograd4OutputBFloat16(a)
	case w.side == 4:
		w.tile.Winograd4Output(a)
	case half:
		w.tile.WinogradOutputBFloat16(a)
	default:
		w.tile.WinogradOutput(a)
	}
}

// ahead is the pixels that a later task reads, about those which this thread takes next.
func (w *winograd) ahead(task int) ahead {
	first := task * w.perTask
	if first >= w.patches.all {
		return ahead{}
	}
	h := imageRows{w.patches, w.in.h, w.in.w, w.window.pad[0]}
	calls := w.matrices * w.g.panels * ((w.perTask + w.tile.Rows - 1) / w.tile.Rows)
	return fetchAhead(w.call.in.F32, h.pixel(first), h.pixel(min(first+w.perTask, w.patches.all))+w.side*w.in.w, w.g.inC, 0, w.g.inC, calls)
}

func (w *winograd) multiply(out, in []float32, n int, next *ahead) {
	t, c, k := w.tile, w.depth, w.g.outC

	// step is from one packed panel to the next.
	step := c * t.Cols
	segment := [1]f32.Segment{{Len: c}}
	a := f32.GatherArgs{Segments: segment[:]}
	for m := range w.matrices {
		a.In = in[m*w.inStride:]
		for panel := range w.g.panels {
			a.W = w.call.weights[m*w.matrixLen+panel*step:][:c*t.Cols]
			a.Out = out[m*w.outStride+panel*t.Cols:]
			for row := 0; row < n; row += t.Rows {
				rows := min(t.Rows, n-row)
				for i := range rows {
					a.InRow[i], a.OutRow[i] = (row+i)*c, (row+i)*k
				}
				t.Gather(&a, rows, t.Cols)
				next.fetch(t)
			}
		}
	}
}

// transformOut writes the pixels; those of a patch that reach over the edge go to spare.
func (w *winograd) transformOut(src, spare []float32, first, n int) {
	k, half := w.g.outC, w.call.out.BF16 != nil
	a := f32.WinogradArgs{Count: k}
	if w.call.add {
		a.Add = 1
	}
	w.eachPatch(first, n, func(i, image, h, v int) {
		for m := range w.matrices {
			a.Src[m] = &src[m*w.outStride+i*k]
		}
		for y := range w.side {
			for x := range w.side {
				switch at := image*w.g.outImage + ((h+y)*w.out.w+v+x)*k; {
				case h+y >= w.out.h || v+x >= w.out.w:
					a.Dst[y*w.side+x] = &spare[0]
				case half:
					a.Dst[y*w.side+x] = f32.Half(&w.call.out.BF16[at])
				default:
					a.Dst[y*w.side+x] = &w.call.out.F32[at]
				}
			}
		}
		w.outputTransform(&a, half)
	})
}
