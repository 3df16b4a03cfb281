package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
	"github.com/paragon-train/paragon/internal/shm"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A model builds a network's loss; its labels and row numbers are below classes.
type model struct {
	name    string
	classes int
	build   func(g *gorgonia.ExprGraph) *gorgonia.Node
}

// classifier is a network for images (or rows) of a shape with a softmax over 10 classes.
func classifier(name string, batch int, shape []int, net func(x *gorgonia.Node) *gorgonia.Node) model {
	return model{name, 10, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "images", append([]int{batch}, shape...)...)
		return nn.SoftmaxCrossEntropy(net(x), nn.Labels(g, "labels", batch))
	}}
}

// resnet18 is the network that speeds are measured on.
func resnet18(batch, size, width int) model {
	return classifier(fmt.Sprintf("ResNet18, width %d, batch %d", width, batch), batch, []int{3, size, size}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Width: width})
	})
}

const modelSeed = 7

func (m model) graph(float64s bool) *gorgonia.Node {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: modelSeed, Float64: float64s})
	return m.build(g)
}

// A program is an executor with its host's memory.
type program struct {
	*cuda.Executor
	plan *plan.Plan
	host *plan.Host
}

// guesses are options with which nothing is measured: an answer in little time.
var guesses = cuda.Options{Choices: "none", Repeat: -1}

// openGPU opens a GPU for programs.
func (c *checker) openGPU(number int, o cuda.Options) (*cuda.GPU, error) {
	if c.small {
		o.Choices, o.Repeat = guesses.Choices, guesses.Repeat
	}
	return cuda.Open(number, o)
}

// measuring are options with which engines are measured, for each program as long as that share of the section's time; the choices go
// to the user's folder, where jobs find them.
func (c *checker) measuring(share float64) cuda.Options {
	return cuda.Options{Repeat: 5, Budget: max(time.Millisecond, min(15*time.Second, time.Until(c.after(share))))}
}

// after is when a share of what time the section has left will have passed.
func (c *checker) after(share float64) time.Time {
	end, hasEnd := c.ctx.Deadline()
	if !hasEnd {
		return time.Now().Add(time.Hour)
	}
	return time.Now().Add(time.Duration(share * float64(time.Until(end))))
}

// compile makes a program with initial values.
func (m model) compile(cfg cuda.Config) (*program, error) {
	loss := m.graph(false)
	params, grads, err := op.Gradients(loss)
	if err != nil {
		return nil, err
	}
	p, err := plan.Build(plan.Request{Root: loss, Params: params, Grads: grads, Seed: loss.Deriv(), Residuals: true})
	if err != nil {
		return nil, err
	}
	h := newHost(p)
	e, err := cuda.New(p, h, cfg)
	if err != nil {
		return nil, err
	}
	return &program{e, p, h}, nil
}

