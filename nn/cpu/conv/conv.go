package conv

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/internal/pool"
)

// A Plan computes the convolutions of one shape. See the package comment for how to use it.
type Plan struct {
	shape    Shape
	pool     *pool.Pool
	forward  *gather
	backward *gather
	weight   *weightPlan
	scratch  []float32
}

// New plans the convolutions of a shape, to be run on p's threads. The plan has no scratch memory yet: see SetScratch.
func New(shape Shape, p *pool.Pool) (*Plan, error) {
	return newPlan(shape, p, f32.Tiles(f32.Active()))
}

func newPlan(s Shape, p *pool.Pool, t *f32.Tile) (*Plan, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	outH, outW, taps := s.OutH(), s.OutW(), [2]int{s.R, s.S}
	f := newGather(t, s.N, s.C, s.K, s.W, s.H*s.W, outW, outH*outW,
		axisClasses(outH, forwardReach(s.H, s.R, s.StrideH, s.PadH)),
		axisClasses(outW, forwardReach(s.W, s.S, s.StrideW, s.PadW)), taps, p.Threads())
	f.pack = packForward
	b := newGather(t, s.N, s.K, s.C, outW, outH*outW, s.W, s.H*s.W,
		axisClasses(s.H, backwardReach(outH, s.R, s.StrideH, s.PadH)),
		axisClasses(s.W, backwardReach(outW, s.S, s.StrideW, s.PadW)), taps, p.Threads())
	b.pack = packBackward
	return &Plan{shape: s, pool: p, forward: f, backward: b, weight: newWeightPlan(s, t, p.Threads())}, nil
}

// Shape is the shape that was planned.
func (p *Plan) Shape() Shape { return p.shape }

// ScratchLen is the number of values of scratch memory that the methods need.
func (p *Plan) ScratchLen() int {
	return max(p.forward.scratchLen(), p.backward.scratchLen(), p.weight.scratchLen())
}

// SetScratch hands the plan memory of at least ScratchLen values, which the methods overwrite. Plans that do not run at the
// same time may share it. Without it, the first method to run allocates its own.
func (p *Plan) SetScratch(scratch []float32) {
	if len(scratch) < p.ScratchLen() {
		panic(fmt.Sprintf("conv: SetScratch %v: got %d values, want at least %d", p.shape, len(scratch), p.ScratchLen()))
	}
	p.scratch = scratch
}

// Forward sets y = x * w.
func (p *Plan) Forward(y, x, w []float32) {
	p.check("Forward", y, x, w, p.shape.YLen(), p.shape.XLen(), p.shape.WLen())
	p.forward.run(p.pool, y, x, w, p.scratch, false)
}

// BackwardData sets dx, the gradient of x.
func (p *Plan) BackwardData(dx, dy, w []float32) {
	p.check("BackwardData", dx, dy, w, p.shape.XLen(), p.shape.YLen(), p.shape.WLen())
	p.backward.run(p.pool, dx, dy, w, p.scratch, false)
}

// BackwardDataAdd adds the gradient of x to dx.
func (p *Plan) BackwardDataAdd(dx, dy, w []float32) {
	p.check("BackwardDataAdd", dx, dy, w, p.shape.XLen(), p.shape.YLen(), p.shape.WLen())
	p.backward.run(p.pool, dx, dy, w, p.scratch, true)
}

// BackwardWeight sets dw, the gradient of w, summed over the batch.
func (p *Plan) BackwardWeight(dw, x, dy []float32) {
	p.check("BackwardWeight", dw, x, dy, p.shape.WLen(), p.shape.XLen(), p.shape.YLen())
	p.weight.run(p.pool, dw, x, dy, p.scratch)
}

func (p *Plan) check(op string, a, b, c []float32, na, nb, nc int) {
	if len(a) != na || len(b) != nb || len(c) != nc {
		panic(fmt.Sprintf("conv: %s %v: arrays of %d, %d and %d values, want %d, %d and %d", op, p.shape, len(a), len(b), len(c), na, nb, nc))
	}
	if p.scratch == nil {
		p.scratch = make([]float32, p.ScratchLen())
	}
}
