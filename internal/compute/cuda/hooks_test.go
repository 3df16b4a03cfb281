package cuda_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// hooked are models on which the promises to hooks are checked.
func hooked() []model {
	sum := model{"sum", 5, func(g *gorgonia.ExprGraph) *gorgonia.Node { // one gradient for two
		w := func(name string) *gorgonia.Node {
			return gorgonia.NewTensor(g, gorgonia.Float32, 2, gorgonia.WithShape(3, 4), gorgonia.WithName(name), gorgonia.WithInit(gorgonia.GlorotN(1)))
		}
		return nn.MSE(nn.Add(w("a"), w("b")), nn.Input(g, "t", 3, 4))
	}}
	return append(slices.Clone(models), sum)
}

func TestReadyIsCalledOnceWhenAGradientIsFinal(t *testing.T) {
	for _, typ := range []cuda.Compute{cuda.Float32, cuda.Float16} {
		for _, m := range hooked() {
			_, gpu := cuda.NewFake(2)
			p := compile(t, m, cuda.Config{GPU: gpu, Type: typ, Bucket: 512})
			p.fill(t, nil, m.classes, 1)
			for range 3 {
				for _, g := range p.host.Grads {
					for i := range g {
						g[i] = float32(math.NaN())
					}
				}
				seen := make([][]float32, len(p.host.Grads))
				if err := p.Run(t.Context(), false, plan.Hooks{Ready: func(i int) {
					if seen[i] != nil {
						t.Errorf("%s: ready was called again for %s", m.name, p.plan.Params[i].Name)
					}
					seen[i] = slices.Clone(p.host.Grads[i])
				}}); err != nil {
					t.Fatal(err)
				}
				for i, v := range p.plan.Params {
					if seen[i] == nil || !slices.Equal(seen[i], p.host.Grads[i]) {
						t.Errorf("%s, %v: gradient of %s was not final when ready was called for it", m.name, typ, v.Name)
					}
				}
			}
		}
	}
}

func TestWaitIsCalledBeforeAParameterIsRead(t *testing.T) {
	for _, m := range hooked() {
		_, gpu := cuda.NewFake(3)
		p := compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float32, Bucket: 512})
		p.fill(t, nil, m.classes, 1)
		p.step(t)
		p.SetStep(0)
		want := p.step(t)
		values := clones(p.host.Params)
		for range 2 {
			for _, w := range p.host.Params {
				for i := range w {
					w[i] = float32(math.NaN())
				}
			}
			calls := 0
			p.SetStep(0)
			if err := p.Run(t.Context(), false, plan.Hooks{Wait: func(i int) { copy(p.host.Params[i], values[i]); calls++ }}); err != nil {
				t.Fatal(err)
			}
			if got := p.number(t); got != want || calls != len(values) {
				t.Errorf("%s: loss is %g after %d waits, want %g after %d: a parameter was read before its wait", m.name, got, calls, want, len(values))
			}
		}
	}
}

// slow says that tests make all of their cases: PARAGON_TEST_SLOW is set, as by make slowtest.
func slow() bool { return os.Getenv("PARAGON_TEST_SLOW") != "" }

func clones(x [][]float32) [][]float32 {
	var out [][]float32
	for _, m := range x {
		out = append(out, slices.Clone(m))
	}
	return out
}

func TestValueAndGradientAreNotReadAfterReady(t *testing.T) {
	seeds := uint64(1)
	if slow() {
		seeds = 3
	}
	for seed := range seeds {
		for _, m := range hooked() {
			_, gpu := cuda.NewFake(seed)
			p := compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float32, Bucket: 512})
			p.fill(t, nil, m.classes, 1)
			for step := range 3 {
				p.SetStep(0)
				p.step(t)
				values, want := clones(p.host.Params), clones(p.host.Grads)
				p.SetStep(0)
				got := make([][]float32, len(values))
				if err := p.Run(t.Context(), false, plan.Hooks{Ready: func(i int) {
					got[i] = slices.Clone(p.host.Grads[i])
					for k := range p.host.Params[i] {
						p.host.Params[i][k], p.host.Grads[i][k] = float32(math.NaN()), float32(math.NaN())
					}
				}}); err != nil {
					t.Fatal(err)
				}
				for i, v := range p.plan.Params {
					copy(p.host.Params[i], values[i])
					if slices.ContainsFunc(p.host.Grads[i], func(g float32) bool { return g == g }) {
						t.Errorf("%s, step %d: gradient of %s was written after it was ready", m.name, step, v.Name)
					}
					if !slices.Equal(got[i], want[i]) {
						t.Errorf("%s, step %d: gradient of %s is another when values change as they are ready", m.name, step, v.Name)
					}
				}
			}
		}
	}
}

