package bridge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
)

// reported is a store that notes what it is told.
type reported struct {
	kvstore.Store
	steps       []kvstore.StepReport
	evaluations []kvstore.Evaluation
	others      []string
}

func (r *reported) ReportStep(s kvstore.StepReport) {
	r.steps = append(r.steps, s)
	r.Store.ReportStep(s)
}
func (r *reported) ReportEvaluation(e kvstore.Evaluation) { r.evaluations = append(r.evaluations, e) }
func (r *reported) ReportCheckpoint(took time.Duration) {
	r.others = append(r.others, fmt.Sprint("checkpoint ", took))
}
func (r *reported) ReportCheckpointFailure() { r.others = append(r.others, "failure") }
func (r *reported) ReportCheckpointFolder(there bool) {
	r.others = append(r.others, fmt.Sprint("folder ", there))
}
func (r *reported) Progress(steps, epoch uint64) {
	r.others = append(r.others, fmt.Sprint("progress ", steps, " ", epoch))
}

func report1(t *testing.T) (*player, *reported) {
	t.Helper()
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	r := &reported{Store: kv}
	return play(t, r), r
}

// Where a sampler shares out the examples the end of a turn reports its step: what the bridge
// knows, and what Python says of it.
func TestTheEndOfATurnReportsItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := report1(t)
		if err := p.ask(t.Context(), "sampler", map[string]any{"examples": 5, "batch": 2, "epochs": 2}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		told := map[string]any{"loss": "nan", "compute": 1.5, "wait": 0.25, "learning_rate": 0.1}
		if err := p.ask(t.Context(), "report", map[string]any{"step": told}, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.ask(t.Context(), "turn", map[string]any{"after": 1}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := p.ask(t.Context(), "turn", map[string]any{"after": 2, "step": map[string]any{"loss": 2.5, "seconds": 0.5}}, nil); err != nil {
			t.Fatal(err)
		}
		for after := 3; after < 5; after++ { // the third step, and the end of the epoch
			time.Sleep(time.Minute)
			if err := p.ask(t.Context(), "turn", map[string]any{"after": after}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.ask(t.Context(), "turn", map[string]any{"after": 5}, nil); err != nil {
			t.Fatal(err)
		}
		same := func(got, want kvstore.StepReport) bool { return fmt.Sprint(got) == fmt.Sprint(want) }
		nan := math.NaN()
		for i, want := range []kvstore.StepReport{
			{Examples: 2, GlobalBatch: 2, Total: 3 * time.Second, Compute: 1500 * time.Millisecond, Wait: 250 * time.Millisecond, Loss: nan, LearningRate: 0.1, GradientNorm: nan},
			{Examples: 2, GlobalBatch: 2, Total: 500 * time.Millisecond, Compute: 500 * time.Millisecond, Loss: 2.5, LearningRate: nan, GradientNorm: nan},
			{Examples: 1, GlobalBatch: 1, Total: time.Minute, Compute: time.Minute, Loss: nan, NoLoss: true, LearningRate: nan, GradientNorm: nan},
			// The minute at the end of the epoch is no part of a step.
			{Epoch: 1, Examples: 2, GlobalBatch: 2, Loss: nan, NoLoss: true, LearningRate: nan, GradientNorm: nan},
		} {
			if i >= len(r.steps) || !same(r.steps[i], want) {
				t.Errorf("step %d: got reports %+v, want %+v", i, r.steps, want)
			}
		}
		if len(r.steps) != 4 {
			t.Errorf("got %d reports of steps, want 4", len(r.steps))
		}
	})
}

// What the workers took to agree on a turn is waited for in one step.
func TestTheTimeOfATurnIsWaitedForOnce(t *testing.T) {
	var r reports
	r.agreed(time.Second)
	r.agreed(time.Second)
	for i, want := range []time.Duration{2 * time.Second, 0} {
		if got := r.lap(&stepArguments{}).Wait; got != want {
			t.Errorf("step %d: waited %v, want %v", i, got, want)
		}
	}
}

// Without a sampler each report is a step.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := report1(t)
		for range 2 {
			time.Sleep(2 * time.Second)
			args := map[string]any{
				"step":       map[string]any{"epoch": 3, "examples": 8, "global_batch": 16, "loss": 1.5, "data": 0.5, "save": 0.125, "gradient_norm": "inf"},
				"evaluation": map[string]any{"accuracy": 0.75, "others": map[string]any{"top5": 0.9, "f1": nil}},
				"checkpoint": map[string]any{"seconds": 2},
				"folder":     true,
			}
			if err := p.ask(t.Context(), "report", args, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.ask(t.Context(), "report", map[string]any{"checkpoint": map[string]any{"failed": true}}, nil); err != nil {
			t.Fatal(err)
		}
		want := kvstore.StepReport{Epoch: 3, Examples: 8, GlobalBatch: 16, Total: 2 * time.Second, Compute: 1375 * time.Millisecond, Data: 500 * time.Millisecond, Save: 125 * time.Millisecond, Loss: 1.5, LearningRate: math.NaN(), GradientNorm: math.Inf(1)}
		if len(r.steps) != 2 || fmt.Sprint(r.steps[1]) != fmt.Sprint(want) || r.steps[0].Total != 0 {
			t.Errorf("got steps %+v, want two, the second one %+v", r.steps, want)
		}
		if got, want := fmt.Sprint(r.evaluations[0]), "{NaN 0.75 [{f1 NaN} {top5 0.9}]}"; got != want {
			t.Errorf("got evaluation %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(r.others), "[progress 1 3 checkpoint 2s folder true progress 2 3 checkpoint 2s folder true failure]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, bad := range []map[string]any{{"step": map[string]any{"loss": "low"}}, {"step": map[string]any{"loss": true}}, {"step": map[string]any{"epoch": -1}}} {
			if err := p.ask(t.Context(), "report", bad, nil); !errors.Is(err, errUsage) {
				t.Errorf("report %v: got error %v, want one of class Usage", bad, err)
			}
		}
	})
}

// A trace has the parts of a step: what Python told, what the loop waited for, and the rest as
// computing. So have the reports.
func TestATraceHasThePartsOfAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := report1(t)
		if err := r.Init(t.Context(), "w", make([]float32, 8)); err != nil {
			t.Fatal(err)
		}
		recorder := traceOf(r.Store)
		p.s.reports.trace.Store(recorder)
		capture := recorder.Open(trace.Config{})
		if err := p.ask(t.Context(), "sampler", map[string]any{"examples": 4, "batch": 2, "epochs": 1}, nil); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for after := range 2 {
			time.Sleep(3 * time.Second)
			since := time.Now()
			time.Sleep(time.Second)
			p.s.reports.waited(since)
			time.Sleep(time.Second)
			told := map[string]any{"data": 2, "save": 1}
			if err := p.ask(t.Context(), "turn", map[string]any{"after": after + 1, "step": told}, nil); err != nil {
				t.Fatal(err)
			}
			if got := r.steps[after]; got.Total != 5*time.Second || got.Wait != time.Second || got.Data != 2*time.Second || got.Compute != time.Second || got.Save != time.Second {
				t.Errorf("step %d: got report %+v, want a second each of waiting, computing and saving after two for data", after, got)
			}
		}
		var got []string
		for _, x := range capture.Take().Spans {
			if slices.Contains([]trace.Kind{trace.Push, trace.Pull}, x.Kind) || x.Kind.OfServer() {
				// These are of the sampler's own key.
				continue
			}
			got = append(got, fmt.Sprint(x.Step, " ", x.Kind, " ", time.Duration(x.Begin-recorder.At(begin)), " ", time.Duration(x.End-recorder.At(begin))))
		}
		want := []string{
			"0 wait 3s 4s", "0 data 0s 2s", "0 compute 2s 4s", "0 save 4s 5s", "0 step 0s 5s",
			"1 wait 8s 9s", "1 data 5s 7s", "1 compute 7s 9s", "1 save 9s 10s", "1 step 5s 10s",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got spans %q, want %q", got, want)
		}
	})
}

// What the other workers keep a turn waiting for is waited for in its step.
func TestAStepHasTheTimeOfItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := stores(t)
		r := &reported{Store: kv[0]}
		a, b := play(t, r), play(t, kv[1])
		for i, op := range []string{"sampler", "turn", "turn"} {
			args := map[string]any{}
			if i == 0 {
				args = oneEpoch
			}
			asked := make(chan error, 1)
			go func() { asked <- a.ask(t.Context(), op, args, nil) }()
			if i == 1 {
				time.Sleep(2 * time.Second)
			}
			if err := errors.Join(b.ask(t.Context(), op, args, nil), <-asked); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.steps) != 2 || r.steps[0].Wait != 0 || r.steps[1].Wait != 2*time.Second {
			t.Errorf("got reports %+v, want two, of which the second one has waited 2 s", r.steps)
		}
	})
}
