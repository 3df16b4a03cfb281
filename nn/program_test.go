package nn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// joins is a network with every kind of join: residual, downsample, batch normalisation, bias.
var joins = tenClasses("joins", 6, []int{3, 8, 8}, func(x *gorgonia.Node) *gorgonia.Node {
	x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
	y := nn.BatchNorm2D(conv(x, "conv1", 12, 3, 2, 1), "bn1", nn.BatchNormConfig{})
	z := nn.BatchNorm2D(conv(x, "down", 12, 1, 2, 0), "bn2", nn.BatchNormConfig{})
	x = nn.MaxPool2D(nn.ReLU(nn.Add(y, z)), nn.PoolConfig{Kernel: nn.Square(2)})
	return nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 10})
})

func step(t testing.TB, p *nn.Program, ready func(i int)) {
	t.Helper()
	if err := p.Step(context.Background(), ready); err != nil {
		t.Fatal(err)
	}
}

func TestReadyIsCalledOnceForEachParameterWhenItsGradientIsFinal(t *testing.T) {
	loss, p := compile(t, joins, nn.Config{Threads: 2})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	for range 2 {
		for _, q := range p.Params() {
			for i := range q.Gradient {
				q.Gradient[i] = float32(math.NaN())
			}
		}
		var order []string
		seen := make([][]float32, len(p.Params()))
		step(t, p, func(i int) {
			q := p.Params()[i]
			if seen[i] != nil {
				t.Errorf("ready was called again for %s", q.Name)
			}
			seen[i] = slices.Clone(q.Gradient)
			order = append(order, q.Name)
		})
		for i, q := range p.Params() {
			switch {
			case seen[i] == nil:
				t.Errorf("ready was not called for %s", q.Name)
			case !slices.Equal(seen[i], q.Gradient):
				t.Errorf("gradient of %s changed after ready, or was not written", q.Name)
			}
		}
		if !strings.HasPrefix(order[0], "fc.") || order[len(order)-1] != "conv0.weight" {
			t.Errorf("order of ready is %q, want fc first and conv0 last", order)
		}
	}
}

func TestWaitIsCalledBeforeAParameterIsRead(t *testing.T) {
	loss, p := compile(t, joins, nn.Config{Threads: 1})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	step(t, p, nil)
	want := p.Loss()
	values := make([][]float32, len(p.Params()))
	for i, q := range p.Params() {
		values[i] = slices.Clone(q.Value)
		for k := range q.Value {
			q.Value[k] = float32(math.NaN())
		}
	}
	var order []string
	wait := func(i int) {
		q := p.Params()[i]
		copy(q.Value, values[i])
		order = append(order, q.Name)
	}
	if err := p.StepOverlapped(context.Background(), wait, nil); err != nil {
		t.Fatal(err)
	}
	if got := p.Loss(); got != want {
		t.Errorf("loss is %g, want %g: a parameter was read before its wait", got, want)
	}
	if len(order) != len(p.Params()) || order[0] != "conv0.weight" || !strings.HasPrefix(order[len(order)-1], "fc.") {
		t.Errorf("waits were %q, want each of %d parameters once, conv0 first", order, len(p.Params()))
	}
}

