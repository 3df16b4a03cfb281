package worker_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// Each example is brought once, the last batch is short, and rows without a label count nowhere; the scores are the same in any pieces.
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

// A program whose batch is not known cannot be given its examples in batches.
func TestABatchEvaluatorNeedsTheSizeOfABatch(t *testing.T) {
	loss, logits := rigNetwork(rigBatch)
	program := compile(t, loss, nn.Config{Inference: true, Outputs: G.Nodes{logits}, OwnMask: true})
	e := &worker.BatchEvaluator{Program: program, Outputs: logits, Examples: 16, Fill: func(context.Context, int, int) ([]int32, error) { return nil, nil }}
	if scores, err := e.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("got scores %+v and error %v, want an error that says that the batch is not known", scores, err)
	}
}
