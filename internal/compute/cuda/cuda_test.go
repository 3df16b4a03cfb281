package cuda_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A model builds a graph and says how many classes its labels have.
type model struct {
	name    string
	classes int
	build   func(g *gorgonia.ExprGraph) *gorgonia.Node
}

func classifier(name string, batch int, shape []int, net func(x *gorgonia.Node) *gorgonia.Node) model {
	return model{name, 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", append([]int{batch}, shape...)...)
		return nn.SoftmaxCrossEntropy(net(x), nn.Labels(g, "labels", batch))
	}}
}

func end(x *gorgonia.Node) *gorgonia.Node {
	return nn.Linear(nn.Flatten(x), "fc", nn.LinearConfig{Out: 5})
}

func conv(x *gorgonia.Node, name string, filters, kernel, stride, pad int) *gorgonia.Node {
	return nn.Conv2D(x, name, nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(kernel), Stride: nn.Square(stride), Pad: nn.Square(pad)})
}

// models have every kind of operation that there is a kernel for, in every surrounding that the
// lowering tells apart.
var models = []model{
	classifier("linear", 7, []int{9}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(x, "fc", nn.LinearConfig{Out: 5, NoBias: true})
	}),
	classifier("mlp", 6, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 5})
	}),
	{"smoothed labels", 5, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", 6, 11)
		return nn.SmoothedCrossEntropy(nn.Linear(x, "fc", nn.LinearConfig{Out: 5}), nn.Labels(g, "labels", 6), 0.1)
	}},
	classifier("mlp dropout", 6, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 5, Dropout: 0.3})
	}),
	classifier("conv", 3, []int{3, 7, 6}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(conv(conv(x, "conv1", 4, 3, 2, 1), "conv2", 5, 1, 1, 0))
	}),
	classifier("conv bias relu", 3, []int{2, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.ReLU(nn.Conv2D(x, "conv1", nn.Conv2DConfig{Filters: 4, Kernel: nn.Square(3), Bias: true})))
	}),
	classifier("conv relu", 3, []int{3, 6, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(conv(nn.ReLU(conv(x, "conv1", 6, 3, 1, 1)), "conv2", 4, 3, 1, 0))
	}),
	classifier("batch norm", 4, []int{3, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.BatchNorm2D(conv(x, "conv1", 6, 3, 1, 1), "bn", nn.BatchNormConfig{}))
	}),
	classifier("batch norm relu", 4, []int{3, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv1", 6, 3, 1, 1), "bn", nn.BatchNormConfig{}))
		return end(conv(x, "conv2", 4, 3, 1, 0))
	}),
	classifier("residual", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{})
		x = nn.ReLU(nn.Add(y, x))
		y = nn.BatchNorm2D(conv(x, "conv2", 6, 3, 2, 1), "bn2", nn.BatchNormConfig{})
		z := nn.BatchNorm2D(conv(x, "down", 6, 1, 2, 0), "bn3", nn.BatchNormConfig{})
		return end(nn.ReLU(nn.Add(y, z)))
	}),
	classifier("residual of the input", 4, []int{8, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		// Nobody wants the gradient of what is added.
		x = nn.ReLU(nn.Add(nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{}), x))
		return end(conv(x, "conv2", 8, 3, 2, 1))
	}),
	classifier("residual of an input of six", 4, []int{6, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.ReLU(nn.Add(nn.BatchNorm2D(conv(x, "conv1", 6, 3, 1, 1), "bn1", nn.BatchNormConfig{}), x)))
	}),
	classifier("bare residual", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "conv0", 8, 3, 1, 1)

		// The gradient of the sum is what conv1's gradient is added to.
		return end(nn.Add(conv(x, "conv1", 8, 3, 1, 1), x))
	}),
	classifier("bare residual of six", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "conv0", 6, 3, 1, 1)
		return end(nn.Add(conv(x, "conv1", 6, 3, 1, 1), x))
	}),
	classifier("pools", 3, []int{3, 9, 8}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.MaxPool2D(conv(x, "conv1", 4, 3, 1, 1), nn.PoolConfig{Kernel: nn.Square(3), Stride: nn.Square(2), Pad: nn.Square(1)})
		x = nn.AvgPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Stride: nn.Square(1), Pad: nn.Square(1)})
		x = nn.AvgPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Stride: nn.Square(1), Pad: nn.Square(1), ExcludePad: true})
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 5})
	}),
	classifier("dropout images", 3, []int{3, 4, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return end(nn.Dropout(conv(x, "conv1", 4, 3, 1, 1), "drop", 0.5))
	}),
	classifier("softmax", 4, []int{6}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(nn.Softmax(nn.Linear(x, "fc1", nn.LinearConfig{Out: 7})), "fc2", nn.LinearConfig{Out: 5})
	}),
	classifier("softmax of a mean", 4, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.Linear(nn.Softmax(nn.GlobalAvgPool2D(conv(x, "conv1", 6, 3, 1, 1))), "fc2", nn.LinearConfig{Out: 5})
	}),
	{"embedding mse", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		ids := nn.IDs(g, "ids", 4, 3)
		x := nn.Flatten(nn.Embedding(ids, "table", nn.EmbeddingConfig{Rows: 10, Dim: 5}))
		return nn.MSE(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), nn.Input(g, "t", 4, 2))
	}},
	classifier("lenet", 2, []int{1, 28, 28}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.LeNet(x, nn.LeNetConfig{Classes: 5})
	}),
	classifier("resnet18 cifar", 3, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 8})
	}),
	classifier("resnet18 imagenet", 3, []int{3, 48, 48}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Width: 4})
	}),
}

