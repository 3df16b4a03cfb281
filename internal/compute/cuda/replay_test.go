package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// operand is how a program rounds what it multiplies.
func operand(c cuda.Compute) ref.Format {
	switch c {
	case cuda.BFloat16:
		return ref.BFloat16
	case cuda.Float16:
		return ref.Float16
	}
	return ref.Exact
}

// replay takes a step of a program op by op. follow is that of the replay; 0 is its own.
func (p *program) replay(t *testing.T, c cuda.Compute, step int, follow float64) *ref.Replay {
	t.Helper()

	// The loss's scale goes down until every gradient is finite.
	for {
		r, err := ref.NewReplay(p.plan, p.host, operand(c))
		gputest.Must(t, err)
		r.Scale, r.Step = float64(p.LossScale()), uint64(step)
		if follow > 0 {
			r.Follow = follow
		}
		p.SetStep(uint64(step))
		gputest.Must(t, p.Inspect(t.Context(), r.Next))
		if p.Finite() {
			return r
		}
		if p.LossScale() < 256 {
			t.Fatalf("step %d: a gradient is not finite under a scale of %g", step, p.LossScale())
		}
	}
}

// replayed compares step step of a program with its replay, and gives how far the gradients are
// from those without rounding.
func replayed(t *testing.T, p *program, c cuda.Compute, step int, bound float64) *ref.Replay {
	t.Helper()
	r := p.replay(t, c, step, 0)
	stored, off := r.Worst()
	all, most, name := r.Distance(p.host.Grads)
	loss := math.Abs(p.number(t) - r.Loss())
	t.Logf("step %d: loss off by %.2g, gradient by %.2g, most in %s: %.2g; beyond half a step %.2g of %s; float32 off by %.2g of %s", step, loss, all, name, most, stored.Beyond, stored.Name, off.Off, off.Name)
	if !(stored.Beyond <= 2e-5) || stored.Others > 0 {
		t.Errorf("step %d: %s stored %d of %d numbers that are no rounding of the exact ones, and one by %.3g of their size", step, stored.Name, stored.Others, stored.Numbers, stored.Beyond)
	}
	if !(off.Off <= 2e-5) {
		t.Errorf("step %d: the result of %s is off by %.3g", step, off.Name, off.Off)
	}
	if !(loss <= 1e-5*math.Max(1, math.Abs(r.Loss()))) {
		t.Errorf("step %d: loss is %g, want %g", step, p.number(t), r.Loss())
	}
	if !(all <= bound) || !(most <= 10*bound) {
		t.Errorf("step %d: the gradient is off by %.3g of its length, that of %s by %.3g, want at most %g and %g", step, all, name, most, bound, 10*bound)
	}
	for name, s := range p.host.States {
		mean, variance := r.State(name)
		for k := range mean {
			if math.Abs(mean[k]-float64(s.Mean[k])) > 1e-5*(1+math.Abs(mean[k])) || math.Abs(variance[k]-float64(s.Var[k])) > 1e-5*(1+variance[k]) {
				t.Fatalf("step %d: running mean and variance %d of %s are %g and %g, want %g and %g", step, k, name, s.Mean[k], s.Var[k], mean[k], variance[k])
			}
		}
	}
	return r
}

// wide are models whose numbers are stored in every way: of widths that are multiples of 8 and not,
// with residuals that are stored.
func wide() []model {
	resnet := func(name string, batch, size, width int, stem nn.Stem) model {
		return classifier(name, batch, []int{3, size, size}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: stem, Width: width})
		})
	}
	others := slices.DeleteFunc(slices.Clone(models), func(m model) bool { return m.name == "resnet18 cifar" })
	return append(others, resnet("resnet18 cifar of 8", 6, 8, 8, nn.CIFAR), resnet("resnet18 cifar of 5", 5, 8, 5, nn.CIFAR))
}

// quick are the types that make test has for a model: all of them come with each kind of layer, one
// at least with each ResNet.
func (m model) quick() []cuda.Compute {
	switch m.name {
	case "resnet18 cifar of 8":
		return []cuda.Compute{cuda.BFloat16}
	case "resnet18 cifar of 5":
		return []cuda.Compute{cuda.Float16}
	case "resnet18 imagenet":
		return []cuda.Compute{cuda.Float32}
	}
	return []cuda.Compute{cuda.Float32, cuda.BFloat16, cuda.Float16}
}

