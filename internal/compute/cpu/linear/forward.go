package linear

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// forward is the plan of the forward pass, and the call under way.
type forward struct {
	// tiles are those of outputs. chunks are groups of tiles, each of which is a task with a block
	// of panels.
	tiles, chunks int

	// blocks are those of panels.
	blocks int

	chunkRows   int // most outputs of a chunk
	blockPanels int // most panels of a block

	// group is how many examples are transposed at a time.
	group int

	// packs and slices are the tasks of packing: groups of examples, each in slices of its values.
	packs, slices int

	y, x, w, bias []float32
	floor         float32
	xPairs        []float32 // x as pairs, row by row
	panels        []float32 // x transposed

	// rows has, for each thread, rows of w as pairs.
	rows []float32

	// unitSums has, for each thread, a block of a tile unit.
	unitSums []float32

	// sums has, for each thread, the tiles of a task.
	sums []float32

	pack, multiply func(thread, i int)

	// few says that there are so few examples that outputs are dot products, of which each of
	// dotTasks has outputs that follow each other.
	few      bool
	dotTasks int
	dots     func(thread, i int)
}

// A batch of at most fewExamples, with rows of at least dotValues, is computed by dot products: it is
// as fast as w is read from memory, and a panel would be columns of nothing. A token of a language
// model is a batch of one.
const (
	fewExamples = 4
	dotValues   = 64
)

func (l *Plan) planForward() {
	f := &l.forward
	rows := l.tile.Rows
	work := l.batch * l.in * l.out
	f.tiles = (l.out + rows - 1) / rows
	f.chunks = max((f.tiles+chunkTiles-1)/chunkTiles, l.tasks(work, f.tiles))
	f.blocks = max(1, min(l.batchPanels, l.batchPanels*l.depthIn*l.tile.Cols/cacheValues))
	if least := l.tasks(work, 2*l.threads); f.chunks*f.blocks < least {
		f.blocks = min(l.batchPanels, (least+f.chunks-1)/f.chunks)
	}
	f.chunkRows = (f.tiles + f.chunks - 1) / f.chunks * rows
	f.blockPanels = (l.batchPanels + f.blocks - 1) / f.blocks
	f.group = min(16, l.tile.Cols)
	groups := (l.batch + f.group - 1) / f.group
	f.slices = max(1, min(l.depthIn/64, l.tasks(8*l.batch*l.in, 2*l.threads)/groups))
	f.packs = groups * f.slices
	f.pack, f.multiply = l.packForward, l.multiplyForward
	f.few = l.batch <= fewExamples && l.in >= dotValues && !l.tile.Pairs() && !l.byUnit()
	f.dotTasks = l.tasks(work, l.out)
	f.dots = l.dotForward
}

// ForwardScratchLen is the number of values of scratch memory for Forward.
func (l *Plan) ForwardScratchLen() int {
	f := &l.forward
	n := l.batchPanels*l.depthIn*l.tile.Cols + l.threads*f.blockPanels*f.chunkRows*l.tile.Cols
	if l.tile.Pairs() {
		n += l.batch*l.depthIn + l.threads*l.tile.Rows*l.depthIn
	}
	return n + l.unitSums()
}

// Forward sets y = x·wᵀ, plus bias if it is not nil, and max(·, 0) of that if relu. scratch has
// ForwardScratchLen values.
func (l *Plan) Forward(y, x, w, bias []float32, relu bool, scratch []float32) {
	l.check("Forward", [2]int{len(y), l.batch * l.out}, [2]int{len(x), l.batch * l.in}, [2]int{len(w), l.out * l.in})
	if bias != nil {
		l.check("Forward's bias", [2]int{len(bias), l.out})
	}
	f := &l.forward
	f.y, f.x, f.w, f.bias, f.floor = y, x, w, bias, float32(math.Inf(-1))
	if relu {
		f.floor = 0
	}
	if f.few {
		l.pool.RunThreads(f.dotTasks, f.dots)
		f.y, f.x, f.w, f.bias = nil, nil, nil, nil
		return
	}
	f.panels = room(&scratch, l.batchPanels*l.depthIn*l.tile.Cols)
	f.sums = room(&scratch, l.threads*f.blockPanels*f.chunkRows*l.tile.Cols)
	if l.tile.Pairs() {
		f.xPairs = room(&scratch, l.batch*l.depthIn)
		f.rows = room(&scratch, l.threads*l.tile.Rows*l.depthIn)
	}
	f.unitSums = room(&scratch, l.unitSums())
	l.pool.RunThreads(f.packs, f.pack)
	l.pool.RunThreads(f.chunks*f.blocks, f.multiply)
	f.y, f.x, f.w, f.bias, f.panels, f.sums, f.xPairs, f.rows, f.unitSums = nil, nil, nil, nil, nil, nil, nil, nil, nil
}

