package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
)

// frozenNet has a normalisation in front, one in the middle and a head.
var frozenNet = tenClasses("frozen", 4, []int{3, 6, 6}, func(x *gorgonia.Node) *gorgonia.Node {
	x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{}))
	x = nn.ReLU(nn.BatchNorm2D(conv(x, "layer1.conv", 8, 3, 1, 1), "layer1.bn", nn.BatchNormConfig{}))
	return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 10})
})

func namesOf(params []nn.Param) string {
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// unusual gives running statistics values that no batch has.
func unusual(params []nn.Param) {
	for _, p := range params {
		for i := range p.Value {
			switch {
			case strings.HasSuffix(p.Name, "running_mean"):
				p.Value[i] = 0.1 * float32(i%3)
			case strings.HasSuffix(p.Name, "running_var"):
				p.Value[i] = 0.5 + 0.2*float32(i%5)
			}
		}
	}
}

// What is frozen gets no gradient, keeps its values and statistics, and is not gone through
// backward where nothing below is trained.
func TestFrozenLayersStayAsTheyAre(t *testing.T) {
	for _, device := range []string{"cpu:0", "cuda:0"} {
		if device != "cpu:0" {
			onFakes(t)
		}
		_, p := compile(t, frozenNet, nn.Config{Device: device, Freeze: []string{"*", "!fc.*"}})
		if got, want := namesOf(p.Params()), "fc.weight fc.bias"; got != want {
			t.Errorf("%s: parameters: got %s, want %s", device, got, want)
		}
		want := "conv1.weight bn1.weight bn1.bias layer1.conv.weight layer1.bn.weight layer1.bn.bias bn1.running_mean bn1.running_var layer1.bn.running_mean layer1.bn.running_var"
		if got := namesOf(p.Frozen()); got != want || len(p.State()) != 0 {
			t.Errorf("%s: frozen: got %s and state %s, want %s and none", device, got, namesOf(p.State()), want)
		}
		if plan := p.Plan(); strings.Contains(plan, "ConvBackward") || strings.Contains(plan, "BatchNormGrad") {
			t.Errorf("%s: the plan goes backward through frozen layers:\n%s", device, plan)
		}
		unusual(p.Frozen())
		var before [][]float32
		for _, q := range p.Frozen() {
			before = append(before, slices.Clone(q.Value))
		}
		x, _ := p.Input("x")
		copy(x, noise32(len(x)))
		labels, _ := p.Labels("labels")
		labels.Set([]int32{1, 2, 3, 4})
		for range 2 {
			step(t, p, nil)
		}
		for i, q := range p.Frozen() {
			if !slices.Equal(q.Value, before[i]) {
				t.Errorf("%s: %s was %v, is %v", device, q.Name, before[i], q.Value)
			}
		}
		// The loss is that of an evaluation with the same values.
		_, eval := compile(t, frozenNet, nn.Config{Device: device, Inference: true, Share: p})
		ex, _ := eval.Input("x")
		copy(ex, x)
		el, _ := eval.Labels("labels")
		el.Set([]int32{1, 2, 3, 4})
		if err := eval.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		if math.Abs(eval.Loss()-p.Loss()) > 2e-2*eval.Loss() || device == "cpu:0" && eval.Loss() != p.Loss() {
			t.Errorf("%s: loss is %v in training and %v in an evaluation, want the same", device, p.Loss(), eval.Loss())
		}
	}
}

// Gradients go through a frozen normalisation as through a fixed scale and shift.
func TestGradientsPassAFrozenNormalisation(t *testing.T) {
	_, p := compile(t, frozenNet, nn.Config{Freeze: []string{"layer1.bn.*", "bn1.running_mean"}})
	if got, want := namesOf(p.Params()), "conv1.weight bn1.weight bn1.bias layer1.conv.weight fc.weight fc.bias"; got != want {
		t.Fatalf("parameters: got %s, want %s", got, want)
	}
	unusual(p.Frozen())
	x, _ := p.Input("x")
	copy(x, noise32(len(x)))
	labels, _ := p.Labels("labels")
	labels.Set([]int32{1, 2, 3, 4})
	if err := p.SetExamples(3); err != nil { // with padding
		t.Fatal(err)
	}
	step(t, p, nil)
	for _, q := range p.Params() {
		gradient := slices.Clone(q.Gradient)
		var got, want float64 // along the gradient
		norm := 0.0
		for _, g := range gradient {
			norm += float64(g) * float64(g)
		}
		h := 1e-3 / math.Sqrt(norm)
		at := func(sign float64) float64 {
			value := slices.Clone(q.Value)
			for i, g := range gradient {
				q.Value[i] += float32(sign * h * float64(g))
			}
			if err := p.Forward(t.Context()); err != nil {
				t.Fatal(err)
			}
			copy(q.Value, value)
			return p.Loss()
		}
		got, want = (at(1)-at(-1))/(2*h), norm
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%s: along its gradient the loss rises by %v, want %v", q.Name, got, want)
		}
	}
}

func TestWrongPatternsOfFreezeAreErrors(t *testing.T) {
	for _, c := range []struct {
		freeze []string
		want   []string
	}{
		{[]string{"layer9.*"}, []string{`"layer9.*" matches no parameter`, `"conv1.weight"`}},
		{[]string{"fc.*", "["}, []string{"Config.Freeze[1]", "syntax error"}},
		{[]string{"*"}, []string{"freezes all 8 parameters"}},
	} {
		g := gorgonia.NewGraph()
		_, err := nn.Compile(frozenNet.build(g), nn.Config{Freeze: c.freeze})
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got error %v, want one with %s", c.freeze, err, part)
			}
		}
	}
	_, p := compile(t, frozenNet, nn.Config{Freeze: []string{"conv1.*"}})
	g := gorgonia.NewGraph()
	if _, err := nn.Compile(frozenNet.build(g), nn.Config{Share: p, Freeze: []string{"bn1.*"}}); err == nil || !strings.Contains(err.Error(), "must freeze the same") {
		t.Errorf("another Freeze than that of the program to share with: got error %v", err)
	}
	_, q := compile(t, frozenNet, nn.Config{Share: p})
	if got := namesOf(q.Frozen()); got != "conv1.weight" {
		t.Errorf("a program that shares freezes %q, want conv1.weight", got)
	}
}
