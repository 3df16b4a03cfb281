package worker_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// Each example is brought once, the last batch is short, and rows without a label count nowhere;
// the scores are the same in any pieces.
func TestABatchEvaluatorMeasuresEachExampleOnce(t *testing.T) {
	loss, logits := rigNetwork(rigBatch)
	program := compile(t, loss, nn.Config{Inference: true, Outputs: G.Nodes{logits}})
	labels, err := program.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	pixels, err := program.Input("images")
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	e := &worker.BatchEvaluator{Program: program, Outputs: logits, Examples: 2*rigBatch + 3, Metrics: []metrics.Metric{metrics.TopK{K: 1}, metrics.Perplexity{}}}
	e.Fill = func(_ context.Context, first, n int) ([]int32, error) {
		asked = append(asked, fmt.Sprint(first, " ", n))
		size := len(pixels) / rigBatch
		list := make([]int32, n)
		for i := range n {
			for k := range size {
				pixels[i*size+k] = float32(math.Sin(float64(size*(first+i) + k)))
			}
			list[i] = int32((first+i)%3) - 1 // −1, 0, 1
		}
		labels.Set(list)
		return list, nil
	}
	whole, err := e.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0 8", "8 8", "16 3"}
	if !slices.Equal(asked, want) {
		t.Errorf("Fill was asked for %q, want %q", asked, want)
	}
	if whole.Examples != 19 || len(whole.Metrics) != 2 || whole.Metrics[0].Value != whole.Accuracy || math.Abs(whole.Metrics[1].Value-math.Exp(whole.Loss)) > 1e-9 {
		t.Errorf("got the scores %+v, want those of 19 examples, top1 as the accuracy, and the perplexity of the loss", whole)
	}
	total := make([]float64, e.Sums())
	for piece := range e.Pieces() {
		sums, err := e.EvaluatePieces(t.Context(), []int{piece})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range sums {
			total[i] += v
		}
	}
	if got := e.Scores(total); got.Accuracy != whole.Accuracy || got.Examples != whole.Examples || math.Abs(got.Loss-whole.Loss) > 1e-12 {
		t.Errorf("piece by piece the scores are %+v, want %+v", got, whole)
	}
}

// Examples with several labels are measured by their targets: the loss is the mean over those that
// are known, the last batch is short, and there is no accuracy.
func TestABatchEvaluatorMeasuresSeveralLabels(t *testing.T) {
	const examples, columns = 7, 2
	value := func(i int) float32 { return float32(math.Sin(float64(i))) }
	target := func(i int) float32 { return float32(i%3) - 1 } // −1, 0, 1
	for _, batch := range []int{examples, 3} {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		logits, targets := nn.Linear(nn.Input(g, "x", batch, columns), "fc", nn.LinearConfig{Out: columns}), nn.Input(g, "targets", batch, columns)
		program := compile(t, nn.BinaryCrossEntropy(logits, targets, nn.BinaryCrossEntropyConfig{}), nn.Config{Inference: true, Outputs: G.Nodes{logits}})
		e := &worker.BatchEvaluator{Program: program, Outputs: logits, Targets: targets, Examples: examples, Metrics: []metrics.Metric{metrics.LabelF1{Labels: columns, Average: "micro"}}}
		e.Fill = func(_ context.Context, first, n int) ([]int32, error) {
			x, err := program.Input("x")
			if err != nil {
				return nil, err
			}
			to, err := program.Input("targets")
			for i := range n * columns {
				x[i], to[i] = value(columns*first+i), target(columns*first+i)
			}
			return nil, err
		}
		scores, err := e.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := parametersOf(program) // a weight for each column and input, and two biases
		loss, known, hit, wrong, missed := 0.0, 0.0, 0.0, 0.0, 0.0
		for i := range examples * columns {
			row, k := i/columns*columns, i%columns
			y := float64(w[columns*k])*float64(value(row)) + float64(w[columns*k+1])*float64(value(row+1)) + float64(w[columns*columns+k])
			switch p := 1 / (1 + math.Exp(-y)); {
			case target(i) == 1:
				loss, known = loss-math.Log(p), known+1
				if p > 0.5 {
					hit++
				} else {
					missed++
				}
			case target(i) == 0:
				loss, known = loss-math.Log(1-p), known+1
				if p > 0.5 {
					wrong++
				}
			}
		}
		if got, want := scores.Metrics[0].Value, 2*hit/(2*hit+wrong+missed); math.Abs(scores.Loss-loss/known) > 1e-6 || math.Abs(got-want) > 1e-12 || !math.IsNaN(scores.Accuracy) || scores.Examples != examples {
			t.Errorf("in batches of %d: got the scores %+v, want loss %v, F1 %v, no accuracy and %d examples", batch, scores, loss/known, want, examples)
		}
	}
}

