package conv

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A Plan computes the convolutions of one shape. See the package comment for how to use it.
type Plan struct {
	shape             Shape
	pool              *pool.Pool
	forward, backward gatherPass
	weight            weightPass
	scratch           []float32
}

// A gatherPass is one way to compute forward or backward-data, a weightPass one to compute
// backward-weight. Images are stored as float32 or bfloat16, each as it likes; half: the input is
// bfloat16.
type gatherPass interface {
	scratchLen(half bool) int
	run(p *pool.Pool, out, in f32.Array, w, scratch []float32, add bool)
}

type weightPass interface {
	scratchLen(half bool) int
	run(p *pool.Pool, dw []float32, x, dy f32.Array, scratch []float32)
}

// New plans the convolutions of a shape, to be run on p's threads. The plan has no scratch memory
// yet: see SetScratch.
func New(shape Shape, p *pool.Pool) (*Plan, error) {
	return newPlan(shape, p, f32.Tiles(f32.Active()), whereFaster)
}

// NewBFloat16 is New with products of bfloat16, as f32.BFloat16Products has them: weights, inputs
// and gradients are rounded to bfloat16 as they are read, products summed in float32. Only sums
// over few channels, and to few, which rounding would not make faster, stay those of float32. Where
// the CPU multiplies float32 as fast, products are New's, of numbers as they are.
func NewBFloat16(shape Shape, p *pool.Pool) (*Plan, error) {
	return newPlan(shape, p, f32.BFloat16Tiles(), whereFaster)
}

func newPlan(s Shape, p *pool.Pool, t *f32.Tile, w useWinograd) (*Plan, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := chooser{s, t, w, p.Threads()}
	return &Plan{shape: s, pool: p, forward: c.forward(), backward: c.backward(), weight: c.weight()}, nil
}

// A chooser chooses the ways in which the convolutions of a shape are computed.
type chooser struct {
	s       Shape
	t       *f32.Tile
	use     useWinograd
	threads int
}

// plain reports whether taps are neighbours and padding is the same on both sides: Winograd's ways,
// and the strips of a unit, know no others.
func (s Shape) plain() bool { return !s.dilated() && s.MoreH == 0 && s.MoreW == 0 }

// x and y are the images before and after the convolution.
func (c *chooser) x() plane { return plane{c.s.H, c.s.W, c.s.C} }
func (c *chooser) y() plane { return plane{c.s.OutH(), c.s.OutW(), c.s.K} }

func (c *chooser) forward() gatherPass {
	s := c.s
	taps := s.forwardTaps()
	plan := func(t *f32.Tile) *gather {
		g := newGather(t, s.N, c.x(), c.y(), taps, c.threads)
		g.pack = packForward
		return g
	}
	g := plan(c.unit(s.C))
	return c.pass(g, plan(c.t.Single()), func(side int) *winograd {
		if !s.plain() {
			return nil
		}
		return newWinograd(g, side, window{taps: taps.count, stride: [2]int{s.StrideH, s.StrideW}, pad: [2]int{s.PadH, s.PadW}}, c.x(), c.y(), c.threads)
	})
}

func (c *chooser) backward() gatherPass {
	s := c.s
	taps := s.backwardTaps()
	plan := func(t *f32.Tile) *gather {
		g := newGather(t, s.N, c.y(), c.x(), taps, c.threads)
		g.pack = packBackward
		return g
	}
	g := plan(c.unit(s.K))
	return c.pass(g, plan(c.t.Single()), func(side int) *winograd {
		if !s.plain() {
			return nil
		}
		o := window{flip: true, taps: taps.count, stride: [2]int{s.StrideH, s.StrideW}, pad: [2]int{s.R - 1 - s.PadH, s.S - 1 - s.PadW}}
		return newWinograd(g, side, o, c.y(), c.x(), c.threads)
	})
}

// pass is the fastest of the ways: g itself, Winograd's, or the one for few output channels, which
// computes what single does.
func (c *chooser) pass(g, single *gather, winograd func(side int) *winograd) gatherPass {
	if g.tile.Unit() != nil {
		return newUnitGather(g, c.threads)
	}
	win, large := winograd(2), winograd(4)
	if large != nil && (c.use == wherePossible4 || c.use == whereFaster && c.t.CanWinograd4() && large.cycles() < min(win.cycles(), 0.95*g.directCycles())) {
		return large
	}
	if win != nil && c.may(win.faster()) {
		return win
	}
	if lanes := newLaneGather(single, c.threads); lanes != nil && c.may(lanes.faster(g)) {
		return lanes
	}
	return g
}

