package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
)

// ImageEvaluator measures loss, accuracy and metrics on a data set of images. Fit divides it among
// the workers: each batch is evaluated by one of them. A device that takes images as bytes gets
// them so.
type ImageEvaluator struct {
	// Program is compiled for inference, shares its parameters with the trainer's first
	// program, and has Logits (N, classes) among its outputs.
	Program *nn.Program
	Logits  *gorgonia.Node
	Dataset data.Dataset
	// Augment should only normalise.
	Augment data.Augment
	// BadExamples is how many damaged examples all workers together may leave out of an
	// evaluation; with the next one it fails. Scores.Bad counts them.
	BadExamples int
	// Logger names damaged examples that are left out; nil: slog.Default.
	Logger *slog.Logger
	// Readers is the number of goroutines that read; 0: data's default.
	Readers int
	// PrefetchBytes bounds the memory of the batches that are read ahead; 0: data's default.
	PrefetchBytes int64
	// Metrics are measured besides loss and accuracy; nil: none.
	Metrics []metrics.Metric
}

// Evaluate runs the model over the whole data set.
func (e *ImageEvaluator) Evaluate(ctx context.Context) (Scores, error) { return evaluateAll(ctx, e) }

// Pieces is the number of batches.
func (e *ImageEvaluator) Pieces() int { return batchesOf(e.Dataset.Len(), e.Program.Batch()) }

// Sums is the number of sums: those of loss and accuracy, and those of Metrics.
func (e *ImageEvaluator) Sums() int { return sumsOf(e.Metrics) }

// Scores makes scores of sums.
func (e *ImageEvaluator) Scores(sums []float64) Scores { return scoresOf(sums, e.Metrics) }

func (e *ImageEvaluator) log() *slog.Logger {
	if e.Logger == nil {
		return slog.Default()
	}
	return e.Logger
}

// checkBad is an error on all workers if together they left more out than they may.
func (e *ImageEvaluator) checkBad(s Scores) error {
	if s.Bad <= e.BadExamples {
		return nil
	}
	return exitreport.Final(exitreport.Program, &BadBudgetError{Budget: e.BadExamples, Count: s.Bad})
}

