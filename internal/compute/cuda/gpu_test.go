//go:build gpu

package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// guesses are options with which nothing is measured: an answer in little time.
var guesses = cuda.Options{Choices: "none", Repeat: -1}

// onGPU opens the GPU.
func onGPU(t *testing.T) *cuda.GPU {
	t.Helper()
	gputest.Begin(t)
	return openWith(t, fake.New(t), gputest.Number(), guesses)
}

// resnet18 is the network that speeds are measured on.
func resnet18(batch, size, width int) model {
	return model{fmt.Sprintf("ResNet18, width %d, batch %d", width, batch), 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "images", batch, 3, size, size)
		return nn.SoftmaxCrossEntropy(nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: width}), nn.Labels(g, "labels", batch))
	}}
}

// Whole steps of small networks with every operation are those of the reference, launched one by
// one and as graphs.
func TestGPUNets(t *testing.T) {
	gpu, nets := onGPU(t), models
	if testing.Short() {
		nets = small(t)
	}
	for _, c := range []struct {
		typ            cuda.Compute
		loss, gradient float64
	}{{cuda.Float32, 1e-5, 1e-4}, {cuda.BFloat16, 1e-2, 0.12}, {cuda.TF32, 1e-2, 0.12}, {cuda.Float16, 1e-2, 0.12}} {
		for _, m := range nets {
			if strings.HasPrefix(m.name, "resnet") && c.typ != cuda.Float32 {
				continue // its gradient is a rough function
			}
			gputest.Check(t, fmt.Sprintf("%s, %v", m.name, c.typ), func(t *testing.T) {
				compile(t, m, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 2048}).equalsReference(t, m, c.loss, c.gradient)
			})
		}
	}
}

// A judge is a loss with its gradients, by name.
type judge struct {
	name  string
	loss  float64
	grads map[string][]float64
}

// The gradient of the network that is measured is right: of a narrow one against the reference in
// float64, which is slow and exact, and of the whole one against the CPU executor in float32. A
// ReLU that rounding turns over changes a gradient by more than rounding itself: of the whole
// network with new parameters PyTorch's own gradient in bfloat16 is off by a third of its length,
// and by 3e-3 between two that compute in float32 (note 24). So what 16 bits compute is also judged
// op by op, by the reference that rounds at the same places.
func TestGPUGradients(t *testing.T) {
	gpu := onGPU(t)
	narrow, whole := resnet18(4, 32, 16), resnet18(64, 32, 64)
	if testing.Short() {
		narrow, whole = resnet18(3, 16, 8), resnet18(4, 16, 8)
	}
	gradients(t, gpu, narrow, byReference, true, []gradientCase{{cuda.Float32, 1e-4, 1e-5}, {cuda.BFloat16, 0.5, 0.4}, {cuda.Float16, 0.2, 0.1}, {cuda.TF32, 0.2, 0.1}})
	gradients(t, gpu, whole, byCPU, false, []gradientCase{{cuda.Float32, 1e-2, 5e-3}, {cuda.BFloat16, 0.5, 0.4}, {cuda.Float16, 0.2, 0.1}})
}

// A gradientCase is what a gradient of a type must be within, and what it should be.
type gradientCase struct {
	typ        cuda.Compute
	wrong, aim float64
}

func gradients(t *testing.T, gpu *cuda.GPU, m model, by func(t *testing.T, m model, p *program) judge, exact bool, cases []gradientCase) {
	var want *judge
	for _, c := range cases {
		what := fmt.Sprintf("%s, %v", m.name, c.typ)
		gputest.Check(t, what, func(t *testing.T) {
			if testing.Short() && c.typ == cuda.TF32 {
				t.Skip("too few examples for its precision")
			}
			p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ})
			p.fill(t, nil, m.classes, 1)
			if want == nil {
				begun := time.Now()
				j := by(t, m, p)
				want = &j
				gputest.Measured(t, m.name+" by "+j.name, time.Since(begun).Seconds(), "s", "loss %.7f", j.loss)
			}
			var loss float64

			// The runs are eager, captured and launched, with the same numbers each time.
			for n := 0; n < 3 || !p.Finite() && n < 16; n++ {
				loss = p.step(t)
			}
			bound := 1e-2
			if c.typ == cuda.Float32 {
				bound = 1e-5
			}
			gputest.Within(t, ": loss", math.Abs(loss-want.loss)/math.Abs(want.loss), bound, relative, fmt.Sprintf("%.7f, want %.7f", loss, want.loss))
			all, most, name := p.distance(func(name string) []float64 { return want.grads[name] })
			r := gputest.Row{Name: what + gputest.Gradient, Status: gputest.OK, Value: all, Unit: relative, Bound: c.aim, Detail: fmt.Sprintf("against %s; most in %s: %.3g", want.name, name, most)}
			switch {
			case !(all <= c.wrong):
				r.Status = gputest.Fail
			case all > c.aim:
				r.Status = gputest.Miss
			}
			if testing.Short() && c.typ != cuda.Float32 {
				r.Status, r.Bound = gputest.Info, 0 // too few examples for its precision
			}
			gputest.Report(t, r)
			if exact && c.typ != cuda.TF32 {
				p.opByOp(t, what, c.typ)
			}
		})
	}
}

