package cuda

import (
	"errors"
	"unsafe"

	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// OnPaper is a GPU that is not there. Programs can be prepared on it, and Account says what a step of theirs gives a device of so
// many multiprocessors; they cannot run.
func OnPaper(multiprocessors int) *GPU {
	p := &paper{next: 1 << 40}
	g := &GPU{name: "paper", context: p, vendor: paperLibrary{p}, waiter: p, paper: p, close: func() error { return nil }}
	g.kernels = kernels.OnPaper(multiprocessors, func(l kernels.Launch) {
		p.note(Work{Name: l.Kernel, Launches: 1, Read: l.Read, Written: l.Written})
	})
	g.compute, g.up, g.down = 1, 2, 3
	return g
}

// paper is a driver that gives addresses and does nothing.
type paper struct {
	next  drv.Ptr
	works []Work // that were given to it
}

func (p *paper) note(w Work) { p.works = append(p.works, w) }

var errPaper = errors.New("the GPU is one on paper: nothing runs on it")

func (p *paper) Do(f func() error) error { return f() }
func (p *paper) Info() drv.DeviceInfo    { return drv.DeviceInfo{Name: "on paper"} }
func (p *paper) Malloc(bytes int64) (drv.Ptr, error) {
	at := p.next
	p.next += drv.Ptr((bytes + 255) / 256 * 256)
	return at, nil
}
func (p *paper) Free(drv.Ptr) error                                            { return nil }
func (p *paper) MemInfo() (free, total int64, err error)                       { return 1 << 40, 1 << 40, nil }
func (p *paper) HostAlloc(bytes int64) ([]byte, error)                         { return make([]byte, bytes), nil }
func (p *paper) HostFree([]byte) error                                         { return nil }
func (p *paper) HostRegister([]byte) error                                     { return nil }
func (p *paper) HostUnregister([]byte) error                                   { return nil }
func (p *paper) CopyToDevice(drv.Ptr, unsafe.Pointer, int64, drv.Stream) error { return nil }
func (p *paper) CopyToHost(unsafe.Pointer, drv.Ptr, int64, drv.Stream) error   { return nil }
func (p *paper) CopyOnDevice(_, _ drv.Ptr, n int64, _ drv.Stream) error {
	p.note(Work{Name: "copy", Launches: 1, Read: n, Written: n})
	return nil
}
func (p *paper) Memset8(_ drv.Ptr, _ byte, n int64, _ drv.Stream) error {
	p.note(Work{Name: "zero", Launches: 1, Written: n})
	return nil
}
func (p *paper) NewStream(int) (drv.Stream, error)            { return 1, nil }
func (p *paper) DestroyStream(drv.Stream) error               { return nil }
func (p *paper) Synchronize(drv.Stream) error                 { return nil }
func (p *paper) WaitEvent(drv.Stream, drv.Event) error        { return nil }
func (p *paper) NewEvent(bool) (drv.Event, error)             { return 1, nil }
func (p *paper) DestroyEvent(drv.Event) error                 { return nil }
func (p *paper) Record(drv.Event, drv.Stream) error           { return errPaper }
func (p *paper) SynchronizeEvent(drv.Event) error             { return errPaper }
func (p *paper) BeginCapture(drv.Stream) error                { return errPaper }
func (p *paper) EndCapture(drv.Stream) (drv.Graph, error)     { return 0, errPaper }
func (p *paper) Instantiate(drv.Graph) (drv.GraphExec, error) { return 0, errPaper }
func (p *paper) GraphLaunch(drv.GraphExec, drv.Stream) error  { return errPaper }
func (p *paper) DestroyGraph(drv.Graph) error                 { return nil }
func (p *paper) DestroyGraphExec(drv.GraphExec) error         { return nil }
func (p *paper) Close() error                                 { return nil }

// paperLibrary makes plans that note what they were asked: arguments read once, the result written once.
type paperLibrary struct{ *paper }

func (l paperLibrary) conv(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return paperConv{l.paper, pass, c}, nil
}

func (l paperLibrary) matmul(m product) (productPlan, error) { return paperProduct{l.paper, m}, nil }

// Sums are made by a convolution that adds to what is there, and normalisations by our kernels.
func (l paperLibrary) apart(cudnn.Conv, convPlan, convPlan, func(s drv.Stream, y, a, b drv.Ptr) error) (bool, error) {
	return false, nil
}
func (l paperLibrary) norm(cudnn.Norm, int64, func(drv.Stream, drv.Ptr, cudnn.NormArgs) error) (normPlan, error) {
	return nil, nil
}
func (l paperLibrary) normGrad(cudnn.NormGrad, int64, func(drv.Stream, drv.Ptr, cudnn.NormGradArgs) error) (normGradPlan, error) {
	return nil, nil
}

func (l paperLibrary) settled() {}

type paperConv struct {
	*paper
	pass cudnn.Op
	c    cudnn.Conv
}

func (p paperConv) Conv() cudnn.Conv { return p.c }
func (p paperConv) Workspace() int64 { return 0 }
func (p paperConv) Engine() string   { return "on paper" }

func (p paperConv) Run(drv.Stream, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr) error {
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

type paperProduct struct {
	*paper
	m product
}

func (p paperProduct) Workspace() int64 { return 0 }

func (p paperProduct) Run(drv.Stream, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr, drv.Ptr) error {
	m, k, n := int64(p.m.M), int64(p.m.K), int64(p.m.N)
	work := Work{Name: "product", Launches: 1, Read: (m*k + k*n) * p.m.In.Size(), Written: m * n * p.m.Out.Size(), Flops: 2 * m * k * n}
	if p.m.Bias {
		work.Read += 4 * n
	}
	p.note(work)
	return nil
}
