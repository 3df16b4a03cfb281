package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// What a loss divides by are its labels among the examples, of several rows an example too; without
// labels it is the number of examples.
func TestLossWeightIsWhatTheLossDividesBy(t *testing.T) {
	for _, test := range []struct {
		name   string
		build  func(g *gorgonia.ExprGraph) *gorgonia.Node
		labels []float64 // or targets
		there  int
		want   float64
	}{
		{"labels", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.SoftmaxCrossEntropy(nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3}), nn.Labels(g, "labels", 4))
		}, []float64{-1, 2, 0, 1}, 3, 2},
		{"weights of classes", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3})
			return nn.CrossEntropy(x, nn.Labels(g, "labels", 4), nn.CrossEntropyConfig{ClassWeights: []float32{0.5, 3, 0.25}})
		}, []float64{-1, 2, 0, 1}, 3, 0.75},
		{"tokens", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			nn.ExampleWeights(g, 2)
			x := nn.Linear(nn.Embedding(nn.IDs(g, "ids", 10), "table", nn.EmbeddingConfig{Rows: 3, Dim: 2}), "fc", nn.LinearConfig{Out: 3})
			return nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", 10))
		}, []float64{1, 2, -1, 1, 0, 1, 1, 1, 1, 1}, 1, 4},
		{"soft targets", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.SoftCrossEntropy(nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 2}), nn.Input(g, "targets", 4, 2))
		}, []float64{0, 0.5, -1, -1, 0.25, 0.75, 1, 1}, 3, 2},
		{"soft targets of rows", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			nn.ExampleWeights(g, 2)
			x := nn.Linear(nn.Embedding(nn.IDs(g, "ids", 4), "table", nn.EmbeddingConfig{Rows: 3, Dim: 2}), "fc", nn.LinearConfig{Out: 2})
			return nn.SoftCrossEntropy(x, nn.Input(g, "targets", 4, 2))
		}, []float64{0, 0.5, 0.25, 0.75, 0, 1, 1, 1}, 1, 2},
		{"targets of several labels", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 2})
			return nn.BinaryCrossEntropy(x, nn.Input(g, "targets", 4, 2), nn.BinaryCrossEntropyConfig{PosWeights: []float32{5, 7}})
		}, []float64{0, 0.5, -1, -1, 0, -1, 1, 1}, 3, 3},
		{"targets that the graph computes", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			teacher := nn.Softmax(nn.Linear(nn.Input(g, "x", 4, 3), "teacher", nn.LinearConfig{Out: 2}))
			return nn.SoftCrossEntropy(nn.Linear(nn.Input(g, "y", 4, 3), "fc", nn.LinearConfig{Out: 2}), teacher)
		}, nil, 3, 3},
		{"no labels", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.MSE(nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3}), nn.Input(g, "t", 4, 3))
		}, nil, 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, p := compile(t, model{test.name, 3, test.build}, nn.Config{Threads: 1})
			if test.labels != nil {
				name := "labels"
				if _, err := p.Labels(name); err != nil {
					name = "targets"
				}
				programStepperOf(t, p).input(name, test.labels)
			}
			if err := p.SetExamples(test.there); err != nil {
				t.Fatal(err)
			}
			if got := p.LossWeight(); got != test.want {
				t.Errorf("the loss weighs %v, want %v", got, test.want)
			}
			if err := p.SetExamples(0); err != nil || p.LossWeight() != 0 {
				t.Errorf("without examples the loss weighs %v, error %v, want 0", p.LossWeight(), err)
			}
		})
	}
}

// Weights of classes and smoothing together are PyTorch's CrossEntropyLoss(weight, label_smoothing,
// ignore_index=-1): on the executor, with few classes and with many, with rows of padding, and by
// differences.
func TestClassWeightsAreAsInPyTorch(t *testing.T) {
	for _, classes := range []int{3, 70} {
		for _, smoothing := range []float64{0, 0.1} {
			t.Run(fmt.Sprintf("classes=%d/smoothing=%v", classes, smoothing), func(t *testing.T) {
				const rows, there = 5, 4
				weights := make([]float32, classes)
				for k := range weights {
					weights[k] = float32(k%4) / 2
				}
				labels := []float64{1, -1, 2, 0, 999}
				_, p := compile(t, model{"weighted", classes, func(g *gorgonia.ExprGraph) *gorgonia.Node {
					x := nn.Linear(nn.Input(g, "x", rows, 4), "fc", nn.LinearConfig{Out: classes, NoBias: true})
					return nn.CrossEntropy(x, nn.Labels(g, "labels", rows), nn.CrossEntropyConfig{ClassWeights: weights, Smoothing: smoothing})
				}}, nn.Config{Threads: 1})
				s := programStepperOf(t, p)
				x := make([]float64, rows*4)
				for i := range x {
					x[i] = math.Sin(float64(3 * i))
				}
				s.input("x", x)
				s.input("labels", labels)
				if err := p.SetExamples(there); err != nil {
					t.Fatal(err)
				}
				w := p.Params()[0].Value
				torch := func() float64 { // nll_loss and smooth_loss of torch.nn.functional.cross_entropy
					var nll, smooth, sum float64
					for b := range there {
						if labels[b] < 0 {
							continue
						}
						logits, all := make([]float64, classes), 0.0
						for k := range logits {
							for j := range 4 {
								logits[k] += float64(w[k*4+j]) * x[b*4+j]
							}
							all += math.Exp(logits[k])
						}
						label := int(labels[b])
						nll -= float64(weights[label]) * (logits[label] - math.Log(all))
						for k := range logits {
							smooth -= float64(weights[k]) * (logits[k] - math.Log(all))
						}
						sum += float64(weights[label])
					}
					return (1-smoothing)*nll/sum + smoothing/float64(classes)*smooth/sum
				}
				if err := s.step(); err != nil {
					t.Fatal(err)
				}
				if got, want := p.Loss(), torch(); math.Abs(got-want) > 1e-5*want {
					t.Errorf("the loss is %v, want %v", got, want)
				}
				gradient := s.grad(p.Params()[0].Name)
				for i := range w {
					const h = 1.0 / 256
					was := w[i]
					w[i] = was + h
					above := torch()
					w[i] = was - h
					below := torch()
					if w[i] = was; math.Abs(gradient[i]-(above-below)/(2*h)) > 1e-3*(1+math.Abs(gradient[i])) {
						t.Errorf("the gradient of weight %d is %v, want %v", i, gradient[i], (above-below)/(2*h))
					}
				}
			})
		}
	}
}
