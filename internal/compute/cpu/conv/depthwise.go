package conv

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

const (
	// depthwiseGrain is about how many values of the output a task has: with the rows of the input
	// that they meet, they stay in the second-level cache.
	depthwiseGrain = 32 << 10

	// depthwiseParts is how many parts the sums of weights have at most, and depthwisePixels how
	// many pixels a part has at least. Parts are added in order.
	depthwiseParts, depthwisePixels = 64, 512
)

// A Depthwise computes the convolutions of one shape in which each channel has one filter of its
// own: K is C, and w is C×1×R×S. Vectors are channels. It does nine operations for each number that
// it moves, so it is about as fast as memory.
type Depthwise struct {
	shape             Shape
	pool              *pool.Pool
	forward, backward *depthwisePass
	weight            *depthwiseWeight
	turnTask          func(i int)

	// w and turned are the weights of the call under way.
	w, turned []float32
}

// NewDepthwise plans the depthwise convolutions of a shape with K = C.
func NewDepthwise(s Shape, p *pool.Pool) (*Depthwise, error) {
	one := s
	one.C, one.K = 1, s.C
	if err := one.Validate(); err != nil {
		return nil, err
	}
	d := &Depthwise{shape: s, pool: p}
	in, out := plane{s.H, s.W, s.C}, plane{s.OutH(), s.OutW(), s.C}
	d.forward = newDepthwisePass(s.N, in, out, s.forwardTaps())
	d.backward = newDepthwisePass(s.N, out, in, s.backwardTaps())
	d.weight = newDepthwiseWeight(d.forward, s.R*s.S)
	d.turnTask = d.turn
	return d, nil
}

// ScratchLen is the number of values of scratch memory that the methods need; half: images are
// bfloat16, some or all.
func (d *Depthwise) ScratchLen(half bool) int {
	n := d.shape.R * d.shape.S * d.shape.C
	rooms := 0
	if half {
		rooms = max(d.forward.roomLen, d.backward.roomLen) * d.pool.Threads()
	}
	return rooms + max(n, n*d.weight.parts)
}

// Forward sets y = x * w.
func (d *Depthwise) Forward(y, x f32.Array, w, scratch []float32) {
	d.run(d.forward, y, x, w, scratch, false)
}

// BackwardData sets dx, the gradient of x, or adds it to dx.
func (d *Depthwise) BackwardData(dx, dy f32.Array, w, scratch []float32, add bool) {
	d.run(d.backward, dx, dy, w, scratch, add)
}

func (d *Depthwise) run(pass *depthwisePass, out, in f32.Array, w, scratch []float32, add bool) {
	n := d.shape.R * d.shape.S * d.shape.C
	d.w, d.turned = w, scratch[:n]
	d.pool.Run((d.shape.C+depthwiseTurn-1)/depthwiseTurn, d.turnTask)
	pass.out, pass.in, pass.w, pass.rooms, pass.add = out, in, d.turned, scratch[n:], add
	d.pool.RunThreads(pass.tasks, pass.task)
	pass.out, pass.in, pass.w, pass.rooms = f32.Array{}, f32.Array{}, nil, nil
	d.w, d.turned = nil, nil
}

// depthwiseTurn is how many channels of the weights are turned over in a task.
const depthwiseTurn = 256

// turn writes the weights of some channels as rows of taps.
func (d *Depthwise) turn(i int) {
	taps, c := d.shape.R*d.shape.S, d.shape.C
	for k := i * depthwiseTurn; k < min(c, (i+1)*depthwiseTurn); k++ {
		for t, v := range d.w[k*taps : (k+1)*taps] {
			d.turned[t*c+k] = v
		}
	}
}

// BackwardWeight sets dw, the gradient of w, summed over the batch.
func (d *Depthwise) BackwardWeight(dw []float32, x, dy f32.Array, scratch []float32) {
	w, n := d.weight, d.shape.R*d.shape.S*d.shape.C
	w.dw, w.x, w.dy = dw, x, dy
	w.sums, w.rooms = scratch[:n*w.parts], scratch[n*w.parts:]
	d.pool.RunThreads(w.parts, w.partTask)
	d.pool.Run((d.shape.C+depthwiseTurn-1)/depthwiseTurn, w.finishTask)
	w.dw, w.x, w.dy, w.sums, w.rooms = nil, f32.Array{}, f32.Array{}, nil, nil
}

// A depthwiseRun is output pixels of a row, outStep apart, that use the same taps of input pixels
// inStep apart. Offsets are in values, from the beginning of a row.
type depthwiseRun struct{ class, out, in, pixels, outStep, inStep int }

