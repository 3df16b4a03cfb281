package plan_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A net builds nodes of a graph by ops alone.
type net struct {
	t *testing.T
	g *gorgonia.ExprGraph
}

func newNet(t *testing.T) net { return net{t, gorgonia.NewGraph()} }

func (n net) apply(o gorgonia.Op, in ...*gorgonia.Node) *gorgonia.Node {
	n.t.Helper()
	out, err := op.Apply(o, in...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

func (n net) input(name string, dt tensor.Dtype, shape ...int) *gorgonia.Node {
	x := gorgonia.NewTensor(n.g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
	op.RegistryOf(n.g).SetRole(x, op.RoleInput)
	return x
}

func (n net) param(name string, shape ...int) *gorgonia.Node {
	p := gorgonia.NewTensor(n.g, tensor.Float32, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name),
		gorgonia.WithValue(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...))))
	op.RegistryOf(n.g).SetRole(p, op.RoleParameter)
	return p
}

func (n net) conv(x *gorgonia.Node, name string, filters int) *gorgonia.Node {
	return n.apply(&op.Conv2D{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}}, x, n.param(name, filters, x.Shape()[1], 3, 3))
}

func (n net) norm(x *gorgonia.Node, name string) *gorgonia.Node {
	c := x.Shape()[1]
	state := &op.BatchNormState{Name: name, Mean: tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(c)), Var: tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(c))}
	y := n.apply(&op.BatchNorm2D{Eps: 1e-5, Momentum: 0.1, State: state, Mode: op.RegistryOf(n.g).Mode}, x, n.param(name+".weight", c), n.param(name+".bias", c))
	return n.apply(&op.Take{Shape: x.Shape(), From: 4}, y)
}

func (n net) relu(x *gorgonia.Node) *gorgonia.Node { return n.apply(&op.ReLU{}, x) }

// loss ends a network of images in a linear layer and a loss.
func (n net) loss(x *gorgonia.Node) *gorgonia.Node {
	s := x.Shape()
	flat := n.apply(&op.Reshape{From: s, To: tensor.Shape{s[0], s[1:].TotalSize()}}, x)
	logits := n.apply(&op.Linear{Bias: true}, flat, n.param("fc.weight", 4, flat.Shape()[1]), n.param("fc.bias", 4))
	return n.apply(&op.SoftmaxCrossEntropy{}, logits, n.input("labels", tensor.Int32, s[0]))
}

// block is a stem and a residual block.
func (n net) block() *gorgonia.Node {
	x := n.relu(n.norm(n.conv(n.input("x", tensor.Float32, 2, 3, 4, 4), "conv0", 8), "bn0"))
	y := n.norm(n.conv(x, "conv1", 8), "bn1")
	return n.loss(n.relu(n.apply(&op.Add{}, y, x)))
}

