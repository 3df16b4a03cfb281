package worker

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/internal/joblog"
	"github.com/paragon-train/paragon/metrics"
)

// A ScalarWriter is an Observer that writes a run's numbers as TensorBoard's scalars. Each worker writes a file of its own, in
// DIR/worker-RANK with the rank that it begins with:
//
//	train/loss, train/examples, train/batch                   by step; batch, the global one, with FitConfig.Adapt alone
//	epoch/loss, epoch/examples_per_second                     by epoch
//	test/loss, test/accuracy                                  by epoch and evaluation within one, where there is an Evaluator
//	adapt/scale, gain, noise_scale, progress, goodput         by epoch, with FitConfig.Adapt
//
// The steps of all of them count from the beginning of the job, so those of a resumed run follow those of the run before. Numbers that are
// not finite are left out. An error of writing does not end the run: it is logged once, and Err returns it.
type ScalarWriter struct {
	dir  string
	now  func() time.Time
	file *metrics.EventFile // nil: the run has not begun, or writing failed
	err  error
}

// TensorBoard returns an Observer that writes into a folder, which is made when the run begins: tensorboard --logdir DIR.
func TensorBoard(dir string) *ScalarWriter { return &ScalarWriter{dir: dir, now: time.Now} }

// Err is the first error of writing.
func (w *ScalarWriter) Err() error { return w.err }

// Begin makes the file.
func (w *ScalarWriter) Begin(run Run) {
	now := w.now()
	file, err := metrics.NewEventFile(filepath.Join(w.dir, fmt.Sprintf("worker-%d", run.Rank)), strconv.Itoa(os.Getpid()), now)
	if err != nil {
		w.fail(err)
		return
	}
	w.file = file
}

// Step writes the numbers of a step.
func (w *ScalarWriter) Step(s StepInfo) {
	scalars := []metrics.Scalar{{Tag: "train/loss", Value: s.Loss}, {Tag: "train/examples", Value: float64(s.Examples)}}
	if s.Examples == 0 { // there is no loss
		scalars = scalars[1:]
	}
	if s.Batch > 0 {
		scalars = append(scalars, metrics.Scalar{Tag: "train/batch", Value: float64(s.Batch)})
	}
	w.add(s.Done, scalars)
}

// Evaluated writes the scores within an epoch.
func (w *ScalarWriter) Evaluated(_ int, e Evaluation) {
	w.add(e.Done, []metrics.Scalar{{Tag: "test/loss", Value: e.Scores.Loss}, {Tag: "test/accuracy", Value: e.Scores.Accuracy}})
}

// Epoch writes the numbers of an epoch.
func (w *ScalarWriter) Epoch(e EpochInfo) {
	scalars := []metrics.Scalar{
		{Tag: "epoch/loss", Value: e.Loss},
		{Tag: "epoch/examples_per_second", Value: float64(e.Examples) / e.Train.Seconds()},
	}
	if e.Test != nil {
		scalars = append(scalars, metrics.Scalar{Tag: "test/loss", Value: e.Test.Loss}, metrics.Scalar{Tag: "test/accuracy", Value: e.Test.Accuracy})
	}
	if a := e.Adapt; a != nil {
		scalars = append(scalars,
			metrics.Scalar{Tag: "adapt/scale", Value: a.Scale}, metrics.Scalar{Tag: "adapt/gain", Value: a.Gain},
			metrics.Scalar{Tag: "adapt/noise_scale", Value: a.NoiseScale}, metrics.Scalar{Tag: "adapt/progress", Value: a.Progress},
			metrics.Scalar{Tag: "adapt/goodput", Value: a.Goodput})
	}
	w.add(e.Done, scalars)
}

// End closes the file.
func (w *ScalarWriter) End() {
	if w.file == nil {
		return
	}
	err := w.file.Close()
	w.file = nil
	if err != nil {
		w.fail(err)
	}
}

func (w *ScalarWriter) add(step uint64, scalars []metrics.Scalar) {
	if w.file == nil {
		return
	}
	finite := scalars[:0]
	for _, s := range scalars {
		if math.Abs(s.Value) <= math.MaxFloat64 {
			finite = append(finite, s)
		}
	}
	if err := w.file.Add(int64(step), w.now(), finite...); err != nil {
		w.fail(err)
		w.End()
	}
}

func (w *ScalarWriter) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("worker: TensorBoard: %w", err)
		joblog.Process().Error("worker: TensorBoard's scalars are no longer written", "error", err)
	}
}
