package show

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// search is one with n trials of a few steps, in which lr decides and width does not.
func search(n int) *tunetest.View {
	v := &tunetest.View{MetricName: "accuracy", SearchSpace: tune.Space{
		tune.Real("lr", 1e-4, 1e-1).Log(),
		tune.Int("width", 16, 256),
		tune.Choice("optimizer", "sgd", "adam"),
		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"),
	}}
	rng := tunetest.Rand(7)
	for i := range n {
		p, err := v.SearchSpace.Sample(rng, tune.Params{})
		if err != nil {
			panic(err)
		}
		t := v.Add(p)
		t.Location = "local"
		good := 1 - math.Pow(math.Log10(p.Float("lr"))+2, 2)/6
		steps := []int{9, 3, 1}[i%3]
		for step := 1; step <= steps; step++ {
			v.Report(t, step, good*(1-math.Exp(-float64(step)/3)))
			t.Elapsed += 250 * time.Millisecond
		}
		switch i % 3 {
		case 0:
			v.End(t, tune.Completed)
		case 1:
			v.End(t, tune.Pruned)
			t.Rule = "asha rung 1"
		}
	}
	return v
}

func TestStatusTableShowsTwentyTrialsRunningOnesFirst(t *testing.T) {
	v := search(40)
	table := statusTable(v)
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	if got, want := len(lines), 2+20+1; got != want {
		t.Fatalf("the table has %d lines, want %d:\n%s", got, want, table.String())
	}
	for _, column := range []string{"trial name", "status", "loc", "lr", "width", "optimizer", "momentum", "accuracy", "iter", "total time (s)"} {
		if !strings.Contains(lines[0], column) {
			t.Errorf("the head %q has no column %q", lines[0], column)
		}
	}
	for i, line := range lines[2:15] {
		if !strings.Contains(line, "RUNNING") {
			t.Errorf("row %d is %q, want a running trial: there are 13", i, line)
		}
	}
	if want := "... 20 more not shown (7 completed, 13 pruned)"; !strings.HasPrefix(lines[22], "... 20 more not shown (") {
		t.Errorf("the last line is %q, want such as %q", lines[22], want)
	}
}

// screen is what a terminal shows after what was written to it: the lines, with those erased that
// were.
func screen(t *testing.T, written string) []string {
	t.Helper()
	var lines []string
	up := regexp.MustCompile("^\r\x1b\\[(\\d+)A\x1b\\[J")
	for written != "" {
		if m := up.FindStringSubmatch(written); m != nil {
			var n int
			fmt.Sscan(m[1], &n)
			if n > len(lines) {
				t.Fatalf("%d lines are erased, and there are %d", n, len(lines))
			}
			lines, written = lines[:len(lines)-n], written[len(m[0]):]
			continue
		}
		line, rest, ok := strings.Cut(written, "\n")
		if !ok {
			t.Fatalf("the last line %q has no end", line)
		}
		lines, written = append(lines, line), rest
	}
	return lines
}

func TestStatusOnATerminalDrawsOverItselfAndFits(t *testing.T) {
	var out bytes.Buffer
	s := newStatus(&out, func() (int, int) { return 60, 12 })
	v := search(3)
	now := time.Unix(1000, 0)
	s.Observe(v, tune.Event{Kind: tune.EventStudy, Header: &tune.Header{Name: "toy"}})
	s.Tick(v, now)
	first := screen(t, out.String())
	s.Tick(v, now.Add(100*time.Millisecond))
	if again := screen(t, out.String()); len(again) != len(first) || strings.Count(out.String(), "Status") != 1 {
		t.Errorf("it was drawn again after 100 ms:\n%q", out.String())
	}
	v.All = append(v.All, search(30).All[3:]...)
	s.Tick(v, now.Add(time.Second))
	lines := screen(t, out.String())
	if len(lines) != 11 || lines[10] != "..." {
		t.Errorf("%d lines on a terminal of 12, want 11 with a last one of ...:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n >= 60 {
			t.Errorf("a line of %d columns on a terminal of 60: %q", n, line)
		}
	}
	if err := s.Close(v); err != nil {
		t.Fatal(err)
	}
	lines = screen(t, out.String())
	if lines[0] != "== Status ==" || !strings.HasPrefix(lines[1], "toy: ran for ") || len(lines) < 24 {
		t.Errorf("at the end the screen shows\n%s\nwant the whole table", strings.Join(lines, "\n"))
	}
	if best := bestTrial(v); !strings.HasPrefix(lines[3], fmt.Sprintf("best: %s, accuracy 0.", best.Name())) {
		t.Errorf("line 3 is %q, want the best, %s", lines[3], best.Name())
	}
}

