package cuda_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// open opens a GPU of the stand-ins of NVIDIA's libraries: kernels run in the emulator.
func open(t *testing.T, m *fake.Machine) *cuda.GPU {
	t.Helper()
	return openWith(t, m, gputest.Number(), cuda.Options{Choices: "none", Repeat: -1})
}

func openWith(t *testing.T, m *fake.Machine, number int, o cuda.Options) *cuda.GPU {
	t.Helper()
	o.Search = *m.Search()
	g, err := cuda.Open(number, o)
	gputest.Must(t, err)
	t.Cleanup(func() { closed(t, g) })
	return g
}

// small are models for the emulator, which is slow: every kind of kernel once.
func small(t *testing.T) []model {
	var out []model
	for _, m := range models {
		switch m.name {
		case "mlp dropout", "residual", "pools", "embedding mse", "softmax of a mean", "conv bias relu":
			out = append(out, m)
		}
	}
	return append(out, classifier("resnet18", 3, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 8})
	}))
}

func TestStepsOnTheFakeLibrariesEqualTheReference(t *testing.T) {
	machine := fake.New(t)
	machine.Set("seed", 3)
	gpu := open(t, machine)
	for _, c := range []struct {
		typ            cuda.Compute
		loss, gradient float64
	}{{cuda.Float32, 1e-5, 1e-5}, {cuda.BFloat16, 1e-2, 0.12}, {cuda.Float16, 2e-3, 5e-2}} {
		for _, m := range small(t) {
			if c.typ != cuda.Float32 && strings.HasPrefix(m.name, "resnet") {
				continue
			}
			t.Run(fmt.Sprintf("%v %s", c.typ, m.name), func(t *testing.T) {
				p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 2048})
				p.equalsReference(t, m, c.loss, c.gradient)
				if lines := machine.Complaints(); len(lines) > 0 {
					t.Errorf("the fake libraries complain: %s", strings.Join(lines, "\n"))
				}
			})
		}
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	_, err := cuda.Open(0, cuda.Options{Search: dl.Search{Only: true}})
	if !errors.Is(err, drv.ErrNoLibrary) && !errors.Is(err, dl.ErrBuild) || !strings.Contains(fmt.Sprint(err), "cuda:0") {
		t.Errorf("without a driver: got error %v, want one that names cuda:0 and that there is no library", err)
	}
	machine := fake.New(t)
	_, err = cuda.Open(7, cuda.Options{Search: *machine.Search()})
	if !errors.Is(err, drv.ErrNoDevice) || !strings.Contains(fmt.Sprint(err), "cuda:7") {
		t.Errorf("GPU 7 of 2: got error %v, want one that names cuda:7 and is ErrNoDevice", err)
	}
	search := *machine.Search()
	search.Paths = dl.Paths{dl.CUDA: search.Paths[dl.CUDA]}
	_, err = cuda.Open(0, cuda.Options{Search: search})
	if !errors.Is(err, drv.ErrNoLibrary) || !strings.Contains(fmt.Sprint(err), "cudnn") {
		t.Errorf("without cuDNN: got error %v, want one that names it", err)
	}
}

