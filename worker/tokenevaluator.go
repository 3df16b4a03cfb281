package worker

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
)

// TokenEvaluator measures the loss of a language model on windows of tokens, over all labels that
// count, and its perplexity, exp(loss). Fit divides the windows among the workers: each batch is
// evaluated by one of them. There is no accuracy, as the program need not give logits.
type TokenEvaluator struct {
	// Program is compiled for inference and shares its parameters with the trainer's first
	// program. It has inputs as TokenFeedConfig.Programs have them.
	Program *nn.Program
	Windows Windows
}

// Evaluate runs the model over all windows.
func (e *TokenEvaluator) Evaluate(ctx context.Context) (Scores, error) { return evaluateAll(ctx, e) }

// Pieces is the number of batches.
func (e *TokenEvaluator) Pieces() int { return batchesOf(e.Windows.Len(), e.Program.Batch()) }

// Sums is the number of sums: losses, labels and windows.
func (e *TokenEvaluator) Sums() int { return 3 }

// Scores makes scores of sums.
func (e *TokenEvaluator) Scores(sums []float64) Scores {
	loss := metrics.Mean{Sum: sums[0], Weight: sums[1]}.Value()
	return Scores{Loss: loss, Accuracy: math.NaN(), Examples: int(sums[2]), Metrics: []metrics.Measured{{Name: "perplexity", Value: math.Exp(loss)}}}
}

// EvaluatePieces runs the model over some batches. Nothing trains meanwhile, so the values hold.
func (e *TokenEvaluator) EvaluatePieces(ctx context.Context, list []int) ([]float64, error) {
	in, err := tokenInputs(e.Program, e.Windows.Length())
	if err != nil {
		return nil, fmt.Errorf("worker: evaluate: %w", err)
	}
	e.Program.Hold(true)
	defer e.Program.Hold(false)
	sums := make([]float64, 3)
	for _, piece := range list {
		var windows []int
		for i := piece * in.batch; i < min((piece+1)*in.batch, e.Windows.Len()); i++ {
			windows = append(windows, i)
		}
		if err := in.set(ctx, e.Windows, windows); err != nil {
			return nil, fmt.Errorf("worker: evaluate: %w", err)
		}
		if err := e.Program.SetExamples(len(windows)); err != nil {
			return nil, fmt.Errorf("worker: evaluate: %w", err)
		}
		if err := e.Program.Forward(ctx); err != nil {
			return nil, err
		}
		// The loss of nothing may be NaN.
		if weight := e.Program.LossWeight(); weight > 0 {
			sums[0] += e.Program.Loss() * weight
			sums[1] += weight
		}
		sums[2] += float64(len(windows))
	}
	return sums, nil
}