// EvaluatePieces runs the model over some batches. Nothing trains meanwhile, so the values hold.
func (e *ImageEvaluator) EvaluatePieces(ctx context.Context, list []int) (sums []float64, err error) {
	input, err := imageInputs(e.Program, e.Dataset.Shape(), targetWidth(e.Dataset, data.Mix{}))
	if err != nil {
		return nil, fmt.Errorf("worker: evaluate: %w", err)
	}
	s, err := newScorer(e.Metrics)
	if err != nil || len(list) == 0 {
		return s.sums, err
	}
	pixels, err := e.Program.Pixels("images", pixelsConfig(e.Dataset.Shape(), e.Augment))
	if err != nil && !errors.Is(err, nn.ErrNoPixels) {
		return nil, fmt.Errorf("worker: evaluate: %w", err)
	}
	loader, err := data.NewLoader(e.Dataset, e.examplesOf(list, input.batch), data.LoaderConfig{
		BatchSize: input.batch, Augment: e.Augment, Raw: pixels != nil, Still: true, BadExamples: e.BadExamples, Readers: e.Readers, PrefetchBytes: e.PrefetchBytes,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	e.Program.Hold(true)
	defer e.Program.Hold(false)
	for {
		batch, err := loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return s.sums, nil
		}
		if err != nil {
			return nil, finalIfDamaged(err)
		}
		if err := e.score(ctx, s, &input, pixels, batch); err != nil {
			return nil, err
		}
	}
}

// examplesOf are the examples of some batches of this size.
func (e *ImageEvaluator) examplesOf(list []int, size int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, piece := range list {
			for i := piece * size; i < min((piece+1)*size, e.Dataset.Len()); i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// score evaluates one batch. pixels is nil where the device does not take bytes.
func (e *ImageEvaluator) score(ctx context.Context, s *scorer, input *imageInput, pixels *nn.Pixels, batch *data.Batch) error {
	if pixels != nil {
		setPixels(pixels, batch.Pixels, batch.Draws)
	}
	input.set(batch, 0, input.batch, batch.N, pixels != nil)
	labels := batch.Labels[:batch.N]
	if batch.Targets != nil {
		s.targets, labels = input.targets[:batch.N*input.width], nil
	}
	if err := s.run(ctx, e.Program, e.Logits, batch.N, labels); err != nil {
		return err
	}
	s.leaveOut(len(batch.Bad))
	for _, bad := range batch.Bad {
		e.log().Warn("a damaged example is left out of the evaluation", "example", bad.Example, "name", bad.Name, "error", bad.Err, "budget", e.BadExamples)
	}
	return nil
}

// BatchEvaluator measures loss, accuracy and metrics of a model of any kind, such as of text: Fill
// brings the examples. Fit divides it among the workers: each batch is evaluated by one of them.
// Where Fill returns no labels, such as for a regression, there is the loss alone: the mean over
// the examples, by what each batch's loss was divided by (nn.Program.LossWeight). The accuracy is
// NaN then, and reports leave it out.
type BatchEvaluator struct {
	// Program is compiled for inference, shares its parameters with the trainer's first
	// program, and has Outputs among its outputs.
	Program *nn.Program
	// Outputs has the numbers of a row in its last dimension: logits (N, classes), or (N·T,
	// classes) with T labels for each example.
	Outputs *gorgonia.Node
	// Examples is the size of the data set.
	Examples int
	// Fill brings n examples, from number first on, to the program's inputs, and returns their
	// labels, as many for each; nil: they have none. n is the program's batch, but for the last
	// examples.
	Fill func(ctx context.Context, first, n int) (labels []int32, err error)
	// Targets is the program's input that holds the targets of examples with several labels
	// (nn.BinaryCrossEntropy), which metrics of such read, as metrics.LabelF1 does. Fill brings
	// them and returns no labels. Nil: there are none.
	Targets *gorgonia.Node
	// Metrics are measured besides loss and accuracy; nil: none.
	Metrics []metrics.Metric
}

// Evaluate runs the model over the whole data set.
func (e *BatchEvaluator) Evaluate(ctx context.Context) (Scores, error) { return evaluateAll(ctx, e) }

// Pieces is the number of batches.
func (e *BatchEvaluator) Pieces() int { return batchesOf(e.Examples, e.Program.Batch()) }

// Sums is the number of sums: those of loss and accuracy, and those of Metrics.
func (e *BatchEvaluator) Sums() int { return sumsOf(e.Metrics) }

// Scores makes scores of sums.
func (e *BatchEvaluator) Scores(sums []float64) Scores { return scoresOf(sums, e.Metrics) }

// EvaluatePieces runs the model over some batches. Nothing trains meanwhile, so the values hold.
func (e *BatchEvaluator) EvaluatePieces(ctx context.Context, list []int) ([]float64, error) {
	s, err := newScorer(e.Metrics)
	if err != nil {
		return nil, err
	}
	e.Program.Hold(true)
	defer e.Program.Hold(false)
	size := e.Program.Batch()
	if size == 0 {
		return nil, errors.New("worker: evaluate: the size of the program's batch is not known (nn.Program.Batch): give it inputs of one size, or nn.ExampleWeights")
	}
	for _, piece := range list {
		first := piece * size
		n := min(size, e.Examples-first)
		labels, err := e.Fill(ctx, first, n)
		if err != nil {
			return nil, fmt.Errorf("worker: evaluate examples %d to %d: %w", first, first+n-1, err)
		}
		if e.Targets != nil {
			targets, err := e.Program.Input(e.Targets.Name())
			if err != nil {
				return nil, fmt.Errorf("worker: evaluate: %w", err)
			}
			s.targets = targets[:len(targets)/size*n]
		}
		if err := s.run(ctx, e.Program, e.Outputs, n, labels); err != nil {
			return nil, err
		}
	}
	return s.sums, nil
}

// batchesOf is how many batches there are. A batch whose size is not known is taken to have one
// example.
func batchesOf(examples, batch int) int { return (examples + max(batch, 1) - 1) / max(batch, 1) }

// The sums of every evaluator here; those of metrics follow.
const (
	// sumLoss sums up the losses of rows, and sumRows counts the rows that have a label.
	sumLoss = iota
	sumRows
	// sumWeight is what the rows weigh in the mean loss: with weights of classes those of their
	// labels.
	sumWeight
	// sumRight counts right answers, sumExamples the examples evaluated, and sumBad those that
	// are damaged and were left out.
	sumRight
	sumExamples
	sumBad
	firstMetric
)

func sumsOf(list []metrics.Metric) int {
	n := firstMetric
	for _, m := range list {
		n += m.Sums()
	}
	return n
}

// scoresOf makes scores of sums.
func scoresOf(sums []float64, list []metrics.Metric) Scores {
	s := Scores{
		Loss:     metrics.Mean{Sum: sums[sumLoss], Weight: sums[sumWeight]}.Value(),
		Accuracy: metrics.Mean{Sum: sums[sumRight], Weight: sums[sumRows]}.Value(),
		Examples: int(sums[sumExamples]),
		Bad:      int(sums[sumBad]),
	}
	at := firstMetric
	for _, m := range list {
		values := m.Values(sums[at : at+m.Sums()])
		for i, name := range m.Names() {
			s.Metrics = append(s.Metrics, metrics.Measured{Name: name, Value: values[i]})
		}
		at += m.Sums()
	}
	return s
}

// A scorer adds up what batches contribute.
type scorer struct {
	metrics []metrics.Metric
	sums    []float64
	// targets are those of the next batch's examples; nil: it has labels, or neither.
	targets []float32
}

func newScorer(list []metrics.Metric) (*scorer, error) {
	if err := metrics.CheckMetrics(list); err != nil {
		return &scorer{}, fmt.Errorf("worker: evaluate: %w", err)
	}
	return &scorer{metrics: list, sums: make([]float64, sumsOf(list))}, nil
}

// leaveOut says that so many examples of the batch that was evaluated are damaged.
func (s *scorer) leaveOut(bad int) {
	s.sums[sumExamples] -= float64(bad)
	s.sums[sumBad] += float64(bad)
}

// run evaluates the batch of n examples that is in a program's inputs.
func (s *scorer) run(ctx context.Context, program *nn.Program, outputs *gorgonia.Node, n int, labels []int32) error {
	if err := program.SetExamples(n); err != nil {
		return fmt.Errorf("worker: evaluate: %w", err)
	}
	if err := program.Forward(ctx); err != nil {
		return err
	}
	values, err := program.Output(outputs)
	if err != nil {
		return err
	}
	shape := outputs.Shape()
	width := shape[shape.Dims()-1]
	if len(labels)*width > len(values) {
		return fmt.Errorf("worker: evaluate: got %d labels for outputs of shape %v, want one for each row", len(labels), shape)
	}
	if s.targets != nil && len(s.targets) != len(values)/program.Batch()*n {
		return fmt.Errorf("worker: evaluate: got %d targets for %d examples and outputs of shape %v, want one for each number", len(s.targets), n, shape)
	}
	b := metrics.Batch{Outputs: values, Width: width, Labels: labels, Targets: s.targets, Loss: program.Loss(), ClassWeights: program.ClassWeights()}
	rows, right := 0.0, 0.0
	b.Rows(func(row []float32, label int) {
		var one metrics.Accuracy
		one.AddLogits(row, []int32{int32(label)}, width)
		rows, right = rows+1, right+float64(one.Right)
	})
	weight := b.LossWeight()
	if len(labels) == 0 {
		weight = program.LossWeight()
	}
	// The loss of nothing may be NaN.
	if weight > 0 {
		s.sums[sumLoss] += b.Loss * weight
		s.sums[sumWeight] += weight
	}
	s.sums[sumRows] += rows
	s.sums[sumRight] += right
	s.sums[sumExamples] += float64(n)
	at := firstMetric
	for _, m := range s.metrics {
		m.Add(s.sums[at:at+m.Sums()], b)
		at += m.Sums()
	}
	return nil
}
