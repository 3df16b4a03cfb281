package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// windowParts is how many parts images are divided into at most. Sums of parts are added in
	// order.
	windowParts = 16

	// windowStep is how many pixels are summed in one go at most.
	windowStep = 256
)

// A windowWeight is backward-weight to few output channels, which would leave most columns of
// weightPlan's tiles idle. A tile's rows are output channels here, its columns the window of inputs
// that an output pixel sees: the taps of a row with their channels, which lie side by side in an
// image with zeros around it, or those of all rows, where a copy puts the pixels of that many rows
// side by side. An image is packed and multiplied at once, while it is in the first-level cache or
// near it. Where the tile reads pairs, images take part two by two.
type windowWeight struct {
	shape Shape
	tile  *f32.Tile

	// images is the number of pairs of images where the tile reads pairs.
	images int

	// together is the rows of taps in a window: one or all.
	together int

	// groups is the number of windows of a pixel.
	groups int

	// colTiles are those of a window.
	colTiles int

	rowTiles []int

	// rows is the number of all of them.
	rows int

	padW   int // pixels of a packed row
	rowLen int // values of a packed row
	xRows  int

	// steps has the offsets of each pixel's channels in dy and of its first window in x.
	steps [][][2]uint32

	// xLen and dyLen are the values of a packed image.
	xLen, dyLen int

	// sumLen is that of a part.
	sumLen int

	parts   int
	threads int

	// The call under way.
	dw          []float32
	x, dy       f32.Array
	rooms, sums []float32
	part        func(thread, i int)
	finish      func(i int)
}

// newWindowWeight plans with so many rows of taps in a window, 1 or all.
func newWindowWeight(s Shape, t *f32.Tile, together, threads int) *windowWeight {
	w := &windowWeight{shape: s, tile: t, images: s.N, together: together, groups: s.R / together, rowTiles: fewRows(s.K, t.OuterRows), threads: threads}
	if t.Pairs() {
		w.images = (s.N + 1) / 2
	}
	for _, r := range w.rowTiles {
		w.rows += r
	}
	outH, outW := s.OutH(), s.OutW()
	w.colTiles = (s.S*together*s.C + t.Cols - 1) / t.Cols
	w.padW = (outW-1)*s.StrideW + s.S
	w.rowLen = w.padW * together * s.C
	w.xRows = outH

	// down is the packed rows from one row of dy to the next.
	down := 1
	if together == 1 {
		w.xRows, down = (outH-1)*s.StrideH+s.R, s.StrideH
	}

	// Columns beyond the window reach behind the last pixel.
	w.xLen = w.xRows*w.rowLen + w.colTiles*t.Cols
	w.dyLen = outH*outW*s.K + w.rows
	pixels := outH * outW
	n := (pixels + windowStep - 1) / windowStep
	for i := range n {
		var pairs [][2]uint32
		for p := pixels * i / n; p < pixels*(i+1)/n; p++ {
			pairs = append(pairs, [2]uint32{uint32(p * s.K), uint32(p/outW*down*w.rowLen + p%outW*s.StrideW*together*s.C)})
		}
		w.steps = append(w.steps, pairs)
	}
	w.sumLen = w.groups * w.colTiles * w.rows * t.Cols
	w.parts = min(w.images, windowParts)
	w.part, w.finish = w.runPart, w.runFinish
	return w
}

// fewerWindows is the better of both ways.
func fewerWindows(s Shape, t *f32.Tile, threads int) *windowWeight {
	one, all := newWindowWeight(s, t, 1, threads), newWindowWeight(s, t, s.R, threads)
	if all.cost() < one.cost() {
		return all
	}
	return one
}

// cost is the number of multiply-adds that a pixel takes, idle ones and the time of packing
// counted.
func (w *windowWeight) cost() float64 {
	c := float64(w.groups * w.colTiles * w.rows * w.tile.Cols)

	// Then pixels are copied one by one.
	if w.together > 1 {
		c += 48 * float64(w.together)
	}
	return c
}

