package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/cpu/linear"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A lossHeads has the kernels of a head with its loss: the logits x·Wᵀ, their cross-entropy, and its
// gradient, in blocks of rows, so that the logits of one block exist at a time.
type lossHeads struct {
	mem    *memory
	tile   *f32.Tile
	losses *crossEntropies
}

func (h *lossHeads) builders() builders {
	return builders{plan.LinearCrossEntropy: h.loss, plan.LinearCrossEntropyGrad: h.grad}
}

// headBlock is about how many logits a block has. A block of many rows reads and writes the
// gradient of W less often.
const headBlock = 16 << 20

// A headPass is a head planned for one op. Blocks have rows rows each, and the last one, planned by
// last, what is left.
type headPass struct {
	h              *lossHeads
	o              *plan.Op
	n, rows        int
	width, classes int
	whole, last    *linear.Plan
	labelled       labelLoss
	backward       bool
	scratch        int
}

// plan cuts the rows of an op into blocks.
func (h *lossHeads) plan(o *plan.Op, smoothing float64, backward bool) (*headPass, error) {
	p := &headPass{h: h, o: o, n: o.In[0].Shape[0], width: o.In[0].Shape[1], classes: o.In[1].Shape[0], backward: backward}
	blocks := (p.n*p.classes + headBlock - 1) / headBlock
	p.rows = (p.n + blocks - 1) / blocks
	p.labelled = labelLoss{c: p.classes, smoothing: smoothing}
	var err error
	pool := h.losses.threads.pool
	if p.whole, err = linear.New(p.rows, p.width, p.classes, h.tile, pool); err != nil {
		return nil, err
	}
	p.last = p.whole
	if left := p.n % p.rows; left != 0 {
		if p.last, err = linear.New(left, p.width, p.classes, h.tile, pool); err != nil {
			return nil, err
		}
	}
	for _, l := range []*linear.Plan{p.whole, p.last} {
		p.scratch = max(p.scratch, l.ForwardScratchLen())
		if backward {
			p.scratch = max(p.scratch, l.BackwardScratchLen())
		}
	}
	return p, nil
}

// kernel runs the blocks. loss is nil where it is not wanted.
func (p *headPass) kernel(loss *plan.Value) kernel {
	logits := p.rows * p.classes
	return kernel{scratch: 4 * int64(logits+p.scratch), doubles: p.n, bind: func() func() error {
		mem, scratch := p.h.mem, p.h.mem.scratch(p.o)
		b := &headBlocks{headPass: p, logits: scratch[:logits:logits], scratch: scratch[logits:], losses: mem.doubles(p.n)}
		b.x, b.w = mem.floats(p.o.In[0]), mem.floats(p.o.In[1])
		if loss != nil {
			b.loss = mem.floats(loss)
		}
		if p.backward {
			b.dloss, b.dx, b.dw = mem.floats(p.o.In[3]), mem.floats(p.o.Out[0]), mem.floats(p.o.Out[1])
		}
		labels, err := p.h.losses.labels(p.o.In[2], p.classes, nil)
		if err != nil {
			return func() error { return err }
		}
		b.each = p.h.losses.threads.split(p.rows, expGrain(p.classes), b.softmax)
		return func() error {
			var err error
			if b.at, b.count, err = labels(); err != nil {
				return err
			}
			b.run(p.backward && !p.h.mem.shared.counts.forward)
			return nil
		}
	}}
}

// headBlocks is a headPass over memory.
type headBlocks struct {
	*headPass

	x, w, dx, dw, loss, dloss []float32
	logits, scratch           []float32
	losses                    []float64

	// at and count are the run's labels, and how many of them count.
	at    func(i int) int
	count float64

	// first is the block's first row, there how many it has, and share what their gradients are
	// multiplied by; grad: they are wanted.
	first, there int
	share        float64
	grad         bool

	// each is softmax over the rows of a block.
	each func()
}

func (b *headBlocks) run(grad bool) {
	if b.grad = grad; b.count == 0 {
		clear(b.loss)
		if grad {
			clear(b.dx)
			clear(b.dw)
		}
		return
	}
	if grad {
		b.share = float64(b.dloss[0]) / b.count
	}
	for b.first = 0; b.first < b.n; b.first += b.rows {
		b.block()
	}
	if b.loss == nil {
		return
	}
	sum := 0.0
	for _, v := range b.losses {
		sum += v
	}
	b.loss[0] = float32(sum / b.count)
}

// block computes one block: logits, losses, then the logits' gradient in their place, dx and dW.
func (b *headBlocks) block() {
	l := b.whole
	if b.there = min(b.rows, b.n-b.first); b.there < b.rows {
		l = b.last
	}
	lo, hi, logits := b.first*b.width, (b.first+b.there)*b.width, b.logits[:b.there*b.classes]
	l.Forward(logits, b.x[lo:hi], b.w, nil, false, b.scratch)
	b.each()
	if !b.grad {
		return
	}
	var dx []float32
	if b.dx != nil {
		dx = b.dx[lo:hi]
	}
	l.BackwardAdd(dx, b.dw, b.first > 0, b.x[lo:hi], b.w, logits, b.scratch)
}

// softmax is the loss of rows lo to hi of the block, and their gradient.
func (b *headBlocks) softmax(lo, hi int) {
	for i := lo; i < min(hi, b.there); i++ {
		row, label := b.logits[i*b.classes:(i+1)*b.classes], b.at(b.first+i)
		switch {
		case label < 0:
			b.losses[b.first+i] = 0
			if b.grad {
				clear(row)
			}
			continue
		case b.loss != nil:
			b.losses[b.first+i] = b.labelled.of(row, label)
		}
		if b.grad {
			b.labelled.grad(row, row, label, b.share)
		}
	}
}

// loss is the forward pass alone.
func (h *lossHeads) loss(o *plan.Op) (kernel, error) {
	p, err := h.plan(o, o.Attr.(*op.LinearCrossEntropy).Smoothing, false)
	if err != nil {
		return kernel{}, err
	}
	return p.kernel(o.Out[0]), nil
}

// grad is the backward pass, together with the loss where the op has it.
func (h *lossHeads) grad(o *plan.Op) (kernel, error) {
	p, err := h.plan(o, o.Attr.(*op.LinearCrossEntropyGrad).Smoothing, true)
	if err != nil {
		return kernel{}, err
	}
	if len(o.Out) < 3 {
		return p.kernel(nil), nil
	}
	return p.kernel(o.Out[2]), nil
}
