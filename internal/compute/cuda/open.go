package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/cublaslt"
	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/cuda/nccl"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// Options say how a GPU is opened. The zero value is for use; tests change it.
type Options struct {
	// Search finds the libraries.
	Search dl.Search
	// Choices is the file in which the fastest engines of convolutions are remembered; "" is
	// the user's folder of caches, "none" no file.
	Choices string
	// Repeat is how many runs make one measurement of an engine; 0 is 10, below 0 none is
	// measured: the library's guess is taken.
	Repeat int
	// Most is how many engines of a convolution are measured, the likeliest first; 0 is 10,
	// below 0 all of them. A few that the library compiles at each start come after them.
	Most int
	// Budget is how long measuring may take for one program; 0 is 15 s, below 0 as long as it
	// takes.
	Budget time.Duration
	// NonDeterministic lets engines in whose sums are made in an order that differs from run to
	// run. Results then repeat only to rounding.
	NonDeterministic bool
	// Norms measures cuDNN's normalisations against our own kernels, and uses the faster ones.
	// It is not the default, because they have not run on a GPU yet.
	Norms bool
	// Logger gets lines about what was chosen, at level Debug, and about measuring that takes a
	// while; nil is slog.Default().
	Logger *slog.Logger
}

// Devices describes the GPUs that this process may use. Without a driver the error is
// drv.ErrNoLibrary.
func Devices(o Options) ([]drv.DeviceInfo, error) {
	driver, err := openDriver(&o)
	if errors.Is(err, drv.ErrNoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return driver.Devices()
}

func openDriver(o *Options) (*drv.Driver, error) {
	lib, err := o.Search.Open(dl.CUDA)
	if err != nil {
		return nil, err
	}
	return drv.Open(lib)
}

// Open opens a GPU by its number among those that this process may use.
func Open(ordinal int, o Options) (*GPU, error) {
	name := fmt.Sprintf("cuda:%d", ordinal)
	g, err := open(name, ordinal, o)
	if err != nil {
		return nil, fmt.Errorf("cuda: open %s: %w", name, err)
	}
	return g, nil
}

// open is Open without the name in its errors. Libraries are looked for before the context is made,
// which takes time and memory of the device.
func open(name string, ordinal int, o Options) (g *GPU, err error) {
	driver, err := openDriver(&o)
	if err != nil {
		return nil, err
	}
	if o.Search.Major == 0 {
		o.Search.Major, _ = driver.Version()
	}
	dnn, err := o.Search.Open(dl.CuDNN)
	if err != nil {
		return nil, err
	}
	blas, err := o.Search.Open(dl.CuBLASLt)
	if err != nil {
		return nil, err
	}
	ctx, err := driver.NewContext(ordinal)
	if err != nil {
		return nil, err
	}
	g = &GPU{name: name, context: ctx, close: ctx.Close, nccl: o.nccl}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
			g = nil
		}
	}()
	set, err := kernels.LoadWith(ctx, o.compiler())
	if err != nil {
		return g, err
	}
	g.kernels, g.close = set, func() error { return errors.Join(set.Close(), ctx.Close()) }
	if g.waiter, err = ctx.NewThread(); err != nil {
		return g, err
	}
	if err := g.start(); err != nil {
		return g, err
	}
	return g, ctx.Do(func() error { return g.openLibraries(dnn, blas, ctx, o) })
}

// compiler makes the kernels from source, for a driver that refuses the PTX.
func (o *Options) compiler() kernels.Compiler {
	return func(source string, compute [2]int) ([]byte, error) {
		lib, err := o.Search.Open(dl.NVRTC)
		if err != nil {
			return nil, err
		}
		c, err := nvrtc.Open(lib)
		if err != nil {
			return nil, err
		}
		image, _, err := c.Compile(nvrtc.Program{Name: "kernels.cu", Source: source, Compute: compute, Options: []string{"--std=c++17"}})
		return image, err
	}
}