func TestARunStopsWhenItsContextEnds(t *testing.T) {
	_, gpu := cuda.NewFake(4)
	m := models[len(models)-2]
	p := compile(t, m, cuda.Config{GPU: gpu, Bucket: 2048})
	p.fill(t, nil, m.classes, 1)
	want := p.step(t)
	for _, hook := range []string{"wait", "ready"} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		stop := func(int) { calls++; cancel() }
		hooks := plan.Hooks{Wait: stop}
		if hook == "ready" {
			hooks = plan.Hooks{Ready: stop}
		}
		err := p.Run(ctx, false, hooks)
		if !errors.Is(err, context.Canceled) || calls == len(p.plan.Params) {
			t.Errorf("%s: got error %v after %d calls, want context canceled before all %d", hook, err, calls, len(p.plan.Params))
		}
	}
	for _, s := range p.host.States {
		clear(s.Mean)
	}
	if got := p.step(t); got != want {
		t.Errorf("loss of a step after it is %g, want %g", got, want)
	}
}

// A device that is given the same in another order, or later, gives the same bits.
func TestResultsDoNotDependOnWhenStreamsWork(t *testing.T) {
	m := models[len(models)-2]
	var want [][]float32
	for seed := range uint64(5) {
		f, gpu := cuda.NewFake(seed)

		// Numbers then go through memory of the executor's own.
		f.RefusePinning = seed%2 == 1
		p := compile(t, m, cuda.Config{GPU: gpu, Bucket: 2048, Eager: seed == 4})
		for step := range 3 {
			p.fill(t, nil, m.classes, uint64(step))
			p.step(t)
		}
		if want == nil {
			want = clones(p.host.Grads)
		}
		for i, v := range p.plan.Params {
			if !slices.Equal(p.host.Grads[i], want[i]) {
				t.Errorf("order %d: the gradient of %s is another", seed, v.Name)
			}
		}
	}
}

