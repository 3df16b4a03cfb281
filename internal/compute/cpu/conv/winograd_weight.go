package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// winStep is how many patches are transformed at a time.
	winStep = 64

	// winPart is the least number of patches of a part, and winParts the most parts.
	winPart  = 256
	winParts = 16

	// winSums bounds the values of the sums of several parts.
	winSums = 1 << 20

	// winTaps is how many channels of x have their taps computed at a time.
	winTaps = 16

	// winSkew is the values between matrices, so that they do not all begin in the same set of the
	// first-level cache.
	winSkew = 16

	// winMatrices has one for each element of the transformed patches.
	winMatrices = 16

	// winPatchSide is that of the patches of dy.
	winPatchSide = 2
)

// winBlocks are the most channels of x and of dy in a block, best first: the larger the fewer
// transforms. 16·128·128 sums are 1 MB.
var winBlocks = [...][2]int{{128, 128}, {128, 64}, {64, 64}, {64, 32}, {32, 32}}

// A winogradWeight is backward-weight of a 3×3 convolution with stride 1 by Winograd's F(3×3, 2×2):
// dy is cut into patches of 2×2 pixels, each of which meets 4×4 pixels of x. For each of the 16
// elements of the transformed patches a (channels × patches) and a (patches × channels) matrix are
// multiplied, in place of the 36 products of the taps, and the 16 sums over all patches are
// transformed to the nine taps at the very end.
//
// A task is a block of dw and a part of the patches. It transforms some patches at a time, so that
// they and its sums stay in the second-level cache or near it; that patches are transformed again
// for each block costs less than passing them on. While they are multiplied, the pixels of the next
// ones and the sums are fetched. Where there are few blocks, there are several parts, whose sums
// are added in order. Parts depend on the shape alone; blocks and steps may depend on the number of
// threads, since they do not change in which order a number of dw is summed.
type winogradWeight struct {
	shape Shape
	tile  *f32.Tile

	// patches are dy's. A part has perPart of them, of which step are transformed at a time.
	patches        patchGrid
	parts, perPart int
	step           int

	// cBlock and kBlock are the channels of a block. The last ones may be smaller.
	cBlock, kBlock int

	cBlocks, kBlocks int

	// uStride and vStride are between the matrices of x's and dy's patches.
	uStride, vStride int

	// sumLen is that of a block's sums.
	sumLen int

	// slotLen is what a task needs: patches, and its sums if there is one part.
	slotLen int

	// pairs has the offsets of each patch in both matrices.
	pairs [][2]uint32

	// rows are those of the tiles of so many times 16 channels.
	rows [][]int

	// calls are the tiles of all matrices of a block.
	calls int

	slots slots

	// zeros is a pixel of padding.
	zeros []float32

	// tasks are blocks of parts, and finishes are pieces of dw that parts are added up to.
	tasks, finishes int

	call winogradWeightCall

	blockTask, finishTask func(i int)
}

// A winogradWeightCall is the call under way.
type winogradWeightCall struct {
	dw, x, dy []float32

	// work is the memory of tasks, and sums has those of parts, if there are several.
	work, sums []float32
}

// newWinogradWeight plans backward-weight by Winograd, or returns nil where that is not possible.
func newWinogradWeight(s Shape, t *f32.Tile, threads int) *winogradWeight {
	if s.R != 3 || s.S != 3 || s.StrideH != 1 || s.StrideW != 1 || t.Pairs() || t.Cols%16 != 0 || s.C%16 != 0 || s.K%t.Cols != 0 {
		return nil
	}
	w := &winogradWeight{shape: s, tile: t}
	w.patches = newPatchGrid(s.N, s.OutH(), s.OutW(), winPatchSide)
	w.parts = max(1, min(winParts, w.patches.all/winPart, winSums/(winMatrices*s.C*s.K)))
	w.perPart = (w.patches.all + w.parts - 1) / w.parts
	w.parts = (w.patches.all + w.perPart - 1) / w.perPart
	enough := 1
	if threads > 1 {
		enough = 2 * threads
	}
	blocks := 0
	for _, most := range winBlocks {
		w.cBlock, w.kBlock = evenly(s.C, most[0], 16), evenly(s.K, most[1], t.Cols)
		w.cBlocks, w.kBlocks = (s.C+w.cBlock-1)/w.cBlock, (s.K+w.kBlock-1)/w.kBlock
		if blocks = w.cBlocks * w.kBlocks; blocks*w.parts >= enough {
			break
		}
	}
	steps := (w.perPart + winStep - 1) / winStep
	w.step = (w.perPart + steps - 1) / steps

	w.uStride, w.vStride = w.step*w.cBlock+winSkew, w.step*w.kBlock+winSkew
	w.sumLen = winMatrices * w.cBlock * w.kBlock
	w.slotLen = max(winMatrices*(w.uStride+w.vStride), 9*winTaps*t.Cols)
	w.tasks, w.finishes = w.parts*blocks, blocks*w.kBlock/t.Cols*(w.cBlock/winTaps)
	if w.parts == 1 {
		w.slotLen += w.sumLen
		w.slots = newSlots(min(threads, w.tasks))
	} else {
		w.slots = newSlots(min(threads, max(w.tasks, w.finishes)))
	}
	w.rows = make([][]int, w.cBlock/16+1)
	for i := range w.rows {
		w.rows[i] = tileRows(i*16, t.OuterRows)
	}
	w.calls = winMatrices * w.kBlock / t.Cols * len(w.rows[w.cBlock/16])
	for i := range w.step {
		w.pairs = append(w.pairs, [2]uint32{uint32(i * w.cBlock), uint32(i * w.kBlock)})
	}
	w.zeros = make([]float32, max(w.cBlock, w.kBlock))
	w.blockTask, w.finishTask = w.runBlock, w.runFinish
	return w
}

