package cuda

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/cuda/nccl"
)

// driver is what an executor asks of a GPU; *drv.Context has it. All but Do and Info are called in
// a function given to Do.
type driver interface {
	Do(f func() error) error
	Info() drv.DeviceInfo
	Malloc(bytes int64) (drv.Ptr, error)
	Free(p drv.Ptr) error
	MemInfo() (free, total int64, err error)
	HostAlloc(bytes int64) ([]byte, error)
	HostFree(m []byte) error
	HostRegister(m []byte) error
	HostUnregister(m []byte) error
	CopyToDevice(dst drv.Ptr, src unsafe.Pointer, n int64, s drv.Stream) error
	CopyToHost(dst unsafe.Pointer, src drv.Ptr, n int64, s drv.Stream) error
	CopyOnDevice(dst, src drv.Ptr, n int64, s drv.Stream) error
	Memset8(dst drv.Ptr, v byte, n int64, s drv.Stream) error
	NewStream(priority int) (drv.Stream, error)
	DestroyStream(s drv.Stream) error
	Synchronize(s drv.Stream) error
	WaitEvent(s drv.Stream, e drv.Event) error
	NewEvent(timing bool) (drv.Event, error)
	DestroyEvent(e drv.Event) error
	Record(e drv.Event, s drv.Stream) error
	SynchronizeEvent(e drv.Event) error
	BeginCapture(s drv.Stream) error
	EndCapture(s drv.Stream) (drv.Graph, error)
	Instantiate(g drv.Graph) (drv.GraphExec, error)
	GraphLaunch(e drv.GraphExec, s drv.Stream) error
	DestroyGraph(g drv.Graph) error
	DestroyGraphExec(e drv.GraphExec) error
}

// kernelSet is what an executor asks of the kernels; *kernels.Set has it.
type kernelSet interface {
	Cast(s drv.Stream, to, from kernels.Type, n int64, dst, src drv.Ptr) error
	Scale(s drv.Stream, t kernels.Type, n int64, dst, src drv.Ptr, constant float32, factor drv.Ptr) error
	Unscale(s drv.Stream, from kernels.Type, n int64, dst, src drv.Ptr, constant float32, factor, found drv.Ptr) error
	Add(s drv.Stream, t kernels.Type, n int64, y, a, b drv.Ptr, relu bool) error
	ReLU(s drv.Stream, t kernels.Type, n int64, y, x drv.Ptr) error
	ReLUGrad(s drv.Stream, t kernels.Type, n int64, dx, y, dy drv.Ptr) error
	Dropout(s drv.Stream, t kernels.Type, n int64, y, x, key drv.Ptr, threshold uint64, scale float32, c, hw int) error
	BiasAdd(s drv.Stream, t kernels.Type, n, c, inner int, y, x, b drv.Ptr, relu bool) error
	BiasGrad(s drv.Stream, t kernels.Type, n, c, inner int, db, dy, workspace drv.Ptr) error
	SumsWorkspace(c int) int64
	BatchNorm(s drv.Stream, b kernels.BatchNorm) error
	BatchNormStatistics(s drv.Stream, b kernels.BatchNorm) error
	BatchNormApply(s drv.Stream, b kernels.BatchNorm) error
	BatchNormEval(s drv.Stream, b kernels.BatchNorm) error
	BatchNormWorkspace(c int) int64
	BatchNormGrad(s drv.Stream, b kernels.BatchNormGrad) error
	ToChannelsLast(s drv.Stream, to, from kernels.Type, n, c, pixels, padded int, dst, src drv.Ptr) error
	ToChannelsFirst(s drv.Stream, to, from kernels.Type, n, c, pixels, padded int, dst, src drv.Ptr) error
	Pixels(s drv.Stream, p kernels.Pixels) error
	MaxPool(s drv.Stream, p kernels.Pool, y, choice, x drv.Ptr) error
	MaxPoolGrad(s drv.Stream, p kernels.Pool, dx, choice, dy drv.Ptr) error
	AvgPool(s drv.Stream, p kernels.Pool, y, x drv.Ptr) error
	AvgPoolGrad(s drv.Stream, p kernels.Pool, dx, dy drv.Ptr) error
	GlobalAvgPool(s drv.Stream, t, yType kernels.Type, n, pixels, c int, y, x drv.Ptr) error
	GlobalAvgPoolGrad(s drv.Stream, t, dyType kernels.Type, n, pixels, c int, dx, dy drv.Ptr) error
	Embedding(s drv.Stream, to, from kernels.Type, n, rows, dim int, y, w, ids, bad drv.Ptr) error
	EmbeddingGrad(s drv.Stream, t kernels.Type, n, rows, dim int, dw, ids, dy drv.Ptr) error
	Softmax(s drv.Stream, t kernels.Type, rows, classes int, y, x drv.Ptr) error
	SoftmaxGrad(s drv.Stream, t kernels.Type, rows, classes int, dx, y, dy drv.Ptr) error
	CrossEntropy(s drv.Stream, c kernels.CrossEntropy) error
	MSE(s drv.Stream, t kernels.Type, n int64, loss, x, target, workspace drv.Ptr) error
	MSEWorkspace() int64
	MSEGrad(s drv.Stream, t kernels.Type, n int64, dx, x, target, dloss drv.Ptr, scale float32) error
	NewTable(s drv.Stream, tensors []kernels.Tensor) (*kernels.Table, error)
	FreeTable(t *kernels.Table) error
	Pack(s drv.Stream, t *kernels.Table) error
	Unpack(s drv.Stream, t *kernels.Table, constant float32, factor, found drv.Ptr) error
}