// A program is an executor with what its user sees.
type program struct {
	*cuda.Executor
	plan *plan.Plan
	host *plan.Host
	loss *gorgonia.Node
}

func build(t testing.TB, m model, inference bool, outputs func(*gorgonia.ExprGraph) gorgonia.Nodes) (*plan.Plan, *gorgonia.Node) {
	t.Helper()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	loss := m.build(g)
	r := plan.Request{Root: loss, Batch: plan.FindExamples(loss, nil, inference).Batch, Inference: inference, Residuals: true}
	if inference {
		r.Params = nn.Parameters(g)
	} else {
		params, grads, err := op.Gradients(loss)
		if err != nil {
			t.Fatal(err)
		}
		r.Params, r.Grads, r.Seed = params, grads, loss.Deriv()
	}
	if outputs != nil {
		r.Outputs = outputs(g)
	}
	p, err := plan.Build(r)
	if err != nil {
		t.Fatal(err)
	}
	return p, loss
}

// newHost is the memory of a program. Parameters and gradients of even number lie in a block,
// others apart.
func newHost(p *plan.Plan) *plan.Host {
	h := &plan.Host{States: map[string]*plan.State{}}
	place := func(values []*plan.Value, fill bool) [][]float32 {
		var out [][]float32
		total := 0
		for _, v := range values {
			total += (v.Len() + 15) / 16 * 16
		}
		block := shm.Float32s(total)
		h.Blocks = append(h.Blocks, block)
		for i, v := range values {
			m := block[:v.Len():v.Len()]
			block = block[(v.Len()+15)/16*16:]
			if i%5 == 4 {
				m = make([]float32, v.Len())
			}
			if fill {
				copy(m, v.Node.Value().Data().([]float32))
			}
			out = append(out, m)
		}
		return out
	}
	h.Params = place(p.Params, true)
	if p.Grads != nil {
		h.Grads = place(p.Params, false)
	}
	for _, v := range p.Inputs {
		var data any = make([]float32, v.Len())
		if v.Dtype == tensor.Int32 {
			data = make([]int32, v.Len())
		}
		h.Inputs = append(h.Inputs, plan.HostInput{Data: data})
	}
	for _, o := range p.Ops {
		if bn, ok := o.Attr.(*op.BatchNorm2D); ok {
			h.States[bn.State.Name] = &plan.State{Mean: bn.State.Mean.Data().([]float32), Var: bn.State.Var.Data().([]float32)}
		}
	}
	return h
}

func compile(t testing.TB, m model, cfg cuda.Config) *program {
	t.Helper()
	p, loss := build(t, m, false, nil)
	h := newHost(p)
	e, err := cuda.New(p, h, cfg)
	gputest.Must(t, err)
	t.Cleanup(func() { closed(t, e) })
	return &program{e, p, h, loss}
}

// closed closes something of a GPU. What one holds that was lost goes with the process.
func closed(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil && !(gputest.On() && t.Failed()) {
		t.Error(err)
	}
}

// reference is the judge, in float64. Each fill gives it the program's parameters.
func reference(t testing.TB, m model) *ref.Runner {
	t.Helper()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7, Float64: true})
	r, err := ref.New(m.build(g))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// fill gives every input random numbers and every label a class.
