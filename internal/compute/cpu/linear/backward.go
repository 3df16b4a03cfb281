package linear

import "github.com/paragon-train/paragon/internal/compute/f32"

const (
	groupExamples = 32 // examples packed in a task

	// sumValues is about how many values of dy are summed for db in a task.
	sumValues = 1 << 16
)

// backward is the plan of the backward pass, and the call under way.
type backward struct {
	groups int // tasks of packing, each some examples

	// sumPieces is how many tasks sum db, each some examples.
	sumPieces int

	// tiles are those of outputs of dw. chunks are groups of these, and blocks groups of panels: a
	// task is one of each.
	tiles, chunks, blocks int

	rowTiles int // tiles of examples of dx

	// dataPanels is how many panels of w a task of dx has, and dataTasks how many of these there are.
	dataPanels, dataTasks int

	dx, dw, db, x, w, dy []float32
	doubles              []float64

	// dyPairs is dy as pairs of outputs, row by row.
	dyPairs []float32

	// dyRows is dy transposed, as pairs of examples.
	dyRows []float32

	// turned has, for each thread, dy as pairs of examples, before it is transposed.
	turned []float32

	panels []float32 // x

	// wPanel has, for each thread, a panel of w.
	wPanel []float32

	// unitSums has, for each thread, a block of a tile unit.
	unitSums []float32

	// add says that dw is added to.
	add bool

	pack, multiply func(thread, i int)
}

func (l *Plan) planBackward() {
	g := &l.backward
	g.groups = (l.batch + groupExamples - 1) / groupExamples
	g.sumPieces = min(l.batch, (l.batch*l.out+sumValues-1)/sumValues)
	g.tiles = (l.out + l.tile.Rows - 1) / l.tile.Rows
	g.chunks, g.blocks = l.tasks(l.batch*l.in*l.out, g.tiles), 1
	if len(l.partsBatch) > 1 && !l.byUnit() {
		// Rows of a part of the sum stay in the second-level cache while all panels go by, and what
		// chunks read again is all of x.
		tasks := g.chunks
		g.chunks = min(g.tiles, (g.tiles*l.tile.Rows*maxSum+cacheValues-1)/cacheValues)
		g.blocks = max(1, min(l.inPanels, (tasks+g.chunks-1)/g.chunks))
	}
	g.rowTiles = (l.batch + l.tile.Rows - 1) / l.tile.Rows
	g.dataPanels = 1
	if l.batch*l.depthOut > 2*cacheValues {
		// dy does not stay in the cache: each tile of it is multiplied by several panels.
		g.dataPanels = max(1, min(cacheValues/(l.depthOut*l.tile.Cols), l.inPanels/(2*l.threads)))
	}
	g.dataTasks = (l.inPanels + g.dataPanels - 1) / g.dataPanels
	g.pack, g.multiply = l.packBackward, l.multiplyBackward
}

// BackwardScratchLen is the number of values of scratch memory for Backward.
func (l *Plan) BackwardScratchLen() int {
	g := &l.backward
	n := l.rowsRead(l.out)*l.strideBatch + l.inPanels*l.depthBatch*l.tile.Cols + l.threads*g.dataPanels*l.depthOut*l.tile.Cols
	if l.tile.Pairs() {
		n += l.rowsRead(l.batch)*l.depthOut + l.threads*l.out*groupExamples/2
	}
	return n + l.unitSums()
}

// BackwardDoubles is the number of float64 numbers that Backward needs.
func (l *Plan) BackwardDoubles() int { return 2 * l.out * l.backward.sumPieces }

// Backward sets dx, dw and db, each of which may be nil. scratch and doubles have
// BackwardScratchLen and BackwardDoubles numbers.
func (l *Plan) Backward(dx, dw, db, x, w, dy []float32, scratch []float32, doubles []float64) {
	l.check("Backward", [2]int{len(x), l.batch * l.in}, [2]int{len(w), l.out * l.in}, [2]int{len(dy), l.batch * l.out})
	g := &l.backward
	g.dx, g.dw, g.db, g.x, g.w, g.dy = dx, dw, db, x, w, dy
	g.dyRows = room(&scratch, l.rowsRead(l.out)*l.strideBatch)
	g.panels = room(&scratch, l.inPanels*l.depthBatch*l.tile.Cols)
	g.wPanel = room(&scratch, l.threads*g.dataPanels*l.depthOut*l.tile.Cols)
	if l.tile.Pairs() {
		g.dyPairs = room(&scratch, l.rowsRead(l.batch)*l.depthOut)
		g.turned = room(&scratch, l.threads*l.out*groupExamples/2)
	}
	g.unitSums = room(&scratch, l.unitSums())
	g.doubles = doubles
	first, second := g.groups, 0
	if db != nil {
		l.check("Backward's db", [2]int{len(db), l.out})
		first += g.sumPieces
	}
	if dx != nil {
		l.check("Backward's dx", [2]int{len(dx), l.batch * l.in})
		second += g.dataTasks
	}
	if dw != nil {
		l.check("Backward's dw", [2]int{len(dw), l.out * l.in})
		second += g.chunks * g.blocks
	}
	l.pool.RunThreads(first, g.pack)
	l.pool.RunThreads(second, g.multiply)
	if db != nil {
		l.addSums()
	}
	g.dx, g.dw, g.db, g.x, g.w, g.dy, g.doubles = nil, nil, nil, nil, nil, nil, nil
	g.dyPairs, g.dyRows, g.turned, g.panels, g.wPanel, g.unitSums = nil, nil, nil, nil, nil, nil
}