func TestValueAndGradientAreNotReadAfterReady(t *testing.T) {
	sum := model{"sum", 0, func(g *gorgonia.ExprGraph) *gorgonia.Node { // one gradient for two
		return nn.MSE(nn.Add(weight(g, "a", 3, 4), weight(g, "b", 3, 4)), nn.Input(g, "t", 3, 4))
	}}
	for _, m := range append(models, joins, mixed, sum) {
		loss, p := compile(t, m, nn.Config{Threads: 1})
		fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
		step(t, p, nil)
		var values, want [][]float32
		for _, q := range p.Params() {
			values, want = append(values, slices.Clone(q.Value)), append(want, slices.Clone(q.Gradient))
		}
		p.SetStep(0)
		got := make([][]float32, len(values))
		step(t, p, func(i int) {
			q := p.Params()[i]
			got[i] = slices.Clone(q.Gradient)
			for k := range q.Value {
				q.Value[k], q.Gradient[k] = float32(math.NaN()), float32(math.NaN())
			}
		})
		for i, q := range p.Params() {
			copy(q.Value, values[i])
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("%s: gradient of %s is another when values change as they are ready", m.name, q.Name)
			}
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, m := range append(models, joins) {
		for _, cfg := range []nn.Config{{Threads: 1}, {Threads: 2}, {Threads: 2, DType: nn.BFloat16}} {
			loss, p := compile(t, m, cfg)
			fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
			ready, ctx := func(int) {}, context.Background()
			if n := alloctest.PerRun(5, func() {
				if err := p.StepOverlapped(ctx, ready, ready); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, %v, %d threads: a step allocates %g times", m.name, cfg.DType, cfg.Threads, n)
			}
		}
	}
}

func TestResultsDoNotDependOnThreads(t *testing.T) {
	for dtype, counts := range map[nn.DType][]int{nn.Float32: {1, 2, 3}, nn.BFloat16: {1, 4}} {
		for _, m := range append(models, joins) {
			var want []nn.Param
			for _, threads := range counts {
				loss, p := compile(t, m, nn.Config{Threads: threads, DType: dtype})
				fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
				step(t, p, nil)
				step(t, p, nil)
				if want == nil {
					want = p.Params()
				}
				for i, q := range p.Params() {
					if !slices.Equal(q.Gradient, want[i].Gradient) {
						t.Errorf("%s, %v: gradient of %s differs between 1 and %d threads", m.name, dtype, q.Name, threads)
					}
				}
			}
		}
	}
}

func TestGradientsAreThoseOfFiniteDifferences(t *testing.T) {
	// Along the gradient itself: d/dh loss(w + h·g/|g|) = |g|. A tenth of a percent is what
	// float32 leaves of it.
	loss, p := compile(t, tenClasses("smooth", 8, []int{12}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(nn.Softmax(nn.Linear(x, "fc1", nn.LinearConfig{Out: 16})), "fc2", nn.LinearConfig{Out: 10})
	}), nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, 10, 1)
	step(t, p, nil)
	var norm float64
	var grads [][]float32
	for _, q := range p.Params() {
		grads = append(grads, slices.Clone(q.Gradient))
		for _, v := range q.Gradient {
			norm += float64(v) * float64(v)
		}
	}
	norm = math.Sqrt(norm)
	at := func(h float64) float64 {
		for i, q := range p.Params() {
			for k := range q.Value {
				q.Value[k] += float32(h / norm * float64(grads[i][k]))
			}
		}
		if err := p.Forward(context.Background()); err != nil {
			t.Fatal(err)
		}
		return p.Loss()
	}
	const h = 0.02
	up := at(h)
	down := at(-2 * h)
	if got := (up - down) / (2 * h); math.Abs(got-norm) > 2e-3*norm {
		t.Errorf("slope along the gradient is %g, want its norm %g", got, norm)
	}
}

func TestInferenceSharesParametersAndEqualsReference(t *testing.T) {
	var logits *gorgonia.Node
	net := func(batch int) model {
		return tenClasses("net", batch, []int{3, 8, 8}, func(x *gorgonia.Node) *gorgonia.Node {
			logits = nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: 4})
			logits = nn.Linear(nn.Dropout(nn.ReLU(logits), "drop", 0.5), "head", nn.LinearConfig{Out: 10})
			return logits
		})
	}
	loss, p := compile(t, net(6), nn.Config{Threads: 1})
	trainedLogits := logits
	_, r := reference(t, net(6))
	refLogits := logits
	fillInputs(t, loss.Graph(), p, r, 10, 1)
	for range 3 {
		step(t, p, nil)
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
	}
	want, err := r.Eval(refLogits)
	if err != nil {
		t.Fatal(err)
	}

	same, err := nn.Compile(trainedLogits, nn.Config{Threads: 1, Inference: true}) // the same graph, its own values
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	x, _ := p.Input("x")
	sx, err := same.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	copy(sx, x)
	if err := same.Forward(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, err := same.Output(trainedLogits)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "logits in evaluation", got, want, 1e-3)

	// Another graph with another batch size, over the trained program's values.
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 99})
	evalLoss := net(2).build(g)
	eval, err := nn.Compile(evalLoss, nn.Config{Inference: true, Share: p, Outputs: gorgonia.Nodes{logits}})
	if err != nil {
		t.Fatal(err)
	}
	defer eval.Close()
	ex, err := eval.Input("x")
	if err != nil {
		t.Fatal(err)
	}
	for b := 0; b < 6; b += 2 {
		copy(ex, x[b*3*8*8:])
		if err := eval.Forward(context.Background()); err != nil {
			t.Fatal(err)
		}
		got, err := eval.Output(logits)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("logits of examples %d and %d", b, b+1), got, want[b*10:(b+2)*10], 1e-3)
	}
	if err := eval.Step(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "inference") {
		t.Errorf("Step of an inference program: got error %v, want one that says so", err)
	}
}