// dotForward computes some outputs of a few examples.
func (l *Plan) dotForward(_, i int) {
	f := &l.forward
	for o := l.out * i / f.dotTasks; o < l.out*(i+1)/f.dotTasks; o++ {
		shift := float32(0)
		if f.bias != nil {
			shift = f.bias[o]
		}
		row := f.w[o*l.in : (o+1)*l.in]
		for b := range l.batch {
			f.y[b*l.out+o] = max(f32.Dot(f.x[b*l.in:(b+1)*l.in], row)+shift, f.floor)
		}
	}
}

// packForward transposes a group of examples of x, or a slice of their values.
func (l *Plan) packForward(_, i int) {
	f := &l.forward
	b0 := i / f.slices * f.group
	rows := min(f.group, l.batch-b0)
	blocks, slice := (l.depthIn+15)/16, i%f.slices
	lo, hi := blocks*slice/f.slices*16, min(l.depthIn, blocks*(slice+1)/f.slices*16)
	src := f.x
	if l.tile.Pairs() {
		src = f.xPairs
		for b := b0; b < b0+rows; b++ {
			l.packPairs(src[b*l.depthIn+lo:b*l.depthIn+hi], f.x[b*l.in+min(2*lo, l.in):b*l.in+min(2*hi, l.in)])
		}
	}
	cols := l.tile.Cols
	panel := f.panels[b0/cols*l.depthIn*cols:]
	l.transpose(panel[b0%cols:], cols, src[b0*l.depthIn:], l.depthIn, rows, lo, hi)
}

// transpose sets dst[k·dstStride + r] = src[r·srcStride + k] for rows r, at most 16, and k from lo
// to hi.
func (l *Plan) transpose(dst []float32, dstStride int, src []float32, srcStride, rows, lo, hi int) {
	a := f32.TransposeArgs{Dst: dst, Src: src}
	for k := lo; k < hi; k += 16 {
		m := min(16, hi-k)
		for r := range rows {
			a.SrcRow[r] = r*srcStride + k
		}
		for q := range m {
			a.DstRow[q] = (k + q) * dstStride
		}
		l.tile.Transpose(&a, rows, m)
	}
}

// multiplyForward computes a chunk of outputs for a block of panels.
func (l *Plan) multiplyForward(thread, i int) {
	f, t := &l.forward, l.tile
	chunk, block := i%f.chunks, i/f.chunks
	tile0, tile1 := f.tiles*chunk/f.chunks, f.tiles*(chunk+1)/f.chunks
	panel0, panel1 := l.batchPanels*block/f.blocks, l.batchPanels*(block+1)/f.blocks
	sums := f.sums[thread*f.blockPanels*f.chunkRows*t.Cols:]
	o0, o1 := tile0*t.Rows, min(tile1*t.Rows, l.out)

	a := product{in: f.w, w: f.panels[panel0*l.depthIn*t.Cols : panel1*l.depthIn*t.Cols], out: sums, inStride: l.in, outStride: t.Cols,
		panels: panel1 - panel0, outPanel: f.chunkRows * t.Cols, cols: (panel1 - panel0) * t.Cols, thread: thread, parts: l.partsIn, sums: f.unitSums}
	if t.Pairs() {
		a.in, a.inStride = f.rows[thread*t.Rows*l.depthIn:(thread+1)*t.Rows*l.depthIn], l.depthIn
	}
	for o := o0; o < o1; o += t.Rows {
		a.rows, a.row0, a.out0 = min(t.Rows, o1-o), o, (o-o0)*t.Cols
		if t.Pairs() {
			a.row0 = 0
			for r := range a.rows {
				l.packPairs(a.in[r*l.depthIn:(r+1)*l.depthIn], f.w[(o+r)*l.in:(o+r+1)*l.in])
			}
		}
		l.multiply(&a)
	}
	for panel := panel0; panel < panel1; panel++ {
		l.storeForward(sums[(panel-panel0)*f.chunkRows*t.Cols:], panel*t.Cols, o0, o1)
	}
}

// storeForward turns the sums of outputs o0 to o1 of a panel over into y.
func (l *Plan) storeForward(sums []float32, b0, o0, o1 int) {
	f, cols := &l.forward, l.tile.Cols
	a := f32.TransposeArgs{Dst: f.y, Src: sums}
	for h := 0; h < min(cols, l.batch-b0); h += 16 {
		m := min(16, cols-h, l.batch-b0-h)
		for o := o0; o < o1; {
			// They are whole cache lines of y where rows of it begin with one.
			n := min(16-o%16, o1-o)
			for r := range n {
				a.SrcRow[r] = (o-o0+r)*cols + h
			}
			for q := range m {
				a.DstRow[q] = (b0+h+q)*l.out + o
			}
			var shift []float32
			if f.bias != nil {
				shift = f.bias[o : o+n]
			}
			l.tile.TransposeShift(&a, n, m, shift, f.floor)
			o += n
		}
	}
}