// BackwardAdd is Backward without db; with add, dw is added to what is there.
func (l *Plan) BackwardAdd(dx, dw []float32, add bool, x, w, dy, scratch []float32) {
	l.backward.add = add
	l.Backward(dx, dw, nil, x, w, dy, scratch, nil)
	l.backward.add = false
}

// packBackward packs some examples of dy and x or, after those, sums some rows of dy.
func (l *Plan) packBackward(thread, i int) {
	g := &l.backward
	if i >= g.groups {
		l.sum(i - g.groups)
		return
	}
	lo, hi := i*groupExamples, min((i+1)*groupExamples, l.batch)
	if g.dx != nil && l.tile.Pairs() {
		for b := lo; b < hi; b++ {
			l.packPairs(g.dyPairs[b*l.depthOut:(b+1)*l.depthOut], g.dy[b*l.out:(b+1)*l.out])
		}
	}
	if g.dw != nil {
		l.packRows(thread, lo, hi)
		l.packPanels(lo, hi)
		if hi == l.batch {
			l.clearAfter()
		}
	}
}

// clearAfter puts zeros after the last examples' pairs, up to the depth of a sum.
func (l *Plan) clearAfter() {
	g, cols, there := &l.backward, l.tile.Cols, l.batch
	if l.tile.Pairs() {
		there = (l.batch + 1) / 2
	}
	if there == l.depthBatch {
		return
	}
	for o := range l.out {
		clear(g.dyRows[o*l.strideBatch+there : o*l.strideBatch+l.depthBatch])
	}
	for panel := range l.inPanels {
		clear(g.panels[(panel*l.depthBatch+there)*cols : (panel+1)*l.depthBatch*cols])
	}
}

// packRows transposes examples lo to hi of dy.
func (l *Plan) packRows(thread, lo, hi int) {
	g := &l.backward
	if !l.tile.Pairs() {
		for b := lo; b < hi; b += 16 {
			l.transpose(g.dyRows[b:], l.strideBatch, g.dy[b*l.out:], l.out, min(16, hi-b), 0, l.out)
		}
		return
	}
	pairs := g.turned[thread*l.out*groupExamples/2:][:l.out*groupExamples/2]
	whole := (hi - lo) / 2
	l.tile.PairRows(pairs, l.out, g.dy[lo*l.out:], second(g.dy[lo*l.out:], l.out, whole), 2*l.out, whole, l.out, l.out)
	rows := whole
	if (hi-lo)%2 != 0 {
		l.tile.PairRows(pairs[whole*l.out:], l.out, g.dy[(hi-1)*l.out:], nil, l.out, 1, l.out, l.out)
		rows++
	}
	l.transpose(g.dyRows[lo/2:], l.strideBatch, pairs, l.out, rows, 0, l.out)
}

// second is what follows the first row, if there are any pairs of rows.
func second(x []float32, row, pairs int) []float32 {
	if pairs == 0 {
		return nil
	}
	return x[row:]
}

// packPanels packs examples lo to hi of x.
func (l *Plan) packPanels(lo, hi int) {
	g, cols := &l.backward, l.tile.Cols
	for panel := range l.inPanels {
		i0 := panel * cols
		n := min(cols, l.in-i0)
		dst := g.panels[panel*l.depthBatch*cols:]
		x := g.x[lo*l.in+i0:]
		if !l.tile.Pairs() {
			l.tile.CopyRows(dst[lo*cols:], cols, x, l.in, hi-lo, n, cols)
			continue
		}
		whole := (hi - lo) / 2
		l.tile.PairRows(dst[lo/2*cols:], cols, x, second(x, l.in, whole), 2*l.in, whole, n, cols)
		if (hi-lo)%2 != 0 {
			l.tile.PairRows(dst[(hi-1)/2*cols:], cols, x[(hi-1-lo)*l.in:], nil, l.in, 1, n, cols)
		}
	}
}

// sum sums some rows of dy.
func (l *Plan) sum(i int) {
	g := &l.backward
	sums := g.doubles[2*l.out*i : 2*l.out*(i+1)]
	clear(sums)
	lo, hi := l.batch*i/g.sumPieces, l.batch*(i+1)/g.sumPieces
	f32.ChannelSums(sums[:l.out], sums[l.out:], g.dy[lo*l.out:hi*l.out])
}