// evenly is the size of the pieces, multiples of unit, in which n is cut so that none is larger
// than most.
func evenly(n, most, unit int) int {
	pieces := (n + most - 1) / most
	return (n/unit + pieces - 1) / pieces * unit
}

// tileRows cuts n channels into tiles: large ones, and the last two such that none is left over.
func tileRows(n int, outerRows []int) []int {
	var rows []int
	for n > 0 {
		use := outerRows[0]
		for _, r := range outerRows {
			if n%r == 0 && n <= 2*r {
				use = r
				break
			}
		}
		rows = append(rows, use)
		n -= use
	}
	return rows
}

// faster estimates both ways in cycles of a core that does two multiply-adds of 16 values each, for
// the largest blocks on any number of threads: the choice must not change with it.
func (w *winogradWeight) faster(direct *weightPlan) bool {
	s := w.shape
	products := 0
	for _, p := range direct.products.pairs {
		products += len(p) / direct.images * s.N
	}
	plain := float64(products*direct.rowTiles*direct.rows*s.K) / 32
	patches := float64(w.patches.all)
	cBlocks, kBlocks := (s.C+winBlocks[0][0]-1)/winBlocks[0][0], (s.K+winBlocks[0][1]-1)/winBlocks[0][1]
	mine := 1.06*16*patches*float64(s.C*s.K)/32 + patches*float64(110*kBlocks*s.C+90*cBlocks*s.K)/16 + float64(s.C*s.K*(10+8*w.parts))
	return mine < plain/0.92
}

func (w *winogradWeight) scratchLen(bool) int {
	n := cap(w.slots) * w.slotLen
	if w.parts > 1 {
		n += w.tasks * w.sumLen
	}
	return n
}

func (w *winogradWeight) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	w.call.dw, w.call.x, w.call.dy = dw, x.F32, dy.F32
	w.call.work, w.call.sums = scratch[:cap(w.slots)*w.slotLen], scratch[cap(w.slots)*w.slotLen:]
	p.Run(w.tasks, w.blockTask)
	if w.parts > 1 {
		p.Run(w.finishes, w.finishTask)
	}
	w.call = winogradWeightCall{}
}

// block is the first channels and the numbers of channels of a block.
func (w *winogradWeight) block(i int) (c0, c, k0, k int) {
	c0, k0 = i%w.cBlocks*w.cBlock, i/w.cBlocks*w.kBlock
	return c0, min(w.cBlock, w.shape.C-c0), k0, min(w.kBlock, w.shape.K-k0)
}

// runBlock sums one part of the patches for one block. The blocks of a part follow each other,
// since they read the same pixels.
func (w *winogradWeight) runBlock(task int) {
	slot := <-w.slots
	defer func() { w.slots <- slot }()
	work := w.call.work[slot*w.slotLen : (slot+1)*w.slotLen]
	blocks := w.cBlocks * w.kBlocks
	part, block := task/blocks, task%blocks
	c0, c, k0, k := w.block(block)
	var sums []float32
	if w.parts == 1 {
		sums, work = work[:w.sumLen], work[w.sumLen:]
	} else {
		sums = w.call.sums[task*w.sumLen:][:w.sumLen]
	}
	u, v := work[:winMatrices*w.uStride], work[winMatrices*w.uStride:]
	s := w.shape
	inX, inDy := imageRows{w.patches, s.H, s.W, s.PadH}, imageRows{w.patches, s.OutH(), s.OutW(), 0}
	end := min(w.patches.all, (part+1)*w.perPart)
	for first := part * w.perPart; first < end; first += w.step {
		n := min(w.step, end-first)
		w.transformX(u, first, n, c0, c)
		w.transformDy(v, first, n, k0, k)
		from, to := first+n, min(end, first+n+w.step)

		// Of x only rows are fetched that these patches did not read.
		ahead := [2]ahead{
			fetchAhead(w.call.x, inX.pixel(from)+winPatchSide*s.W, inX.pixel(to)+winPatchSide*s.W, s.C, c0, c, w.calls),
			fetchAhead(w.call.dy, inDy.pixel(from), inDy.pixel(to), s.K, k0, k, w.calls),
		}
		w.multiply(sums, u, v, n, c, k, first > part*w.perPart, &ahead)
	}
	if w.parts == 1 {
		for kTile := range k / w.tile.Cols {
			for at := 0; at < c; at += winTaps {
				w.finish(sums, work, c0, at, k0, kTile)
			}
		}
	}
}

