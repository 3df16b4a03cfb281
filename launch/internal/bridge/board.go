package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// maxEvents is the most events that wait to be written.
const maxEvents = 1024

// A board writes a worker's numbers for TensorBoard, under the names that worker.ScalarWriter has
// for those of a Go program, into a folder of its own: DIR/worker-RANK, or DIR/worker-node-NODE of
// a worker that joined a running job. Numbers that are not finite or not known are left out.
//
// A goroutine of its own writes, so that a slow disk holds up nothing else: of more than maxEvents
// events that wait the newest are left out, and the log says so once. An error of writing ends the
// writing, and is logged. A board that is nil writes nothing: step, evaluation and close may be
// called on it. Only one goroutine at a time may call them.
type board struct {
	log     *slog.Logger
	events  chan event
	writing sync.WaitGroup
	scalars []metrics.Scalar
	// workers is how many there were in the last step.
	workers int
	// full says that the log has the line about events that are left out.
	full bool
}

// An event is what is written at a time: numbers, or a text about the members.
type event struct {
	done    int64
	at      time.Time
	scalars []metrics.Scalar
	text    string
}

// An eventFile is a metrics.EventFile.
type eventFile interface {
	Add(step int64, at time.Time, scalars ...metrics.Scalar) error
	AddText(step int64, at time.Time, tag, text string) error
	Close() error
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
	b := newBoard(file, store.NumWorkers(), log)
	b.text(done, fmt.Sprintf("%s: worker %d of %d", text, store.Rank(), b.workers))
	return b, nil
}

// newBoard begins to write into a file.
func newBoard(file eventFile, workers int, log *slog.Logger) *board {
	b := &board{log: log, events: make(chan event, maxEvents), workers: workers}
	b.writing.Go(func() { b.write(file) })
	return b
}

// write writes events until there are no more.
func (b *board) write(file eventFile) {
	var err error
	for e := range b.events {
		switch {
		case err != nil:
			// The file has ended.
		case e.text != "":
			err = file.AddText(e.done, e.at, "job/membership", e.text)
		default:
			err = file.Add(e.done, e.at, e.scalars...)
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		b.log.Error("TensorBoard's files are not complete", "error", err)
	}
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

// add hands on the event under way.
func (b *board) add(done uint64) {
	b.hand(event{done: int64(done), at: time.Now(), scalars: b.scalars})
	b.scalars = nil
}

func (b *board) text(done uint64, text string) {
	b.hand(event{done: int64(done), at: time.Now(), text: text})
}

// hand gives an event to the goroutine that writes, unless too many wait.
func (b *board) hand(e event) {
	select {
	case b.events <- e:
	default:
		if !b.full {
			b.full = true
			b.log.Warn("TensorBoard's files lack steps: the disk does not take what is reported", "step", e.done, "waiting", maxEvents)
		}
	}
}

// close ends the file, when all events were written.
func (b *board) close() {
	if b == nil {
		return
	}
	close(b.events)
	b.writing.Wait()
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

// write begins to write for TensorBoard, in place of what was written so far. Reports go on while
// it waits for the disk.
func (r *reports) write(dir string, store kvstore.Store, steps uint64, joined bool, log *slog.Logger) error {
	done := r.replace(nil, steps)
	b, err := openBoard(dir, store, done, joined, log)
	if err != nil {
		return err
	}
	r.replace(b, steps)
	return nil
}

// replace writes to another board from now on, and ends the one before. The job has done at least
// so many steps; it returns how many.
func (r *reports) replace(b *board, steps uint64) (done uint64) {
	r.mu.Lock()
	old := r.board
	r.board, r.steps = b, max(r.steps, steps)
	done = r.steps
	r.mu.Unlock()
	old.close()
	return done
}

// close ends what is written.
func (r *reports) close() { r.replace(nil, 0) }
