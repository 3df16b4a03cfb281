package nn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// smallMaps has normalisations of 1×1 maps in all surroundings: alone, with a ReLU, with a residual
// and both.
func smallMaps(batch, size int) model {
	return model{"small maps", 4, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		x := nn.Input(g, "x", batch, 3, size, size)
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 2, 1), "bn0", nn.BatchNormConfig{}))
		y := nn.BatchNorm2D(conv(x, "conv1", 8, 1, 1, 0), "bn1", nn.BatchNormConfig{})
		x = nn.ReLU(nn.Add(y, x))
		x = nn.BatchNorm2D(conv(x, "conv2", 12, 1, 1, 0), "bn2", nn.BatchNormConfig{})
		x = nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 4})
		return nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", batch))
	}}
}

// fillSmall fills 4 examples, whose numbers are those of a seed.
func fillSmall(s stepper, size int, seed float64) {
	x, labels := make([]float64, 4*3*size*size), []float64{3, 1, 0, 2}
	for i := range x {
		x[i] = math.Sin(float64(i)*1.7 + seed)
	}
	s.input("x", x)
	s.input("labels", labels)
}

// A batch with one value of a channel has no variance: the step is that of fixed running
// statistics, which stay as they are, in loss and in gradients. Formulas and finite differences say
// what that is; all executors do it.
func TestOneValueOfAChannelIsNormalisedByTheRunningStatistics(t *testing.T) {
	onFakes(t)
	type result struct{ loss, grads, state []float64 }
	run := func(t *testing.T, build func(t *testing.T, m model) stepper, n int) (r result) {
		s := build(t, smallMaps(4, 2))
		for i, there := range []int{4, n} { // the first step moves the statistics away from 0 and 1
			fillSmall(s, 2, float64(i))
			if err := s.set(there); err != nil {
				t.Fatal(err)
			}
			r.state = s.state()
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
			r.loss = append(r.loss, s.loss())
		}
		if after := s.state(); n == 1 && !slices.Equal(after, r.state) {
			t.Errorf("one value of a channel moved the running statistics")
		} else {
			r.state = after
		}
		for _, p := range s.params {
			r.grads = append(r.grads, s.grad(p)...)
		}
		return r
	}
	tolerance := map[string]float64{"cpu": 1e-5, "cuda": 1e-5, "cpu bf16": 0.1, "cuda bf16": 0.1}
	for _, n := range []int{1, 3} {
		want := run(t, referenceStepper, n)
		for _, e := range everywhere[1:] {
			t.Run(fmt.Sprintf("%s/%d", e.name, n), func(t *testing.T) {
				got := run(t, e.build, n)
				same(t, "losses", got.loss, want.loss, tolerance[e.name])
				same(t, "gradients", got.grads, want.grads, tolerance[e.name])
				same(t, "statistics", got.state, want.state, tolerance[e.name])
			})
		}
	}
}

// The gradients of such a step are those of finite differences of its loss.
func TestGradientsOfOneValueOfAChannelAreThoseOfDifferences(t *testing.T) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	loss := smallMaps(4, 2).build(g)
	p, err := nn.Compile(loss, nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s := programStepperOf(t, p)
	fillSmall(s, 2, 0)
	step(t, p, nil)
	if err := p.SetExamples(1); err != nil {
		t.Fatal(err)
	}
	step(t, p, nil)
	for i, q := range p.Params() {
		gradient := slices.Clone(q.Gradient)
		for k := range min(5, len(q.Value)) {
			const h = 1e-2
			was := q.Value[k]
			var at [2]float64
			for j, d := range []float32{h, -h} {
				q.Value[k] = was + d
				if err := p.Forward(t.Context()); err != nil {
					t.Fatal(err)
				}
				at[j] = p.Loss()
			}
			q.Value[k] = was
			if want := (at[0] - at[1]) / (2 * h); math.Abs(float64(gradient[k])-want) > 2e-3 {
				t.Errorf("gradient %d of parameter %d, %s, is %g, by differences %g", k, i, q.Name, gradient[k], want)
			}
		}
	}
}

// A short batch of one value is said once, whatever programs of the model meet it, and ends
// nothing.
func TestOneValueOfAChannelIsSaidOnce(t *testing.T) {
	var said strings.Builder
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer slog.SetDefault(old)
	_, p := compile(t, smallMaps(4, 2), nn.Config{Threads: 1})
	_, other := compile(t, smallMaps(3, 2), nn.Config{Threads: 1, Share: p})
	for _, program := range []*nn.Program{p, other} {
		fillSmall(programStepperOf(t, program), 2, 0)
		for _, n := range []int{2, 1, 1, 0, 1} {
			if err := program.SetExamples(n); err != nil {
				t.Fatal(err)
			}
			step(t, program, nil)
		}
	}
	if n := strings.Count(said.String(), "one value of each channel"); n != 1 || !strings.Contains(said.String(), "bn0") {
		t.Errorf("it was said %d times, want once, with the first layer:\n%s", n, said.String())
	}
}

// A graph whose whole batch has one value of a channel is refused, by the layer's name. For
// inference it compiles.
func TestCompileRefusesOneValueOfAChannel(t *testing.T) {
	onFakes(t)
	for _, device := range []string{"cpu:0", "cuda:0"} {
		g := gorgonia.NewGraph()
		_, err := nn.Compile(smallMaps(1, 2).build(g), nn.Config{Device: device})
		if err == nil || !strings.Contains(err.Error(), `"bn0"`) || !strings.Contains(err.Error(), "expected more than 1 value per channel when training") {
			t.Errorf("on %s: got error %v, want one that names bn0", device, err)
		}
		g = gorgonia.NewGraph()
		p, err := nn.Compile(smallMaps(1, 2).build(g), nn.Config{Device: device, Inference: true})
		if err != nil {
			t.Fatalf("for inference on %s: %v", device, err)
		}
		p.Close()
	}
	if _, p := compile(t, smallMaps(1, 4), nn.Config{Threads: 1}); p.Batch() != 1 {
		t.Error("a batch of one image with maps of 2×2 pixels has no batch of 1")
	}
}

// A step that fails leaves the running statistics as they were: on a label, and where it was
// stopped.
func TestAStepThatFailsMovesNoStatistics(t *testing.T) {
	onFakes(t)
	for _, e := range everywhere {
		t.Run(e.name, func(t *testing.T) {
			s := e.build(t, smallMaps(4, 4))
			fillSmall(s, 4, 0)
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
			before := s.state()
			s.input("labels", []float64{3, 1, 4, 2})
			if err := s.step(); err == nil || !strings.Contains(err.Error(), "label of example 2 is 4") {
				t.Fatalf("a label of 4 in 4 classes: got error %v", err)
			}
			if !slices.Equal(s.state(), before) {
				t.Error("the failed step moved the running statistics")
			}
			s.input("labels", []float64{3, 1, 0, 2})
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
			if slices.Equal(s.state(), before) {
				t.Error("the step after it moved nothing")
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		_, p := compile(t, smallMaps(4, 4), nn.Config{Threads: 1})
		s := programStepperOf(t, p)
		fillSmall(s, 4, 0)
		before := s.state()
		ctx, cancel := context.WithCancel(t.Context())
		p.OnBackward(cancel)
		if err := p.Step(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped between passes: got error %v", err)
		}
		if !slices.Equal(s.state(), before) {
			t.Error("the step that was stopped moved the running statistics")
		}
	})
}