// faster compares with the other way, in multiply-adds of an inner pixel.
func (w *windowWeight) faster(direct *weightPlan) bool {
	d := direct.rowTiles * direct.rows * direct.panels * direct.tile.Cols * direct.taps
	return w.cost() < 0.8*float64(d)
}

func (w *windowWeight) scratchLen(bool) int {
	return w.threads*(w.xLen+w.dyLen) + w.parts*w.sumLen
}

func (w *windowWeight) run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32) {
	w.dw, w.x, w.dy = dw, x, dy
	w.sums, w.rooms = scratch[:w.parts*w.sumLen], scratch[w.parts*w.sumLen:]
	p.RunThreads(w.parts, w.part)
	p.Run(w.groups*w.colTiles, w.finish)
	w.dw, w.x, w.dy, w.sums, w.rooms = nil, f32.Array{}, f32.Array{}, nil, nil
}

// runPart sums the products of some images.
func (w *windowWeight) runPart(thread, part int) {
	t := w.tile
	room := w.rooms[thread*(w.xLen+w.dyLen):][:w.xLen+w.dyLen]
	clear(room) // the padding stays
	px, pdy := room[:w.xLen], room[w.xLen:]
	sums := w.sums[part*w.sumLen:][:w.sumLen]
	var a f32.OuterArgs
	for image := w.images * part / w.parts; image < w.images*(part+1)/w.parts; image++ {
		w.pack(px, pdy, image)
		for _, pairs := range w.steps {
			a.Pairs = pairs
			for i := range w.groups * w.colTiles {
				a.B = px[i/w.colTiles*w.rowLen+i%w.colTiles*t.Cols:]
				k := 0
				for _, rows := range w.rowTiles {
					a.A, a.Out = pdy[k:], sums[(i*w.rows+k)*t.Cols:]
					t.Outer(&a, rows)
					k += rows
				}
			}
			a.Add = 1
		}
	}
}

// pack copies an image, or joins two, into the middle of a packed one, and their part of dy.
func (w *windowWeight) pack(px, pdy []float32, image int) {
	s := w.shape
	n := s.OutH() * s.OutW() * s.K
	dy, dy2 := pairOf(w.tile, w.dy, image, n)
	copyRows(w.tile, pdy, n, dy, dy2, copiedRows{0, n, 1, n, n})
	x, x2 := pairOf(w.tile, w.x, image, s.H*s.W*s.C)
	width := min(s.W, w.padW-s.PadW)
	if width <= 0 {
		return
	}
	for row := range w.xRows {
		for r := range w.together {
			h := row - s.PadH
			if w.together > 1 {
				h = row*s.StrideH + r - s.PadH
			}
			if h < 0 || h >= s.H {
				continue
			}
			dst := px[row*w.rowLen+(s.PadW*w.together+r)*s.C:]
			if w.together == 1 {
				copyRows(w.tile, dst, width*s.C, x, x2, copiedRows{h * s.W * s.C, width * s.C, 1, width * s.C, width * s.C})
			} else {
				copyRows(w.tile, dst, w.together*s.C, x, x2, copiedRows{h * s.W * s.C, s.C, width, s.C, s.C})
			}
		}
	}
}

// runFinish adds the parts of one tile of a window, and writes its columns to dw.
func (w *windowWeight) runFinish(i int) {
	s, cols := w.shape, w.tile.Cols
	from := i * w.rows * cols
	sums := w.sums[from : from+w.rows*cols]
	for part := 1; part < w.parts; part++ {
		f32.AddTo(sums, w.sums[part*w.sumLen+from:][:len(sums)])
	}
	group, first := i/w.colTiles, i%w.colTiles*cols
	row := w.together * s.C // values of a column of taps
	for j := range min(cols, s.S*row-first) {
		q := first + j
		r, c := group*w.together+q%row/s.C, q%s.C
		for k := range s.K {
			w.dw[((k*s.C+c)*s.R+r)*s.S+q/row] = sums[k*cols+j]
		}
	}
}
