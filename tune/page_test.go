package tune

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// below stops trials whose value at step 2 is below 5.
type below struct{ FIFO }

func (below) Reported(v View, trial int, _ *rand.Rand) Decision {
	r, _ := v.Trial(trial).Last()
	d := Go()
	d.Rule, d.Value, d.Cutoff, d.Competitors = "below five", r.Value, 5, []int{0}
	if r.Step == 2 && r.Value < 5 {
		d.Action = Stop
	}
	return d
}

func pageSpace() Space {
	return Space{Grid("x", 1, 7, 9), Choice("optimizer", "sgd", "adam"), Real("momentum", 0.1, 0.9).When("optimizer", "sgd"), Real("lr", 1e-4, 1e-1).Log()}
}

// studyWithPage runs a study of three trials with a page: the first is stopped, the second ends, the
// third fails.
func studyWithPage(t *testing.T, cfg Config) *Study {
	t.Helper()
	cfg.Space, cfg.Metric, cfg.Mode, cfg.Scheduler, cfg.Points = pageSpace(), "value", Max, below{}, []Point{{"optimizer": "adam"}}
	cfg.StatusListen = "127.0.0.1:0"
	s, err := NewStudy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// runOne runs the next trial of a study.
func runOne(t *testing.T, s *Study) {
	t.Helper()
	trial, err := s.Ask(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	x := trial.Params.Float("x")
	for step := 1; step <= 3; step++ {
		if x == 9 && step == 3 {
			err = Fail(OutOfMemory, errors.New("no <b>memory</b>"))
			break
		}
		d, tellErr := s.Tell(trial.Number, step, map[string]float64{"value": x - 1 + float64(step)/10, "other": 1})
		if tellErr != nil {
			t.Fatal(tellErr)
		}
		if d.Action != Continue {
			err = ErrStop
			break
		}
	}
	if err := s.Finish(trial.Number, err); err != nil {
		t.Fatal(err)
	}
}

func TestStatusPageTellsEveryTrialAndWhyItEnded(t *testing.T) {
	t.Parallel()
	s := studyWithPage(t, Config{})
	for range 3 {
		runOne(t, s)
	}
	p := s.page.page
	news := p.News()
	if len(news.Rows) != 3 {
		t.Fatalf("the first news have %d trials, want 3", len(news.Rows))
	}
	stopped, done, failed := news.Rows[0], news.Rows[1], news.Rows[2]
	if got := pageStates[stopped.State]; got != Pruned || stopped.Rule != "below five" || stopped.StopStep != 2 || stopped.StopValue != 0.2 || stopped.StopBound != 5 {
		t.Errorf("trial 0 is %s by %q at step %d: %v against %v, want pruned by \"below five\" at step 2: 0.2 against 5", got, stopped.Rule, stopped.StopStep, stopped.StopValue, stopped.StopBound)
	}
	if got := pageStates[done.State]; got != Completed || done.StopStep != -1 || done.Value != 6.3 || done.Reports != 3 || done.BestStep != 3 {
		t.Errorf("trial 1 is %s (stop at step %d) with %v from %d reports, best at step %d; want completed with 6.3 from 3, best at step 3", got, done.StopStep, done.Value, done.Reports, done.BestStep)
	}
	if got := pageStates[failed.State]; got != Failed || failed.Failure != string(OutOfMemory) {
		t.Errorf("trial 2 is %s by %q, want failed by %q", got, failed.Failure, OutOfMemory)
	}
	if want := []any{int64(7), "adam", nil}; !reflect.DeepEqual(done.Params[:3], want) {
		t.Errorf("trial 1 has parameters %v, want %v: it has no momentum", done.Params[:3], want)
	}
	if got := news.Progress; !reflect.DeepEqual(got.Trial, []int{0, 0, 1, 1, 1, 2, 2}) || got.Value[0] != 0.1 || got.Value[6] != 8.2 {
		t.Errorf("the best so far grew by %+v", got)
	}
	bounded := studyWithPage(t, Config{Constraints: []Constraint{{Metric: "value", Bound: 6.2}}})
	for range 3 {
		runOne(t, bounded)
	}
	bound := bounded.page.page.News()
	if got := bound.Progress; !reflect.DeepEqual(got.Trial, []int{0, 0, 1, 1}) {
		t.Errorf("with values up to 6.2 the best so far grew by %+v, want two of trial 0 and two of trial 1", got)
	}
	if bound.Rows[1].Violation != 0 || bound.Rows[2].Violation <= 0 || bound.Summary.Further != ", with value <= 6.2" {
		t.Errorf("with values up to 6.2 trials 1 and 2 have violations %v and %v, and the goal ends in %q", bound.Rows[1].Violation, bound.Rows[2].Violation, bound.Summary.Further)
	}
	two, err := NewStudy(Config{Space: pageSpace(), Objectives: []Objective{{"accuracy", Max}, {"latency", Min}}, StatusListen: "127.0.0.1:0",
		Constraints: []Constraint{{Metric: "memory", Bound: 12}, {Metric: "recall", Bound: 0.5, AtLeast: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = two.Close() })
	trial, err := two.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Tell(trial.Number, 1, map[string]float64{"accuracy": 0.5, "latency": 1, "memory": math.NaN(), "recall": 1}); err != nil {
		t.Fatal(err)
	}
	several := two.page.page.News()
	if got, want := several.Summary.Further, " and smallest latency, with memory <= 12 and recall >= 0.5"; got != want {
		t.Errorf("the goal ends in %q, want %q", got, want)
	}
	if x := several.Rows[0].Violation; x <= 0 || math.IsInf(x, 0) {
		t.Errorf("a trial without a number of the bounded metric has violation %v, want a finite one above 0", x)
	}
	if sum := news.Summary; sum.Further != "" {
		t.Errorf("one metric without constraints has further goals %q", sum.Further)
	}
	if sum := news.Summary; sum.Metric != "value" || !sum.Larger || sum.Planned != 3 || sum.Parallel != 1 || sum.Over {
		t.Errorf("the summary is %+v", sum)
	}
	if again := p.News(); len(again.Rows) != 0 || len(again.Progress.At) != 0 {
		t.Errorf("news with nothing new have %+v", again)
	}

	d, ok := p.Detail(2)
	if !ok || d.Error != "no <b>memory</b>" || len(d.Metrics) != 2 || d.Metrics[0].Metric != "value" || len(d.Metrics[0].Step) != 2 {
		t.Errorf("the details of trial 2 are %+v, %v", d, ok)
	}
	kinds := []string{}
	for _, n := range d.History {
		kinds = append(kinds, n.Kind+" "+n.Action+n.Outcome)
	}
	if want := []string{"start ", "decision continue", "decision continue", "end failed"}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("the history of trial 2 is %q, want %q", kinds, want)
	}
	if _, ok := p.Detail(3); ok {
		t.Error("there are details of a trial that does not exist")
	}
	if c, ok := p.Curve(1); !ok || !reflect.DeepEqual(c.Step, []int{1, 2, 3}) || c.Value[2] != 6.3 {
		t.Errorf("the curve of trial 1 is %+v, %v", c, ok)
	}
}

// Browsers may ask at any time; what they get together is what the search did. Where a rule
// predicts how trials end, the page gets it of those that have not ended by themselves, and in
// words why one was stopped.
func TestStatusPageTellsHowTrialsAreExpectedToEnd(t *testing.T) {
	t.Parallel()
	s, err := NewStudy(Config{Space: Space{Real("x", 0, 1)}, Metric: "accuracy", Mode: Max, Samples: 3, Parallel: 3, Scheduler: &foreteller{Mean: 0.1}, StatusListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for n, value := range []float64{0.75, 0.25, 0.5} {
		trial, err := s.Ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for step := 1; step <= 2; step++ {
			if _, err := s.Tell(trial.Number, step, map[string]float64{"accuracy": value, "other": 1}); err != nil {
				t.Fatal(err)
			}
		}
		if n < 2 {
			if err := s.Finish(trial.Number, map[int]error{1: ErrStop}[n]); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := s.page.page.News().Rows
	const why = "seer: 0.35 expected at step 9 (80 %: 0.25 to 1); a chance of 2 % to end as well as the best, trial 0 with 0.9, and the bound is 10 %"
	if x := rows[1]; x.Rule != why || x.StopStep != 2 || !math.IsNaN(x.StopValue) || !math.IsNaN(x.StopBound) {
		t.Errorf("the stopped trial has rule %q, step %d, value %v and bound %v; want %q at step 2, which has the values in it", x.Rule, x.StopStep, x.StopValue, x.StopBound, why)
	}
	for n, want := range []*page.SearchForecast{nil, {Step: 9, Mean: 0.35, Low: 0.25, High: 1}, {Step: 9, Mean: 0.6, Low: 0.5, High: 1}} {
		c, _ := s.page.page.Curve(n)
		d, _ := s.page.page.Detail(n)
		if !reflect.DeepEqual(c.Forecast, want) || !reflect.DeepEqual(d.Metrics[0].Forecast, want) || d.Metrics[1].Forecast != nil {
			t.Errorf("trial %d, which is %s, has forecasts %+v on its curve, %+v on the metric and %+v on another; want %+v, the same, and none", n, d.State, c.Forecast, d.Metrics[0].Forecast, d.Metrics[1].Forecast, want)
		}
	}
	d, _ := s.page.page.Detail(1)
	if last := d.History[2]; last.Rule != why || last.Action != "stop" || last.Value != 0.25 || last.Competitors != nil || !math.IsNaN(float64(last.Bound)) {
		t.Errorf("the note of the decision is %+v, want the reason %q alone", last, why)
	}
}

func TestStatusPageIsReadWhileTheSearchRuns(t *testing.T) {
	t.Parallel()
	const trials = 60
	var seen map[int]page.SearchRow
	watched := make(chan struct{})
	cfg := Config{
		Space: Space{Real("x", 0, 1)}, Metric: "value", Mode: Max, Samples: trials, Parallel: 8, StatusListen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	}
	s, err := NewStudy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.cfg.Runner = InProcess(func(_ context.Context, p Params, r *Reporter) error {
		for step := 1; step <= 5; step++ {
			if err := r.Report(step, map[string]float64{"value": p.Float("x") * float64(step)}); err != nil {
				return err
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(watched)
		seen = make(map[int]page.SearchRow)
		for ctx.Err() == nil {
			for _, x := range s.page.page.News().Rows {
				seen[x.Number] = x
			}
			_, _ = s.page.page.Detail(len(seen) / 2)
			_, _ = s.page.page.Curve(len(seen) / 2)
		}
	}()
	if err := newDriver(s, nil, nil).drive(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-watched
	for _, x := range s.page.page.News().Rows {
		seen[x.Number] = x
	}
	if len(seen) != trials {
		t.Fatalf("the page has %d trials, want %d", len(seen), trials)
	}
	for n, x := range seen {
		want := s.l.view.trials[n]
		if pageStates[x.State] != want.State || x.Value != s.l.view.Result(want) || x.Reports != 5 || x.Params[0] != want.Params.Float("x") {
			t.Errorf("trial %d on the page is %+v, want %s with %v", n, x, want.State, s.l.view.Result(want))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if news := s.page.page.News(); !news.Summary.Over {
		t.Error("a search that is closed is not over on its page")
	}
}

// A search that is resumed shows what was decided before.
func TestStatusPageKnowsTheLogOfAResumedSearch(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	s := studyWithPage(t, cfg)
	runOne(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Resume = ResumeAuto
	s = studyWithPage(t, cfg)
	runOne(t, s)
	news := s.page.page.News()
	if len(news.Rows) != 2 || news.Rows[0].StopBound != 5 || len(news.Progress.Trial) != 5 || news.Progress.Trial[0] != 0 {
		t.Errorf("the news of a resumed search are %+v", news)
	}
	if d, ok := s.page.page.Detail(0); !ok || len(d.History) != 4 || d.History[2].Bound != 5 {
		t.Errorf("the details of a trial from before are %+v, %v", d, ok)
	}
}

func TestStatusPageDescribesParameters(t *testing.T) {
	t.Parallel()
	many := Range(0, 100, 1)
	cfg := Config{Space: append(pageSpace(),
		Choice("kind", "a", "b"),
		Real("rate", 1, 2).When("kind", "a"), Real("rate", 10, 20).Log().When("kind", "b"),
		Int("layers", 1, 4), Normal("noise", 0, 1), Choice("many", many...),
		Derived("twice", func(p Params) any { return 2 * p.Float("lr") }), Derived("label", func(Params) any { return "<x>" }))}
	var params []page.SearchParam
	for _, p := range pageParams(&cfg) {
		params = append(params, p.SearchParam)
	}
	b, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[` +
		`{"name":"x","kind":"grid","low":1,"high":9,"log":false,"whole":false,"choices":["1","7","9"],"when":""},` +
		`{"name":"optimizer","kind":"choice","low":null,"high":null,"log":false,"whole":false,"choices":["sgd","adam"],"when":""},` +
		`{"name":"momentum","kind":"real","low":0.1,"high":0.9,"log":false,"whole":false,"choices":null,"when":"optimizer = sgd"},` +
		`{"name":"lr","kind":"real","low":0.0001,"high":0.1,"log":true,"whole":false,"choices":null,"when":""},` +
		`{"name":"kind","kind":"choice","low":null,"high":null,"log":false,"whole":false,"choices":["a","b"],"when":""},` +
		`{"name":"rate","kind":"real","low":1,"high":20,"log":true,"whole":false,"choices":null,"when":"kind = a; kind = b"},` +
		`{"name":"layers","kind":"int","low":1,"high":4,"log":false,"whole":true,"choices":null,"when":""},` +
		`{"name":"noise","kind":"normal","low":null,"high":null,"log":false,"whole":false,"choices":null,"when":""},` +
		`{"name":"many","kind":"choice","low":0,"high":99,"log":false,"whole":false,"choices":null,"when":""},` +
		`{"name":"twice","kind":"derived","low":null,"high":null,"log":false,"whole":false,"choices":null,"when":""},` +
		`{"name":"label","kind":"derived","low":null,"high":null,"log":false,"whole":false,"choices":[],"when":""}]`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestStatusPageFindsHostsInLocations(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		location, host string
		want           bool
	}{
		{"a1", "a1", true}, {"a1:gpu0+1,a2", "a1", true}, {"a1:gpu0+1,a2", "a2", true}, {"a1 x2, a2", "a2", true}, {"a1 x2", "a1", true},
		{"a10", "a1", false}, {"me@a1:2222:gpu0", "me@a1:2222", true}, {"a1:2222", "a1", false}, {"", "a1", false},
	} {
		if got := isAt(tc.location, tc.host); got != tc.want {
			t.Errorf("host %q in location %q: got %v, want %v", tc.host, tc.location, got, tc.want)
		}
	}
}