func (p *program) fill(t testing.TB, r *ref.Runner, classes int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for i, v := range p.plan.Inputs {
		values := make([]float64, v.Len())
		switch d := p.host.Inputs[i].Data.(type) {
		case []float32:
			for k := range d {
				d[k] = float32(rng.NormFloat64())
				values[k] = float64(d[k])
			}
		case []int32:
			for k := range d {
				d[k] = int32(rng.IntN(classes))
				values[k] = float64(d[k])
			}
		}
		if r == nil {
			continue
		}
		gputest.Must(t, r.Set(v.Name, values))
	}
	if r == nil {
		return
	}
	for i, v := range p.plan.Params {
		gputest.Must(t, r.Set(v.Name, float64s(p.host.Params[i])))
	}
}

func float64s(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func (p *program) step(t testing.TB) float64 {
	t.Helper()
	gputest.Must(t, p.Run(context.Background(), false, plan.Hooks{}))
	return p.number(t)
}

func (p *program) number(t testing.TB) float64 {
	t.Helper()
	loss, err := p.Number(p.plan.Loss)
	gputest.Must(t, err)
	return loss
}

// distance is |got − want| / |want| over all gradients, and the largest of one parameter's.
func (p *program) distance(want func(name string) []float64) (all, most float64, name string) {
	var off, size float64
	for i, v := range p.plan.Params {
		var o, s float64
		for k, w := range want(v.Name) {
			d := float64(p.host.Grads[i][k]) - w
			o += d * d
			s += w * w
		}
		if d := math.Sqrt(o / s); o != 0 && gputest.Worse(d, most) {
			most, name = d, v.Name
		}
		off, size = off+o, size+s
	}
	return math.Sqrt(off / size), most, name
}

// equalsReference holds three steps against the reference: launched one by one, captured, replayed.
func (p *program) equalsReference(t *testing.T, m model, loss, gradient float64) {
	t.Helper()
	r := reference(t, m)
	for step := range 3 {
		p.fill(t, r, m.classes, uint64(step))
		got := p.step(t)
		gputest.Must(t, r.Step())
		p.near(t, r, step, got, loss, gradient)
	}
}

// near holds a step's loss and gradient against the reference's.
func (p *program) near(t *testing.T, r *ref.Runner, step int, got, loss, gradient float64) {
	t.Helper()
	want := r.Loss()
	gputest.Within(t, ": loss", math.Abs(got-want)/math.Max(1, math.Abs(want)), loss, relative, fmt.Sprintf("step %d: loss is %g, want %g", step, got, want))
	all, most, name := p.distance(r.Grad)
	gputest.Within(t, gputest.Gradient, all, gradient, relative, fmt.Sprintf("step %d; most in %s: %.3g", step, name, most))
}

// relative is the unit of errors.
const relative = "relative error"

// In 16 bits this is a rough look: TestStepsAreThoseOfTheReferenceThatRoundsAtTheSamePlaces is the
// fine one.
func TestStepsEqualTheReference(t *testing.T) {
	for _, c := range []struct {
		typ            cuda.Compute
		loss, gradient float64
		half           bool
	}{{cuda.Float32, 1e-5, 1e-5, false}, {cuda.TF32, 1e-5, 1e-5, false}, {cuda.BFloat16, 1e-2, 0.12, false}, {cuda.BFloat16, 1e-2, 0.12, true}, {cuda.Float16, 2e-3, 5e-2, false}} {
		for _, m := range models {
			if c.typ != cuda.Float32 && strings.HasPrefix(m.name, "resnet") {
				// Its gradient is a rough function: rounding turns ReLUs over.
				continue
			}
			if c.typ == cuda.TF32 && m.name == "lenet" && !slow() {
				// It is the largest, and the stand-ins compute TF32 as float32.
				continue
			}
			t.Run(fmt.Sprintf("%v %v %s", c.typ, c.half, m.name), func(t *testing.T) {
				f, gpu := cuda.NewFake(1)
				f.HalfGradients = c.half
				f.NoSums, f.SumsApart = c.half, c.typ == cuda.TF32
				p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 512})
				p.equalsReference(t, m, c.loss, c.gradient)
				if t.Failed() {
					t.Logf("plan:\n%v", p.plan)
				}
			})
		}
	}
}
