package page

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// madeUpSearch tells what a test puts in.
type madeUpSearch struct{ news SearchNews }

func (m *madeUpSearch) News() SearchNews {
	n := m.news
	m.news.Rows, m.news.Progress = nil, SearchProgress{}
	return n
}

func (m *madeUpSearch) Detail(trial int) (SearchDetail, bool) {
	return SearchDetail{Trial: trial, Name: "trial-000007"}, trial == 7
}

func (m *madeUpSearch) Curve(trial int) (SearchCurve, bool) {
	c := SearchCurve{Trial: trial, Metric: "value"}
	for i := range 1000 {
		c.Step, c.Value = append(c.Step, i), append(c.Value, Precise(i))
	}
	return c, trial == 7
}

var nan = math.NaN()

func madeUpRow(n int, params ...any) SearchRow {
	return SearchRow{Number: n, State: n % 2, Value: float64(n) / 10, Violation: float64(n%3) / 4, BestStep: 1, Step: 2, Reports: 2, Attempts: 1, Started: 1.5, Trained: 2, Location: "a1", StopStep: -1, StopValue: nan, StopBound: nan, Params: params}
}

func searchOf(rows ...SearchRow) (*Search, *madeUpSearch) {
	source := &madeUpSearch{SearchNews{Rows: rows, Summary: SearchUpdate{Metric: "value"}, Progress: SearchProgress{At: Precises{1}, Value: Precises{0.1}, Trial: []int{1}}}}
	head := SearchState{Name: "study", States: []string{"running", "completed"}, Params: []SearchParam{{Name: "lr", Low: 1e-4, High: 1}, {Name: "kind", Choices: []string{"<b>", "b"}}, {Name: "label", Choices: []string{}}}}
	return NewSearch(Page{Name: "study"}, head, source), source
}

func decode[T any](t *testing.T, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %.200s", err, b)
	}
	return v
}