func TestCompileSaysWhatThereIsNoMemoryFor(t *testing.T) {
	machine := fake.New(t)
	gpu := open(t, machine)
	live := machine.Count("live_allocations")
	m := models[1]
	for n := int64(1); n < 20; n++ {
		p, _ := build(t, m, false, nil)
		machine.Set("oom_at", n)
		e, err := cuda.New(p, newHost(p), cuda.Config{GPU: gpu})
		machine.Set("oom_at", 0)
		if err == nil {
			if n < 5 {
				t.Fatalf("allocation %d was to fail, and nothing did", n)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, drv.ErrOutOfMemory) || !strings.Contains(err.Error(), " bytes for ") && !strings.Contains(err.Error(), "table of") {
			t.Errorf("allocation %d: got error %v, want one that says how many bytes for what", n, err)
		}
		if got := machine.Count("live_allocations"); got != live {
			t.Errorf("allocation %d: %d blocks of memory were not given back", n, got-live)
		}
	}
}

func TestAFaultInAStepIsAnError(t *testing.T) {
	for _, c := range []struct {
		setting string
		at      int64
	}{{"launch_fails_at", 1}, {"launch_fails_at", 3}, {"illegal_at", 2}, {"lost_at", 1}, {"lost_at", 25}, {"lost_at", 60}} {
		// before is in steps: launch by launch, or as graphs.
		for _, before := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s %d after %d", c.setting, c.at, before), func(t *testing.T) {
				machine := fake.New(t)
				g, err := cuda.Open(0, cuda.Options{Search: *machine.Search(), Choices: "none", Repeat: -1})
				if err != nil {
					t.Fatal(err)
				}
				p, _ := build(t, models[1], false, nil)
				e, err := cuda.New(p, newHost(p), cuda.Config{GPU: g, Bucket: 512})
				if err != nil {
					t.Fatal(err)
				}
				for range before {
					if err := e.Run(t.Context(), false, plan.Hooks{}); err != nil {
						t.Fatal(err)
					}
				}
				machine.Set(c.setting, c.at)
				err = e.Run(t.Context(), false, plan.Hooks{})
				var fault *drv.Error
				if !errors.As(err, &fault) || !errors.Is(err, drv.ErrLost) {
					t.Errorf("got error %v, want the driver's, which is ErrLost", err)
				}
				if err := e.Run(t.Context(), false, plan.Hooks{}); err == nil {
					t.Error("a step after it: got no error")
				}

				// The driver refuses all that is asked, but nothing hangs.
				e.Close()
				g.Close()
				machine.Set(c.setting, 0)
				machine.Complaints()
			})
		}
	}
}

func TestAnUpdateOnTheDeviceIsThatOfTheHost(t *testing.T) {
	machine := fake.New(t)
	machine.Set("seed", 4)
	gpu := open(t, machine)
	const rate = 0.1
	m := small(t)[1]
	numbers := updateNumbers(t, gpu, kernels.Update{Scale: 1, Clip: math.MaxFloat32, Shrink: 1, Rate: rate})
	update := func(s drv.Stream, pieces []cuda.Piece, found drv.Ptr) error {
		for _, p := range pieces {
			if err := gpu.Kernels().SGD(s, p.N, p.Params, p.Grads, numbers, found); err != nil {
				return err
			}
		}
		return nil
	}
	for _, typ := range []cuda.Compute{cuda.Float32, cuda.BFloat16} {
		host, device := compile(t, m, cuda.Config{GPU: gpu, Type: typ}), compile(t, m, cuda.Config{GPU: gpu, Type: typ, Update: update, Bucket: 2048})
		host.fill(t, nil, m.classes, 1)
		device.fill(t, nil, m.classes, 1)
		for i, w := range host.host.Params {
			copy(device.host.Params[i], w)
		}
		for step := range 4 {
			want, got := host.step(t), device.step(t)
			if math.Abs(got-want) > 1e-5 {
				t.Errorf("%v, step %d: loss is %g with updates on the device, want %g", typ, step, got, want)
			}
			for i, w := range host.host.Params {
				for k := range w {
					w[k] -= rate * host.host.Grads[i][k]
				}
			}
		}
		if err := device.Fetch(); err != nil {
			t.Fatal(err)
		}
		for i, v := range host.plan.Params {
			for k, w := range host.host.Params[i] {
				if got := device.host.Params[i][k]; math.Abs(float64(got-w)) > 1e-5 {
					t.Fatalf("%v: %s at %d is %g, want %g", typ, v.Name, k, got, w)
				}
			}
		}
	}
}

// updateNumbers puts the numbers of an update on a GPU until the test's end.
func updateNumbers(t *testing.T, gpu *cuda.GPU, u kernels.Update) drv.Ptr {
	t.Helper()
	m := memoryOf(t, gpu)
	p, err := m.Room(kernels.UpdateBytes, 0)
	gputest.Must(t, err)
	var data []byte
	for _, w := range u.Words() {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(w))
	}
	gputest.Must(t, m.Write(p, data))
	return p
}

// memoryOf is memory of a GPU until the test's end.
func memoryOf(t *testing.T, gpu *cuda.GPU) *gputest.Memory {
	t.Helper()
	ctx := gpu.Context()
	var s drv.Stream
	gputest.Must(t, ctx.Do(func() (err error) { s, err = ctx.NewStream(0); return }))
	m, err := gputest.NewMemory(ctx, s)
	gputest.Must(t, err)
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), ctx.Do(func() error { return ctx.DestroyStream(s) })); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return m
}