// transformX transforms c channels of n patches of x, from channel c0.
func (w *winogradWeight) transformX(u []float32, first, n, c0, c int) {
	s := w.shape
	a := f32.WinogradArgs{Count: c}
	for i := range n {
		image, h, v := w.patches.at(first + i)
		h, v = h-s.PadH, v-s.PadW
		for y := range 4 {
			for x := range 4 {
				if row, col := h+y, v+x; row >= 0 && row < s.H && col >= 0 && col < s.W {
					a.Src[y*4+x] = &w.call.x[((image*s.H+row)*s.W+col)*s.C+c0]
				} else {
					a.Src[y*4+x] = &w.zeros[0]
				}
			}
		}
		for m := range winMatrices {
			a.Dst[m] = &u[m*w.uStride+i*w.cBlock]
		}
		w.tile.WinogradInput(&a)
	}
}

// transformDy transforms k channels of n patches of dy, from channel k0.
func (w *winogradWeight) transformDy(v []float32, first, n, k0, k int) {
	s := w.shape
	outH, outW := s.OutH(), s.OutW()
	a := f32.WinogradArgs{Count: k}
	for i := range n {
		image, h, q := w.patches.at(first + i)
		for y := range winPatchSide {
			for x := range winPatchSide {
				if h+y < outH && q+x < outW {
					a.Src[y*2+x] = &w.call.dy[((image*outH+h+y)*outW+q+x)*s.K+k0]
				} else {
					a.Src[y*2+x] = &w.zeros[0]
				}
			}
		}
		for m := range winMatrices {
			a.Dst[m] = &v[m*w.vStride+i*w.kBlock]
		}
		w.tile.WinogradGradient(&a)
	}
}

// multiply adds the products of n patches to a block's sums: for each matrix, for each tile's width
// of output channels, rows of input channels.
func (w *winogradWeight) multiply(sums, u, v []float32, n, c, k int, add bool, next *[2]ahead) {
	t := w.tile
	a := f32.OuterArgs{Pairs: w.pairs[:n]}
	if add {
		a.Add = 1
	}
	for m := range winMatrices {
		for kTile := range k / t.Cols {
			a.B = v[m*w.vStride+kTile*t.Cols:]
			at := 0
			for _, rows := range w.rows[c/16] {
				a.A = u[m*w.uStride+at:]
				a.Out = sums[((m*(w.kBlock/t.Cols)+kTile)*w.cBlock+at)*t.Cols:]
				if add {
					t.Fetch(a.Out[min(len(a.Out), rows*t.Cols):], 1, 1, t.OuterRows[0]*t.Cols)
				}
				t.Outer(&a, rows)
				next[0].fetch(t)
				next[1].fetch(t)
				at += rows
			}
		}
	}
}

// runFinish adds the parts' sums of some channels and writes their taps.
func (w *winogradWeight) runFinish(i int) {
	slot := <-w.slots
	defer func() { w.slots <- slot }()
	groups, kTiles := w.cBlock/winTaps, w.kBlock/w.tile.Cols
	block, kTile, at := i/groups/kTiles, i/groups%kTiles, i%groups*winTaps
	c0, c, k0, k := w.block(block)
	if at >= c || kTile*w.tile.Cols >= k {
		return
	}
	blocks := w.cBlocks * w.kBlocks
	sums := w.call.sums[block*w.sumLen:][:w.sumLen]
	for part := 1; part < w.parts; part++ {
		more := w.call.sums[(part*blocks+block)*w.sumLen:][:w.sumLen]
		for m := range winMatrices {
			from := ((m*kTiles+kTile)*w.cBlock + at) * w.tile.Cols
			to := from + winTaps*w.tile.Cols
			f32.AddTo(sums[from:to], more[from:to])
		}
	}
	w.finish(sums, w.call.work[slot*w.slotLen:], c0, at, k0, kTile)
}

// finish writes the taps of winTaps channels of x, from channel at of the block, and of one tile's
// width of dy's.
func (w *winogradWeight) finish(sums, work []float32, c0, at, k0, kTile int) {
	s, cols := w.shape, w.tile.Cols
	const taps = 9
	n := winTaps * cols
	a := f32.WinogradArgs{Count: n}
	for m := range winMatrices {
		a.Src[m] = &sums[((m*(w.kBlock/cols)+kTile)*w.cBlock+at)*cols]
	}
	for tap := range taps {
		a.Dst[tap] = &work[tap*n]
	}
	t := f32.TransposeArgs{Dst: w.call.dw, Src: work[:taps*n]}
	w.tile.Fetch(w.call.dw[((k0+kTile*cols)*s.C+c0+at)*taps:], s.C*taps, cols, winTaps*taps)
	w.tile.WinogradTaps(&a)
	for h := 0; h < cols; h += 16 {
		for q := 0; q < winTaps*taps; q += 16 {
			for i := range 16 {
				t.SrcRow[i] = (q+i)%taps*n + (q+i)/taps*cols + h
				t.DstRow[i] = ((k0+kTile*cols+h+i)*s.C+c0+at)*taps + q
			}
			w.tile.Transpose(&t, 16, 16)
		}
	}
}