// A convPlan is one pass of a convolution, ready to run: *cudnn.Plan.
type convPlan interface {
	Conv() cudnn.Conv
	Workspace() int64
	Engine() string
	Close() error
	Run(s drv.Stream, workspace, x, w, y drv.Ptr) error
}

// library is what an executor asks of the libraries for products.
type library interface {
	conv(op cudnn.Op, c cudnn.Conv) (convPlan, error)
	matmul(m product) (productPlan, error)
	norm(n cudnn.Norm, room int64, ours func(s drv.Stream, workspace drv.Ptr, a cudnn.NormArgs) error) (normPlan, error)
	normGrad(n cudnn.NormGrad, room int64, ours func(s drv.Stream, workspace drv.Ptr, a cudnn.NormGradArgs) error) (normGradPlan, error)
	// apart reports whether a plan for dx and add, which sums its result and another image, are
	// faster than a plan that accumulates.
	apart(c cudnn.Conv, accumulates, plan convPlan, add func(s drv.Stream, y, a, b drv.Ptr) error) (bool, error)
	// settled is called when a program has all of its plans.
	settled()
	Close() error
}

// A product is C (M×N) = A·B, all row-major, A (M×K) or with TransA (K×M), B (K×N) or with TransB
// (N×K). Bias, of N numbers in float32, is added to each row of C if Bias is set, and ReLU applied
// after it.
type product struct {
	M, N, K        int
	TransA, TransB bool
	In, Out        kernels.Type
	TF32           bool
	Bias, ReLU     bool
}

// A productPlan is the library's way to multiply two matrices, ready to run: *cublaslt.Plan.
type productPlan interface {
	Workspace() int64
	Close() error
	Run(s drv.Stream, workspace, a, b, c, bias drv.Ptr) error
}

// A GPU is one device that is open: its context with a thread, kernels, libraries and streams.
// Executors that share parameters share it; one of them runs at a time.
type GPU struct {
	// name is such as "cuda:0".
	name string

	context driver
	kernels kernelSet
	vendor  library
	waiter  waiter

	compute, up, down drv.Stream
	close             func() error

	// nccl finds and opens it; nil: it is a stand-in of tests.
	nccl func() (*nccl.Library, error)

	// warn is nil if warnings are dropped.
	warn func(msg string, args ...any)

	// dryRun stands for a device that is not there; nil: there is one.
	dryRun *dryRun

	// norms says that the library's normalisations may be taken.
	norms bool

	// hangs says that an executor found that nothing is done any more: what is left would block.
	hangs bool

	// lost says that an executor found it lost, and said so: the driver refuses everything.
	lost bool
}