func TestRunningStatisticsFollowTheFormula(t *testing.T) {
	const momentum = 0.25
	loss, p := compile(t, classifier("bn", 2, []int{1, 2, 3}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{Momentum: momentum}))
	}), nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, 5, 1)
	x, _ := p.Input("x")
	var mean, variance float64
	for _, v := range x {
		mean += float64(v) / 12
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / 11 // unbiased
	}
	step(t, p, nil)
	want := []float64{momentum * mean, (1 - momentum) + momentum*variance}
	for i, s := range p.State() {
		near(t, s.Name, s.Value, want[i:i+1], 1e-5)
	}
}

func TestRunningVarianceHoldsWhereTheMeanIsLarge(t *testing.T) {
	for _, ratio := range []float32{0, 9, 11, 100, 1e4} { // of the mean to the deviation
		loss, p := compile(t, classifier("bn", 300, []int{1, 8, 8}, func(x *gorgonia.Node) *gorgonia.Node {
			return end(nn.BatchNorm2D(x, "bn", nn.BatchNormConfig{Momentum: 1}))
		}), nn.Config{})
		fillInputs(t, loss.Graph(), p, nil, 5, 1)
		x, _ := p.Input("x")
		var mean, variance float64
		for i := range x {
			x[i] += ratio
			mean += float64(x[i]) / float64(len(x))
		}
		for _, v := range x {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(x)-1)
		}
		step(t, p, nil)
		nearScale(t, fmt.Sprintf("mean, %g times the deviation", ratio), p.State()[0].Value, []float64{mean}, 1e-6, 1)
		near(t, fmt.Sprintf("variance, mean %g times the deviation", ratio), p.State()[1].Value, []float64{variance}, 1e-6)
	}
}

func TestGradScaleMultipliesGradients(t *testing.T) {
	for _, m := range []model{joins, mixed} { // the second begins its gradients in ops that are not ours
		loss, p := compile(t, m, nn.Config{})
		fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
		step(t, p, nil)
		var want [][]float64
		for _, q := range p.Params() {
			w := make([]float64, len(q.Gradient))
			for i, v := range q.Gradient {
				w[i] = 3 * float64(v)
			}
			want = append(want, w)
		}
		p.SetGradScale(3)
		for range 2 {
			step(t, p, nil)
		}
		for i, q := range p.Params() {
			near(t, m.name+": gradient of "+q.Name, q.Gradient, want[i], 1e-5)
		}
	}
}

