package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// laneSums is about how many values a task's sums have: they stay in the first-level cache.
	laneSums = 4096

	// laneSlice is how many values of an image are turned over in a task.
	laneSlice = 256
)

// A laneGather is forward or backward-data to few output channels, which would leave most columns
// of a tile idle. A tile's rows are output channels here, its columns one pixel of as many images.
// The input is turned over first, so that the same number of all images of a group lies side by
// side, and so are the sums, on their way to the output. Images beyond the last are computed of
// what is there, and not stored.
//
// Products are of float32. Input and output may be stored as bfloat16.
type laneGather struct {
	// g packs weights in one panel, and has the classes.
	g *gather

	tile *f32.Tile

	// groups are those of images, as many as a tile has columns.
	groups int

	// rowTiles are the rows of the tiles of output channels.
	rowTiles []int

	// rows is the number of all of them.
	rows int

	// class has that of each output pixel.
	class []int

	// first has, for each output pixel, the offset of its first tap's input.
	first []int

	// pairs has, for each class and part of the sum, the row of the panel and the input, relative
	// to the first tap's.
	pairs [][][][2]uint32

	// products is that of a pixel, on average.
	products float64

	// pixels are those of an image of the output.
	pixels int

	chunk int // pixels in a task

	// chunks are those of an image.
	chunks int

	// slices are those of an image of the input.
	slices int

	// groupLen is how many values a group of the input has.
	groupLen int

	roomLen int // values of a thread's memory
	threads int

	// The call under way.
	// input is turned over, and rooms are those of all threads.
	input, rooms []float32

	in, out f32.Array

	// add says that the result is added to what is in out.
	add bool

	turn, multiply func(thread, i int)
}

// newLaneGather plans what g does, which is of a float32 tile, or returns nil where the output has
// more channels than a panel has columns.
func newLaneGather(g *gather, threads int) *laneGather {
	t := g.tile
	if g.panels > 1 || g.used == 0 {
		return nil
	}
	l := &laneGather{g: g, tile: t, threads: threads, groups: (g.n + t.Cols - 1) / t.Cols, rowTiles: fewRows(g.outC, t.OuterRows), pixels: g.outImage / g.outC}
	for _, r := range l.rowTiles {
		l.rows += r
	}
	if l.rows > t.Cols {
		return nil
	}
	l.class, l.first = make([]int, l.pixels), make([]int, l.pixels)
	for i := range g.classes {
		c := &g.classes[i]
		for p, out := range c.out {
			l.class[out/g.outC], l.first[out/g.outC] = i, c.in[p]*t.Cols
		}
		var parts [][][2]uint32
		for _, part := range c.parts {
			var pairs [][2]uint32
			for _, s := range part {
				for k := range s.Len {
					pairs = append(pairs, [2]uint32{uint32(s.W + k*t.Cols), uint32((s.In + k) * t.Cols)})
				}
			}
			parts = append(parts, pairs)
			l.products += float64(len(c.out)*len(pairs)) / float64(l.pixels)
		}
		l.pairs = append(l.pairs, parts)
	}
	l.chunk = min(l.pixels, max(1, laneSums/(l.rows*t.Cols)))
	l.chunks = (l.pixels + l.chunk - 1) / l.chunk
	l.groupLen = g.inImage * t.Cols
	l.slices = (g.inImage + laneSlice - 1) / laneSlice
	l.roomLen = max(l.chunk*(l.rows+g.outC)*t.Cols, 16*laneSlice)
	l.turn, l.multiply = l.runTurn, l.runMultiply
	return l
}

// fewRows cuts a number of channels into tiles: the largest, and the smallest that holds what is
// left.
func fewRows(n int, outerRows []int) (rows []int) {
	for n > 0 {
		use := outerRows[0]
		for _, r := range outerRows {
			if r >= n {
				use = r
			}
		}
		rows = append(rows, use)
		n -= use
	}
	return rows
}

// faster estimates both ways in cycles of a core that does 16 multiply-adds in each, for as many
// pixels as a tile has columns: products, the segments and calls of tiles, turning over input and
// output.
func (l *laneGather) faster(g *gather) bool {
	t := g.tile
	plain := 0.0
	for _, c := range g.classes {
		cycles := 0
		for _, part := range c.parts {
			cycles += 150
			for _, s := range part {
				cycles += 30 + s.Len*t.Rows*t.Cols/16
			}
		}
		plain += float64(cycles*len(c.out)*g.panels) / float64(l.pixels)
	}
	plain *= float64(g.n) / float64(t.Rows)
	cols := float64(l.tile.Cols)
	mine := l.products*float64(l.rows)*cols/16 + 60*float64(len(l.rowTiles))
	mine += 0.5 * cols * (float64(l.g.inImage)/float64(l.pixels) + float64(g.outC))
	return mine*float64(l.groups) < 0.8*plain
}

func (l *laneGather) scratchLen(bool) int {
	return l.g.packedLen() + l.groups*l.groupLen + l.threads*l.roomLen
}

