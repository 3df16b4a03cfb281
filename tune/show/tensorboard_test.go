package show

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// records are those of all event files of a folder, in the order in which TensorBoard reads them,
// and the ends of their names.
func records(t *testing.T, dir string) (events []metrics.Event, suffixes []string) {
	t.Helper()
	files, err := eventFiles(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		more, err := metrics.ReadEvents(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		events, suffixes = append(events, more...), append(suffixes, strings.TrimPrefix(filepath.Ext(file), "."))
	}
	return events, suffixes
}

// hparamsOf are the contents of the records of a tag.
func hparamsOf(events []metrics.Event, tag string) (contents [][]byte) {
	for _, e := range events {
		for _, p := range e.Plugins {
			if p.Plugin == "hparams" && p.Tag == "_hparams_/"+tag {
				contents = append(contents, p.Content)
			}
		}
	}
	return contents
}

// written is the content that an EventFile writes.
func written(t *testing.T, write func(*metrics.EventFile) error) []byte {
	t.Helper()
	dir := t.TempDir()
	f, err := metrics.NewEventFile(dir, "x", 0, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	events, _ := records(t, dir)
	return events[2].Plugins[0].Content
}

// A search with conditional parameters: what is searched comes first, each trial begins and ends a
// session with the parameters that it has.
func TestFilesOfASearchAreReadByTheHParamsView(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*") // no pattern
	f := NewFiles(dir)
	now := time.Unix(1700000000, 0)
	f.now = func() time.Time { return now }
	v := &tunetest.View{MetricName: "accuracy", SearchSpace: tune.Space{tune.Real("lr", 0.001, 0.1).Log(), tune.Choice("optimizer", "sgd", "adam"),
		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"), tune.Int("beta", 1, 3).When("optimizer", "adam")}}
	at := metrics.Experiment{Name: "a[b]*", Created: now, Metrics: []string{"tune/accuracy"}, Params: []metrics.HParam{
		{Name: "lr", Kind: metrics.HParamNumber, Low: 0.001, High: 0.1}, {Name: "optimizer", Kind: metrics.HParamString, Values: []any{"sgd", "adam"}},
		{Name: "momentum", Kind: metrics.HParamNumber, High: 0.99}, {Name: "beta", Kind: metrics.HParamNumber, Low: 1, High: 3}}}
	wantSearch := func() {
		t.Helper()
		events, suffixes := records(t, dir)
		got := hparamsOf(events, "experiment")
		want := written(t, func(f *metrics.EventFile) error { return f.AddExperiment(now, at) })
		if len(got) != 1 || !bytes.Equal(got[0], want) || !slices.Equal(suffixes, []string{"search"}) {
			t.Errorf("the search's files %q hold\n%x, want one with\n%x", suffixes, got, want)
		}
	}
	observe := func(e tune.Event) {
		t.Helper()
		if f.Observe(v, e); f.Err() != nil {
			t.Fatal(f.Err())
		}
	}
	start := func(p tune.Params) *tune.Trial {
		x := v.Add(p)
		x.Attempts = 1
		observe(tune.Event{Kind: tune.EventStart, New: true, Trial: x.Number, Attempt: 1, Params: p})
		return x
	}
	sgd := start(tune.MustParams("lr", 0.01, "optimizer", "sgd", "momentum", 0.5))
	wantSearch()
	adam := start(tune.MustParams("lr", 0.02, "optimizer", "adam", "beta", 2))
	paused := start(tune.MustParams("lr", 0.03, "optimizer", "adam", "beta", 1))
	stopped := start(tune.MustParams("lr", 0.04, "optimizer", "adam", "beta", 1))
	v.Report(sgd, 1, 0.5)
	observe(tune.Event{Kind: tune.EventReport, Trial: sgd.Number, Step: 1, Time: now, Metrics: tune.Metrics{{Name: "accuracy", Value: 0.5}, {Name: "loss", Value: 2}}})
	at.Metrics = append(at.Metrics, "tune/loss") // a column more
	wantSearch()
	end := func(x *tune.Trial, state tune.State, o tune.Outcome) {
		v.End(x, state)
		observe(tune.Event{Kind: tune.EventEnd, Trial: x.Number, Attempt: x.Attempts, Outcome: o})
	}
	end(sgd, tune.Completed, tune.Returned)
	end(adam, tune.Failed, tune.Broke)
	end(paused, tune.Paused, tune.Obeyed)
	end(stopped, tune.Stopped, tune.Interrupted)
	wantEnds := func(x *tune.Trial, failed ...bool) {
		t.Helper()
		events, suffixes := records(t, f.folder(x))
		var want [][]byte
		for _, failed := range failed {
			want = append(want, written(t, func(f *metrics.EventFile) error { return f.EndSession(now, failed) }))
		}
		if got := hparamsOf(events, "session_end_info"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: files %q have the ends %x, want %x", x.Name(), suffixes, got, want)
		}
	}
	wantEnds(sgd, false)
	wantEnds(adam, true)
	wantEnds(paused)
	wantEnds(stopped)
	// The failed trial is tried again, with other parameters, and succeeds.
	adam.State, adam.Attempts = tune.Running, 2
	adam.Params = tune.MustParams("lr", 0.05, "optimizer", "adam", "beta", 2)
	observe(tune.Event{Kind: tune.EventStart, Trial: adam.Number, Attempt: 2, Params: adam.Params})
	wantEnds(adam)
	end(adam, tune.Completed, tune.Returned)
	v.End(paused, tune.Pruned) // without another attempt
	if err := f.Close(v); err != nil {
		t.Fatal(err)
	}
	wantEnds(sgd, false)
	wantEnds(adam, false)
	wantEnds(paused, false)
	wantEnds(stopped)

	events, _ := records(t, f.folder(sgd))
	want := written(t, func(f *metrics.EventFile) error {
		return f.BeginSession(now, []metrics.HParamValue{{Name: "lr", Value: 0.01}, {Name: "optimizer", Value: "sgd"}, {Name: "momentum", Value: 0.5}})
	})
	if got := hparamsOf(events, "session_start_info"); len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("%s began with\n%x, want\n%x", sgd.Name(), got, want)
	}
	events, _ = records(t, f.folder(adam))
	texts := map[string]int64{}
	for _, e := range events {
		for _, x := range e.Texts {
			texts[x.Tag+" "+x.Text] = e.Step
		}
	}
	if want := (map[string]int64{"tune/params From here on: `lr=0.05 optimizer=adam beta=2`": 0}); !maps.Equal(texts, want) {
		t.Errorf("%s has the texts %v, want %v", adam.Name(), texts, want)
	}
}

// A search that is resumed has one file of what is searched, and a trial that goes on continues
// behind its last report.
func TestFilesOfAResumedSearchDoNotOverlap(t *testing.T) {
	dir := t.TempDir()
	v := &tunetest.View{}
	x := v.Add(tune.MustParams("lr", 0.1))
	for attempt := 1; attempt <= 2; attempt++ {
		f := NewFiles(dir)
		f.now = func() time.Time { return time.Unix(1700000000, 0) }
		x.Attempts = attempt
		f.Observe(v, tune.Event{Kind: tune.EventStart, New: attempt == 1, Attempt: attempt})
		v.Report(x, attempt, 1)
		f.Observe(v, tune.Event{Kind: tune.EventReport, Step: attempt, Metrics: tune.Metrics{{Name: "value", Value: 1}}})
		if err := f.Close(v); err != nil {
			t.Fatal(err)
		}
	}
	if _, suffixes := records(t, dir); !slices.Equal(suffixes, []string{"search"}) {
		t.Errorf("the search has the files %q, want one", suffixes)
	}
	events, suffixes := records(t, filepath.Join(dir, "trials", x.Name()))
	var starts, steps []int64
	for _, e := range events {
		switch {
		case e.Start:
			starts = append(starts, e.Step)
		case len(e.Scalars) > 0:
			steps = append(steps, e.Step)
		}
	}
	if !slices.Equal(suffixes, []string{"attempt-1", "attempt-2"}) || !slices.Equal(starts, []int64{0, 2}) || !slices.Equal(steps, []int64{1, 2}) {
		t.Errorf("files %q start at %v and report the steps %v, want two that start at 0 and 2, and steps 1 and 2", suffixes, starts, steps)
	}
}

func TestHParamsOfEverySpace(t *testing.T) {
	unbounded := metrics.HParam{Kind: metrics.HParamNumber, Low: math.Inf(-1), High: math.Inf(1)}
	named := func(name string, h metrics.HParam) metrics.HParam { h.Name = name; return h }
	v := &tunetest.View{SearchSpace: tune.Space{
		tune.Grid("layers", 1, 2), tune.Choice("mixed", "auto", 3), tune.Choice("wide", 1, 2.5), tune.Bool("bias"), tune.Normal("noise", 0, 1),
		tune.Choice("optimizer", "sgd", "adam", "lamb"),
		tune.Real("rate", 0.1, 1).When("optimizer", "sgd"), tune.Choice("rate", 2.0, 0.01).When("optimizer", "adam"),
		tune.Choice("kind", "a", "b").When("optimizer", "sgd"), tune.Choice("kind", "b", "c").When("optimizer", "adam"),
		tune.Int("step", 1, 2).When("optimizer", "sgd"), tune.Choice("step", "auto").When("optimizer", "adam"),
	}}
	want := []metrics.HParam{
		{Name: "layers", Kind: metrics.HParamNumber, Values: []any{1.0, 2.0}, Low: math.Inf(-1), High: math.Inf(1)},
		{Name: "mixed", Kind: metrics.HParamString, Values: []any{"auto", "3"}, Low: math.Inf(-1), High: math.Inf(1)},
		{Name: "wide", Kind: metrics.HParamNumber, Values: []any{1.0, 2.5}, Low: math.Inf(-1), High: math.Inf(1)},
		{Name: "bias", Kind: metrics.HParamBool, Values: []any{false, true}, Low: math.Inf(-1), High: math.Inf(1)},
		named("noise", unbounded),
		{Name: "optimizer", Kind: metrics.HParamString, Values: []any{"sgd", "adam", "lamb"}, Low: math.Inf(-1), High: math.Inf(1)},
		{Name: "rate", Kind: metrics.HParamNumber, Low: 0.01, High: 2},
		{Name: "kind", Kind: metrics.HParamString, Values: []any{"a", "b", "c"}, Low: math.Inf(-1), High: math.Inf(1)},
		{Name: "step", Kind: metrics.HParamString},
	}
	got := hparams(v)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
