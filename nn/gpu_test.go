package nn_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// onFakes lets programs of this test find stand-ins of NVIDIA's libraries.
func onFakes(t *testing.T) *fake.Machine {
	t.Helper()
	machine := fake.New(t)
	for name, path := range machine.Paths() {
		t.Setenv(name.Variable(), path)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // for choices of engines
	machine.Set("seed", 5)
	return machine
}

// gpuJoins is joins with fewer pixels, for an emulator.
var gpuJoins = tenClasses("joins", 4, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
	x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
	y := nn.BatchNorm2D(conv(x, "conv1", 16, 3, 2, 1), "bn1", nn.BatchNormConfig{})
	z := nn.BatchNorm2D(conv(x, "down", 16, 1, 2, 0), "bn2", nn.BatchNormConfig{})
	x = nn.GlobalAvgPool2D(nn.ReLU(nn.Add(y, z)))
	return nn.Linear(x, "fc", nn.LinearConfig{Out: 10})
})

func TestProgramsOnAGPUEqualTheReference(t *testing.T) {
	onFakes(t)
	for _, c := range []struct {
		dtype          nn.DType
		loss, gradient float64
	}{{nn.Float32, 1e-5, 1e-5}, {nn.TF32, 2e-3, 0.12}, {nn.AutoDType, 1e-2, 0.12}, {nn.Float16, 2e-3, 0.12}} {
		loss, p := compile(t, gpuJoins, nn.Config{Device: "cuda:0", DType: c.dtype})
		_, r := reference(t, gpuJoins)
		for step := range 3 {
			fillInputs(t, loss.Graph(), p, r, 10, uint64(step))
			if err := p.Step(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			near(t, "loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, c.loss)
			if d := distance(p, r.Grad); !(d <= c.gradient) {
				t.Errorf("%v, step %d: the gradient is off by %.3g of its length, want at most %g", c.dtype, step, d, c.gradient)
			}
		}
		times, err := p.Profile(t.Context(), 2)
		if err != nil || len(times) == 0 || strings.Count(p.Plan(), "\n") != len(times) {
			t.Errorf("%v: profile has %d times, error %v, want one for each operation", c.dtype, len(times), err)
		}
		if !p.Finite() {
			t.Errorf("%v: the step was not finite", c.dtype)
		}
		m := p.Memory()
		if m.Copies == 0 || m.Workspace == 0 || m.Total() <= m.Arena+m.Parameters {
			t.Errorf("%v: memory is %v, want copies and workspace in it", c.dtype, m)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHooksOfAProgramOnAGPUKeepTheirPromises(t *testing.T) {
	onFakes(t)
	loss, p := compile(t, gpuJoins, nn.Config{Device: "cuda:0"})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	step(t, p, nil)
	wantLoss := p.Loss()
	for range 3 {
		var values, grads [][]float32
		for _, q := range p.Params() {
			values, grads = append(values, slices.Clone(q.Value)), append(grads, slices.Clone(q.Gradient))
			for k := range q.Value {
				q.Value[k], q.Gradient[k] = float32(math.NaN()), float32(math.NaN())
			}
		}
		var order []string
		wait := func(i int) { copy(p.Params()[i].Value, values[i]) }
		ready := func(i int) {
			q := p.Params()[i]
			order = append(order, q.Name)
			if !slices.Equal(q.Gradient, grads[i]) {
				t.Errorf("gradient of %s was not final when ready was called", q.Name)
			}
			for k := range q.Value {
				q.Value[k] = float32(math.NaN())
			}
		}
		if err := p.StepOverlapped(t.Context(), wait, ready); err != nil {
			t.Fatal(err)
		}
		for i, q := range p.Params() {
			copy(q.Value, values[i])
			if !slices.Equal(q.Gradient, grads[i]) {
				t.Errorf("gradient of %s is another when values change as they are ready", q.Name)
			}
		}
		if p.Loss() != wantLoss || len(order) != len(values) || !strings.HasPrefix(order[0], "fc.") || order[len(order)-1] != "conv0.weight" {
			t.Errorf("loss is %g and ready came in the order %q, want %g, and fc first and conv0 last", p.Loss(), order, wantLoss)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	if err := p.Step(ctx, func(int) { calls++; cancel() }); !errors.Is(err, context.Canceled) || calls == len(p.Params()) {
		t.Errorf("got error %v after %d gradients, want context canceled before all", err, calls)
	}
}

func TestAGraphShowsWhatItsProgramOnAGPULearned(t *testing.T) {
	onFakes(t)
	loss, p := compile(t, gpuJoins, nn.Config{Device: "cuda:0", DType: nn.Float32})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	step(t, p, nil)
	for _, q := range p.Params() {
		for k := range q.Value {
			q.Value[k] -= 0.1 * q.Gradient[k]
		}
	}
	for _, n := range nn.Parameters(loss.Graph()) {
		for _, q := range p.Params() {
			if q.Name == n.Name() && !slices.Equal(n.Value().Data().([]float32), q.Value) {
				t.Errorf("the leaf %s has not the value that its program has learned", q.Name)
			}
		}
	}
	shared, err := nn.Compile(loss, nn.Config{Device: "cuda:0", DType: nn.Float32, Inference: true, Share: p})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	onCPU, err := nn.Compile(loss, nn.Config{Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	defer onCPU.Close()
	x, _ := p.Input("x")
	for _, program := range []*nn.Program{shared, onCPU} {
		sx, err := program.Input("x")
		if err != nil {
			t.Fatal(err)
		}
		copy(sx, x)
		labels, _ := program.Labels("labels")
		labels.Set([]int32{1, 2, 3})
		program.Hold(true)
		for range 2 {
			if err := program.Forward(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := shared.Loss(), onCPU.Loss(); math.Abs(got-want) > 1e-5 {
		t.Errorf("loss of an evaluation is %g on the GPU and %g on the CPU", got, want)
	}
	if _, err := nn.Compile(loss, nn.Config{Inference: true, Share: p}); err == nil || !strings.Contains(err.Error(), "cuda:0") {
		t.Errorf("sharing with a program of another device: got error %v, want one that names cuda:0", err)
	}
}

// Where a driver is there and does not do, programs go on with the CPU, and say why.
func TestADriverThatDoesNotDoIsSaid(t *testing.T) {
	machine := onFakes(t)
	machine.Set("init_error", 803)
	var said bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer slog.SetDefault(old)
	if got := nn.AutoDevices(); !slices.Equal(got, []string{"cpu:0"}) || !strings.Contains(said.String(), "of different versions") {
		t.Errorf("devices are %q, and this was said: %q; want the CPU, and the driver's reason", got, said.String())
	}
	said.Reset()
	machine.Set("init_error", 0)
	machine.Set("devices", 0)
	if got := nn.AutoDevices(); !slices.Equal(got, []string{"cpu:0"}) || said.Len() > 0 {
		t.Errorf("without a GPU devices are %q, and this was said: %q; want the CPU, and nothing", got, said.String())
	}
}

func TestDevicesAreListed(t *testing.T) {
	onFakes(t)
	if got := nn.AutoDevices(); !slices.Equal(got, []string{"cuda:0", "cuda:1"}) {
		t.Errorf("devices of a machine with two GPUs are %q", got)
	}
	devices := nn.Devices()
	if len(devices) != 3 || devices[0].Name != "cpu:0" || devices[2].Memory == 0 || !strings.Contains(devices[1].Text, "cuda:0") {
		t.Errorf("devices are %+v, want the CPU and two GPUs", devices)
	}
	for name := range fake.New(t).Paths() {
		t.Setenv(name.Variable(), "/nothing/here")
	}
	if got := nn.AutoDevices(); !slices.Equal(got, []string{"cpu:0"}) {
		t.Errorf("devices of a machine whose driver is missing are %q, want the CPU", got)
	}
	_, err := nn.Compile(joins.build(gorgonia.NewGraph()), nn.Config{Device: "cuda:0"})
	if !errors.Is(err, dl.ErrNoLibrary) || !strings.Contains(err.Error(), "cuda:0") {
		t.Errorf("without a driver: got error %v, want one that names cuda:0", err)
	}
	for _, bad := range [][]string{nil, {""}, {"auto", "cpu:0"}, {"cuda:x"}, {"gpu:0"}} {
		if got, err := nn.ParseDevices(bad); err == nil {
			t.Errorf("ParseDevices(%q) is %q, want an error", bad, got)
		}
	}
}