func TestEverythingIsGivenBack(t *testing.T) {
	f, gpu := cuda.NewFake(5)
	for _, m := range models {
		p, _ := build(t, m, false, nil)
		e, err := cuda.New(p, newHost(p), cuda.Config{GPU: gpu})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := e.Run(t.Context(), false, plan.Hooks{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(e.Close(), e.Close(), f.Left()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestAnEvaluationSharesParametersOnTheDevice(t *testing.T) {
	m := models[len(models)-2]
	f, gpu := cuda.NewFake(6)
	p := compile(t, m, cuda.Config{GPU: gpu, Bucket: 2048})
	p.fill(t, nil, m.classes, 1)
	for range 3 {
		p.step(t)
	}
	ep, _ := build(t, m, true, nil)
	host := newHost(ep)
	for i, v := range ep.Params {
		for k, w := range p.plan.Params {
			if v.Name == w.Name {
				host.Params[i] = p.host.Params[k]
			}
		}
	}
	host.States, host.Blocks = p.host.States, p.host.Blocks
	copy(host.Inputs[0].Data.([]float32), p.host.Inputs[0].Data.([]float32))

	// alone is the same memory, for an executor with parameters of its own on the device.
	alone := *host
	e, err := cuda.New(ep, host, cuda.Config{GPU: gpu, Share: p.Executor})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if ep.Memory.Parameters != 0 {
		t.Errorf("the evaluation takes %d bytes for parameters, want none: they are the training's", ep.Memory.Parameters)
	}
	op, _ := build(t, m, true, nil)
	other, err := cuda.New(op, &alone, cuda.Config{GPU: gpu})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run := func(e *cuda.Executor, p *plan.Plan) float64 {
		t.Helper()
		if err := e.Run(t.Context(), true, plan.Hooks{}); err != nil {
			t.Fatal(err)
		}
		loss, err := e.Number(p.Loss)
		if err != nil {
			t.Fatal(err)
		}
		return loss
	}
	for range 3 {
		if got, want := run(e, ep), run(other, op); got != want {
			t.Errorf("loss of an evaluation that shares is %g, want %g", got, want)
		}
	}
	copies := func() int {
		n := 0
		for _, line := range *f.Trace {
			if strings.HasPrefix(line, "up: ") {
				n++
			}
		}
		return n
	}
	e.Hold(true)
	run(e, ep)
	f.Trace = new([]string)
	run(e, ep)
	held := copies()
	e.Hold(false)
	*f.Trace = nil
	for _, w := range p.host.Params {
		for i := range w {
			w[i] *= 1.5
		}
	}
	if got, want := run(e, ep), run(other, op); got != want {
		t.Errorf("loss after parameters changed is %g, want %g", got, want)
	}
	if free := copies() / 2; held > 5 || free <= held {
		t.Errorf("an evaluation makes %d copies up while parameters are held and %d else, want at most 5 and more", held, free)
	}
}

func TestGradScaleAndTheLossScaleLeaveGradientsAsTheyAre(t *testing.T) {
	for _, m := range hooked() {
		_, gpu := cuda.NewFake(7)
		one, three := compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float32}), compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float32})
		three.SetGradScale(3)
		for i := range one.plan.Params {
			copy(three.host.Params[i], one.host.Params[i])
		}
		one.fill(t, nil, m.classes, 1)
		three.fill(t, nil, m.classes, 1)
		for range 2 {
			one.step(t)
			three.step(t)
		}
		for i, v := range one.plan.Params {
			largest := 1e-2
			for _, g := range one.host.Grads[i] {
				largest = math.Max(largest, math.Abs(float64(g)))
			}
			for k, g := range one.host.Grads[i] {
				if got := three.host.Grads[i][k]; math.Abs(float64(got-3*g)) > 1e-5*largest {
					t.Fatalf("%s: gradient of %s at %d is %g, want three times %g", m.name, v.Name, k, got, g)
				}
			}
		}
	}
}

// A run that goes on from a checkpoint goes on with its loss scale, and with how long that was
// right.
func TestTheLossScaleGoesOnWhereItWas(t *testing.T) {
	m := models[1]
	_, gpu := cuda.NewFake(8)
	p := compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float16, Bucket: 512})
	p.fill(t, nil, m.classes, 1)
	if err := p.SetScaleState(2048, 1998); err != nil {
		t.Fatal(err)
	}
	for step, want := range []struct {
		scale float32
		good  int
	}{{2048, 1999}, {4096, 0}, {4096, 1}} {
		p.step(t)
		if scale, good, on := p.ScaleState(); scale != want.scale || good != want.good || !on {
			t.Errorf("after step %d: the scale is %v, good for %d steps (%t), want %v and %d", step, scale, good, on, want.scale, want.good)
		}
	}
	for _, wrong := range []struct {
		scale float32
		good  int
	}{{0, 0}, {float32(math.NaN()), 0}, {1 << 25, 0}, {-1, 0}, {1, -1}, {1, 2000}} {
		if err := p.SetScaleState(wrong.scale, wrong.good); err == nil {
			t.Errorf("scale %v, good for %d steps: got no error", wrong.scale, wrong.good)
		}
	}
	plain := compile(t, m, cuda.Config{GPU: gpu, Bucket: 512})
	if err := plain.SetScaleState(8, 1); err != nil || plain.LossScale() != 1 {
		t.Errorf("bfloat16: the scale is %v after setting 8 (error %v), want 1 and none", plain.LossScale(), err)
	}
}

