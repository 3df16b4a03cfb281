package conv

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// The methods here are those of conv.go over images that are stored as float32 or as bfloat16, each
// as it likes. Scratch memory is handed to each call. Where products are of bfloat16, what is
// stored as bfloat16 is read as it lies, but for sums over few channels and over odd numbers of
// channels, for which it is first copied to scratch memory; a plan of float32 widens it. Results
// are summed in float32 and rounded once.

// ForwardStored sets y = x * w; scratch has ForwardScratchLen values.
func (p *Plan) ForwardStored(y, x f32.Array, w, scratch []float32) {
	p.checkStored("ForwardStored", y.Len(), x.Len(), len(w), p.shape.YLen(), p.shape.XLen(), p.shape.WLen())
	p.forward.run(p.pool, y, x, w, scratch, false)
}

// BackwardDataStored sets dx, the gradient of x, or adds it to dx; scratch has
// BackwardDataScratchLen values.
func (p *Plan) BackwardDataStored(dx, dy f32.Array, w, scratch []float32, add bool) {
	p.checkStored("BackwardDataStored", dx.Len(), dy.Len(), len(w), p.shape.XLen(), p.shape.YLen(), p.shape.WLen())
	p.backward.run(p.pool, dx, dy, w, scratch, add)
}

// BackwardWeightStored sets dw, the gradient of w, summed over the batch; scratch has
// BackwardWeightScratchLen values.
func (p *Plan) BackwardWeightStored(dw []float32, x, dy f32.Array, scratch []float32) {
	p.checkStored("BackwardWeightStored", len(dw), x.Len(), dy.Len(), p.shape.WLen(), p.shape.XLen(), p.shape.YLen())
	p.weight.run(p.pool, dw, x, dy, scratch)
}

// ForwardScratchLen is the number of values of scratch memory for ForwardStored; half: of an x that
// is bfloat16.
func (p *Plan) ForwardScratchLen(half bool) int { return p.forward.scratchLen(half) }

// BackwardDataScratchLen is the same for BackwardDataStored; half: of a dy that is bfloat16.
func (p *Plan) BackwardDataScratchLen(half bool) int { return p.backward.scratchLen(half) }

// BackwardWeightScratchLen is the same for BackwardWeightStored; half: of an x or a dy that is
// bfloat16.
func (p *Plan) BackwardWeightScratchLen(half bool) int { return p.weight.scratchLen(half) }

func (p *Plan) checkStored(op string, a, b, c, na, nb, nc int) {
	if a != na || b != nb || c != nc {
		panic(fmt.Sprintf("conv: %s %v: arrays of %d, %d and %d values, want %d, %d and %d", op, p.shape, a, b, c, na, nb, nc))
	}
}

// readsPairs is true if the tile reads an input of bfloat16 as it lies.
func (g *gather) readsPairs() bool { return g.tile.Pairs() && g.inC%2 == 0 }

// scratchLen is what the packed weights take, and a copy of the input where the tile does not read
// it as it lies.
func (g *gather) scratchLen(half bool) int {
	switch {
	case half && g.readsPairs():
		return g.packedLen()
	case half || g.tile.Pairs():
		return g.packedLen() + g.n*g.inImage
	}
	return g.packedLen()
}

func (g *gather) run(p *pool.Pool, out, in f32.Array, w, scratch []float32, add bool) {
	g.call.out, g.call.out16 = out.F32, out.BF16
	copied := scratch[g.packedLen():]
	tasks := 0
	switch {
	case in.BF16 != nil && g.readsPairs():
		g.call.pairs = f32.PairsOf(in.BF16)
	case in.BF16 != nil:
		g.call.in16, tasks = in.BF16, g.pairTasks
		g.call.in, g.call.pairs = copied, copied
	case g.tile.Pairs():
		g.call.in, g.call.pairs, tasks = in.F32, copied, g.pairTasks
	default:
		g.call.in = in.F32
	}
	g.compute(p, w, scratch, add, tasks)
}

// takeInput copies one piece of an input of bfloat16 as the tile reads it: float32, or pairs of an
// odd number of channels.
func (g *gather) takeInput(task int) {
	pixels := g.n * g.inPixels
	lo, hi := pixels*task/g.pairTasks, pixels*(task+1)/g.pairTasks
	src := g.call.in16[lo*g.inC : hi*g.inC]
	if !g.tile.Pairs() {
		f32.FromBFloat16(g.call.in[lo*g.inC:hi*g.inC], src)
		return
	}
	for dst := g.call.pairs[lo*g.depth : hi*g.depth]; len(src) > 0; dst, src = dst[g.depth:], src[g.inC:] {
		copy(f32.HalvesOf(dst[:g.depth]), src[:g.inC])
		f32.HalvesOf(dst[:g.depth])[g.inC] = 0
	}
}

// runClassStored is runClass to an output of bfloat16: a tile is summed beside it and then rounded.
func (g *gather) runClassStored(c *class, panel0, lo, hi int) {
	cols, pixels := g.tile.Cols, len(c.in)
	panel1 := min(g.panels, panel0+g.panelsAtOnce)

	// Without parts no tap reaches these pixels.
	if len(c.parts) == 0 {
		if g.call.add {
			return
		}
		for row := lo; row < hi; row++ {
			out := row/pixels*g.outImage + c.out[row%pixels]
			clear(g.call.out16[out+panel0*cols : out+min(g.outC, panel1*cols)])
		}
		return
	}
	var sums [maxTile]float32
	var at [f32.MaxTileRows]int
	a := f32.GatherArgs{In: g.call.in, Out: sums[:]}
	if g.tile.Pairs() {
		a.In = g.call.pairs
	}
	image, pixel := lo/pixels, lo%pixels
	for row := lo; row < hi; row += g.tile.Rows {
		n := min(g.tile.Rows, hi-row)
		for i := range n {
			a.InRow[i], a.OutRow[i] = image*g.inImage+c.in[pixel], i*cols
			at[i] = image*g.outImage + c.out[pixel]
			if pixel++; pixel == pixels {
				image, pixel = image+1, 0
			}
		}
		for panel := panel0; panel < panel1; panel++ {
			a.W = g.call.packed[panel*g.panelLen:][:g.panelLen]
			for pi, part := range c.parts {
				a.Segments, a.Add = part, uint64(min(pi, 1))
				g.tile.Gather(&a, n, cols)
			}
			g.tile.NarrowRows(g.call.out16[panel*cols:], &at, sums[:], n, min(cols, g.outC-panel*cols), g.call.add)
		}
	}
}

// maxTile is the most values of any path's tile.
const maxTile = f32.MaxTileRows * 32