// newHost is the memory that a store would have: parameters in one piece, gradients in another.
func newHost(p *plan.Plan) *plan.Host {
	h := &plan.Host{States: map[string]*plan.State{}}
	const step = 16
	total := 0
	for _, v := range p.Params {
		total += (v.Len() + step - 1) / step * step
	}
	for k := range 2 {
		block := shm.Float32s(total)
		h.Blocks = append(h.Blocks, block)
		for _, v := range p.Params {
			m := block[:v.Len():v.Len()]
			block = block[(v.Len()+step-1)/step*step:]
			if k == 0 {
				copy(m, v.Node.Value().Data().([]float32))
				h.Params = append(h.Params, m)
			} else {
				h.Grads = append(h.Grads, m)
			}
		}
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

// fill gives inputs random numbers.
func (p *program) fill(classes int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i, v := range p.plan.Inputs {
		switch d := p.host.Inputs[i].Data.(type) {
		case []float32:
			for k := range d {
				d[k] = float32(rng.NormFloat64())
			}
		case []int32:
			for k := range d {
				d[k] = int32(rng.IntN(classes))
			}
		default:
			return fmt.Errorf("input %s is %T", v.Name, d)
		}
	}
	return nil
}

// give gives the reference the same inputs, and the very parameters, not those before they were rounded.
func (p *program) give(r *ref.Runner) error {
	for i, v := range p.plan.Inputs {
		var values []float64
		switch d := p.host.Inputs[i].Data.(type) {
		case []float32:
			values = float64s(d)
		case []int32:
			for _, x := range d {
				values = append(values, float64(x))
			}
		}
		if err := r.Set(v.Name, values); err != nil {
			return err
		}
	}
	for i, v := range p.plan.Params {
		if err := r.Set(v.Name, float64s(p.host.Params[i])); err != nil {
			return err
		}
	}
	return nil
}

func float64s(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// step runs forward and backward and returns the loss.
func (p *program) step(ctx context.Context) (float64, error) {
	if err := p.Run(ctx, false, plan.Hooks{}); err != nil {
		return 0, err
	}
	return p.Number(p.plan.Loss)
}

// distance is that of all gradients together, and the largest of one parameter's.
func (p *program) distance(grad func(name string) []float64) (all, most float64, name string) {
	var got, want []float64
	for i, v := range p.plan.Params {
		w, g := grad(v.Name), float64s(p.host.Grads[i])
		if d := distance(g, w); worse(d, most) {
			most, name = d, v.Name
		}
		got, want = append(got, g...), append(want, w...)
	}
	return distance(got, want), most, name
}

// An updater is SGD with Nesterov momentum on the device.
type updater struct {
	gpu     *cuda.GPU
	numbers drv.Ptr
	momenta map[drv.Ptr]drv.Ptr
	memory  []drv.Ptr
}

// newUpdater is called outside of the context's Do.
func newUpdater(gpu *cuda.GPU, rate float32) (*updater, error) {
	u := &updater{gpu: gpu, momenta: map[drv.Ptr]drv.Ptr{}}
	err := gpu.Context().Do(func() error {
		ctx := gpu.Context()
		s, err := ctx.NewStream(0)
		if err != nil {
			return err
		}
		d := &device{Context: ctx, s: s}
		if d.stage, err = ctx.HostAlloc(kernels.UpdateBytes); err != nil {
			return err
		}
		if u.numbers, err = ctx.Malloc(kernels.UpdateBytes); err != nil {
			return err
		}
		u.memory = append(u.memory, u.numbers)
		err = d.write(u.numbers, updateBytes(kernels.Update{Scale: 1, Clip: 3e38, Shrink: 1, Rate: rate, Decay: 5e-4, Momentum: 0.9}))
		return errors.Join(err, ctx.HostFree(d.stage), ctx.DestroyStream(s))
	})
	return u, err
}

// update implements cuda.Update. Memory is taken in the first step, which is not captured.
func (u *updater) update(s drv.Stream, pieces []cuda.Piece, found drv.Ptr) error {
	for _, p := range pieces {
		m, there := u.momenta[p.Params]
		if !there {
			var err error
			if m, err = u.gpu.Context().Malloc(4 * p.N); err != nil {
				return err
			}
			u.momenta[p.Params], u.memory = m, append(u.memory, m)
			if err := u.gpu.Context().Memset8(m, 0, 4*p.N, s); err != nil {
				return err
			}
		}
		if err := u.gpu.Kernels().Nesterov(s, p.N, p.Params, p.Grads, m, u.numbers, found); err != nil {
			return err
		}
	}
	return nil
}

func (u *updater) close() error {
	return u.gpu.Context().Do(func() error {
		var errs []error
		for _, p := range u.memory {
			errs = append(errs, u.gpu.Context().Free(p))
		}
		return errors.Join(errs...)
	})
}

// pinsHeap finds out whether the driver pins the memory that a store's numbers lie in.
func pinsHeap(d *device) (refused, err error) {
	m := shm.Float32s(1 << 20)
	b := float32Bytes(m)
	if refused = d.HostRegister(b); refused != nil {
		return refused, nil
	}
	return nil, d.HostUnregister(b)
}