// opByOp looks at a step op by op: each number that was stored in 16 bits has to be a rounding of
// what follows from those stored before, and the gradients have to be those that follow from what
// was stored. No ReLU that rounding turns over excuses anything here.
func (p *program) opByOp(t *testing.T, what string, typ cuda.Compute) {
	// Engines may round parts of sums, which is worth a row and makes what follows no other step.
	r := p.replay(t, typ, 3, 2e-2)
	stored, off := r.Worst()
	numbers := 0
	for _, s := range r.Stored() {
		numbers += s.Numbers
	}
	gputest.Within(t, ": results in float32", off.Off, 1e-3, relative, "most in "+off.Name)
	if numbers == 0 {
		return
	}
	beyond := gputest.Row{Name: what + ": stored numbers", Status: gputest.OK, Value: stored.Beyond, Unit: "of their size beyond rounding", Bound: 1e-3,
		Detail: fmt.Sprintf("%d numbers of 16 bits; most beyond half a step in %s, where %d are more than a fiftieth", numbers, stored.Name, stored.Others)}
	switch {
	case stored.Others > 0 || math.IsNaN(stored.Beyond):
		beyond.Status = gputest.Fail
	case stored.Beyond > beyond.Bound:
		beyond.Status = gputest.Miss
	}
	gputest.Report(t, beyond)
	all, most, name := r.Distance(p.host.Grads)
	gputest.Within(t, gputest.RoundedGradient, all, 1e-2, relative, fmt.Sprintf("most in %s: %.3g", name, most))
}

// byReference computes in float64, in the plainest way.
func byReference(t *testing.T, m model, p *program) judge {
	r := reference(t, m)
	p.fill(t, r, m.classes, 1)
	gputest.Must(t, r.Step())
	j := judge{gputest.Reference, r.Loss(), map[string][]float64{}}
	for _, v := range p.plan.Params {
		j.grads[v.Name] = r.Grad(v.Name)
	}
	return j
}

// onCPU is the program of the CPU executor, in float32.
func onCPU(t *testing.T, m model) *nn.Program {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	q, err := nn.Compile(m.build(g), nn.Config{Device: "cpu:0", DType: nn.Float32})
	gputest.Must(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// byCPU computes in float32.
func byCPU(t *testing.T, m model, p *program) judge {
	q := onCPU(t, m)
	for i, v := range p.plan.Inputs {
		in, err := q.InputTensor(v.Name)
		gputest.Must(t, err)
		switch d := p.host.Inputs[i].Data.(type) {
		case []float32:
			copy(in.Data().([]float32), d)
		case []int32:
			copy(in.Data().([]int32), d)
		}
	}
	gputest.Must(t, q.Step(t.Context(), nil))
	j := judge{"the CPU executor", q.Loss(), map[string][]float64{}}
	for _, w := range q.Params() {
		j.grads[w.Name] = float64s(w.Gradient)
	}
	return j
}

// A training on the GPU is one on the CPU, from the same weights on the same images. Both go apart
// in time, as two runs of any two programs do; where they are after a while must not.
func TestGPUCurve(t *testing.T) {
	gpu := onGPU(t)
	batch, size, width, steps := 32, 32, 16, 200
	if testing.Short() {
		batch, size, width, steps = 6, 16, 8, 2
	}
	m := resnet18(batch, size, width)
	var want []float64
	q := onCPU(t, m)
	images, err := q.Input("images")
	gputest.Must(t, err)
	labels, err := q.InputTensor("labels")
	gputest.Must(t, err)
	for half := gputest.After(t, 0.5); len(want) < steps && time.Now().Before(half); {
		sample(images, labels.Data().([]int32), size, len(want))
		gputest.Must(t, q.Step(t.Context(), nil))
		want = append(want, q.Loss())
		for _, w := range q.Params() {
			descend(w.Value, w.Gradient)
		}
	}
	gputest.Measured(t, "CPU", 0, "", "%s, %d steps: losses %s", m.name, len(want), thinned(want))
	for _, c := range []struct {
		typ         cuda.Compute
		first, last float64
	}{{cuda.Float32, 1e-4, 0.1}, {cuda.BFloat16, 5e-2, 0.15}, {cuda.Float16, 5e-2, 0.15}} {
		gputest.Check(t, fmt.Sprint(c.typ), func(t *testing.T) {
			p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ})
			if testing.Short() && c.typ != cuda.Float32 {
				c.first, c.last = 0.5, 0.5 // few numbers, and each is rounded
			}
			var got []float64
			for ctx := gputest.Context(t); len(got) < len(want) && ctx.Err() == nil; {
				sample(p.host.Inputs[0].Data.([]float32), p.host.Inputs[1].Data.([]int32), size, len(got))
				got = append(got, p.step(t))
				for i, w := range p.host.Params {
					descend(w, p.host.Grads[i])
				}
			}
			for i, g := range got[:min(2, len(got))] {
				gputest.Within(t, ": first steps", math.Abs(g-want[i])/math.Max(0.1, math.Abs(want[i])), c.first, relative, "")
			}
			n := len(got)
			last := func(v []float64) float64 {
				k := max(1, n/4)
				sum := 0.0
				for _, x := range v[n-k : n] {
					sum += x / float64(k)
				}
				return sum
			}
			gputest.Within(t, ": mean of the last quarter", math.Abs(last(got)-last(want))/math.Max(0.5, last(want)), c.last, relative,
				fmt.Sprintf("%.4f after %d steps, want %.4f; losses %s", last(got), n, last(want), thinned(got)))
		})
	}
}

