package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// A board writes a worker's numbers for TensorBoard, under the names that worker.ScalarWriter has
// for those of a Go program, into a folder of its own: DIR/worker-RANK, or DIR/worker-node-NODE of
// a worker that joined a running job. Numbers that are not finite or not known are left out. An
// error of writing ends the writing, and is logged. A board that is
// nil writes nothing: step, evaluation and close may be called on it.
type board struct {
	log     *slog.Logger
	file    *metrics.EventFile
	scalars []metrics.Scalar
	// workers is how many there were in the last step.
	workers int
}

// openBoard begins a file whose first step is the one behind so many.
func openBoard(dir string, store kvstore.Store, done uint64, joined bool, log *slog.Logger) (*board, error) {
	name, text := fmt.Sprintf("worker-%d", store.Rank()), "The run begins"
	if joined {
		name, text = fmt.Sprintf("worker-node-%d", store.NodeID()), "This worker joined the running job"
	}
	file, err := metrics.NewEventFile(filepath.Join(dir, name), strconv.Itoa(os.Getpid()), int64(done)+1, time.Now())
	if err != nil {
		return nil, fmt.Errorf("bridge: tensorboard: %w", err)
	}
	b := &board{log: log, file: file, workers: store.NumWorkers()}
	b.text(done, fmt.Sprintf("%s: worker %d of %d", text, store.Rank(), b.workers))
	return b, nil
}

// step writes a step, after which so many are done.
func (b *board) step(r *kvstore.StepReport, done uint64, workers int) {
	if b == nil {
		return
	}
	if workers != b.workers {
		b.text(done, fmt.Sprintf("The number of workers changed from %d to %d at epoch %d", b.workers, workers, r.Epoch))
		b.workers = workers
	}
	if r.Examples > 0 {
		if !r.NoLoss {
			b.set("train/loss", r.Loss)
		}
		b.set("time/examples_per_second", float64(r.Examples)/r.Total.Seconds())
	}
	b.set("train/examples", float64(r.Examples))
	if r.GlobalBatch > 0 {
		b.set("train/batch", float64(r.GlobalBatch))
	}
	b.set("train/learning_rate", r.LearningRate)
	b.set("train/gradient_norm", r.GradientNorm)
	b.set("train/epoch", float64(r.Epoch))
	b.set("train/workers", float64(workers))
	b.set("time/step", r.Total.Seconds())
	b.set("time/compute", r.Compute.Seconds())
	b.set("time/wait", r.Wait.Seconds())
	b.set("time/data", r.Data.Seconds())
	b.set("time/save", r.Save.Seconds())
	b.add(done)
}

// evaluation writes the scores after so many steps.
func (b *board) evaluation(e *kvstore.Evaluation, done uint64) {
	if b == nil {
		return
	}
	b.set("test/loss", e.Loss)
	b.set("test/accuracy", e.Accuracy)
	for _, score := range e.Others {
		b.set("test/"+score.Name, score.Value)
	}
	b.add(done)
}

// set puts a number into the event under way.
func (b *board) set(tag string, value float64) {
	if math.Abs(value) <= math.MaxFloat64 {
		b.scalars = append(b.scalars, metrics.Scalar{Tag: tag, Value: value})
	}
}

// add writes the event under way.
func (b *board) add(done uint64) {
	if b.file != nil {
		b.wrote(b.file.Add(int64(done), time.Now(), b.scalars...))
	}
	b.scalars = b.scalars[:0]
}

func (b *board) text(done uint64, text string) {
	if b.file != nil {
		b.wrote(b.file.AddText(int64(done), time.Now(), "job/membership", text))
	}
}

// wrote ends the writing after an error.
func (b *board) wrote(err error) {
	if err != nil {
		b.log.Error("TensorBoard's files are not complete", "error", err)
		b.close()
	}
}

// close ends the file.
func (b *board) close() {
	if b == nil || b.file == nil {
		return
	}
	file := b.file
	b.file = nil
	if err := file.Close(); err != nil {
		b.log.Error("TensorBoard's files are not complete", "error", err)
	}
}

// writeBoard is the operation tensorboard.
func writeBoard(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Folder string `json:"folder"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	switch {
	case err != nil:
		return nil, err
	case a.Folder == "":
		return nil, usage("bridge: tensorboard: got no folder")
	case store.Joining():
		return nil, usage("bridge: tensorboard: this worker joins a running job, and has no rank yet; call it behind the first turn")
	}
	steps, joined := s.turns.position()
	return nil, s.reports.write(a.Folder, store, steps, joined, s.log)
}

// write begins to write for TensorBoard, in place of what was written so far.
func (r *reports) write(dir string, store kvstore.Store, steps uint64, joined bool, log *slog.Logger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.board.close()
	r.steps = max(r.steps, steps)
	b, err := openBoard(dir, store, r.steps, joined, log)
	r.board = b
	return err
}

// close ends what is written.
func (r *reports) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.board.close()
}