// A depthwisePass is forward or backward-data.
type depthwisePass struct {
	inPlane, outPlane plane
	channels          int

	// inRow and outRow are the values of a row, imageIn and imageOut those of an image.
	inRow, outRow, imageIn, imageOut int

	// rows is how many output rows a task has at most, chunks how many tasks an image has, and tasks
	// the number of all.
	rows, chunks, tasks int

	// rowClass has the class of each output row, and first the input row of its first tap.
	rowClass, first []int

	// reach has, for each class of rows, the rows from the first tap's to behind the last one's.
	reach []int

	runs []depthwiseRun

	// pairs has the taps, by the classes of row and column.
	pairs [][][][2]int

	// roomLen is a thread's memory for rows of images that are bfloat16: inRows of the input, and
	// rows of the output.
	roomLen, inRows int

	// The call under way.
	in, out  f32.Array
	w, rooms []float32
	add      bool
	task     func(thread, i int)
}

func newDepthwisePass(n int, in, out plane, taps gatherTaps) *depthwisePass {
	p := &depthwisePass{inPlane: in, outPlane: out, channels: out.channels, inRow: in.w * in.channels, outRow: out.w * out.channels}
	p.imageIn, p.imageOut = in.h*p.inRow, out.h*p.outRow
	p.rowClass, p.first = make([]int, out.h), make([]int, out.h)
	for ci, r := range taps.rows {
		for i, h := range r.out {
			p.rowClass[h], p.first[h] = ci, r.first[i]
		}
		if n := len(r.delta); n > 0 {
			p.reach = append(p.reach, r.delta[n-1]+1)
		} else {
			p.reach = append(p.reach, 0)
		}
		var byColumn [][][2]int
		for _, c := range taps.cols {
			var pairs [][2]int
			for a, tr := range r.taps {
				for b, tc := range c.taps {
					pairs = append(pairs, [2]int{r.delta[a]*p.inRow + c.delta[b]*p.channels, (tr*taps.count[1] + tc) * p.channels})
				}
			}
			byColumn = append(byColumn, pairs)
		}
		p.pairs = append(p.pairs, byColumn)
	}
	for ci, c := range taps.cols {
		p.addRuns(ci, c)
	}
	p.rows = min(out.h, max(1, depthwiseGrain/p.outRow))
	p.chunks = (out.h + p.rows - 1) / p.rows
	p.tasks = n * p.chunks
	for i := range p.chunks {
		lo, hi := p.reads(p.chunk(i))
		p.inRows = max(p.inRows, hi-lo)
	}
	p.roomLen = p.inRows*p.inRow + p.rows*p.outRow
	p.task = p.run
	return p
}

// addRuns cuts the columns of a class into runs.
func (p *depthwisePass) addRuns(class int, c axisClass) {
	for i := 0; i < len(c.out); {
		r := depthwiseRun{class: class, out: c.out[i] * p.channels, in: c.first[i] * p.channels, pixels: 1, outStep: p.channels, inStep: p.channels}
		for j := i + 1; j < len(c.out); j++ {
			out, in := (c.out[j]-c.out[j-1])*p.channels, (c.first[j]-c.first[j-1])*p.channels
			if r.pixels == 1 {
				r.outStep, r.inStep = out, in
			}
			if out != r.outStep || in != r.inStep {
				break
			}
			r.pixels++
		}
		i += r.pixels
		p.runs = append(p.runs, r)
	}
}

// chunk is the output rows of a chunk of an image.
func (p *depthwisePass) chunk(i int) (lo, hi int) {
	return i * p.outPlane.h / p.chunks, (i + 1) * p.outPlane.h / p.chunks
}

// reads is the input rows that some output rows meet.
func (p *depthwisePass) reads(lo, hi int) (from, to int) {
	from = p.inPlane.h
	for h := lo; h < hi; h++ {
		if n := p.reach[p.rowClass[h]]; n > 0 {
			from, to = min(from, p.first[h]), max(to, p.first[h]+n)
		}
	}
	return min(from, to), to
}

// A depthwisePiece is some rows of an image as float32: those of the output, and those of the input
// from row first on.
type depthwisePiece struct {
	lo, hi  int
	in, out []float32
	first   int
}