func TestAStepThatOverflowsCountsForNothing(t *testing.T) {
	m := models[1]
	_, gpu := cuda.NewFake(8)
	p := compile(t, m, cuda.Config{GPU: gpu, Type: cuda.Float16, Bucket: 512})
	p.fill(t, nil, m.classes, 1)
	p.step(t)
	if !p.Finite() || p.LossScale() != 1<<16 {
		t.Errorf("first step: finite is %t and the loss's scale %g, want true and 65536", p.Finite(), p.LossScale())
	}
	good := clones(p.host.Grads)
	x := p.host.Inputs[0].Data.([]float32)
	keep := slices.Clone(x)
	for i := range x {
		// Sums of a few of them are infinite.
		x[i] = 60000
	}
	calls := 0
	if err := p.Run(t.Context(), false, plan.Hooks{Ready: func(i int) {
		calls++
		if p.Finite() {
			t.Error("Finite is true in Ready of a step that overflowed")
		}
		for _, g := range p.host.Grads[i] {
			if g != 0 {
				t.Fatalf("gradient of %s has %g, want zeros", p.plan.Params[i].Name, g)
			}
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if calls != len(good) || p.LossScale() != 1<<15 {
		t.Errorf("%d parameters were ready and the scale is %g, want %d and 32768", calls, p.LossScale(), len(good))
	}
	copy(x, keep)
	p.step(t)
	for i, v := range p.plan.Params {
		for k, g := range good[i] {
			if got := p.host.Grads[i][k]; math.Abs(float64(got-g)) > 1e-2*math.Max(0.01, math.Abs(float64(g))) {
				t.Fatalf("gradient of %s at %d under another scale is %g, want %g", v.Name, k, got, g)
			}
		}
	}
}

func TestLabelsAndPlansThatTheDeviceCannotTakeAreErrors(t *testing.T) {
	_, gpu := cuda.NewFake(9)
	p := compile(t, models[1], cuda.Config{GPU: gpu})
	p.host.Inputs[1].Data.([]int32)[2] = 5
	err := p.Run(t.Context(), false, plan.Hooks{})
	if err == nil || !strings.Contains(err.Error(), "label of example 2 is 5, want -1 to 4") || !strings.Contains(err.Error(), "CrossEntropy") {
		t.Errorf("label 5 of 5 classes: got error %v", err)
	}
	weighted := model{"class weights", 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 3, 4), "fc", nn.LinearConfig{Out: 5})
		return nn.CrossEntropy(x, nn.Labels(g, "labels", 3), nn.CrossEntropyConfig{ClassWeights: []float32{1, 2, 3, 4, 5}})
	}}
	wp, _ := build(t, weighted, false, nil)
	if _, err := cuda.New(wp, newHost(wp), cuda.Config{GPU: gpu}); err == nil || !strings.Contains(err.Error(), "nn.CrossEntropyConfig.ClassWeights") {
		t.Errorf("weights of classes: got error %v, want one that names them", err)
	}
	soft := model{"soft targets", 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 3, 4), "fc", nn.LinearConfig{Out: 5})
		return nn.SoftCrossEntropy(x, nn.Input(g, "targets", 3, 5))
	}}
	sp, _ := build(t, soft, false, nil)
	if _, err := cuda.New(sp, newHost(sp), cuda.Config{GPU: gpu}); err == nil || !strings.Contains(err.Error(), "SoftCrossEntropy{}") || !strings.Contains(err.Error(), "CPU") {
		t.Errorf("soft targets: got error %v, want one that names the loss and where it runs", err)
	}
	foreign := model{"tanh", 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Linear(nn.Input(g, "x", 3, 4), "fc", nn.LinearConfig{Out: 5})
		return nn.SoftmaxCrossEntropy(gorgonia.Must(gorgonia.Tanh(x)), nn.Labels(g, "labels", 3))
	}}
	fp, _ := build(t, foreign, false, nil)
	if _, err := cuda.New(fp, newHost(fp), cuda.Config{GPU: gpu}); err == nil || !strings.Contains(err.Error(), "tanh") || !strings.Contains(err.Error(), "cpu:0") {
		t.Errorf("tanh: got error %v, want one that names it and where it runs", err)
	}
}

func TestADeviceThatHangsIsAnError(t *testing.T) {
	f, gpu := cuda.NewFake(10)
	p, _ := build(t, models[1], false, nil)
	e, err := cuda.New(p, newHost(p), cuda.Config{GPU: gpu, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f.Hang = make(chan struct{})
	defer close(f.Hang)
	for range 2 {
		if err := e.Run(t.Context(), false, plan.Hooks{}); err == nil || !strings.Contains(err.Error(), "hangs") {
			t.Errorf("got error %v, want one that says that the device hangs", err)
		}
	}
	if err := errors.Join(e.Close(), gpu.Close()); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("close: got error %v, want one that says that the device hangs", err)
	}
}

func TestWorkThatCannotBeCapturedIsLaunchedOneByOne(t *testing.T) {
	m := models[len(models)-2]
	f, gpu := cuda.NewFake(11)
	plain, refused := compile(t, m, cuda.Config{GPU: gpu, Bucket: 2048}), compile(t, m, cuda.Config{GPU: gpu, Bucket: 2048})
	plain.fill(t, nil, 5, 1)
	refused.fill(t, nil, 5, 1)
	captures := 0
	for range 4 {
		f.Refuse = nil
		want := plain.step(t)
		f.Refuse = func(call string) error {
			if call == "end capture" || call == "instantiate" {
				// Some are refused late, some early, some not at all.
				if captures++; captures%2 == 0 {
					return errors.New("operation would make the legacy stream depend on a capturing blocking stream")
				}
			}
			return nil
		}
		if got := refused.step(t); got != want {
			t.Errorf("loss is %g, want %g", got, want)
		}
		for i, v := range plain.plan.Params {
			if !slices.Equal(refused.host.Grads[i], plain.host.Grads[i]) {
				t.Errorf("gradient of %s is another", v.Name)
			}
		}
	}
	if captures == 0 {
		t.Error("nothing was captured")
	}
	f.Refuse = nil
}
