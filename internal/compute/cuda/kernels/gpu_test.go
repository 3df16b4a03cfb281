//go:build gpu && linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

// openGPU opens the GPU with a stream and memory.
func openGPU(t *testing.T) (*fake.Machine, *realGPU) {
	t.Helper()
	gputest.Begin(t)
	m := fake.New(t)
	g := &realGPU{Context: m.Context(0)}
	gputest.Must(t, g.Do(func() (err error) { g.s, err = g.NewStream(0); return }))
	var err error
	g.memory, err = gputest.NewMemory(g.Context, g.s)
	gputest.Must(t, err)
	t.Cleanup(func() {
		// What a lost GPU holds goes with the process.
		if !t.Failed() {
			gputest.Must(t, errors.Join(g.memory.Close(), g.Do(func() error { return g.DestroyStream(g.s) })))
		}
	})
	return m, g
}

// compiler is that of NVRTC; where there is none it says why.
func compiler(m *fake.Machine) Compiler {
	return func(source string, compute [2]int) ([]byte, error) {
		lib, err := m.Search().Open(dl.NVRTC)
		if err != nil {
			return nil, err
		}
		c, err := nvrtc.Open(lib)
		if err != nil {
			return nil, err
		}
		return NVRTC(c)(source, compute)
	}
}

// load loads the kernels for a test.
func (g *realGPU) load(t *testing.T, m *fake.Machine) {
	t.Helper()
	var err error
	g.set, err = LoadWith(g.Context, compiler(m))
	gputest.Must(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			gputest.Must(t, g.set.Close())
		}
	})
}

// The GPU takes the kernels as PTX and compiled from their source, each of them.
func TestGPUKernels(t *testing.T) {
	m, g := openGPU(t)
	gputest.Check(t, "PTX", func(t *testing.T) { g.looked(t, "PTX", PTX()) })
	gputest.Check(t, "NVRTC", func(t *testing.T) {
		source, err := Source()
		gputest.Must(t, err)
		begun := time.Now()
		image, err := compiler(m)(source, g.Info().Compute)
		if errors.Is(err, dl.ErrNoLibrary) {
			t.Skip(err)
		}
		gputest.Must(t, err)
		gputest.Report(t, gputest.Row{Name: "NVRTC", Status: gputest.OK, Value: time.Since(begun).Seconds(), Unit: "s"})
		g.looked(t, "NVRTC's image", image)
	})
	gputest.Check(t, "the kernels as they are used", func(t *testing.T) { g.load(t, m) })
}

// looked loads an image and looks at each kernel of it.
func (g *realGPU) looked(t *testing.T, what string, image []byte) {
	t.Helper()
	var spilled []string
	most := 0
	var took time.Duration
	gputest.Must(t, g.Do(func() error {
		begun := time.Now()
		m, err := g.LoadModule(image)
		if err != nil {
			return err
		}
		took = time.Since(begun)
		for _, name := range Names() {
			f, err := g.Function(m, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			registers, err1 := g.FunctionAttribute(f, drv.Registers)
			local, err2 := g.FunctionAttribute(f, drv.LocalBytes)
			threads, err3 := g.FunctionAttribute(f, drv.MaxThreadsPerBlock)
			if err := errors.Join(err1, err2, err3); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if most = max(most, registers); local > 0 {
				spilled = append(spilled, fmt.Sprintf("%s %d bytes of %d registers, %d threads", name, local, registers, threads))
			}
		}
		return g.UnloadModule(m)
	}))
	gputest.Report(t, gputest.Row{Name: what, Status: gputest.OK, Value: took.Seconds(), Unit: "s",
		Detail: fmt.Sprintf("%d kernels, at most %d registers; with local memory: %v", len(Names()), most, spilled)})
}

// Every kernel gives the numbers of its reference, over poisoned memory and between guards.
func TestGPUOps(t *testing.T) {
	m, g := openGPU(t)
	g.load(t, m)
	onGPU = g
	defer func() { onGPU = nil }()
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"fill, add, ReLU", TestElementwise},
		{"cast", TestCastRoundsToNearestEven},
		{"scale and unscale, and what is not finite", TestScaleAndUnscaleFindWhatIsNotFinite},
		{"bias", TestBias},
		{"max and average pooling", TestPools},
		{"global average pooling", TestGlobalAvgPool},
		{"channels last and first", TestLayoutsTurnAndPad},
		{"images from bytes", TestPixelsAreThoseOfTheDataPipeline},
		{"batch norm, training and evaluation", TestBatchNorm},
		{"gradient of batch norm", TestBatchNormGradWithEachWayToKnowTheMask},
		{"gradient of batch norm of what is not a number", TestBatchNormGradKeepsNaN},
		{"statistics far from zero", TestStatisticsKeepTheirPrecisionFarFromZero},
		{"softmax", TestSoftmax},
		{"cross-entropy", TestCrossEntropyLeavesOutRowsWithoutLabel},
		{"mean square error", TestMSE},
		{"dropout", TestDropoutDropsTheElementsOfItsDefinition},
		{"embedding", TestEmbeddingAndItsGradientInTheOrderOfIDs},
		{"pack and unpack", TestTablesPackAndUnpackAllTensors},
		{"optimizers", TestOptimizersStepAndSkip},
	} {
		gputest.Check(t, c.name, c.test)
	}
}

// How fast the GPU copies and sets its memory, and how near simple kernels come to that.
func TestGPUCeilings(t *testing.T) {
	m, g := openGPU(t)
	g.load(t, m)
	n, repeat := int64(1<<30), 20
	if testing.Short() {
		n, repeat = 1<<14, 1
	}
	room := func() drv.Ptr {
		p, err := g.memory.Room(n, 0)
		gputest.Must(t, err)
		return p
	}
	a, b := room(), room()
	for _, c := range []struct {
		name  string
		bytes int64
		f     func() error
	}{
		{"copy on the device, read and written", 2 * n, func() error { return g.CopyOnDevice(b, a, n, g.s) }},
		{"set to a byte", n, func() error { return g.Memset8(a, 0, n, g.s) }},
		{"kernel add, bfloat16", 3 * n, func() error { return g.set.Add(g.s, BFloat16, n/2, b, a, b, false) }},
		{"kernel cast, bfloat16 to float32", n/2 + n, func() error { return g.set.Cast(g.s, Float32, BFloat16, n/4, b, a) }},
	} {
		gputest.Check(t, c.name, func(t *testing.T) {
			took := gputest.Spell(t, g.Context, g.s, repeat, c.f)
			gputest.Measured(t, c.name, float64(c.bytes)/took.Seconds()/1e12, "TB/s", "%d MiB in %v", n>>20, took)
		})
	}
}