// nccl opens the library by which GPUs work together.
func (o *Options) nccl() (*nccl.Library, error) {
	lib, err := o.Search.Open(dl.NCCL)
	if err != nil {
		return nil, err
	}
	return nccl.Open(lib)
}

// libraries are cuDNN and cuBLASLt.
type libraries struct {
	gpu   *GPU
	ctx   *drv.Context
	dnn   *cudnn.Handle
	blas  *cublaslt.Handle
	tuner cudnn.Tuner

	// loose is Options.NonDeterministic.
	loose bool
}

// openLibraries opens cuDNN and cuBLASLt on the device's thread, where all of their calls are made.
func (g *GPU) openLibraries(dnn, blas *dl.Library, ctx *drv.Context, o Options) error {
	l := &libraries{gpu: g, ctx: ctx, loose: o.NonDeterministic}
	g.norms = o.Norms
	g.vendor = l
	var err error
	if l.dnn, err = cudnn.Open(dnn, ctx); err != nil {
		return err
	}
	if l.blas, err = cublaslt.Open(blas, ctx); err != nil {
		return err
	}
	logger := o.Logger
	if logger == nil {
		logger = joblog.Process()
	}
	g.warn = logger.Warn
	logf := func(format string, args ...any) { logger.Debug(fmt.Sprintf(format, args...)) }
	for _, lib := range []*dl.Library{ctx.Driver().Library(), dnn, blas} {
		logf("%v", lib)
	}
	if d, b := dnn.BuiltFor(), blas.BuiltFor(); d != 0 && b != 0 && d != b {
		logger.Warn("cuDNN and cuBLASLt are built for different versions of CUDA: cuDNN may not find the functions of cuBLASLt that it needs", "cuDNN", dnn.String(), "cuBLASLt", blas.String())
	}
	l.tuner = cudnn.Tuner{Handle: l.dnn, Stream: g.compute, Repeat: o.Repeat, Budget: o.Budget, Any: true, Log: logf,
		Notice: func(format string, args ...any) {
			logger.Info(fmt.Sprintf(format, args...), "device", g.Name())
		}}
	if o.Budget == 0 {
		l.tuner.Budget = 15 * time.Second
	}
	switch {
	case o.Repeat == 0:
		l.tuner.Repeat = 10
	case o.Repeat < 0:
		l.tuner.Repeat = 0
	}
	switch l.tuner.Most = o.Most; {
	case o.Most == 0:
		l.tuner.Most = 10
	case o.Most < 0:
		l.tuner.Most = 0
	}
	if o.Choices != "none" {
		path := o.Choices
		if path == "" {
			path = cudnn.DefaultCachePath()
		}
		l.tuner.Cache = cudnn.OpenCache(path, logf)
	}
	return nil
}

func (l *libraries) conv(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	c.NonDeterministic = l.loose
	p, err := l.tuner.Conv(pass, c)
	if err != nil {
		// The result is not p, which would be no nil interface.
		return nil, err
	}
	return p, nil
}

// settled says how long measuring took, where there was any.
func (l *libraries) settled() {
	if n, took := l.tuner.Settle(); n > 0 {
		l.tuner.Notice("cudnn: chose engines for %d operations in %v", n, took.Round(10*time.Millisecond))
	}
}

// A way is one of two to make a sum, for cudnn.Tune.
type way struct {
	name string
	run  func() error
}

func (w *way) Engine() string   { return w.name }
func (w *way) Workspace() int64 { return 0 }

// remembered is which of two names a measurement chose, at this start or an earlier one: a step
// that is repeated makes the same sums.
func (l *libraries) remembered(question string, names [2]string, measure func() (second bool, err error)) (second bool, err error) {
	key := l.dnn.Key(question)
	if choice, ok := l.tuner.Cache.Get(key); ok && slices.Contains(names[:], choice.Engine) {
		return choice.Engine == names[1], nil
	}
	if second, err = measure(); err != nil {
		return false, err
	}
	choice := cudnn.Choice{Engine: names[0], Candidates: len(names)}
	if second {
		choice.Engine = names[1]
	}
	if err := l.tuner.Cache.Put(key, choice); err != nil {
		// The choice holds, and the next start makes it again.
		l.tuner.Log("%v", err)
	}
	return second, nil
}

