package nn_test

import (
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// What a loss divides by are its labels among the examples, of several rows an example too; without labels it is the number of examples.
func TestLossWeightIsWhatTheLossDividesBy(t *testing.T) {
	for _, test := range []struct {
		name   string
		build  func(g *gorgonia.ExprGraph) *gorgonia.Node
		labels []float64
		there  int
		want   int
	}{
		{"labels", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.SoftmaxCrossEntropy(nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3}), nn.Labels(g, "labels", 4))
		}, []float64{-1, 2, 0, 1}, 3, 2},
		{"tokens", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			nn.ExampleWeights(g, 2)
			x := nn.Linear(nn.Embedding(nn.IDs(g, "ids", 10), "table", nn.EmbeddingConfig{Rows: 3, Dim: 2}), "fc", nn.LinearConfig{Out: 3})
			return nn.SoftmaxCrossEntropy(x, nn.Labels(g, "labels", 10))
		}, []float64{1, 2, -1, 1, 0, 1, 1, 1, 1, 1}, 1, 4},
		{"no labels", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			return nn.MSE(nn.Linear(nn.Input(g, "x", 4, 3), "fc", nn.LinearConfig{Out: 3}), nn.Input(g, "t", 4, 3))
		}, nil, 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, p := compile(t, model{test.name, 3, test.build}, nn.Config{Threads: 1})
			if test.labels != nil {
				programStepperOf(t, p).input("labels", test.labels)
			}
			if err := p.SetExamples(test.there); err != nil {
				t.Fatal(err)
			}
			if got := p.LossWeight(); got != test.want {
				t.Errorf("the loss weighs %d, want %d", got, test.want)
			}
			if err := p.SetExamples(0); err != nil || p.LossWeight() != 0 {
				t.Errorf("without examples the loss weighs %d, error %v, want 0", p.LossWeight(), err)
			}
		})
	}
}