func (l *Plan) addSums() {
	g := &l.backward
	for o := range g.db {
		sum := g.doubles[o]
		for i := 1; i < g.sumPieces; i++ {
			sum += g.doubles[2*l.out*i+o]
		}
		g.db[o] = float32(sum)
	}
}

// multiplyBackward computes some panels of dx or, after those, a chunk of dw.
func (l *Plan) multiplyBackward(thread, i int) {
	if l.backward.dx != nil {
		if i < l.backward.dataTasks {
			l.multiplyData(thread, i)
			return
		}
		i -= l.backward.dataTasks
	}
	l.multiplyWeight(thread, i)
}

// multiplyData computes the inputs of some panels of w for all examples.
func (l *Plan) multiplyData(thread, task int) {
	g, t := &l.backward, l.tile
	first := task * g.dataPanels
	panels, size := min(g.dataPanels, l.inPanels-first), l.depthOut*t.Cols
	all := g.wPanel[thread*g.dataPanels*size:][:panels*size]
	for i := range panels {
		l.packWeight(all[i*size:(i+1)*size], (first+i)*t.Cols)
	}
	i0 := first * t.Cols
	a := product{in: g.dy, w: all, out: g.dx[i0:], inStride: l.out, outStride: l.in, panels: panels, outPanel: t.Cols,
		cols: min(panels*t.Cols, l.in-i0), thread: thread, parts: l.partsOut, sums: g.unitSums}
	if t.Pairs() {
		a.in, a.inStride = g.dyPairs, l.depthOut
	}
	for tile := range g.rowTiles {
		a.row0 = tile * t.Rows
		a.rows, a.out0 = min(t.Rows, l.batch-a.row0), a.row0*l.in
		l.multiply(&a)
	}
}

// packWeight packs the panel of w that begins with input i0.
func (l *Plan) packWeight(dst []float32, i0 int) {
	g, t := &l.backward, l.tile
	n := min(t.Cols, l.in-i0)
	if !t.Pairs() {
		t.CopyRows(dst, t.Cols, g.w[i0:], l.in, l.out, n, t.Cols)
		return
	}
	whole := l.out / 2
	t.PairRows(dst, t.Cols, g.w[i0:], second(g.w[i0:], l.in, whole), 2*l.in, whole, n, t.Cols)
	if l.out%2 != 0 {
		t.PairRows(dst[whole*t.Cols:], t.Cols, g.w[(l.out-1)*l.in+i0:], nil, l.in, 1, n, t.Cols)
	}
	clear(dst[(l.out+1)/2*t.Cols:])
}

// multiplyWeight computes a chunk of dw's rows for a block of panels.
func (l *Plan) multiplyWeight(thread, task int) {
	g, t := &l.backward, l.tile
	chunk, block := task/g.blocks, task%g.blocks
	tile0, tile1 := g.tiles*chunk/g.chunks, g.tiles*(chunk+1)/g.chunks
	panel0, panel1 := l.inPanels*block/g.blocks, l.inPanels*(block+1)/g.blocks
	i0, size := panel0*t.Cols, l.depthBatch*t.Cols
	a := product{in: g.dyRows, w: g.panels[panel0*size : panel1*size], out: g.dw[i0:], inStride: l.strideBatch, outStride: l.in, panels: panel1 - panel0, outPanel: t.Cols,
		cols: min(panel1*t.Cols, l.in) - i0, ahead: true, add: g.add, thread: thread, parts: l.partsBatch, sums: g.unitSums}
	if len(l.partsBatch) > 1 && !l.byUnit() {
		l.multiplyParts(&a, tile0*t.Rows, min(tile1*t.Rows, l.out))
		return
	}
	for tile := tile0; tile < tile1; tile++ {
		o := tile * t.Rows
		a.row0, a.rows, a.out0 = o, min(t.Rows, l.out-o), o*l.in
		l.multiply(&a)
	}
}

// multiplyParts computes all tiles from row lo to hi part by part, each sum's in order: a part of a
// panel is read into the cache once for all of them.
func (l *Plan) multiplyParts(p *product, lo, hi int) {
	a := f32.GatherArgs{In: p.in}
	for i, part := range p.parts {
		a.Segments, a.Add = part, 0
		if p.add || i > 0 {
			a.Add = 1
		}
		for panel := range p.panels {
			cols := min(l.tile.Cols, p.cols-panel*l.tile.Cols)
			a.W, a.Out = p.w[panel*len(p.w)/p.panels:], p.out[panel*p.outPanel:]
			for o := lo; o < hi; o += l.tile.Rows {
				n := min(l.tile.Rows, hi-o)
				for r := range n {
					a.InRow[r], a.OutRow[r] = (o+r)*p.inStride, (o+r)*p.outStride
				}
				l.tile.Gather(&a, n, cols)
			}
		}
	}
}