// apart implements library: it is measured once for a convolution and remembered with the choices
// of engines.
func (l *libraries) apart(c cudnn.Conv, accumulates, plan convPlan, add func(s drv.Stream, y, a, b drv.Ptr) error) (bool, error) {
	if l.tuner.Repeat == 0 {
		return false, nil
	}
	names := [2]string{accumulates.Engine() + " alone", plan.Engine() + " and a sum"}
	return l.remembered("sum of "+cudnn.BackwardData.String()+" "+c.String(), names, func() (bool, error) {
		return l.measureApart(c, accumulates, plan, add)
	})
}

// measureApart measures both ways on scratch memory. Where there is too little of that, the plan
// that accumulates is taken, which needs no more memory than there must be anyway.
func (l *libraries) measureApart(c cudnn.Conv, accumulates, plan convPlan, add func(s drv.Stream, y, a, b drv.Ptr) error) (apart bool, err error) {
	p, q := c.OutSize()
	image := int64(c.N) * int64(c.C) * int64(c.H) * int64(c.W) * c.In.Size()
	sizes := []int64{image, image, int64(c.K) * int64(c.C) * int64(c.R) * int64(c.S) * c.Weight.Size(), int64(c.N) * int64(c.K) * int64(p) * int64(q) * c.Out.Size(),
		max(1, accumulates.Workspace(), plan.Workspace())}
	m := make([]drv.Ptr, len(sizes))
	defer func() {
		for _, at := range m {
			if at != 0 {
				err = errors.Join(err, l.gpu.context.Free(at))
			}
		}
	}()
	s := l.gpu.compute
	for i, n := range sizes {
		if m[i], err = l.gpu.malloc("trying convolutions", n); errors.Is(err, drv.ErrOutOfMemory) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := l.gpu.context.Memset8(m[i], 0x3c, n, s); err != nil {
			return false, err
		}
	}
	ways := []*way{{"in one pass", func() error { return accumulates.Run(s, m[4], m[0], m[2], m[3]) }}, {"in two", func() error {
		if err := plan.Run(s, m[4], m[1], m[2], m[3]); err != nil {
			return err
		}
		return add(s, m[0], m[1], m[0])
	}}}
	best, _, err := cudnn.Tune(l.ctx, s, ways, func(w *way) error { return w.run() }, l.tuner.Repeat)
	return best == ways[1], err
}

// matmul takes the library's guess.
func (l *libraries) matmul(m product) (productPlan, error) {
	plans, err := l.blas.Plans(cublaslt.Matmul{M: m.M, N: m.N, K: m.K, TransA: m.TransA, TransB: m.TransB,
		In: blasType(m.In), Out: blasType(m.Out), TF32: m.TF32, Bias: m.Bias, ReLU: m.ReLU})
	if err != nil {
		return nil, err
	}
	for _, p := range plans[1:] {
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	return blasPlan{plans[0]}, nil
}

// blasPlan is a plan with the arguments in our order.
type blasPlan struct{ *cublaslt.Plan }

func (p blasPlan) Run(s drv.Stream, workspace, a, b, c, bias drv.Ptr) error {
	return p.Plan.Run(s, workspace, a, b, bias, c)
}

func blasType(t kernels.Type) cublaslt.DType {
	switch t {
	case kernels.BFloat16:
		return cublaslt.BFloat16
	case kernels.Float16:
		return cublaslt.Float16
	}
	return cublaslt.Float32
}

func (l *libraries) Close() error {
	var errs []error
	if l.dnn != nil {
		errs = append(errs, l.dnn.Close())
	}
	if l.blas != nil {
		errs = append(errs, l.blas.Close())
	}
	return errors.Join(errs...)
}