// What a browser puts together from a state and updates is what a state would have.
func TestSearchUpdatesAddUpToTheState(t *testing.T) {
	t.Parallel()
	s, source := searchOf(madeUpRow(0, 1e-3, "<b>", "one"), madeUpRow(1, 0.123456789, "b", nil))
	first := s.Poll(t.Context())
	if first.Event != EventState || !first.Whole || first.Last {
		t.Fatalf("the first message is %s (whole %v, last %v), want a whole state", first.Event, first.Whole, first.Last)
	}
	state := decode[map[string]any](t, first.Data)
	trials := state["trials"].(map[string]any)
	if got, want := fmt.Sprint(trials["params"]), "[[0.001 0.1234568] [0 1] [3 <nil>]]"; got != want {
		t.Errorf("parameters are %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(state["words"]), "[<b> b a1 one]"; got != want { // choices come first, in their order
		t.Errorf("words are %s, want %s", got, want)
	}
	if trials["number"] != nil || trials["state"] != "01" || trials["ended_seconds"].([]any)[0] != nil {
		t.Errorf("trials are %v", trials)
	}

	changed := madeUpRow(1, 0.5, "b", "two")
	changed.Rule, changed.StopStep, changed.StopValue, changed.StopBound, changed.Ended = "asha rung 1", 4, 0.2, 0.3, 9
	source.news.Rows = []SearchRow{changed, madeUpRow(2, nil, nil, nil)}
	source.news.Progress = SearchProgress{At: Precises{2}, Value: Precises{0.2}, Trial: []int{2}}
	update := s.Poll(t.Context())
	if update.Event != EventUpdate || update.Whole {
		t.Fatalf("the second message is %s", update.Event)
	}
	u := decode[map[string]any](t, update.Data)
	if got, want := fmt.Sprint(u["words_before"], u["words"]), "4 [asha rung 1 two]"; got != want {
		t.Errorf("new words are %s, want %s", got, want)
	}
	if _, ok := u["params"]; ok {
		t.Error("an update repeats the parameters of the space")
	}
	late := decode[map[string]any](t, s.Whole()[0].Data)
	all, some := late["trials"].(map[string]any), u["trials"].(map[string]any)
	if got, want := fmt.Sprint(some["number"]), "[1 2]"; got != want {
		t.Fatalf("the update has trials %s, want %s", got, want)
	}
	for name, column := range all {
		switch name {
		case "count":
			if column != some["count"] || column != 3.0 {
				t.Errorf("the state has %v trials, the update %v, want 3", column, some["count"])
			}
		case "number":
		case "state":
			if column.(string)[1:] != some[name] {
				t.Errorf("states: the update has %v, the state %v", some[name], column)
			}
		case "params":
			for p := range column.([]any) {
				if got, want := some[name].([]any)[p], column.([]any)[p].([]any)[1:]; !reflect.DeepEqual(got, want) {
					t.Errorf("parameter %d: the update has %v, the state %v", p, got, want)
				}
			}
		default:
			if got, want := some[name], column.([]any)[1:]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the update has %v, the state %v", name, got, want)
			}
		}
	}
	if got, want := fmt.Sprint(late["words"]), "[<b> b a1 one asha rung 1 two]"; got != want {
		t.Errorf("all words are %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(late["progress"]), "map[at_seconds:[1 2] before:0 trial:[1 2] value:[0.1 0.2]]"; got != want {
		t.Errorf("the progress is %s, want %s", got, want)
	}

	source.news.Summary.Over = true
	if end := s.Poll(t.Context()); !end.Last || !strings.Contains(string(end.Data), `"over":true`) {
		t.Errorf("the last message is %s, last %v", end.Data, end.Last)
	}
}

// One who asks for the state takes nothing from those who watch.
func TestSearchStateIsNewAndUpdatesHaveItToo(t *testing.T) {
	t.Parallel()
	s, source := searchOf(madeUpRow(0, 0.5, "b", nil))
	s.Poll(t.Context())
	source.news.Rows = []SearchRow{madeUpRow(1, 0.5, "b", "new")}
	source.news.Progress = SearchProgress{At: Precises{5}, Value: Precises{0.7}, Trial: []int{1}}
	w := httptest.NewRecorder()
	s.serveState(w, httptest.NewRequest("GET", "/api/search", nil))
	if state := decode[stateCounts](t, w.Body.Bytes()); state.Trials.Count != 2 || len(state.Progress.Trial) != 2 {
		t.Errorf("the state has %+v, want 2 trials and 2 moments", state)
	}
	u := decode[stateCounts](t, s.Poll(t.Context()).Data)
	if fmt.Sprint(u.Trials.Number, u.Words, u.Progress.Trial, u.Progress.Before) != "[1] [new] [1] 1" {
		t.Errorf("the update after it has %+v, want trial 1, the word new and moment 1", u)
	}
}

// stateCounts is what a test reads of a state.
type stateCounts struct {
	Words  []string
	Trials struct {
		Count  int
		Number []int
	}
	Progress struct {
		Before int
		Trial  []int
	}
}

func TestSearchBoundsItsProgress(t *testing.T) {
	t.Parallel()
	s, source := searchOf()
	for i := range 5 * maxProgress {
		source.news.Progress = SearchProgress{At: Precises{Precise(i)}, Value: Precises{Precise(i)}, Trial: []int{i}}
		m := s.Poll(t.Context())
		if n := len(s.progress.At); n > maxProgress || s.progress.At[n-1] != Precise(i) {
			t.Fatalf("after %d moments there are %d, the newest at %v", i+1, n, s.progress.At[n-1])
		}
		if i > 0 && i%maxProgress == 0 {
			u := decode[struct{ Progress struct{ Before int } }](t, m.Data)
			if n := len(s.progress.At); n < maxProgress && u.Progress.Before != 0 && u.Progress.Before != n-1 {
				t.Fatalf("an update of %d moments says that %d come before", n, u.Progress.Before)
			}
		}
	}
}

func TestSearchThinsCurves(t *testing.T) {
	t.Parallel()
	c := SearchCurve{Trial: 3, Metric: "m"}
	for i := range 10_000 {
		v := math.Sin(float64(i) / 700)
		switch i {
		case 7777:
			v = 9
		case 7778, 0:
			v = nan
		case 123:
			v = -9
		}
		c.Step, c.Value = append(c.Step, 2*i), append(c.Value, Precise(v))
	}
	got := c.Thin(100)
	if len(got.Step) > 100 || got.Step[0] != 0 || got.Step[len(got.Step)-1] != 19998 || got.Trial != 3 || got.Metric != "m" {
		t.Fatalf("a curve of 10,000 points became one of %d from step %d to %d", len(got.Step), got.Step[0], got.Step[len(got.Step)-1])
	}
	found := 0
	for i, step := range got.Step {
		if i > 0 && step <= got.Step[i-1] {
			t.Fatalf("step %d follows step %d", step, got.Step[i-1])
		}
		if v := float64(got.Value[i]); v == 9 || v == -9 {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d of the highest and the lowest value are left", found)
	}
	if short := c.Thin(20_000); len(short.Step) != 10_000 {
		t.Errorf("a curve that is short enough was thinned to %d", len(short.Step))
	}
}

func TestSearchAnswersAboutTrials(t *testing.T) {
	t.Parallel()
	s, _ := searchOf(madeUpRow(0))
	for _, tc := range []struct {
		path string
		code int
		want string
	}{
		{"/api/search", 200, `"name":"study"`},
		{"/api/search/trial?id=7", 200, `"name":"trial-000007"`},
		{"/api/search/trial?id=8", 404, "there is no trial 8"},
		{"/api/search/trial", 400, `id is "", want the number of a trial`},
		{"/api/search/curves?id=7,8", 200, `"trial":7`},
		{"/api/search/curves?id=7,x", 400, `id has "x"`},
		{"/api/search/curves?id=" + strings.Repeat("7,", 64) + "7", 400, "got 65 trials, want at most 64"},
	} {
		r := httptest.NewRequest("GET", tc.path, nil)
		w := httptest.NewRecorder()
		handler, ok := s.Routes()[r.URL.Path]
		if !ok {
			handler = http.NotFound
		}
		handler(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: got %d %.200s, want %d with %s", tc.path, w.Code, w.Body, tc.code, tc.want)
		}
		if strings.Contains(tc.path, "curves") && w.Code == 200 {
			c := decode[struct{ Curves []struct{ Step []int } }](t, w.Body.Bytes())
			if len(c.Curves) != 1 || len(c.Curves[0].Step) > maxCurvePoints {
				t.Errorf("%s has %d curves, the first with %d points", tc.path, len(c.Curves), len(c.Curves[0].Step))
			}
		}
	}
}

// 10,000 trials: the state is compact, and an update has what changed alone.
func TestSearchOfTenThousandTrialsIsCompact(t *testing.T) {
	t.Parallel()
	rows := make([]SearchRow, 10_000)
	for i := range rows {
		rows[i] = madeUpRow(i, 1e-4*math.Pow(1.001, float64(i)), "b", "one")
	}
	s, source := searchOf(rows...)
	begin := time.Now()
	m := s.Poll(t.Context())
	if took := time.Since(begin); len(m.Data) > 1<<20 {
		t.Errorf("a state of 10,000 trials has %d bytes (made in %v), want at most 1 MB", len(m.Data), took)
	}
	source.news.Rows = rows[:4]
	if m = s.Poll(t.Context()); len(m.Data) > 4000 {
		t.Errorf("an update of 4 trials has %d bytes: %s", len(m.Data), m.Data)
	}
}

func TestSearchTextIsCutAtARune(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{{"short", "short"}, {"ääää", "ää…"}, {"a\xff", "a\ufffd"}, {"12345", "12345"}, {"123456", "12345…"}} {
		if got := Clip(tc.text, 5); got != tc.want {
			t.Errorf("%q cut at 5 bytes is %q, want %q", tc.text, got, tc.want)
		}
	}
}
