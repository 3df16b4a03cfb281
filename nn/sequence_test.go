package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

const tiedVocabulary = 11

// tiedModel looks tokens up, adds positions and multiplies by the table again, with the head fused
// into its loss or not.
func tiedModel(fused bool) model {
	return model{fmt.Sprintf("tied, fused %t", fused), tiedVocabulary, func(g *gorgonia.ExprGraph) *gorgonia.Node {
		ids, labels := nn.IDs(g, "ids", 3, 4), nn.Labels(g, "labels", 3, 4)
		h := nn.Embedding(ids, "wte", nn.EmbeddingConfig{Rows: tiedVocabulary, Dim: 8})
		h = nn.Positions(h, "wpe", nn.PositionsConfig{Rows: 6})
		h = gorgonia.Must(gorgonia.Tanh(h))
		if fused {
			return nn.TiedCrossEntropy(h, "wte.weight", labels, nn.CrossEntropyConfig{Smoothing: 0.1})
		}
		return nn.SequenceCrossEntropy(nn.TiedLinear(h, "wte.weight"), labels, nn.CrossEntropyConfig{Smoothing: 0.1})
	}}
}

func TestTiedModelsEqualReference(t *testing.T) {
	for _, fused := range []bool{false, true} {
		for threads := 1; threads <= 3; threads++ {
			m := tiedModel(fused)
			loss, p := compile(t, m, nn.Config{Threads: threads})
			_, r := reference(t, m)
			fillInputs(t, loss.Graph(), p, r, m.classes, 3)
			step(t, p, nil)
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			near(t, m.name+" loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
			nearGradients(t, m.name, p, r, 1e-5)
			if t.Failed() {
				t.Fatalf("plan:\n%s", p.Plan())
			}
		}
	}
}

// Rows of a lookup are added where the dense part of the gradient was made: no sum is left, and no
// table of zeros.
func TestATiedTableIsPassedOnce(t *testing.T) {
	for _, fused := range []bool{false, true} {
		_, p := compile(t, tiedModel(fused), nn.Config{Threads: 1})
		lookups := 0
		for line := range strings.Lines(p.Plan()) {
			if strings.Contains(line, " = Add(") || strings.Contains(line, " = LinearCrossEntropy(") {
				t.Errorf("fused %t: %s is left", fused, line)
			}
			if result, arguments, is := strings.Cut(line, " = EmbeddingGrad("); is {
				lookups++
				// The third argument is another name of the result.
				id := strings.TrimSpace(result[strings.Index(result, "%"):strings.Index(result, "[")])
				if !strings.Contains(arguments, "="+id+")") {
					t.Errorf("fused %t: %s does not add in place", fused, line)
				}
			}
		}
		if lookups != 1 {
			t.Errorf("fused %t: got %d lookups with a gradient, want 1:\n%s", fused, lookups, p.Plan())
		}
	}
}

// Labels of −1 count in no mean, wherever they are; the weight of a step is the labels that count.
// Gradients multiplied by it add up over parts of a batch.
func TestPartsOfABatchOfSequencesAddUp(t *testing.T) {
	for _, fused := range []bool{false, true} {
		_, p := compile(t, tiedModel(fused), nn.Config{Threads: 1})
		ids, labels := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0}, []int32{1, -1, -1, 4, -1, -1, -1, -1, 9, 10, 0, 1}
		run := func(first, n int) (loss float64, gradient []float32) {
			t.Helper()
			in, err := p.Labels("ids")
			if err != nil {
				t.Fatal(err)
			}
			in.Set(ids[4*first : 4*(first+n)])
			if in, err = p.Labels("labels"); err != nil {
				t.Fatal(err)
			}
			in.Set(labels[4*first : 4*(first+n)])
			if err := p.SetExamples(n); err != nil {
				t.Fatal(err)
			}
			p.SetGradScale(float32(p.LossWeight()))
			step(t, p, nil)
			return p.Loss() * p.LossWeight(), slices.Clone(p.Params()[0].Gradient)
		}
		loss, gradient := run(0, 3)
		var sum float64
		added := make([]float32, len(gradient))
		for i, want := range []float64{2, 0, 4} {
			one, g := run(i, 1)
			if got := p.LossWeight(); got != want {
				t.Errorf("fused %t: example %d weighs %v, want %v", fused, i, got, want)
			}
			sum += one
			for k := range g {
				added[k] += g[k]
			}
		}
		if math.Abs(sum-loss) > 1e-5 {
			t.Errorf("fused %t: the losses of the examples add up to %v, want %v", fused, sum, loss)
		}
		for k := range added {
			if math.Abs(float64(added[k]-gradient[k])) > 1e-5 {
				t.Fatalf("fused %t: gradient %d adds up to %v, want %v", fused, k, added[k], gradient[k])
			}
		}
	}
}

