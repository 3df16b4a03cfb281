package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

func float32Bytes(m []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m))), 4*len(m))
}

func linear(x *gorgonia.Node, name string) *gorgonia.Node {
	return nn.Linear(nn.Flatten(x), name, nn.LinearConfig{Out: 10})
}

func conv(x *gorgonia.Node, name string, filters, kernel, stride int, bias bool) *gorgonia.Node {
	return nn.Conv2D(x, name, nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(kernel), Stride: nn.Square(stride), Pad: nn.Square(kernel / 2), Bias: bias})
}

func norm(x *gorgonia.Node, name string) *gorgonia.Node {
	return nn.BatchNorm2D(x, name, nn.BatchNormConfig{})
}

// nets have every operation, in every surrounding that the lowering tells apart.
var nets = []model{
	classifier("layers with dropout", 6, []int{11}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{17, 8}, Classes: 10, Dropout: 0.3})
	}),
	classifier("bias and ReLU", 3, []int{2, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		return linear(nn.ReLU(conv(x, "conv1", 4, 3, 1, true)), "fc")
	}),
	classifier("residuals", 4, []int{4, 8, 8}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(norm(conv(x, "conv0", 8, 3, 1, false), "bn0"))
		y := norm(conv(x, "conv1", 8, 3, 1, false), "bn1")
		x = nn.ReLU(nn.Add(y, x))
		y = norm(conv(x, "conv2", 6, 3, 2, false), "bn2")
		return linear(nn.ReLU(nn.Add(y, norm(conv(x, "down", 6, 1, 2, false), "bn3"))), "fc")
	}),
	classifier("bare residuals", 4, []int{4, 5, 5}, func(x *gorgonia.Node) *gorgonia.Node {
		x = conv(x, "conv0", 6, 3, 1, false)
		return linear(nn.Add(conv(x, "conv1", 6, 3, 1, false), x), "fc")
	}),
	classifier("pools", 3, []int{3, 9, 8}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.MaxPool2D(conv(x, "conv1", 4, 3, 1, false), nn.PoolConfig{Kernel: nn.Square(3), Stride: nn.Square(2), Pad: nn.Square(1)})
		x = nn.AvgPool2D(x, nn.PoolConfig{Kernel: nn.Square(2), Stride: nn.Square(1), Pad: nn.Square(1)})
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
	}),
	classifier("softmax inside", 4, []int{6}, func(x *gorgonia.Node) *gorgonia.Node {
		return linear(nn.Softmax(linear(x, "fc1")), "fc2")
	}),
	{"embedding and squares", 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Flatten(nn.Embedding(nn.IDs(g, "ids", 4, 3), "table", nn.EmbeddingConfig{Rows: 10, Dim: 5}))
		return nn.MSE(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), nn.Input(g, "t", 4, 2))
	}},
	classifier("LeNet", 2, []int{1, 28, 28}, func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: 10}) }),
	classifier("ResNet18 of large images, narrow", 3, []int{3, 48, 48}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Width: 4}) // of which a gradient is a rough function: in float32 alone
	}),
}

func checkNets(c *checker) error {
	gpu, err := c.openGPU(c.device, guesses)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		typ            cuda.Compute
		loss, gradient float64
	}{{cuda.Float32, 1e-5, 1e-4}, {cuda.BFloat16, 1e-2, 0.12}, {cuda.TF32, 1e-2, 0.12}, {cuda.Float16, 1e-2, 0.12}} {
		for _, m := range nets {
			name := fmt.Sprintf("%s, %v", m.name, t.typ)
			rough := strings.HasPrefix(m.name, "ResNet") && t.typ != cuda.Float32
			if rough || c.small && m.name == "LeNet" || c.late(name) {
				continue
			}
			err := c.net(name, m, cuda.Config{GPU: gpu, Type: t.typ, Bucket: 2048}, 3, t.loss, t.gradient)
			if err != nil {
				c.failed(name, err)
				if lost(err) {
					return err
				}
			}
		}
	}
	return gpu.Close()
}

