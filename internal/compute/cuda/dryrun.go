package cuda

import (
	"errors"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
)

// DryRun returns a GPU without hardware: programs can be compiled for it, and Account counts what a
// step of theirs launches and reads on a device with this many multiprocessors. They cannot run.
func DryRun(multiprocessors int) *GPU {
	p := &dryRun{next: 1 << 40}
	g := &GPU{name: "dry run", context: p, vendor: dryRunLibrary{p}, waiter: p, dryRun: p, close: func() error { return nil }}
	g.kernels = kernels.DryRun(multiprocessors, func(l kernels.Launch) {
		p.note(Work{Name: l.Kernel, Launches: 1, Read: l.Read, Written: l.Written})
	})
	g.compute, g.up, g.down = 1, 2, 3
	return g
}

// dryRun is a driver that returns addresses and does nothing.
type dryRun struct {
	next drv.Ptr

	// works are those that were given to it.
	works []Work
}

func (p *dryRun) note(w Work) { p.works = append(p.works, w) }

var errDryRun = errors.New("the GPU is a dry run: programs cannot run on it")

func (p *dryRun) Do(f func() error) error { return f() }
func (p *dryRun) Info() drv.DeviceInfo    { return drv.DeviceInfo{Name: "dry run"} }
func (p *dryRun) Malloc(bytes int64) (drv.Ptr, error) {
	at := p.next
	p.next += drv.Ptr((bytes + 255) / 256 * 256)
	return at, nil
}
func (p *dryRun) Free(drv.Ptr) error                                            { return nil }
func (p *dryRun) MemInfo() (free, total int64, err error)                       { return 1 << 40, 1 << 40, nil }
func (p *dryRun) HostAlloc(bytes int64) ([]byte, error)                         { return make([]byte, bytes), nil }
func (p *dryRun) HostFree([]byte) error                                         { return nil }
func (p *dryRun) HostRegister([]byte) error                                     { return nil }
func (p *dryRun) HostUnregister([]byte) error                                   { return nil }
func (p *dryRun) CopyToDevice(drv.Ptr, unsafe.Pointer, int64, drv.Stream) error { return nil }
func (p *dryRun) CopyToHost(unsafe.Pointer, drv.Ptr, int64, drv.Stream) error   { return nil }
func (p *dryRun) CopyOnDevice(_, _ drv.Ptr, n int64, _ drv.Stream) error {
	p.note(Work{Name: "copy", Launches: 1, Read: n, Written: n})
	return nil
}
func (p *dryRun) Memset8(_ drv.Ptr, _ byte, n int64, _ drv.Stream) error {
	p.note(Work{Name: "zero", Launches: 1, Written: n})
	return nil
}
func (p *dryRun) NewStream(int) (drv.Stream, error)            { return 1, nil }
func (p *dryRun) DestroyStream(drv.Stream) error               { return nil }
func (p *dryRun) Synchronize(drv.Stream) error                 { return nil }
func (p *dryRun) WaitEvent(drv.Stream, drv.Event) error        { return nil }
func (p *dryRun) NewEvent(bool) (drv.Event, error)             { return 1, nil }
func (p *dryRun) DestroyEvent(drv.Event) error                 { return nil }
func (p *dryRun) Record(drv.Event, drv.Stream) error           { return errDryRun }
func (p *dryRun) SynchronizeEvent(drv.Event) error             { return errDryRun }
func (p *dryRun) BeginCapture(drv.Stream) error                { return errDryRun }
func (p *dryRun) EndCapture(drv.Stream) (drv.Graph, error)     { return 0, errDryRun }
func (p *dryRun) Instantiate(drv.Graph) (drv.GraphExec, error) { return 0, errDryRun }
func (p *dryRun) GraphLaunch(drv.GraphExec, drv.Stream) error  { return errDryRun }
func (p *dryRun) DestroyGraph(drv.Graph) error                 { return nil }
func (p *dryRun) DestroyGraphExec(drv.GraphExec) error         { return nil }
func (p *dryRun) Close() error                                 { return nil }

// dryRunLibrary makes plans that note what they were asked: arguments read once, the result written
// once.
type dryRunLibrary struct{ *dryRun }

func (l dryRunLibrary) conv(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return dryRunConv{l.dryRun, pass, c}, nil
}

func (l dryRunLibrary) matmul(m product) (productPlan, error) { return dryRunProduct{l.dryRun, m}, nil }

// Sums are made by a convolution that adds to what is there, and normalisations by our kernels.
func (l dryRunLibrary) apart(cudnn.Conv, convPlan, convPlan, func(s drv.Stream, y, a, b drv.Ptr) error) (bool, error) {
	return false, nil
}
func (l dryRunLibrary) norm(cudnn.Norm, int64, func(drv.Stream, drv.Ptr, cudnn.NormArgs) error) (normPlan, error) {
	return nil, nil
}
func (l dryRunLibrary) normGrad(cudnn.NormGrad, int64, func(drv.Stream, drv.Ptr, cudnn.NormGradArgs) error) (normGradPlan, error) {
	return nil, nil
}

func (l dryRunLibrary) settled() {}

type dryRunConv struct {
	*dryRun
	pass cudnn.Op
	c    cudnn.Conv
}

func (p dryRunConv) Conv() cudnn.Conv { return p.c }
func (p dryRunConv) Workspace() int64 { return 0 }
func (p dryRunConv) Engine() string   { return "dry run" }

func (p dryRunConv) Run(drv.Stream, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr) error {
	c := p.c
	high, wide := c.OutSize()
	x := int64(c.N) * int64(c.C) * int64(c.H) * int64(c.W) * c.In.Size()
	y := int64(c.N) * int64(c.K) * int64(high) * int64(wide) * c.Out.Size()
	numbers := int64(c.K) * int64(c.C) * int64(c.R) * int64(c.S)
	w := numbers * c.Weight.Size()
	work := Work{Name: "convolution " + p.pass.String(), Launches: 1, Flops: 2 * numbers * int64(c.N) * int64(high) * int64(wide)}
	switch p.pass {
	case cudnn.Forward:
		work.Read, work.Written = x+w, y
	case cudnn.BackwardData:
		work.Read, work.Written = y+w, x
		if c.Accumulate {
			work.Read += x
		}
	case cudnn.BackwardWeight:
		work.Read, work.Written = x+y, w
	}
	p.note(work)
	return nil
}

type dryRunProduct struct {
	*dryRun
	m product
}

func (p dryRunProduct) Workspace() int64 { return 0 }

func (p dryRunProduct) Run(drv.Stream, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr) error {
	m, k, n := int64(p.m.M), int64(p.m.K), int64(p.m.N)
	work := Work{Name: "product", Launches: 1, Read: (m*k + k*n) * p.m.In.Size(), Written: m * n * p.m.Out.Size(), Flops: 2 * m * k * n}
	if p.m.Bias {
		work.Read += 4 * n
	}
	p.note(work)
	return nil
}