// A program whose batch is not known cannot be given its examples in batches.
func TestABatchEvaluatorNeedsTheSizeOfABatch(t *testing.T) {
	loss, logits := rigNetwork(rigBatch)
	program := compile(t, loss, nn.Config{Inference: true, Outputs: G.Nodes{logits}, OwnMask: true})
	e := &worker.BatchEvaluator{Program: program, Outputs: logits, Examples: 16, Fill: func(context.Context, int, int) ([]int32, error) { return nil, nil }}
	if scores, err := e.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("got scores %+v and error %v, want an error that says that the batch is not known", scores, err)
	}
}

// Without labels there is a loss: the mean over all examples, also where the last batch is short.
// There is no accuracy, and no report shows one.
func TestABatchEvaluatorWithoutLabelsHasALoss(t *testing.T) {
	const examples = 7
	value := func(i int) float32 { return float32(math.Sin(float64(i))) }
	for _, batch := range []int{examples, 3} {
		g := G.NewGraph()
		nn.Configure(g, nn.GraphConfig{Seed: 3})
		y := nn.Linear(nn.Input(g, "x", batch, 2), "fc", nn.LinearConfig{Out: 1})
		program := compile(t, nn.MSE(y, nn.Input(g, "target", batch, 1)), nn.Config{Inference: true, Outputs: G.Nodes{y}})
		e := &worker.BatchEvaluator{Program: program, Outputs: y, Examples: examples, Fill: func(_ context.Context, first, n int) ([]int32, error) {
			x, err := program.Input("x")
			if err != nil {
				return nil, err
			}
			target, err := program.Input("target")
			for i := range n {
				x[2*i], x[2*i+1], target[i] = value(2*(first+i)), value(2*(first+i)+1), 1
			}
			return nil, err
		}}
		scores, err := e.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		w := parametersOf(program) // two weights and a bias
		for i := range examples {
			y := float64(w[0])*float64(value(2*i)) + float64(w[1])*float64(value(2*i+1)) + float64(w[2])
			want += (y - 1) * (y - 1) / examples
		}
		if math.Abs(scores.Loss-want) > 1e-6 || !math.IsNaN(scores.Accuracy) || scores.Examples != examples {
			t.Errorf("in batches of %d: got the scores %+v, want loss %v, no accuracy and %d examples", batch, scores, want, examples)
		}
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		info := worker.EpochInfo{Test: &scores}
		for _, o := range []worker.Observer{worker.NewMetricsLines(file), worker.NewProgress(file)} {
			o.Begin(worker.Run{Workers: 1, Epochs: 1})
			o.Epoch(info)
			o.End()
		}
		if err := worker.WriteReport(file, []worker.EpochInfo{info}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); strings.Contains(got, "NaN") || strings.Contains(got, "accuracy=") || !strings.Contains(got, fmt.Sprintf("loss=%.6f", want)) || !strings.Contains(got, fmt.Sprintf("Test_loss %.6f", want)) {
			t.Errorf("in batches of %d the reports are\n%s\nwant the loss %.6f and no accuracy", batch, got, want)
		}
	}
}
