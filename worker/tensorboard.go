package worker

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/procs"
	"github.com/paragon-train/paragon/metrics"
)

// A ScalarWriter is an Observer that writes a run's numbers for TensorBoard. Each worker writes a
// folder of its own, DIR/worker-RANK with the rank that it begins with, or DIR/worker-node-NODE if
// it joined a running job:
//
//	train/loss, examples, batch, learning_rate, epoch, workers    by step; batch is the global one
//	train/gradient_norm, staleness                                by step, where they are measured (StepInfo)
//	time/step, compute, wait, data, save                          by step, in seconds (StepInfo.Took and Times)
//	time/examples_per_second                                      by step, of this worker
//	memory/resident_bytes                                         once a second, of this process, on Linux
//	epoch/loss, epoch/examples_per_second                         by epoch
//	test/loss, test/accuracy                                      by epoch and evaluation within one, where there is an Evaluator
//	adapt/scale, gain, noise_scale, progress, goodput             by epoch, with FitConfig.Adapt
//	job/membership                                                a text when the run begins and when workers came or went
//
// The steps of all of them count from the beginning of the job, so those of a resumed run follow
// those of the run before; what that one had from there on TensorBoard leaves out. So it does with
// all of an earlier run in the same folder, if a new one begins at step 0.
//
// A program with a training loop of its own calls Begin, Step, Epoch and End itself: with NaN for
// what it does not know.
//
// Numbers that are not finite are left out. A file is written at least every two seconds; that of a
// worker that was killed can be read. An error of writing does not end the run: it is logged once,
// and Err returns it.
type ScalarWriter struct {
	dir string
	now func() time.Time

	// file is nil before the run has begun, and after writing has failed.
	file *metrics.EventFile
	// memory is nil where the system does not tell. It was asked last when measured.
	memory   *procs.Memory
	measured time.Time
	// scalars are those of the event under way.
	scalars []metrics.Scalar
	err     error
}

// TensorBoard returns an Observer that writes into a folder, which is made when the run begins:
// tensorboard --logdir DIR.
func TensorBoard(dir string) *ScalarWriter {
	return &ScalarWriter{dir: dir, now: time.Now}
}

// Err is the first error of writing.
func (w *ScalarWriter) Err() error { return w.err }

// Begin makes the file.
func (w *ScalarWriter) Begin(run Run) {
	name, text := fmt.Sprintf("worker-%d", run.Rank), "The run begins"
	switch {
	case run.Joined:
		name, text = fmt.Sprintf("worker-node-%d", run.Node), "This worker joined the running job"
	case run.ResumedFrom != "":
		text = "The run resumed from `" + run.ResumedFrom + "`"
	}
	file, err := w.begin(name, run.Done)
	if err != nil {
		w.fail(err)
		return
	}
	w.file = file
	w.memory, _ = procs.OpenMemory()
	w.text(run.Done, fmt.Sprintf("%s at epoch %d, step %d: worker %d of %d", text, run.FirstEpoch, run.FirstStep, run.Rank, run.Workers))
	if !run.Joined && run.Rank == 0 {
		w.supersede(run)
	}
}

// begin begins a file whose events follow so many steps.
func (w *ScalarWriter) begin(name string, done uint64) (*metrics.EventFile, error) {
	return metrics.NewEventFile(filepath.Join(w.dir, name), strconv.Itoa(os.Getpid()), int64(done)+1, w.now())
}

// supersede lets what an earlier run had from this step on no longer count in the folders of
// workers that are not in this run.
func (w *ScalarWriter) supersede(run Run) {
	folders, err := os.ReadDir(w.dir)
	if err != nil {
		w.fail(err)
		return
	}
	present := make(map[string]bool, run.Workers)
	for rank := range run.Workers {
		present[fmt.Sprintf("worker-%d", rank)] = true
	}
	for _, folder := range folders {
		name := folder.Name()
		if present[name] || !folder.IsDir() || !strings.HasPrefix(name, "worker-") {
			continue
		}
		file, err := w.begin(name, run.Done)
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			w.fail(err)
		}
	}
}

