package conv

// pairGrain is the number of values of the input that are rounded to pairs in one task, about.
const pairGrain = 64 << 10

// joinRows rounds the rows of a panel to bfloat16 and joins them two by two, to pairs of input
// channels.
func (g *gather) joinRows(dst, rows []float32) {
	cols := g.tile.Cols

	// There are zeros beside the last channel of each tap if their number is odd, and after it if
	// steps are to be whole.
	for at := range g.used {
		clear(rows[(at*g.packRows+g.inC)*cols : (at+1)*g.packRows*cols])
	}
	g.tile.PairRows(dst, cols, rows, rows[cols:], 2*cols, g.used*g.depth, cols, cols)
}

// roundInput rounds one piece of the input to pairs of channels.
func (g *gather) roundInput(task int) {
	pixels := g.n * g.inPixels
	lo, hi := pixels*task/g.pairTasks, pixels*(task+1)/g.pairTasks
	dst, src := g.call.pairs[lo*g.depth:hi*g.depth], g.call.in[lo*g.inC:hi*g.inC]
	if g.inC%2 == 0 {
		g.tile.PackPairs(dst, src)
		return
	}
	for len(src) > 0 {
		g.tile.PackPairs(dst[:g.depth], src[:g.inC])
		dst, src = dst[g.depth:], src[g.inC:]
	}
}