func TestStatusElsewhereIsALineForWhatHappens(t *testing.T) {
	var out bytes.Buffer
	s := newStatus(&out, func() (int, int) { return 0, 0 })
	v := &tunetest.View{MetricName: "loss", Direction: tune.Min}
	p := tune.MustParams("lr", 0.125)
	a := v.Add(p)
	s.Observe(v, tune.Event{Kind: tune.EventStudy, Header: &tune.Header{Name: "toy"}})
	s.Observe(v, tune.Event{Kind: tune.EventStart, New: true, Attempt: 1, Params: p, Location: "host1"})
	report := func(step int, x float64) {
		v.Report(a, step, x)
		s.Observe(v, tune.Event{Kind: tune.EventReport, Step: step, Metrics: tune.Metrics{{Name: "loss", Value: x}}})
	}
	report(1, math.NaN())
	report(2, 3)
	report(3, 4)
	report(4, 2)
	s.Observe(v, tune.Event{Kind: tune.EventEnd, Attempt: 1, Outcome: tune.Broke, Failure: tune.NodeLost, Error: "gone\nstack", Retry: true})
	s.Observe(v, tune.Event{Kind: tune.EventStart, Attempt: 2, Location: "host2", Restore: -1})
	s.Observe(v, tune.Event{Kind: tune.EventStart, Attempt: 3, Restore: 4})
	s.Observe(v, tune.Event{Kind: tune.EventStart, Attempt: 4, Restore: 2, Donor: 7, Params: tune.MustParams("lr", 0.25)})
	v.End(a, tune.Pruned)
	a.Rule = "median"
	s.Observe(v, tune.Event{Kind: tune.EventEnd, Attempt: 2, Outcome: tune.Obeyed})
	s.Tick(v, time.Unix(1000, 0))
	want := `toy: begun
trial-000000: started on host1 with {lr: 0.125}
trial-000000: best so far, loss 3 at step 2
trial-000000: attempt 1 failed (node lost): gone ...; tried again
trial-000000: attempt 2 started on host2 from the beginning
trial-000000: attempt 3 started from its checkpoint of step 4
trial-000000: attempt 4 started from trial 7's checkpoint of step 2, now with {lr: 0.25}
trial-000000: pruned after step 4, loss 2 (median)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTrialsCSVHasARowForEachTrialWithExactNumbers(t *testing.T) {
	v := search(9)
	var b bytes.Buffer
	if err := TrialsCSV(&b, v); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 10 {
		t.Fatalf("got %d rows, want 10", len(rows))
	}
	if got, want := strings.Join(rows[0], " "), "trial state param/lr param/width param/optimizer param/momentum accuracy last accuracy step reports seconds attempts location rule error"; got != want {
		t.Errorf("head %q, want %q", got, want)
	}
	for i, row := range rows[1:] {
		if got, want := row[2], exact(v.All[i].Params.Float("lr")); got != want {
			t.Errorf("trial %d: lr %s, want %s", i, got, want)
		}
		if has := v.All[i].Params.Has("momentum"); has != (row[5] != "") {
			t.Errorf("trial %d: momentum is %q, and it has one: %v", i, row[5], has)
		}
	}
}

func TestFilesOfATrialHoldItsReports(t *testing.T) {
	dir := t.TempDir()
	f := NewFiles(dir)
	f.now = func() time.Time { return time.Unix(1700000000, 0) }
	v := &tunetest.View{MetricName: "accuracy"}
	p := tune.MustParams("lr", 0.1, "optimizer", "sgd")
	a := v.Add(p)
	a.Attempts = 1
	f.Observe(v, tune.Event{Kind: tune.EventStart, New: true, Attempt: 1, Params: p})
	for step, x := range []float64{0.5, math.Inf(-1), 0.75} {
		v.Report(a, step, x)
		a.Elapsed = time.Duration(step) * time.Second
		f.Observe(v, tune.Event{Kind: tune.EventReport, Step: step, Time: time.Unix(1700000001, 0),
			Metrics: tune.Metrics{{Name: "accuracy", Value: x}, {Name: "loss", Value: -x}}})
	}
	f.Observe(v, tune.Event{Kind: tune.EventEnd, Attempt: 1, Outcome: tune.Returned})
	if err := f.Close(v); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "trials", "trial-000000")
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(own, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var params tune.Params
	if err := json.Unmarshal([]byte(read("params.json")), &params); err != nil || !params.Equal(p) {
		t.Errorf("params.json holds %v, %v, want %v", params, err, p)
	}
	lines := strings.Split(strings.TrimSpace(read("result.json")), "\n")
	want := `{"accuracy":0.75,"config":{"lr":0.1,"optimizer":"sgd"},"loss":-0.75,"time_total_s":2,"timestamp":1700000001,"training_iteration":2,"trial_id":0}`
	if len(lines) != 3 || lines[2] != want || !strings.Contains(lines[1], `"accuracy":"-Inf"`) {
		t.Errorf("result.json holds\n%s\nwant three lines, the last\n%s", strings.Join(lines, "\n"), want)
	}
	if got, want := read("progress.csv"), "training_iteration,time_total_s,timestamp,accuracy,loss\n0,0,1700000001,0.5,-0.5\n1,1,1700000001,-Inf,+Inf\n2,2,1700000001,0.75,-0.75\n"; got != want {
		t.Errorf("progress.csv holds\n%s\nwant\n%s", got, want)
	}
	events, err := metrics.ReadEvents(strings.NewReader(read("events.out.tfevents.1700000000.attempt-1")))
	if err != nil || len(events) != 6 { // version, start, session, three reports
		t.Fatalf("the event file holds %+v, %v, want 6 records", events, err)
	}
	if e := events[4]; len(e.Scalars) != 1 || e.Scalars[0].Tag != "tune/time_total_s" {
		t.Errorf("of numbers that are not finite the event file holds %+v, want only the time", e.Scalars)
	}
	if e := events[5]; e.Step != 2 || len(e.Scalars) != 3 || e.Scalars[0] != (metrics.Scalar{Tag: "tune/accuracy", Value: 0.75}) {
		t.Errorf("the last report in the event file is %+v", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "trials.csv")); err != nil {
		t.Error(err)
	}
}

func TestFilesTellWhatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := NewFiles(dir)
	v := &tunetest.View{}
	v.Report(v.Add(tune.Params{}), 1, 1)
	f.Observe(v, tune.Event{Kind: tune.EventStart, New: true})
	f.Observe(v, tune.Event{Kind: tune.EventReport, Step: 1})
	f.Observe(v, tune.Event{Kind: tune.EventEnd})
	if err := f.Close(v); err == nil || !strings.Contains(err.Error(), "trial-000000") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the trial and %s", err, dir)
	}
}

func TestImportanceFindsTheParameterThatDecides(t *testing.T) {
	list := Importances(search(90))
	if len(list) != 4 || list[0].Name != "lr" || list[0].Share < 0.4 {
		t.Errorf("got %+v, want lr first, with most of it", list)
	}
	sum := 0.0
	for _, i := range list {
		sum += i.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares sum to %v, want 1", sum)
	}
	if got := Importances(search(9)); got != nil {
		t.Errorf("of 9 trials: %+v, want none", got)
	}
}

func TestWhyTellsEveryDecisionAndWhatItWasHeldAgainst(t *testing.T) {
	at := func(n int) time.Duration { return time.Duration(n) * time.Second }
	accuracy := func(x float64) tune.Metrics { return tune.Metrics{{Name: "accuracy", Value: x}} }
	events := []tune.Event{
		{Kind: tune.EventStudy, Header: &tune.Header{Metric: "accuracy"}},
		{Kind: tune.EventStart, New: true, Trial: 0, At: at(1), Origin: tune.FromDefault, Params: tune.MustParams("lr", 0.5)},
		{Kind: tune.EventStart, New: true, Trial: 1, At: at(1), Origin: tune.FromSuggester, Params: tune.MustParams("lr", 0.25), Location: "host1"},
		{Kind: tune.EventReport, Trial: 0, Step: 1, At: at(2), Metrics: accuracy(0.5), Decision: tune.Decision{Action: tune.Continue, Rule: "asha rung 0", Value: 0.5, Cutoff: math.NaN()}},
		{Kind: tune.EventReport, Trial: 1, Step: 1, At: at(3), Metrics: accuracy(0.25), Decision: tune.Decision{Action: tune.Pause, Rule: "asha rung 0", Value: 0.25, Cutoff: 0.4, Competitors: []int{0}}},
		{Kind: tune.EventEnd, Trial: 1, Attempt: 1, At: at(3), Outcome: tune.Obeyed},
		{Kind: tune.EventStart, Trial: 1, Attempt: 2, At: at(4), Restore: 1, Donor: 1, Rule: "promote to rung 1"},
		{Kind: tune.EventReport, Trial: 1, Step: 2, At: at(5), Metrics: accuracy(0.3), Decision: tune.Decision{Action: tune.Continue, Rule: "predict", Value: 0.3, Cutoff: 0.5, Competitors: []int{0}, Forecast: predicted(0.6)}},
		{Kind: tune.EventEnd, Trial: 1, Attempt: 2, At: at(5), Outcome: tune.Broke, Failure: tune.UserCode, Error: "panic: x"},
	}
	var b strings.Builder
	if err := Why(&b, events, 1); err != nil {
		t.Fatal(err)
	}
	want := `        1s  trial 1 started on host1 with {lr: 0.25}: proposed by the suggester
        3s  step 1: accuracy 0.25: pause (asha rung 0); its value 0.25 against a cut-off of 0.4; among trials 0 (0.5)
        3s  attempt 1 ended as told
        4s  attempt 2 started from its checkpoint of step 1; promote to rung 1
        5s  step 2: accuracy 0.3: continue (predict: 0.6 expected at step 9 (80 %: 0.5 to 0.7); a chance of 2 % to end as well as the best, trial 0 with 0.75, and the bound is 10 %)
        5s  attempt 2 failed (user code): panic: x; no further try
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if err := Why(&b, events, 7); err == nil || !strings.Contains(err.Error(), "it has 2 trials") {
		t.Errorf("of a trial that is not there: %v", err)
	}
}