func TestDropoutGoesOnFromAStep(t *testing.T) {
	m := models[2]
	loss, p := compile(t, m, nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
	var losses []float64
	for range 4 {
		step(t, p, nil)
		losses = append(losses, p.Loss())
	}
	if losses[0] == losses[1] {
		t.Errorf("losses of steps 0 and 1 are both %g: the mask did not change", losses[0])
	}
	p.SetStep(2)
	step(t, p, nil)
	if p.Loss() != losses[2] {
		t.Errorf("loss of step 2 repeated is %g, want %g", p.Loss(), losses[2])
	}
	loss, other := compile(t, m, nn.Config{Seed: 1})
	fillInputs(t, loss.Graph(), other, nil, m.classes, 1)
	step(t, other, nil)
	if other.Loss() == losses[0] {
		t.Errorf("another Seed gives the same loss %g", losses[0])
	}
}

func TestParametersLeftOutKeepTheirValuesAndGetNoGradient(t *testing.T) {
	g := gorgonia.NewGraph()
	loss := joins.build(g)
	var head gorgonia.Nodes
	for _, n := range nn.Parameters(g) {
		if strings.HasPrefix(n.Name(), "fc.") {
			head = append(head, n)
		}
	}
	p, err := nn.Compile(loss, nn.Config{Params: head})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := len(p.Params()); got != 2 {
		t.Errorf("program has %d parameters, want fc.weight and fc.bias", got)
	}
	if strings.Contains(p.Plan(), "ConvBackward") || strings.Contains(p.Plan(), "BatchNormGrad") {
		t.Errorf("the plan goes backward through layers that are not trained:\n%s", p.Plan())
	}
	_, whole := compile(t, joins, nn.Config{})
	for _, l := range op.Leaves(g) {
		for _, q := range whole.Params() {
			if q.Name == l.Node.Name() {
				copy(q.Value, l.Node.Value().Data().([]float32))
			}
		}
	}
	x, _ := p.Input("x")
	wx, _ := whole.Input("x")
	copy(x, noise32(len(x)))
	copy(wx, x)
	step(t, p, nil)
	step(t, whole, nil)
	if p.Loss() != whole.Loss() {
		t.Errorf("loss is %g, want %g as with all parameters", p.Loss(), whole.Loss())
	}
	n := len(whole.Params())
	for i, q := range p.Params() {
		if want := whole.Params()[n-2+i]; !slices.Equal(q.Gradient, want.Gradient) {
			t.Errorf("gradient of %s differs from that with all parameters", q.Name)
		}
	}
}

func noise32(n int) []float32 {
	out := make([]float32, n)
	for i, v := range noise(n, 3) {
		out[i] = float32(v)
	}
	return out
}

func TestMissingRowsCountForNothing(t *testing.T) {
	m := func(batch int) model { return models[1].resized(batch) }
	loss, p := compile(t, m(4), nn.Config{})
	fillInputs(t, loss.Graph(), p, nil, 5, 1)
	labels, _ := p.Labels("labels")
	labels.Set([]int32{1, 2})
	step(t, p, nil)
	_, half := compile(t, m(2), nn.Config{})
	x, _ := p.Input("x")
	hx, _ := half.Input("x")
	copy(hx, x)
	halfLabels, _ := half.Labels("labels")
	halfLabels.Set([]int32{1, 2})
	step(t, half, nil)
	if math.Abs(p.Loss()-half.Loss()) > 1e-6 {
		t.Errorf("loss with two rows missing is %g, want %g", p.Loss(), half.Loss())
	}
	for i, q := range p.Params() {
		want := make([]float64, len(q.Gradient))
		for k, v := range half.Params()[i].Gradient {
			want[k] = float64(v)
		}
		near(t, "gradient of "+q.Name, q.Gradient, want, 1e-5)
	}
	labels.Set(nil)
	step(t, p, nil)
	if p.Loss() != 0 {
		t.Errorf("loss of no rows is %g, want 0", p.Loss())
	}
}

// resized is the MLP of models with another batch size.
func (m model) resized(batch int) model {
	return classifier(m.name, batch, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 5})
	})
}

func TestTensorsShareTheProgramsMemory(t *testing.T) {
	_, p := compile(t, joins, nn.Config{})
	q := p.Params()[0]
	q.Value[1], q.Gradient[2] = 42, 43
	if got := q.ValueTensor().Data().([]float32)[1]; got != 42 {
		t.Errorf("value as a tensor has %g, want 42", got)
	}
	if got := q.GradientTensor().Data().([]float32)[2]; got != 43 {
		t.Errorf("gradient as a tensor has %g, want 43", got)
	}
	x, _ := p.Input("x")
	x[5] = 44
	tx, err := p.InputTensor("x")
	if err != nil || tx.Data().([]float32)[5] != 44 {
		t.Errorf("input as a tensor is %v, error %v, want 44 at 5", tx, err)
	}
}

func TestStepStopsWhenItsContextEnds(t *testing.T) {
	_, p := compile(t, joins, nn.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	err := p.Step(ctx, func(int) { calls++; cancel() })
	if !errors.Is(err, context.Canceled) || calls == len(p.Params()) {
		t.Errorf("got error %v after %d gradients, want context canceled after the first op with one", err, calls)
	}
}

func TestMemoryIsSharedBetweenValues(t *testing.T) {
	_, p := compile(t, tenClasses("resnet", 8, []int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: 16})
	}), nn.Config{})
	m := p.Memory()
	t.Log(m)
	if m.Arena < m.Live || float64(m.Arena) > 1.1*float64(m.Live) {
		t.Errorf("arena is %d bytes, want between the %d that are alive at once and a tenth more", m.Arena, m.Live)
	}
	if float64(m.Arena) > 0.6*float64(m.Unplaced) {
		t.Errorf("arena is %d bytes, without sharing it would be %d", m.Arena, m.Unplaced)
	}
}

// A process may compile the models of several devices, or of several jobs, at once.
func TestProgramsAreCompiledBesideEachOther(t *testing.T) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		loss := joins.build(gorgonia.NewGraph())
		all.Go(func() {
			<-begin
			if _, err := nn.Compile(loss, nn.Config{Threads: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	all.Wait()
}