func descend(w, g []float32) {
	const rate = 0.05
	for k := range w {
		w[k] -= rate * g[k]
	}
}

// sample draws the images of a step: each class has a wave of its own, under noise.
func sample(images []float32, labels []int32, size, step int) {
	noise := rand.New(rand.NewPCG(uint64(step%8), uint64(len(images))))
	per := len(images) / len(labels)
	for n := range labels {
		class := (n*7 + step%8) % 10
		labels[n] = int32(class)
		for i := range per {
			x, y := float64(i%size), float64(i/size%size)
			images[n*per+i] = float32(math.Sin(float64(class+1)*x/5+float64(class)*y/7) + 0.7*noise.NormFloat64())
		}
	}
}

// thinned is a few of many numbers.
func thinned(v []float64) string {
	text := ""
	for i := 0; i < len(v); i += max(1, len(v)/10) {
		text += fmt.Sprintf("%d: %.3f  ", i, v[i])
	}
	return text
}

// Whether the driver pins the memory that a store's numbers lie in. No answer is wrong.
func TestGPUFacts(t *testing.T) {
	gpu := onGPU(t)
	m := shm.Float32s(1 << 20)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), 4*len(m))
	var refused error
	gputest.Must(t, gpu.Context().Do(func() error {
		if refused = gpu.Context().HostRegister(b); refused != nil {
			return nil
		}
		return gpu.Context().HostUnregister(b)
	}))
	gputest.Answer(t, "driver: memory mapped over Go's heap", refused == nil, "it is pinned, and copies go straight from and to the store's memory",
		"numbers go through a second pinned copy", fmt.Sprint(refused))
}

// Two GPUs as one take the step that one takes with the whole batch, and the sum of what each gives
// alone, by each way between them.
func TestGPUGroup(t *testing.T) {
	gputest.Begin(t)
	machine := fake.New(t)
	machine.Set("devices", 2)
	members := append(joinable[:2:2], resnet18(16, 32, 32))
	if testing.Short() {
		members = joinable[:1]
	}
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		gputest.Check(t, fmt.Sprintf("2 GPUs by %v, of half a batch each", link), func(t *testing.T) {
			isOneProgram(t, openAll(t, machine, 2), link, 1e-5)
		})
		for _, typ := range []cuda.Compute{cuda.Float32, cuda.BFloat16} {
			for _, m := range members {
				gputest.Check(t, fmt.Sprintf("2 GPUs by %v, %s of a batch each, %v", link, m.name, typ), func(t *testing.T) {
					isTheSum(t, m, openAll(t, machine, 2), cuda.Config{Type: typ, Bucket: 512}, link)
				})
			}
		}
	}
	groupSpeeds(t, machine)
}