func TestWhyTellsWhereReplicasWent(t *testing.T) {
	at := func(n int) time.Duration { return time.Duration(n) * time.Second }
	on := func(n int) jobs.Placement { return jobs.Placement{{Node: "d1", Replicas: n}} }
	allocate := func(n int, cause string, s jobs.Share) tune.Event {
		return tune.Event{Kind: tune.EventAllocate, At: at(n), Rule: cause, Jobs: []jobs.State{{Trial: 1}}, Shares: []jobs.Share{s}}
	}
	fixed := allocate(5, "1m0s have passed", jobs.Share{Trial: 1, On: on(1)})
	fixed.Jobs[0].Fixed = "its program takes part in no change"
	events := []tune.Event{
		{Kind: tune.EventStart, New: true, Trial: 1, At: at(1), Origin: tune.FromSuggester, Params: tune.MustParams("lr", 0.25)},
		allocate(2, "trial 1 started", jobs.Share{Trial: 1, On: on(1), Rule: "starts 1 replica on d1"}),
		allocate(3, "100 reports came", jobs.Share{Trial: 1, On: on(1)}),
		allocate(4, "trial 0 ended", jobs.Share{Trial: 1, On: on(3), Rule: "grows from 1 to 3 replicas on d1: 2.10 times the goodput"}),
		fixed,
		allocate(6, "host d1 was lost", jobs.Share{Trial: 1, Pause: true, Rule: "stops 1 replica; it continues from its checkpoint"}),
	}
	var b strings.Builder
	if err := Why(&b, events, 1); err != nil {
		t.Fatal(err)
	}
	want := `        1s  trial 1 started with {lr: 0.25}: proposed by the suggester
        2s  1 replica (d1=1) in place of no replicas: starts 1 replica on d1; decided because trial 1 started
        4s  3 replicas (d1=3) in place of 1 replica (d1=1): grows from 1 to 3 replicas on d1: 2.10 times the goodput; decided because trial 0 ended
        5s  1 replica (d1=1) in place of 3 replicas (d1=3); decided because 1m0s have passed
        5s  its replicas cannot change: its program takes part in no change
        6s  to give up its 1 replica at its next report: stops 1 replica; it continues from its checkpoint; decided because host d1 was lost
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	s := NewLines(io.Discard)
	for i, want := range []string{"", "study: replicas: trial 1 d1=1 (trial 1 started)", "", "study: replicas: trial 1 d1=3 (trial 0 ended)"} {
		if e := events[i]; e.Kind == tune.EventAllocate {
			if got := s.line(&tunetest.View{}, e); got != want {
				t.Errorf("event %d: the line is %q, want %q", i, got, want)
			}
		}
	}
}

// Trials that are elastic jobs have columns for their replicas, in the table, trials.csv and the
// page.
func TestTablesShowReplicas(t *testing.T) {
	v := &tunetest.View{}
	x := v.Add(tune.MustParams("lr", 0.5))
	v.Report(x, 1, 0.5)
	x.Attempts, x.Placement, x.Location = 2, jobs.Placement{{Node: "d1", Replicas: 2}, {Node: "d2", Replicas: 1}}, "d1 x2, d2"
	x.Training = tune.Training{GlobalBatch: 256, Goodput: 812.5}
	v.Add(tune.MustParams("lr", 0.25)) // waits
	table := statusTable(v)
	for _, want := range []string{"replicas", "restarts", "batch", "goodput", "256", "812", "WAITING", "d1 x2, d2"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	var csv strings.Builder
	if err := TrialsCSV(&csv, v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{",replicas,restarts,batch,goodput,step,", ",3,1,256,812.5,1,", ",0,0,,,,"} {
		if !strings.Contains(csv.String(), want) {
			t.Errorf("trials.csv has no %q:\n%s", want, csv.String())
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if err := HTML(page, "toy", v); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "<th>goodput</th>") || !strings.Contains(string(b), "<td>812.5</td>") {
		t.Errorf("the page has no goodput (%v)", err)
	}
	without := &tunetest.View{}
	without.Report(without.Add(tune.MustParams("lr", 0.5)), 1, 0.5)
	if table := statusTable(without); strings.Contains(table.String(), "replicas") {
		t.Errorf("a search without elastic jobs has replicas:\n%s", table.String())
	}
}

// predicted is a forecast with a band of 0.1 on both sides.
func predicted(mean float64) *tune.Forecast {
	return &tune.Forecast{Step: 9, Mean: mean, Low: mean - 0.1, High: math.Round(100*(mean+0.1)) / 100, Chance: 0.02, Bound: 0.1, Best: 1, Target: 0.75}
}

// Of trials whose end is predicted the page has the way there and its band, and of one that was
// stopped why; axes have room for those that run, not for a band that is many times as high.
func TestThePageShowsHowTrialsAreExpectedToEnd(t *testing.T) {
	v := &tunetest.View{}
	add := func(state tune.State, value float64, f *tune.Forecast) *tune.Trial {
		trial := v.Add(tune.MustParams("lr", value))
		v.Report(trial, 1, value/2)
		v.Report(trial, 3, value)
		trial.Reports[1].Forecast = f
		if state.Final() {
			v.End(trial, state)
		}
		return trial
	}
	stopped := add(tune.Pruned, 0.25, predicted(0.4))
	stopped.Reports[1].Action, stopped.Rule = tune.Stop, "predict"
	add(tune.Running, 0.5, &tune.Forecast{Step: 9, Mean: 0.625, Low: -1000, High: 0.75})
	add(tune.Completed, 0.75, predicted(0.7))
	r := newReport("toy", v)
	lines := make(map[string]line)
	for _, l := range r.Curves.Lines {
		lines[l.Trial] = l
	}
	if !r.Stopped || !r.Predicted || lines["0"].Cross == "" || lines["0"].Band == "" || lines["0"].Running || !strings.HasSuffix(lines["0"].Name,
		"\nstopped at step 3 by predict: 0.4 expected at step 9 (80 %: 0.3 to 0.5); a chance of 2 % to end as well as the best, trial 0 with 0.75, and the bound is 10 %") {
		t.Errorf("the stopped trial is %+v, want a cross, a band and why", lines["0"])
	}
	if l := lines["1"]; l.Cross != "" || l.Ahead == "" || !l.Running || !strings.Contains(l.Name, "0.625 expected at step 9") {
		t.Errorf("the running trial is %+v, want the way to its predicted end", l)
	}
	if l := lines["2"]; l.Cross != "" || l.Ahead != "" || l.Band != "" {
		t.Errorf("the completed trial is %+v, want its curve alone", l)
	}
	if low := r.Curves.YTicks[0].value; low < -0.5 {
		t.Errorf("the axis begins at %v, want it near the curves: they begin at 0.125", low)
	}
	if ticks := r.Curves.XTicks; ticks[len(ticks)-1].value < 8 {
		t.Errorf("the axis of steps has %v, want it to go on to the predicted end at 9", ticks)
	}
	if row := r.Rows[0]; !strings.HasPrefix(row.Rule, "predict: 0.4 expected") {
		t.Errorf("the table says %q, want the reason", row.Rule)
	}
	panel := tune.CurvePanel(v)
	for _, s := range panel.Series {
		if running := strings.HasPrefix(s.Name, "trial-000001"); running && (s.Ahead == nil || s.Ahead.X != 9 || s.Ahead.Y != 0.625) || strings.HasPrefix(s.Name, "trial-000002") && s.Ahead != nil {
			t.Errorf("the panel's series %+v goes on to %+v; want the running one to go on to 0.625 at step 9, and not the completed one", s, s.Ahead)
		}
	}
	if err := Curves(filepath.Join(t.TempDir(), "curves.png"), v); err != nil {
		t.Error(err)
	}
}

func TestThePageNamesTheStepOfTheBestValue(t *testing.T) {
	v := &tunetest.View{}
	best := v.Add(tune.MustParams("lr", 0.5))
	for step, x := range []float64{0.1, 0.9, 0.7} {
		v.Report(best, step+1, x)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if err := HTML(page, "toy", v); err != nil {
		t.Fatal(err)
	}
	want := "0.9</b> &nbsp; trial-000000 at step 2\n"
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("the page has no %q (%v)", want, err)
	}
}

func TestPicturesAndPageAreMade(t *testing.T) {
	dir := t.TempDir()
	if keep := os.Getenv("PARAGON_SHOW_DIR"); keep != "" {
		dir = keep
	}
	for _, n := range []int{0, 1, 60} {
		v := search(n)
		if n == 60 {
			v.All[0].Params = tune.MustParams("lr", 0.001, "width", 16, "optimizer", "<script>")
		}
		for _, name := range []string{"curves.png", "curves.svg"} {
			path := filepath.Join(dir, fmt.Sprintf("%d-%s", n, name))
			if err := Curves(path, v); err != nil {
				t.Errorf("%d trials: %v", n, err)
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.html", n))
		if err := HTML(path, "toy & co", v); err != nil {
			t.Fatalf("%d trials: %v", n, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := string(b)
		if regexp.MustCompile(`[^s]NaN`).MatchString(page) || strings.Contains(page, "<script>\"") || !strings.Contains(page, "toy &amp; co") || strings.Contains(page, "http") {
			t.Errorf("%d trials: the page has NaN, unescaped text or asks the network", n)
		}
		if got := strings.Count(page, "<tr><td>"); got != n {
			t.Errorf("%d trials: the table has %d rows", n, got)
		}
	}
	if err := Curves(filepath.Join(dir, "curves.gif"), search(1)); err == nil || !strings.Contains(err.Error(), ".svg") {
		t.Errorf("a .gif: %v, want an error that says what can be had", err)
	}
}

// A trial may report nothing for minutes; the table says all the same how long the search has run.
func TestStatusCountsTheTimeBetweenEvents(t *testing.T) {
	var out bytes.Buffer
	s := newStatus(&out, func() (int, int) { return 80, 24 })
	v := search(1)
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		at      int // seconds
		elapsed time.Duration
		want    string
	}{{0, 0, "study: running for 0s"}, {70, 0, "study: running for 1m10s"}, {80, 75 * time.Second, "study: running for 1m15s"}, {85, 75 * time.Second, "study: running for 1m20s"}} {
		v.Now = step.elapsed
		s.Tick(v, now.Add(time.Duration(step.at)*time.Second))
		if got := screen(t, out.String())[1]; !strings.HasPrefix(got, step.want) {
			t.Errorf("after %d s: got %q, want %q", step.at, got, step.want)
		}
	}
}

func TestWhatIsWrittenStandsAboveTheTable(t *testing.T) {
	var b strings.Builder
	s := newStatus(&b, func() (int, int) { return 80, 24 })
	s.Tick(search(1), time.Unix(100, 0))
	table := b.String()
	b.Reset()
	if _, err := io.WriteString(s, "a line\n"); err != nil {
		t.Fatal(err)
	}
	up := fmt.Sprintf("\r\x1b[%dA\x1b[J", strings.Count(table, "\n"))
	if got, want := b.String(), up+"a line\n"+table; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	if err := s.Close(search(1)); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if _, err := io.WriteString(s, "after\n"); err != nil || b.String() != "after\n" {
		t.Errorf("after the end got %q, %v, want the line alone", b.String(), err)
	}
}

func TestASearchThatIsTakenUpKeepsItsNameAndItsBest(t *testing.T) {
	var b strings.Builder
	s := NewLines(&b)
	s.Name = "mnist"
	v := search(3)
	s.Observe(v, tune.Event{Kind: tune.EventOpen})
	s.Observe(v, tune.Event{Kind: tune.EventReport, Trial: 0, Metrics: tune.Metrics{{Name: v.Metric(), Value: v.Result(bestTrial(v))}}})
	if got, want := b.String(), "mnist: resumed, 3 trials\n"; got != want {
		t.Errorf("got %q, want %q: what is no better than before is not told", got, want)
	}
}