// Every number that a step stores in 16 bits is the rounding of what was to be computed from the
// numbers that were stored before, and gradients are those that follow from the stored numbers.
func TestStepsAreThoseOfTheReferenceThatRoundsAtTheSamePlaces(t *testing.T) {
	for _, c := range []struct {
		typ        cuda.Compute
		half, sums bool
		bound      float64
	}{{cuda.Float32, false, true, 5e-5}, {cuda.BFloat16, false, true, 1e-5}, {cuda.BFloat16, true, false, 3e-3}, {cuda.Float16, false, false, 1e-5}, {cuda.Float16, true, true, 5e-4}} {
		for _, m := range wide() {
			if large := strings.HasPrefix(m.name, "resnet18") || m.name == "lenet"; large && !slow() && (c.half != (c.typ == cuda.Float16) || !slices.Contains(m.quick(), c.typ)) {
				// One way of each type is enough, and one type of each ResNet.
				continue
			}
			t.Run(fmt.Sprintf("%v %v %s", c.typ, c.half, m.name), func(t *testing.T) {
				f, gpu := cuda.NewFake(1)
				f.HalfGradients, f.NoSums = c.half, !c.sums
				p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 512})
				p.fill(t, nil, m.classes, 1)
				replayed(t, p, c.typ, 1, c.bound)
				// A run gives the bits that were inspected.
				for _, captured := range []bool{false, true} {
					want := clones(p.host.Grads)
					p.SetStep(1)
					p.step(t)
					for i, v := range p.plan.Params {
						if !slices.Equal(p.host.Grads[i], want[i]) {
							t.Errorf("captured %t: the gradient of %s is another than in the step that was inspected", captured, v.Name)
						}
					}
				}
			})
		}
	}
}

func TestStepsOnTheFakeLibrariesAreThoseOfTheReferenceThatRoundsAtTheSamePlaces(t *testing.T) {
	machine := fake.New(t)
	machine.Set("seed", 3)
	gpu := open(t, machine)
	for _, c := range []struct {
		typ   cuda.Compute
		bound float64
	}{{cuda.BFloat16, 1e-5}, {cuda.Float16, 1e-5}} {
		for _, m := range small(t) {
			t.Run(fmt.Sprintf("%v %s", c.typ, m.name), func(t *testing.T) {
				p := compile(t, m, cuda.Config{GPU: gpu, Type: c.typ, Bucket: 2048})
				p.fill(t, nil, m.classes, 1)
				replayed(t, p, c.typ, 0, c.bound)
				if lines := machine.Complaints(); len(lines) > 0 {
					t.Errorf("the fake libraries complain: %s", strings.Join(lines, "\n"))
				}
			})
		}
	}
}

// Whatever a program shows besides, results and gradients alike, is stored in float32 and makes
// what it meets another type: no op takes numbers of one type for another.
func TestOutputsOfAnyNodeLeaveTheStepAsItIs(t *testing.T) {
	for _, m := range wide() {
		if m.name == "lenet" || m.name == "resnet18 imagenet" {
			continue // others have their ops
		}
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s %d", m.name, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 5))
				p, _ := build(t, m, false, func(g *gorgonia.ExprGraph) (out gorgonia.Nodes) {
					for _, n := range g.AllNodes() {
						switch n.Op().(type) {
						case nil, *op.BatchNorm2D, *op.BatchNorm2DGrad, *op.LinearGrad: // leaves and tuples
							continue
						}
						if n.Dtype() == gorgonia.Float32 && n.Dims() > 1 && rng.IntN(4) == 0 {
							out = append(out, n)
						}
					}
					return out
				})
				h := newHost(p)
				typ := []cuda.Compute{cuda.BFloat16, cuda.Float16}[seed%2]
				_, gpu := cuda.NewFake(seed)
				e, err := cuda.New(p, h, cuda.Config{GPU: gpu, Type: typ, Bucket: 512})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				q := &program{Executor: e, plan: p, host: h}
				q.fill(t, nil, m.classes, seed)
				r := replayed(t, q, typ, 0, 1e-5)
				for _, v := range p.Outputs {
					got, err := e.Output(v)
					if err != nil {
						t.Fatal(err)
					}
					want, err := r.Output(v)
					if err != nil {
						t.Fatal(err)
					}
					var off, size float64
					for k, w := range want {
						if v.Root().Source == plan.Gradient {
							w /= float64(e.LossScale())
						}
						off += (float64(got[k]) - w) * (float64(got[k]) - w)
						size += w * w
					}
					if math.Sqrt(off) > 1e-5*math.Sqrt(size) {
						t.Errorf("output %v is off by %.3g", v, math.Sqrt(off/size))
					}
				}
			})
		}
	}
}