// net compares steps with the reference: the first launch by launch, later ones as graphs.
func (c *checker) net(name string, m model, cfg cuda.Config, steps int, lossBound, gradientBound float64) (err error) {
	p, err := m.compile(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r, err := ref.New(m.graph(true))
	if err != nil {
		return err
	}
	defer r.Close()
	var loss, gradient float64
	where := ""
	for step := range steps {
		if err := errors.Join(p.fill(m.classes, uint64(step)), p.give(r)); err != nil {
			return err
		}
		got, err := p.step(c.ctx)
		if err != nil {
			return err
		}
		if err := r.Step(); err != nil {
			return err
		}
		if d := math.Abs(got-r.Loss()) / math.Max(1, math.Abs(r.Loss())); worse(d, loss) {
			loss = d
		}
		if d, most, of := p.distance(r.Grad); worse(d, gradient) {
			gradient, where = d, fmt.Sprintf("step %d; most in %s: %.3g", step, of, most)
		}
	}
	c.within(name+": loss", loss, lossBound, "")
	c.within(name+": gradient", gradient, gradientBound, where)
	return nil
}

// What ends the names of rows of gradients, and begins what is said of those that the reference judges: the bars look for them.
const (
	gradientSuffix = ": gradient"
	roundedSuffix  = gradientSuffix + ", rounding at the same places"
	refName        = "the reference"
	againstRef     = "against " + refName
)

// A judge is a loss with its gradients, by name.
type judge struct {
	name  string
	loss  float64
	grads map[string][]float64
}

// checkGradients compares gradients of the network that is measured: of a narrow one with the reference in float64, which is slow and exact, and of the whole
// one with the CPU executor in float32. A ReLU that rounding turns over changes a gradient by more than rounding itself: of the whole network with
// new parameters PyTorch's own gradient in bfloat16 is off by a third of its length, and by 3e-3 between two that compute in float32 (note 24). So
// what 16 bits compute is also judged op by op, by the reference that rounds at the same places.
func checkGradients(c *checker) error {
	narrow, whole := resnet18(4, 32, 16), resnet18(64, 32, 64)
	if c.small {
		narrow, whole = resnet18(3, 16, 8), resnet18(4, 16, 8)
	}
	gpu, err := c.openGPU(c.device, guesses)
	if err != nil {
		return err
	}
	if err := c.gradients(gpu, narrow, byRef, true, []gradientCase{{cuda.Float32, 1e-4, 1e-5}, {cuda.BFloat16, 0.5, 0.4}, {cuda.Float16, 0.2, 0.1}, {cuda.TF32, 0.2, 0.1}}); err != nil {
		return err
	}
	if err := c.gradients(gpu, whole, byCPU, false, []gradientCase{{cuda.Float32, 1e-2, 5e-3}, {cuda.BFloat16, 0.5, 0.4}, {cuda.Float16, 0.2, 0.1}}); err != nil {
		return err
	}
	return gpu.Close()
}

type gradientCase struct {
	typ        cuda.Compute
	wrong, aim float64
}

func (c *checker) gradients(gpu *cuda.GPU, m model, by func(c *checker, m model, p *program) (judge, error), exact bool, cases []gradientCase) error {
	var want *judge
	for _, t := range cases {
		what := fmt.Sprintf("%s, %v", m.name, t.typ)
		if c.small && t.typ == cuda.TF32 {
			c.skipped(what, "too few examples for its precision")
			continue
		}
		if c.late(what) {
			continue
		}
		p, err := m.compile(cuda.Config{GPU: gpu, Type: t.typ})
		if err != nil {
			c.failed(what, err)
			continue
		}
		if err := p.fill(m.classes, 1); err != nil {
			return err
		}
		if want == nil {
			begun := time.Now()
			j, err := by(c, m, p)
			if err != nil {
				return err
			}
			want = &j
			c.measured(m.name+" by "+j.name, time.Since(begun).Seconds(), "s", "loss %.7f", j.loss)
		}
		var loss float64
		for n := 0; n < 3 || !p.Finite() && n < 16; n++ { // eager, captured, launched: the same numbers each time
			if loss, err = p.step(c.ctx); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		lossBound := 1e-2
		if t.typ == cuda.Float32 {
			lossBound = 1e-5
		}
		c.within(what+": loss", math.Abs(loss-want.loss)/math.Abs(want.loss), lossBound, fmt.Sprintf("%.7f, want %.7f", loss, want.loss))
		all, most, name := p.distance(func(name string) []float64 { return want.grads[name] })
		w := row{Name: what + gradientSuffix, Status: ok, Value: all, Unit: "relative error", Bound: t.aim, Detail: fmt.Sprintf("against %s; most in %s: %.3g", want.name, name, most)}
		switch {
		case !(all <= t.wrong):
			w.Status = fail
		case all > t.aim:
			w.Status = miss
		}
		if c.small && t.typ != cuda.Float32 {
			w.Status, w.Bound = info, 0 // too few examples for its precision
		}
		c.row(w)
		if exact && t.typ != cuda.TF32 {
			if err := c.replay(what, p, t.typ, 3); err != nil {
				return err
			}
		}
		if err := p.Close(); err != nil {
			return err
		}
	}
	return nil
}

// byRef computes in float64, in the plainest way.
func byRef(_ *checker, m model, p *program) (judge, error) {
	r, err := ref.New(m.graph(true))
	if err != nil {
		return judge{}, err
	}
	defer r.Close()
	if err := p.give(r); err != nil {
		return judge{}, err
	}
	if err := r.Step(); err != nil {
		return judge{}, err
	}
	j := judge{refName, r.Loss(), map[string][]float64{}}
	for _, v := range p.plan.Params {
		j.grads[v.Name] = r.Grad(v.Name)
	}
	return j, nil
}

// byCPU computes in float32.
func byCPU(c *checker, m model, p *program) (judge, error) {
	q, err := nn.Compile(m.graph(false), nn.Config{Device: "cpu:0", DType: nn.Float32})
	if err != nil {
		return judge{}, err
	}
	defer q.Close()
	for i, v := range p.plan.Inputs {
		in, err := q.InputTensor(v.Name)
		if err != nil {
			return judge{}, err
		}
		switch d := p.host.Inputs[i].Data.(type) {
		case []float32:
			copy(in.Data().([]float32), d)
		case []int32:
			copy(in.Data().([]int32), d)
		}
	}
	if err := q.Step(c.ctx, nil); err != nil {
		return judge{}, err
	}
	j := judge{"the CPU executor", q.Loss(), map[string][]float64{}}
	for _, w := range q.Params() {
		j.grads[w.Name] = float64s(w.Gradient)
	}
	return j, nil
}

// checkCurve trains for a while on the CPU and on the GPU, from the same weights on the same images. Both go apart in time, as two
// runs of any two programs do; where they are after a while must not.
func checkCurve(c *checker) error {
	batch, size, width, steps := 32, 32, 16, 200
	if c.small {
		batch, size, width, steps = 6, 16, 8, 2
	}
	m := resnet18(batch, size, width)
	want, err := cpuCurve(c, m, size, steps)
	if err != nil {
		return err
	}
	c.infof("CPU", "%s, %d steps: losses %s", m.name, len(want), thinned(want))
	gpu, err := c.openGPU(c.device, guesses)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		typ         cuda.Compute
		first, last float64
	}{{cuda.Float32, 1e-4, 0.1}, {cuda.BFloat16, 5e-2, 0.15}, {cuda.Float16, 5e-2, 0.15}} {
		p, err := m.compile(cuda.Config{GPU: gpu, Type: t.typ})
		if err != nil {
			c.failed(fmt.Sprint(t.typ), err)
			continue
		}
		if c.small && t.typ != cuda.Float32 {
			t.first, t.last = 0.5, 0.5 // few numbers, and each is rounded
		}
		var got []float64
		for step := range want {
			if c.ctx.Err() != nil {
				break
			}
			sample(p.host.Inputs[0].Data.([]float32), p.host.Inputs[1].Data.([]int32), size, step)
			loss, err := p.step(c.ctx)
			if err != nil {
				return fmt.Errorf("%v: %w", t.typ, err)
			}
			got = append(got, loss)
			for i, w := range p.host.Params {
				descend(w, p.host.Grads[i])
			}
		}
		c.within(fmt.Sprintf("%v: first steps", t.typ), apart(got[:min(2, len(got))], want), t.first, "")
		k := max(1, len(got)/4)
		end := min(len(got), len(want))
		c.within(fmt.Sprintf("%v: mean of the last quarter", t.typ), math.Abs(mean(got[end-k:end])-mean(want[end-k:end]))/math.Max(0.5, mean(want[end-k:end])), t.last,
			fmt.Sprintf("%.4f after %d steps, want %.4f; losses %s", mean(got[end-k:end]), end, mean(want[end-k:end]), thinned(got)))
		if err := p.Close(); err != nil {
			return err
		}
	}
	return gpu.Close()
}

func cpuCurve(c *checker, m model, size, steps int) ([]float64, error) {
	p, err := nn.Compile(m.graph(false), nn.Config{Device: "cpu:0", DType: nn.Float32})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	images, err := p.Input("images")
	if err != nil {
		return nil, err
	}
	labels, err := p.InputTensor("labels")
	if err != nil {
		return nil, err
	}
	var losses []float64
	begun := time.Now()
	end, hasEnd := c.ctx.Deadline()
	for step := range steps {
		// The GPU gets at least half of the time.
		if hasEnd && time.Since(begun) > time.Until(end) {
			break
		}
		sample(images, labels.Data().([]int32), size, step)
		if err := p.Step(c.ctx, nil); err != nil {
			return nil, err
		}
		losses = append(losses, p.Loss())
		for _, w := range p.Params() {
			descend(w.Value, w.Gradient)
		}
	}
	return losses, nil
}

func descend(w, g []float32) {
	const rate = 0.05
	for k := range w {
		w[k] -= rate * g[k]
	}
}

// sample draws the images of a step: each class has a wave of its own, under noise.
func sample(images []float32, labels []int32, size, step int) {
	noise := random(uint64(step%8), len(images))
	per := len(images) / len(labels)
	for n := range labels {
		class := (n*7 + step%8) % 10
		labels[n] = int32(class)
		for i := range per {
			x, y := float64(i%size), float64(i/size%size)
			images[n*per+i] = float32(math.Sin(float64(class+1)*x/5+float64(class)*y/7) + 0.7*noise[n*per+i])
		}
	}
}

// apart is the largest relative difference of numbers in their order.
func apart(got, want []float64) float64 {
	most := 0.0
	for i, g := range got {
		if d := math.Abs(g-want[i]) / math.Max(0.1, math.Abs(want[i])); worse(d, most) {
			most = d
		}
	}
	return most
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// thinned is a few of many numbers.
func thinned(v []float64) string {
	text := ""
	for i := 0; i < len(v); i += max(1, len(v)/10) {
		text += fmt.Sprintf("%d: %.3f  ", i, v[i])
	}
	return text
}