func build(t *testing.T, loss *gorgonia.Node) *plan.Plan {
	t.Helper()
	params, grads, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Build(plan.Request{Root: loss, Params: params, Grads: grads, Seed: loss.Deriv()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kinds is the plan's ops in a line: kind, + for a residual, r for ReLU, m for the mask of one.
func kinds(p *plan.Plan) string {
	var out []string
	for _, o := range p.Ops {
		s := o.Kind.String()
		if o.Kind == plan.BatchNorm && len(o.In) > 3 || o.Kind == plan.ConvBackwardData && len(o.In) > 2 {
			s += "+"
		}
		if o.ReLU {
			s += "r"
		}
		if o.Kind == plan.BatchNormGrad && o.In[5] != nil {
			s += "m"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestOpsTakeInTheAdditionsAndReLUsBehindThem(t *testing.T) {
	p := build(t, newNet(t).block())
	want := "Convert Conv2D BatchNormr Conv2D BatchNorm+r Convert Linear CrossEntropy " +
		"CrossEntropyGrad LinearGrad Convert ReLUGrad BatchNormGrad ConvBackwardWeight ConvBackwardData+ BatchNormGradm ConvBackwardWeight"
	if got := kinds(p); got != want {
		t.Errorf("ops are\n%s\nwant\n%s\n%v", got, want, p)
	}
}

func TestInferenceKeepsTheForwardPassOnly(t *testing.T) {
	n := newNet(t)
	loss := n.block()
	p, err := plan.Build(plan.Request{Root: loss, Params: gorgonia.Nodes{}, Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "Convert Conv2D BatchNormr Conv2D BatchNorm+r Convert Linear CrossEntropy"
	if got := kinds(p); got != want {
		t.Errorf("ops are\n%s\nwant\n%s", got, want)
	}
	for _, o := range p.Ops {
		if o.Kind == plan.BatchNorm && len(o.Out) != 1 {
			t.Errorf("%v keeps batch statistics", o)
		}
	}
}

func TestImagesAreConvertedAtTheBoundaryOnly(t *testing.T) {
	n := newNet(t)
	x := n.relu(n.conv(n.input("x", tensor.Float32, 2, 3, 4, 4), "conv0", 8))

	// At 1×1 both layouts are the same.
	x = n.apply(&op.MaxPool2D{Kernel: [2]int{4, 4}, Stride: [2]int{4, 4}}, x)
	if got, want := strings.Count(kinds(build(t, n.loss(x))), "Convert"), 1; got != want {
		t.Errorf("got %d conversions, want %d, of the input", got, want)
	}
}

func TestMaxPoolKeepsItsChoiceOnlyForAGradient(t *testing.T) {
	for _, train := range []bool{false, true} {
		n := newNet(t)
		x := n.conv(n.input("x", tensor.Float32, 2, 3, 4, 4), "conv0", 8)
		loss := n.loss(n.apply(&op.MaxPool2D{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}, x))
		var p *plan.Plan
		if train {
			p = build(t, loss)
		} else {
			var err error
			if p, err = plan.Build(plan.Request{Root: loss, Inference: true}); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range p.Ops {
			if o.Kind == plan.MaxPool && (len(o.Out) == 2) != train {
				t.Errorf("training %t: pool has %d results", train, len(o.Out))
			}
		}
	}
}

func TestFusionStopsWhereAValueIsWanted(t *testing.T) {
	n := newNet(t)
	y := n.norm(n.conv(n.input("x", tensor.Float32, 2, 3, 4, 4), "conv0", 8), "bn0")
	loss := n.loss(n.relu(y))
	p, err := plan.Build(plan.Request{Root: loss, Outputs: gorgonia.Nodes{y}, Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	// The output is wanted row-major, which is a second reader.
	if got := kinds(p); !strings.Contains(got, "BatchNorm ReLU") {
		t.Errorf("ops are %s, want ReLU apart", got)
	}
}

func TestLastLayersGradientsAreReadyFirst(t *testing.T) {
	p := build(t, newNet(t).block())
	var order []string
	for i := range p.Ops {
		for _, k := range p.Ready[i] {
			order = append(order, p.Params[k].Name)
		}
	}
	want := "fc.weight fc.bias bn1.weight bn1.bias conv1 bn0.weight bn0.bias conv0"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("gradients become ready in the order %s, want %s", got, want)
	}
}

func TestValuesAliveTogetherDoNotOverlap(t *testing.T) {
	p := build(t, newNet(t).block())
	for i, o := range p.Ops {
		o.Scratch = int64(100 * i)
	}
	p.Place()
	type span struct {
		name        string
		from, to    int64
		first, last int
	}
	var spans []span
	for i, o := range p.Ops {
		if o.Scratch > 0 {
			spans = append(spans, span{"scratch of " + o.String(), o.ScratchOffset, o.ScratchOffset + o.Scratch, i, i})
		}
		for _, v := range o.Out {
			if v == nil || v.Source != plan.Temporary {
				continue
			}
			last := i
			for j, u := range p.Ops {
				for _, in := range u.In {
					if in != nil && in.Root() == v {
						last = j
					}
				}
			}
			spans = append(spans, span{v.String(), v.Offset, v.Offset + v.Size(), i, last})
		}
	}
	written := 0
	for i, a := range spans {
		if a.to > p.Memory.Arena {
			t.Errorf("%s ends at %d, beyond the arena's %d", a.name, a.to, p.Memory.Arena)
		}
		for _, b := range spans[:i] {
			if a.from >= b.to || b.from >= a.to || a.first > b.last || b.first > a.last {
				continue
			}
			if a.first == b.last && a.from == b.from && a.to == b.to {
				written++ // a is written over b
				continue
			}
			t.Errorf("%s (%d to %d) and %s (%d to %d) share memory and time", a.name, a.from, a.to, b.name, b.from, b.to)
		}
	}
	if written == 0 {
		t.Error("no op writes over its argument")
	}
}

// Images between ops are stored as bfloat16, and nothing else is.
func TestBFloat16IsStoredBetweenOpsOnImagesOnly(t *testing.T) {
	loss := newNet(t).block()
	params, grads, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []bool{false, true} {
		p, err := plan.Build(plan.Request{Root: loss, Params: params, Grads: grads, Seed: loss.Deriv(), BFloat16: half})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Ops {
			for _, v := range append(o.Out, o.In...) {
				want := half && v != nil && v.Source == plan.Temporary && v.Layout == plan.ChannelsLast && v.Channels() == 8
				if v != nil && v.BFloat16() != want {
					t.Errorf("bfloat16 asked for: %v: %v in %v, want it stored so: %v", half, v, o, want)
				}
			}
		}
	}
}

// gorgonia's tanh knows float32 only: Convert stands on both sides. Inputs stay float32, and so do
// what they are added to and the sum, but not what is beyond the next convolution.
func TestImagesThatMeetAnOpWithoutAKernelStayFloat32(t *testing.T) {
	n := newNet(t)
	x := n.relu(n.conv(n.input("x", tensor.Float32, 2, 3, 4, 4), "conv0", 8))
	y := n.apply(&op.Add{}, n.conv(x, "conv1", 8), x)
	z, err := gorgonia.Tanh(n.conv(y, "conv2", 8))
	if err != nil {
		t.Fatal(err)
	}
	z = n.apply(&op.Add{}, n.conv(z, "conv3", 8), z)
	z = n.conv(n.apply(&op.Add{}, n.conv(z, "conv4", 8), n.input("more", tensor.Float32, 2, 8, 4, 4)), "conv5", 8)
	p, err := plan.Build(plan.Request{Root: n.loss(z), Inference: true, BFloat16: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range p.Ops {
		s := o.Kind.String()
		for _, v := range append(o.Out[:1:1], o.In...) {
			if v.BFloat16() {
				s += "*"
			} else {
				s += "."
			}
		}
		got = append(got, s)
	}
	want := "Convert.. Conv2D*.. ReLU** Conv2D**. Add*** Conv2D**. Convert.* Generic.. Convert*. Conv2D**. Add*** Conv2D.*. Convert.. Add... Conv2D*.. Convert.*"
	if s := strings.Join(got, " "); !strings.HasPrefix(s, want) {
		t.Errorf("ops with results and arguments (* bfloat16, . float32) are\n%s\nwant\n%s", s, want)
	}
}

func TestFloat64IsRefusedByName(t *testing.T) {
	n := newNet(t)
	x := n.input("x", tensor.Float64, 2, 3)
	_, err := plan.Build(plan.Request{Root: n.relu(x), Inference: true})
	if err == nil || !strings.Contains(err.Error(), "ReLU") || !strings.Contains(err.Error(), "float64") {
		t.Errorf("got error %v, want one that names ReLU and float64", err)
	}
}