// piece is a chunk of an image, with its rows of in and out as they are in memory, or converted.
func (p *depthwisePass) piece(i int, in, out f32.Array, room []float32) depthwisePiece {
	image := i / p.chunks
	lo, hi := p.chunk(i % p.chunks)
	d := depthwisePiece{lo: lo, hi: hi}
	from, to := p.reads(lo, hi)
	d.first = from
	rows := in.Part(image*p.imageIn+from*p.inRow, image*p.imageIn+to*p.inRow)
	if d.in = rows.F32; rows.BF16 != nil {
		d.in = room[:rows.Len()]
		f32.FromBFloat16(d.in, rows.BF16)
	}
	mine := out.Part(image*p.imageOut+lo*p.outRow, image*p.imageOut+hi*p.outRow)
	if d.out = mine.F32; mine.BF16 != nil {
		d.out = room[p.inRows*p.inRow:][:mine.Len()]
	}
	return d
}

// room is a thread's part of rooms, if there are any.
func (p *depthwisePass) room(rooms []float32, thread int) []float32 {
	if len(rooms) < (thread+1)*p.roomLen {
		return nil
	}
	return rooms[thread*p.roomLen : (thread+1)*p.roomLen]
}

// run computes a chunk of rows.
func (p *depthwisePass) run(thread, i int) {
	d := p.piece(i, p.in, p.out, p.room(p.rooms, thread))
	image := i / p.chunks
	stored := p.out.Part(image*p.imageOut+d.lo*p.outRow, image*p.imageOut+d.hi*p.outRow)
	if stored.BF16 != nil && p.add {
		f32.FromBFloat16(d.out, stored.BF16)
	}
	a := f32.DepthwiseArgs{Channels: p.channels, W: p.w, Add: p.add}
	for h := d.lo; h < d.hi; h++ {
		for _, r := range p.runs {
			p.place(&a, &d, h, r)
			if len(a.Taps) > 0 || !a.Add {
				f32.Depthwise(&a)
			}
		}
	}
	if stored.BF16 != nil {
		f32.ToBFloat16(stored.BF16, d.out)
	}
}

// place makes a the pixels of a run in row h of a piece.
func (p *depthwisePass) place(a *f32.DepthwiseArgs, d *depthwisePiece, h int, r depthwiseRun) {
	a.Taps = p.pairs[p.rowClass[h]][r.class]
	a.Out = d.out[(h-d.lo)*p.outRow+r.out:]
	a.Pixels, a.OutStep, a.InStep = r.pixels, r.outStep, r.inStep
	if a.In = nil; len(a.Taps) > 0 {
		a.In = d.in[(p.first[h]-d.first)*p.inRow+r.in:]
	}
}

// A depthwiseWeight is backward-weight: parts of the images are summed apart, as rows of taps.
type depthwiseWeight struct {
	// pass is the forward one, whose pixels these are.
	pass  *depthwisePass
	taps  int
	parts int

	dw          []float32
	x, dy       f32.Array
	sums, rooms []float32

	partTask   func(thread, i int)
	finishTask func(i int)
}

func newDepthwiseWeight(pass *depthwisePass, taps int) *depthwiseWeight {
	pixels := pass.tasks / pass.chunks * pass.outPlane.pixels()
	w := &depthwiseWeight{pass: pass, taps: taps, parts: max(1, min(depthwiseParts, pass.tasks, pixels/depthwisePixels))}
	w.partTask, w.finishTask = w.runPart, w.runFinish
	return w
}

// runPart sums the products of some chunks.
func (w *depthwiseWeight) runPart(thread, i int) {
	p := w.pass
	n := w.taps * p.channels
	sums := w.sums[i*n : (i+1)*n]
	clear(sums)
	room := p.room(w.rooms, thread)
	for c := i * p.tasks / w.parts; c < (i+1)*p.tasks/w.parts; c++ {
		d := p.piece(c, w.x, w.dy, room)
		if w.dy.BF16 != nil {
			at := c/p.chunks*p.imageOut + d.lo*p.outRow
			f32.FromBFloat16(d.out, w.dy.BF16[at:at+len(d.out)])
		}
		a := f32.DepthwiseArgs{Channels: p.channels, W: sums}
		for h := d.lo; h < d.hi; h++ {
			for _, r := range p.runs {
				p.place(&a, &d, h, r)
				if len(a.Taps) > 0 {
					f32.DepthwiseWeight(&a)
				}
			}
		}
	}
}

// runFinish adds the parts of some channels, and writes them to dw.
func (w *depthwiseWeight) runFinish(i int) {
	c := w.pass.channels
	lo, hi := i*depthwiseTurn, min(c, (i+1)*depthwiseTurn)
	for t := range w.taps {
		sums := w.sums[t*c+lo : t*c+hi]
		for part := 1; part < w.parts; part++ {
			f32.AddTo(sums, w.sums[(part*w.taps+t)*c+lo:][:hi-lo])
		}
		for k, v := range sums {
			w.dw[(lo+k)*w.taps+t] = v
		}
	}
}