func (c *chooser) weight() weightPass {
	direct := newWeightPlan(c.s, c.t, c.threads)
	var way weightPass = direct
	if window := fewerWindows(c.s, c.t, c.threads); !c.s.dilated() && c.may(window.faster(direct)) {
		way = window
	}
	switch {
	case !c.s.plain():
	case c.t.Unit() != nil:
		if unit := newUnitWeight(c.s, c.t.Unit(), c.threads); unit != nil {
			way = unit
		}
	default:
		if win := newWinogradWeight(c.s, c.t, c.threads); win != nil && c.may(win.faster(direct)) {
			way = win
		}
	}
	if !c.t.Pairs() {
		way = newWidenedWeight(c.s, way)
	}
	return way
}

// may reports whether a way is taken that is faster, or not.
func (c *chooser) may(faster bool) bool {
	return c.use >= wherePossible || c.use == whereFaster && c.t.CanWinograd() && faster
}

// unit is the tile for sums over so many channels: the tile's unit, if it has one and the sums are
// long enough for it.
func (c *chooser) unit(channels int) *f32.Tile {
	t := forFew(c.t, channels)
	if u := t.Unit(); u != nil {
		return u
	}
	return t
}

// forFew is the tile for sums over so many channels: below fewChannels that of float32.
func forFew(t *f32.Tile, channels int) *f32.Tile {
	if channels < fewChannels {
		return t.Single()
	}
	return t
}

// useWinograd says when a plan computes by Winograd, or in the ways for few output channels.
type useWinograd int

const (
	whereFaster useWinograd = iota
	never
	wherePossible

	// wherePossible4 takes F(4×4, 3×3) rather than F(2×2, 3×3).
	wherePossible4
)

// Shape is the shape that was planned.
func (p *Plan) Shape() Shape { return p.shape }

// ScratchLen is the number of values of scratch memory that the methods need.
func (p *Plan) ScratchLen() int {
	return max(p.forward.scratchLen(false), p.backward.scratchLen(false), p.weight.scratchLen(false))
}

// SetScratch hands the plan memory of at least ScratchLen values, which the methods overwrite.
// Plans that do not run at the same time may share it. Without it, the first method to run
// allocates its own.
func (p *Plan) SetScratch(scratch []float32) {
	if len(scratch) < p.ScratchLen() {
		panic(fmt.Sprintf("conv: SetScratch %v: got %d values, want at least %d", p.shape, len(scratch), p.ScratchLen()))
	}
	p.scratch = scratch
}

// Forward sets y = x * w.
func (p *Plan) Forward(y, x, w []float32) {
	p.check("Forward", y, x, w, p.shape.YLen(), p.shape.XLen(), p.shape.WLen())
	p.forward.run(p.pool, f32.Array{F32: y}, f32.Array{F32: x}, w, p.scratch, false)
}

// BackwardData sets dx, the gradient of x.
func (p *Plan) BackwardData(dx, dy, w []float32) {
	p.check("BackwardData", dx, dy, w, p.shape.XLen(), p.shape.YLen(), p.shape.WLen())
	p.backward.run(p.pool, f32.Array{F32: dx}, f32.Array{F32: dy}, w, p.scratch, false)
}

// BackwardDataAdd adds the gradient of x to dx.
func (p *Plan) BackwardDataAdd(dx, dy, w []float32) {
	p.check("BackwardDataAdd", dx, dy, w, p.shape.XLen(), p.shape.YLen(), p.shape.WLen())
	p.backward.run(p.pool, f32.Array{F32: dx}, f32.Array{F32: dy}, w, p.scratch, true)
}

// BackwardWeight sets dw, the gradient of w, summed over the batch.
func (p *Plan) BackwardWeight(dw, x, dy []float32) {
	p.check("BackwardWeight", dw, x, dy, p.shape.WLen(), p.shape.XLen(), p.shape.YLen())
	p.weight.run(p.pool, dw, f32.Array{F32: x}, f32.Array{F32: dy}, p.scratch)
}

func (p *Plan) check(op string, a, b, c []float32, na, nb, nc int) {
	if len(a) != na || len(b) != nb || len(c) != nc {
		panic(fmt.Sprintf("conv: %s %v: arrays of %d, %d and %d values, want %d, %d and %d", op, p.shape, len(a), len(b), len(c), na, nb, nc))
	}
	if p.scratch == nil {
		p.scratch = make([]float32, p.ScratchLen())
	}
}
