package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
)

// reports tells the job what the training loop says of itself: see kvstore.Reporter.
type reports struct {
	mu sync.Mutex
	// begun is when the step under way began; zero: no step has ended yet. agreeing is how long
	// the turns took to be made since then.
	begun    time.Time
	agreeing time.Duration
	// exchanging is how many nanoseconds of it the loop has waited for exchanges and requests.
	exchanging atomic.Int64
	// trace takes the spans of steps; nil: none does.
	trace atomic.Pointer[trace.Recorder]
	// told is what Python has said of the turn under way; nil: nothing.
	told *stepArguments
	// steps is how many the job has done, as far as was reported.
	steps uint64
	// board is nil where nothing is written for TensorBoard.
	board *board
}

// A number is one of JSON, or "nan", "inf" or "-inf", for which JSON has none. null is not known.
type number struct{ value *float64 }

// UnmarshalJSON reads a number.
func (n *number) UnmarshalJSON(b []byte) error {
	n.value = nil
	text := string(b)
	if text == "null" {
		return nil
	}
	if len(b) > 1 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("got %s, want a number, \"nan\", \"inf\", \"-inf\" or null", shorten(string(b), 64))
	}
	n.value = &x
	return nil
}

// or is the number, or other where it is not known.
func (n number) or(other float64) float64 {
	if n.value == nil {
		return other
	}
	return *n.value
}

// duration is a number of seconds; 0 where it is not known or cannot be.
func (n number) duration() time.Duration {
	x := n.or(0)
	if !(x > 0 && x < 1e9) {
		return 0
	}
	return time.Duration(x * float64(time.Second))
}

// stepArguments is a step as Python reports it. Without a field the bridge's own knowledge counts:
// of the turn, and of the clock.
type stepArguments struct {
	Epoch        *uint64 `json:"epoch"`
	Examples     *int    `json:"examples"`
	GlobalBatch  int     `json:"global_batch"`
	Seconds      number  `json:"seconds"`
	Compute      number  `json:"compute"`
	Wait         number  `json:"wait"`
	Data         number  `json:"data"`
	Save         number  `json:"save"`
	Loss         number  `json:"loss"`
	LearningRate number  `json:"learning_rate"`
	GradientNorm number  `json:"gradient_norm"`
}

// reportArguments are those of the operation report.
type reportArguments struct {
	Step       *stepArguments `json:"step"`
	Evaluation *struct {
		Loss     number            `json:"loss"`
		Accuracy number            `json:"accuracy"`
		Others   map[string]number `json:"others"`
	} `json:"evaluation"`
	Checkpoint *struct {
		Seconds number `json:"seconds"`
		Failed  bool   `json:"failed"`
	} `json:"checkpoint"`
	Folder *bool `json:"folder"`
}

// report is the operation report.
func report(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a reportArguments
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	if a.Step != nil {
		s.reports.step(store, a.Step, s.turns.begunAny())
	}
	if e := a.Evaluation; e != nil {
		told := kvstore.Evaluation{Loss: e.Loss.or(math.NaN()), Accuracy: e.Accuracy.or(math.NaN())}
		for _, name := range slices.Sorted(maps.Keys(e.Others)) {
			told.Others = append(told.Others, kvstore.Score{Name: name, Value: e.Others[name].or(math.NaN())})
		}
		s.reports.evaluation(store, &told)
	}
	if c := a.Checkpoint; c != nil && c.Failed {
		store.ReportCheckpointFailure()
	} else if c != nil {
		store.ReportCheckpoint(c.Seconds.duration())
	}
	if a.Folder != nil {
		store.ReportCheckpointFolder(*a.Folder)
	}
	return nil, nil
}

// step takes what Python says of a step. Where a sampler shares out the examples the end of the
// turn reports it, else it is one that has ended now.
func (r *reports) step(store kvstore.Store, a *stepArguments, turns bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if turns {
		r.told = a
		return
	}
	r.steps++
	told := r.lap(a)
	store.Progress(r.steps, told.Epoch)
	store.ReportStep(told)
	r.board.step(&told, r.steps, store.NumWorkers())
}

// evaluation reports an evaluation.
func (r *reports) evaluation(store kvstore.Store, e *kvstore.Evaluation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	store.ReportEvaluation(*e)
	r.board.evaluation(e, r.steps)
}

// beginSteps says that a step begins now, after something else than a step.
func (r *reports) beginSteps() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun, r.agreeing = time.Now(), 0
	r.exchanging.Store(0)
	if t := r.trace.Load(); t != nil {
		t.BeginStep(t.Step())
	}
}

// agreed adds the time that a turn took to be made.
func (r *reports) agreed(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agreeing += took
}

// endTurn reports the step of a turn. a is what Python says of it with its end; nil: nothing.
func (r *reports) endTurn(store kvstore.Store, ended *kvstore.SamplerTurn, a *stepArguments) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a == nil {
		a = r.told
	}
	if a == nil {
		a = new(stepArguments)
	}
	r.told = nil
	told := r.lap(a)
	if a.Epoch == nil {
		told.Epoch = uint64(ended.Epoch)
	}
	if a.Examples == nil {
		told.Examples = ended.Size
	}
	if a.GlobalBatch == 0 {
		told.GlobalBatch = ended.GlobalBatch
	}
	store.ReportStep(told)
	r.steps = ended.Steps + 1
	r.board.step(&told, r.steps, store.NumWorkers())
}

// lap is a step that ends now, as Python describes it.
func (r *reports) lap(a *stepArguments) kvstore.StepReport {
	now := time.Now()
	waited := a.Wait.duration()
	if exchanging := time.Duration(r.exchanging.Swap(0)); a.Wait.value == nil {
		waited = exchanging
	}
	told := kvstore.StepReport{
		GlobalBatch: a.GlobalBatch, Total: a.Seconds.duration(),
		Compute: a.Compute.duration(), Wait: waited + r.agreeing, Data: a.Data.duration(), Save: a.Save.duration(),
		Loss: a.Loss.or(math.NaN()), NoLoss: a.Loss.value == nil, LearningRate: a.LearningRate.or(math.NaN()), GradientNorm: a.GradientNorm.or(math.NaN()),
	}
	if a.Epoch != nil {
		told.Epoch = *a.Epoch
	}
	if a.Examples != nil {
		told.Examples = *a.Examples
	}
	if told.Total == 0 && !r.begun.IsZero() {
		told.Total = now.Sub(r.begun)
	}
	if a.Compute.value == nil {
		// The rest is Python's own time.
		told.Compute = max(0, told.Total-told.Wait-told.Data-told.Save)
	}
	r.spans(&told, now)
	r.begun, r.agreeing = now, 0
	return told
}
