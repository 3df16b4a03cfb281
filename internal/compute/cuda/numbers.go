package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// numbers are what changes from run to run, in device memory, so that captured graphs stay valid.
// Little-endian:
//
//	offset  size  number
//	     0     4  seed: the gradient of the loss with respect to itself, float32
//	     4     4  factor: what gradients are multiplied by at their end, float32
//	     8     4  found: 1 if a gradient was not finite, uint32, written by kernels
//	    16     8  the key of each Dropout, uint64
type numbers struct {
	gpu    *GPU
	size   int64
	device drv.Ptr

	// host is pinned. It has what goes up, and behind it the 4 bytes of found that come back.
	host []byte

	drops []*op.Dropout
}

// alloc takes the memory, with a key for each Dropout of the plan.
func (n *numbers) alloc(g *GPU, p *plan.Plan) error {
	n.gpu, n.size = g, 16
	for _, o := range p.Ops {
		if o.Kind == plan.Dropout {
			n.size += 8
		}
	}
	var err error
	if n.device, err = g.malloc("numbers of a step", n.size); err != nil {
		return err
	}
	if n.host, err = g.context.HostAlloc(n.size + 4); err != nil {
		return fmt.Errorf("cuda: pinned memory of %d bytes for numbers of a step: %w", n.size+4, err)
	}
	return nil
}

func (n *numbers) seed() drv.Ptr   { return n.device }
func (n *numbers) factor() drv.Ptr { return n.device + 4 }
func (n *numbers) found() drv.Ptr  { return n.device + 8 }

// key takes the next place for a Dropout's key.
func (n *numbers) key(d *op.Dropout) func() drv.Ptr {
	at := n.device + drv.Ptr(16+8*len(n.drops))
	n.drops = append(n.drops, d)
	return func() drv.Ptr { return at }
}

// up copies the numbers of a run to the device.
func (n *numbers) up(s drv.Stream, seed, factor float32, step, stream uint64) error {
	binary.LittleEndian.PutUint32(n.host, math.Float32bits(seed))
	binary.LittleEndian.PutUint32(n.host[4:], math.Float32bits(factor))
	binary.LittleEndian.PutUint64(n.host[8:], 0)
	for i, d := range n.drops {
		binary.LittleEndian.PutUint64(n.host[16+8*i:], d.Key(step, stream))
	}
	return n.gpu.context.CopyToDevice(n.device, unsafe.Pointer(&n.host[0]), n.size, s)
}

// foundDown copies found back.
func (n *numbers) foundDown(s drv.Stream) error {
	return n.gpu.context.CopyToHost(unsafe.Pointer(&n.host[n.size]), n.found(), 4, s)
}

// wasFound is what came back.
func (n *numbers) wasFound() bool { return binary.LittleEndian.Uint32(n.host[n.size:]) != 0 }

func (n *numbers) close(c driver) error {
	var errs []error
	if n.device != 0 {
		errs = append(errs, c.Free(n.device))
	}
	if n.host != nil {
		errs = append(errs, c.HostFree(n.host))
	}
	*n = numbers{}
	return errors.Join(errs...)
}

// A scaler is dynamic loss scaling (Micikevicius et al. 2018): the loss is multiplied by scale,
// gradients are divided by it at their end; steps with a gradient that is not finite halve it and
// count for nothing, many good ones in a row double it.
type scaler struct {
	on    bool
	scale float32

	// good is the number of steps since scale changed.
	good    int
	skipped bool
}

const (
	firstScale   = 1 << 16
	leastScale   = 0x1p-14
	largestScale = 1 << 24
	goodSteps    = 2000
)

// newScaler scales the loss for Float16 alone: the other types have float32's exponents, under
// which gradients do not vanish.
func newScaler(c Compute) *scaler {
	if c == Float16 {
		return &scaler{on: true, scale: firstScale}
	}
	return &scaler{scale: 1}
}

// stepped notes how a step ended.
func (s *scaler) stepped(finite bool) {
	s.skipped = !finite
	switch {
	case !finite:
		s.scale, s.good = max(s.scale/2, leastScale), 0
	case s.good+1 < goodSteps:
		s.good++
	default:
		s.scale, s.good = min(s.scale*2, largestScale), 0
	}
}