// Step writes the numbers of a step.
func (w *ScalarWriter) Step(s StepInfo) {
	if w.file == nil {
		return
	}
	// A step without examples has no loss.
	if s.Examples > 0 {
		w.set("train/loss", s.Loss)
		w.set("time/examples_per_second", float64(s.Examples)/s.Took.Seconds())
	}
	w.set("train/examples", float64(s.Examples))
	if s.Batch > 0 {
		w.set("train/batch", float64(s.Batch))
	}
	w.set("train/learning_rate", s.LearningRate)
	w.set("train/gradient_norm", s.GradientNorm)
	w.set("train/staleness", s.Staleness)
	w.set("train/epoch", float64(s.Epoch))
	w.set("train/workers", float64(s.Workers))
	w.set("time/step", s.Took.Seconds())
	w.set("time/compute", s.Times.Compute.Seconds())
	w.set("time/wait", s.Times.Wait.Seconds())
	w.set("time/data", s.Times.Data.Seconds())
	w.set("time/save", s.Times.Save.Seconds())
	// The system takes longer for this than a step's numbers take.
	if now := w.now(); w.memory != nil && now.Sub(w.measured) >= time.Second {
		w.measured = now
		if bytes, err := w.memory.Resident(); err == nil {
			w.set("memory/resident_bytes", float64(bytes))
		}
	}
	w.add(s.Done)
}

// Evaluated writes the scores within an epoch.
func (w *ScalarWriter) Evaluated(_ int, e Evaluation) {
	if w.file == nil {
		return
	}
	w.set("test/loss", e.Scores.Loss)
	w.set("test/accuracy", e.Scores.Accuracy)
	w.metrics(e.Scores.Metrics)
	w.add(e.Done)
}

// Epoch writes the numbers of an epoch.
func (w *ScalarWriter) Epoch(e EpochInfo) {
	w.set("epoch/loss", e.Loss)
	w.set("epoch/examples_per_second", float64(e.Examples)/e.Train.Seconds())
	if e.Test != nil {
		w.set("test/loss", e.Test.Loss)
		w.set("test/accuracy", e.Test.Accuracy)
		w.metrics(e.Test.Metrics)
	}
	if a := e.Adapt; a != nil {
		w.set("adapt/scale", a.Scale)
		w.set("adapt/gain", a.Gain)
		w.set("adapt/noise_scale", a.NoiseScale)
		w.set("adapt/progress", a.Progress)
		w.set("adapt/goodput", a.Goodput)
	}
	w.add(e.Done)
}

// metrics puts those of one's own into the event under way.
func (w *ScalarWriter) metrics(list []metrics.Measured) {
	for _, m := range list {
		w.set("test/"+m.Name, m.Value)
	}
}

// Scalar writes a number of the program's own, after so many steps of the job: between Begin and
// End.
func (w *ScalarWriter) Scalar(done uint64, tag string, value float64) {
	w.set(tag, value)
	w.add(done)
}

// Membership writes who came or went.
func (w *ScalarWriter) Membership(m MembershipInfo) {
	change := fmt.Sprintf("The number of workers changed from %d to %d", m.Before, m.Workers)
	if m.Before == m.Workers {
		change = fmt.Sprintf("Workers were replaced; there are still %d", m.Workers)
	}
	w.text(m.Done, fmt.Sprintf("%s at epoch %d, step %d. This is worker %d", change, m.Epoch, m.Step, m.Rank))
}

// End closes the file.
func (w *ScalarWriter) End() {
	if w.file == nil {
		return
	}
	if w.memory != nil {
		_ = w.memory.Close()
		w.memory = nil
	}
	err := w.file.Close()
	w.file = nil
	if err != nil {
		w.fail(err)
	}
}

// set puts a number into the event under way.
func (w *ScalarWriter) set(tag string, value float64) {
	if math.Abs(value) <= math.MaxFloat64 {
		w.scalars = append(w.scalars, metrics.Scalar{Tag: tag, Value: value})
	}
}

// add writes the event under way.
func (w *ScalarWriter) add(step uint64) {
	if w.file != nil {
		w.wrote(w.file.Add(int64(step), w.now(), w.scalars...))
	}
	w.scalars = w.scalars[:0]
}

func (w *ScalarWriter) text(step uint64, text string) {
	if w.file != nil {
		w.wrote(w.file.AddText(int64(step), w.now(), "job/membership", text))
	}
}

// wrote ends the writing after an error.
func (w *ScalarWriter) wrote(err error) {
	if err != nil {
		w.fail(err)
		w.End()
	}
}

func (w *ScalarWriter) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("worker: TensorBoard: %w", err)
		joblog.Process().Error("worker: TensorBoard's files are not complete", "error", err)
	}
}