func (l *laneGather) run(p *pool.Pool, out, in f32.Array, w, scratch []float32, add bool) {
	g := l.g
	g.call.w, g.call.packed, scratch = w, scratch[:g.packedLen()], scratch[g.packedLen():]
	l.input, l.rooms = scratch[:l.groups*l.groupLen], scratch[l.groups*l.groupLen:]
	l.out, l.in, l.add = out, in, add
	p.RunThreads(g.packTasks()+l.groups*l.slices, l.turn)
	p.RunThreads(l.groups*l.chunks, l.multiply)
	g.call = gatherCall{}
	l.input, l.rooms, l.out, l.in = nil, nil, f32.Array{}, f32.Array{}
}

// runTurn packs a piece of the weights or, after those, turns over a slice of a group of images.
func (l *laneGather) runTurn(thread, i int) {
	g, t := l.g, l.tile
	if i < g.packTasks() {
		g.runPack(i)
		return
	}
	i -= g.packTasks()
	group, lo := i/l.slices, i%l.slices*laneSlice
	hi := min(lo+laneSlice, g.inImage)
	for h := 0; h < t.Cols; h += 16 {
		image := group*t.Cols + h
		n := min(16, t.Cols-h, g.n-image)
		if n <= 0 {
			return
		}
		a := f32.TransposeArgs{Dst: l.input[group*l.groupLen:], Src: l.in.F32}
		for r := range n {
			a.SrcRow[r] = (image+r)*g.inImage + lo
		}
		if l.in.BF16 != nil {
			a.Src = l.rooms[thread*l.roomLen:]
			for r := range n {
				from := a.SrcRow[r]
				a.SrcRow[r] = r * laneSlice
				f32.FromBFloat16(a.Src[a.SrcRow[r]:][:hi-lo], l.in.BF16[from:from+hi-lo])
			}
		}
		for q := lo; q < hi; q += 16 {
			m := min(16, hi-q)
			for j := range m {
				a.DstRow[j] = (q+j)*t.Cols + h
			}
			t.Transpose(&a, n, m)
			for r := range n {
				a.SrcRow[r] += 16
			}
		}
	}
}

// runMultiply computes some pixels of a group of images.
func (l *laneGather) runMultiply(thread, i int) {
	t := l.tile
	group, p0 := i/l.chunks, i%l.chunks*l.chunk
	p1 := min(p0+l.chunk, l.pixels)
	room := l.rooms[thread*l.roomLen:][:l.roomLen]
	input := l.input[group*l.groupLen : (group+1)*l.groupLen]
	var a f32.OuterArgs
	for p := p0; p < p1; p++ {
		sums, parts := room[(p-p0)*l.rows*t.Cols:], l.pairs[l.class[p]]

		// No tap reaches this pixel.
		if len(parts) == 0 {
			clear(sums[:l.rows*t.Cols])
			continue
		}
		a.B = input[l.first[p]:]
		k := 0
		for _, rows := range l.rowTiles {
			a.A, a.Out = l.g.call.packed[k:], sums[k*t.Cols:]
			for part, pairs := range parts {
				a.Pairs, a.Add = pairs, uint64(min(part, 1))
				t.Outer(&a, rows)
			}
			k += rows
		}
	}
	l.store(room, group*t.Cols, p0, p1)
}

// store turns the sums of pixels p0 to p1 of a group of images over into the output, or into memory
// beside them where they are to be added or rounded.
func (l *laneGather) store(room []float32, image, p0, p1 int) {
	t, channels := l.tile, l.g.outC

	// values is how many are of an image.
	values := (p1 - p0) * channels
	direct := l.out.F32 != nil && !l.add
	a := f32.TransposeArgs{Dst: l.out.F32, Src: room}
	step, first := l.g.outImage, image*l.g.outImage+p0*channels
	if !direct {
		a.Dst, step, first = room[l.chunk*l.rows*t.Cols:], values, 0
	}
	images := min(t.Cols, l.g.n-image)

	// row and k are those of a pixel's channel in the sums.
	row, k := 0, 0
	for q := 0; q < values; q += 16 {
		n := min(16, values-q)
		for r := range n {
			a.SrcRow[r] = (row + k) * t.Cols
			if k++; k == channels {
				row, k = row+l.rows, 0
			}
		}
		for h := 0; h < images; h += 16 {
			m := min(16, images-h)
			for j := range m {
				a.DstRow[j] = first + (h+j)*step + q
			}
			t.Transpose(&a, n, m)
			for r := range n {
				a.SrcRow[r] += 16
			}
		}
	}
	if direct {
		return
	}
	for i := range images {
		at, sums := (image+i)*l.g.outImage+p0*channels, a.Dst[i*values:(i+1)*values]
		switch out := l.out.Part(at, at+values); {
		case out.F32 != nil:
			f32.AddTo(out.F32, sums)
		case l.add:
			f32.AddToBFloat16(sums, out.BF16)
			fallthrough
		default:
			f32.ToBFloat16(out.BF16, sums)
		}
	}
}