// waiter is a second thread of the context, which waits for events: *drv.Thread.
type waiter interface {
	Do(f func() error) error
	SynchronizeEvent(e drv.Event) error
	Close() error
}

// start makes the streams.
func (g *GPU) start() error {
	return g.context.Do(func() error {
		for _, s := range []*drv.Stream{&g.compute, &g.up, &g.down} {
			var err error
			if *s, err = g.context.NewStream(0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Name is the device's name with the number of this process: "cuda:0 (NVIDIA H200)".
func (g *GPU) Name() string { return fmt.Sprintf("%s (%s)", g.name, g.context.Info().Name) }

// Close gives the device back. Executors on it must be closed first.
func (g *GPU) Close() error {
	if g.hangs {
		return fmt.Errorf("cuda: close %s: %w", g.Name(), errHangs)
	}
	var errs []error
	if g.waiter != nil {
		errs = append(errs, g.waiter.Close())
	}
	errs = append(errs, g.context.Do(func() error {
		var errs []error
		for _, s := range []drv.Stream{g.compute, g.up, g.down} {
			if s != 0 {
				errs = append(errs, g.context.DestroyStream(s))
			}
		}
		if g.vendor != nil {
			errs = append(errs, g.vendor.Close())
		}
		return errors.Join(errs...)
	}))
	return g.unlessLost(append(errs, g.close()))
}

// noteLoss keeps that an error says that the GPU is lost.
func (g *GPU) noteLoss(err error) {
	if errors.Is(err, drv.ErrLost) {
		g.lost = true
	}
}

// unlessLost joins the errors of giving things back, but not those of a GPU that is lost, which
// follow from what was said before.
func (g *GPU) unlessLost(errs []error) error {
	if g.lost {
		errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, drv.ErrLost) })
	}
	return errors.Join(errs...)
}

// A watch waits for one event after the other, so that a caller can give up on a device that hangs.
type watch struct {
	hangs  bool
	ask    chan drv.Event
	answer chan error
	done   chan struct{}
	timer  *time.Timer
}

// newWatch starts the goroutine that waits for events. It waits on a thread of its own, since a
// device that hangs does not come back from the call: then the goroutine stays, and the watch says
// that it hangs.
func (g *GPU) newWatch() *watch {
	w := &watch{ask: make(chan drv.Event), answer: make(chan error, 1), done: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	go func() {
		defer close(w.done)
		var e drv.Event
		wait := func() error { return g.waiter.SynchronizeEvent(e) }
		for e = range w.ask {
			w.answer <- g.waiter.Do(wait)
		}
	}()
	return w
}

// errHangs says that the device did not answer in time.
var errHangs = errors.New("the device hangs")

// wait returns when an event is done, or with an error after the time limit; later waits are then
// errors, too.
func (w *watch) wait(e drv.Event, limit time.Duration) error {
	if w.hangs {
		return errHangs
	}
	w.ask <- e
	w.timer.Reset(limit)
	defer w.timer.Stop()
	select {
	case err := <-w.answer:
		return err
	case <-w.timer.C:
		w.hangs = true
		return fmt.Errorf("no progress for %v: %w", limit, errHangs)
	}
}

// again gives a device that hung another time limit, as what it waited for was broken off.
func (w *watch) again(limit time.Duration) {
	if !w.hangs {
		return
	}
	w.timer.Reset(limit)
	defer w.timer.Stop()
	select {
	case <-w.answer:
		w.hangs = false
	case <-w.timer.C:
	}
}

// close ends the goroutine; one that waits for a device that hangs ends with the wait.
func (w *watch) close() {
	close(w.ask)
	if !w.hangs {
		<-w.done
	}
}