// A forward pass between two steps changes no gradient.
func TestForwardOfAFusedHeadLeavesGradients(t *testing.T) {
	loss, p := compile(t, tiedModel(true), nn.Config{Threads: 1})
	fillInputs(t, loss.Graph(), p, nil, tiedVocabulary, 5)
	step(t, p, nil)
	was, want := slices.Clone(p.Params()[0].Gradient), p.Loss()
	labels, err := p.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	labels.Set(make([]int32, 12))
	if err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Loss() == want {
		t.Error("the forward pass has the loss of the step before it, with other labels")
	}
	if !slices.Equal(p.Params()[0].Gradient, was) {
		t.Error("the forward pass changed the gradient of the step before it")
	}
}

func TestSequenceLayersRefuseByName(t *testing.T) {
	g := gorgonia.NewGraph()
	h := nn.Embedding(nn.IDs(g, "ids", 2, 3), "wte", nn.EmbeddingConfig{Rows: 5, Dim: 4})
	labels := nn.Labels(g, "labels", 2, 3)
	for want, do := range map[string]func(){
		"the graph has no parameter of this name": func() { nn.TiedLinear(h, "wpe.weight") },
		"x is (2, 3, 4) and the labels are (6)":   func() { nn.SequenceCrossEntropy(h, nn.Labels(g, "flat", 6), nn.CrossEntropyConfig{}) },
		"weights of 5 classes, want none": func() {
			nn.TiedCrossEntropy(h, "wte.weight", labels, nn.CrossEntropyConfig{ClassWeights: make([]float32, 5)})
		},
		"sequences of 3 from position 0 on, want at most the 2 positions": func() { nn.Positions(h, "wpe", nn.PositionsConfig{Rows: 2}) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
					t.Errorf("got %q, want it to say %q", text, want)
				}
			}()
			do()
		}()
	}
}

// A head with a large vocabulary is computed in several blocks of rows, the last one shorter: it
// gives what a head in one piece gives, and the same bits on any number of threads.
func TestAHeadInBlocksIsTheHead(t *testing.T) {
	const batch, length, vocabulary = 11, 93, 20_000
	build := func(fused bool) model {
		return model{fmt.Sprintf("fused %t", fused), vocabulary, func(g *gorgonia.ExprGraph) *gorgonia.Node {
			ids, labels := nn.IDs(g, "ids", batch, length), nn.Labels(g, "labels", batch, length)
			h := nn.Embedding(ids, "wte", nn.EmbeddingConfig{Rows: vocabulary, Dim: 4})
			if fused {
				return nn.TiedCrossEntropy(h, "wte.weight", labels, nn.CrossEntropyConfig{})
			}
			return nn.SequenceCrossEntropy(nn.TiedLinear(h, "wte.weight"), labels, nn.CrossEntropyConfig{})
		}}
	}
	run := func(fused bool, threads int) (float64, []float32) {
		loss, p := compile(t, build(fused), nn.Config{Threads: threads})
		fillInputs(t, loss.Graph(), p, nil, vocabulary, 9)
		step(t, p, nil)
		return p.Loss(), p.Params()[0].Gradient
	}
	loss, gradient := run(true, 1)
	wantLoss, wantGradient := run(false, 2)
	want := make([]float64, len(wantGradient))
	for i, v := range wantGradient {
		want[i] = float64(v)
	}
	near(t, "loss", []float32{float32(loss)}, []float64{wantLoss}, tolerance)
	near(t, "gradient", gradient, want, 1e-5)
	again, other := run(true, 3)
	if again != loss || !slices.Equal(other, gradient) {
		t.Error("one thread and three give other bits")
	}
}
