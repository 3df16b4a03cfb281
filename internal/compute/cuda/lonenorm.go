package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A loneNorm normalises a short batch with one value of each channel by the running statistics, as
// op.BatchNorm2D says. The kernels of an evaluation do it, on vectors of numbers for the channels.
// nil where no batch can have one value.
type loneNorm struct {
	gpu *GPU
	eps float64

	// mean and variance are the running ones.
	mean, variance drv.Ptr

	// ones, zeros, db and scale have a float32 number for each channel.
	ones, zeros, db, scale drv.Ptr
}

// lone is for a normalisation, or its gradient, of an image like x.
func (f *norms) lone(x *plan.Value, bn *op.BatchNorm2D) (*loneNorm, error) {
	state := f.states[bn.State.Name]
	if f.plan.Inference || x.Shape[0] != f.plan.Batch || x.Shape[2:].TotalSize() > 1 || state == nil {
		return nil, nil
	}
	vector := 4 * int64(x.Channels())
	at, err := f.owned.allocate("a normalisation of one value", 4*vector)
	if err != nil {
		return nil, err
	}
	n := &loneNorm{gpu: f.gpu, eps: bn.Eps, mean: f.store.mean(state), variance: f.store.variance(state)}
	n.ones, n.zeros, n.db, n.scale = at, at+drv.Ptr(vector), at+drv.Ptr(2*vector), at+drv.Ptr(3*vector)
	host, err := f.gpu.context.HostAlloc(2 * vector)
	if err != nil {
		return nil, fmt.Errorf("cuda: pinned memory of %d bytes for ones and zeros: %w", 2*vector, err)
	}
	clear(host)
	for i := range x.Channels() {
		*(*float32)(unsafe.Pointer(&host[4*i])) = 1
	}
	err = f.gpu.context.CopyToDevice(at, unsafe.Pointer(&host[0]), 2*vector, f.gpu.up)
	return n, errors.Join(err, f.gpu.context.Synchronize(f.gpu.up), f.gpu.context.HostFree(host))
}

// scaled sets y to gamma·x/√(variance+eps) for each channel, in float32.
func (n *loneNorm) scaled(s drv.Stream, c int, y, x, gamma drv.Ptr) error {
	return n.gpu.kernels.BatchNormEval(s, kernels.BatchNorm{Type: kernels.Float32, Rows: 1, C: c, X: x, Y: y, Gamma: gamma, Beta: n.zeros, RunMean: n.zeros, RunVar: n.variance, Eps: n.eps})
}

// run is the forward pass.
func (n *loneNorm) run(s drv.Stream, b kernels.BatchNorm) error {
	if err := n.gpu.context.CopyOnDevice(b.Mean, n.mean, 4*int64(b.C), s); err != nil {
		return err
	}
	if err := n.scaled(s, b.C, b.InvStd, n.ones, n.ones); err != nil {
		return err
	}
	return n.gpu.kernels.BatchNormApply(s, b)
}

// gradient is the backward pass: of one value dx = gamma·invstd·dz and dbeta = dz, whatever x is.
func (n *loneNorm) gradient(s drv.Stream, b kernels.BatchNormGrad) error {
	dx := b.DX
	b.DX, b.Rows = 0, 1
	if b.DBeta == 0 {
		b.DBeta = n.db
	}
	if err := n.gpu.kernels.BatchNormGrad(s, b); err != nil || dx == 0 {
		return err
	}
	if err := n.scaled(s, b.C, n.scale, b.DBeta, b.Gamma); err != nil {
		return err
	}
	return n.gpu.kernels.ToChannelsLast(s, b.Type, kernels.Float32, 1, b.C, 1, b.C, dx, n.scale)
}

// of is the normalisation whose gradient o is.
func (f *norms) of(o *plan.Op) (*op.BatchNorm2D, error) {
	for _, n := range f.plan.Ops {
		if n.Kind == plan.BatchNorm && len(n.Out) > 1 && n.Out[1] == o.In[2] {
			return n.Attr.(*op.BatchNorm2D), nil
		}
	}
	return nil, errors.New("its batch normalisation is not in the plan")
}
