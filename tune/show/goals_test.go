package show

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// tradeOff is a search for several objectives, as many as there are modes, with a bound on memory.
func tradeOff(n int, modes ...tune.Mode) *tunetest.View {
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1), tune.Real("y", 0, 1), tune.Real("z", 0, 1)}, Bounds: []tune.Constraint{{Metric: "memory", Bound: 8}}}
	for i, m := range modes {
		v.Goals = append(v.Goals, tune.Objective{Metric: "goal" + strconv.Itoa(i), Mode: m})
	}
	rng := tunetest.Rand(3)
	for range n {
		p, _ := v.SearchSpace.Sample(rng, tune.Params{})
		x, y := p.Float("x"), p.Float("y")
		values := map[string]float64{"memory": 10 * x, "time": 1}
		for i := range modes {
			values["goal"+strconv.Itoa(i)] = []float64{x - y, x + y, x*x + y, y}[i]
		}
		t := v.Add(p)
		v.ReportAll(t, 1, values)
		v.End(t, tune.Completed)
	}
	return v
}

// The report of a search for two objectives has the front as a picture and a table, of three as
// lines; both show what violates the bound.
func TestReportShowsTheFront(t *testing.T) {
	for _, modes := range [][]tune.Mode{{tune.Max, tune.Min}, {tune.Max, tune.Min, tune.Min}} {
		v := tradeOff(60, modes...)
		path := filepath.Join(t.TempDir(), "report.html")
		if err := HTML(path, "toy", v); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		front := tune.Front(v)
		if len(front) < 3 {
			t.Fatalf("the search has a front of %d", len(front))
		}
		for _, want := range []string{"goal0, larger is better; goal1, smaller is better", "with memory &lt;= 8", "<h2>Pareto front</h2>", "<th>front</th><th>violation</th>", "<h2>Variance of goal1</h2>"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d objectives: the report has no %q", len(modes), want)
			}
		}
		section := text[strings.Index(text, "<h2>Pareto front</h2>"):]
		section = section[:strings.Index(section, "<h2>Curves</h2>")]
		if got := strings.Count(section, "<tr><td>"); got != len(front) {
			t.Errorf("%d objectives: the table of the front has %d rows, want %d", len(modes), got, len(front))
		}
		if got, want := strings.Count(section, infeasible), map[bool]int{true: violating(v)}[len(modes) == 2]; got != want {
			t.Errorf("%d objectives: the picture has %d trials that violate the bound, want %d", len(modes), got, want)
		}
		if bold := len(regexp.MustCompile(`stroke="[^"]*"><title>trial`).FindAllString(section, -1)); len(modes) == 3 && bold != len(front) {
			t.Errorf("%d lines are bold, want the %d of the front", bold, len(front))
		}
		if strings.Contains(text, "best: <b>") || strings.Contains(text, "No trial") {
			t.Error("the report speaks of a best trial, or of none")
		}
	}
}

func violating(v tune.View) (n int) {
	for t := range v.Trials() {
		if v.Violation(t) > 0 {
			n++
		}
	}
	return n
}

// Tables and CSV say which trials are on the front, and how far others are from being feasible.
func TestTablesSayWhatIsOnTheFront(t *testing.T) {
	v := tradeOff(30, tune.Max, tune.Min)
	table := statusTable(v)
	if text := table.String(); !regexp.MustCompile(`goal0 +goal1 +memory +front +violation`).MatchString(text) {
		t.Errorf("the table has no columns of the objectives:\n%s", text)
	}
	if row := strings.Split(table.String(), "\n")[2]; !strings.Contains(row, "yes") {
		t.Errorf("the first row is not of the front:\n%s", row)
	}
	var out bytes.Buffer
	if err := TrialsCSV(&out, v); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	front, violation := slices.Index(rows[0], "front"), slices.Index(rows[0], "violation")
	for i, row := range rows[1:] {
		on := slices.ContainsFunc(tune.Front(v), func(t *tune.Trial) bool { return t.Number == i })
		if (row[front] == "yes") != on || row[violation] != exact(v.Violation(v.Trial(i))) {
			t.Errorf("row %d has front %q and violation %q, want %v and %v", i, row[front], row[violation], on, v.Violation(v.Trial(i)))
		}
	}
	text := (&Status{Name: "toy"}).text(v, "running", time.Minute)
	if want := "Pareto front: " + plural.Of(len(tune.Front(v)), "trial"); !strings.Contains(text, want) || strings.Contains(text, "best:") {
		t.Errorf("the status has no %q, or a best trial:\n%s", want, text)
	}
}

// A search with one objective in which nothing is feasible has no best trial.
func TestReportWithoutAFeasibleTrial(t *testing.T) {
	v := tradeOff(12, tune.Max)
	v.MetricName, v.Goals, v.Bounds[0].Bound = "goal0", nil, -1
	path := filepath.Join(t.TempDir(), "report.html")
	if err := HTML(path, "toy", v); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); !strings.Contains(string(b), "No trial keeps all constraints.") || !strings.Contains(string(b), "<h2>Curves</h2>") {
		t.Error("the report does not say that no trial keeps the constraints, or has no pictures")
	}
	if best := bestTrial(v); best != nil {
		t.Errorf("trial %d is the best, which violates the constraint", best.Number)
	}
}

// The best value of the search is that of a feasible report. The curves with names are those of
// feasible trials first, then of those that violate a bound, and of trials without a value last.
func TestTheBestCurvesAreThoseOfFeasibleTrials(t *testing.T) {
	v := &tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}, MetricName: "accuracy", Direction: tune.Max, Bounds: []tune.Constraint{{Metric: "memory", Bound: 8}}}
	for i, accuracy := range []float64{0.9, 0.3, 0.5, 0.4, 0.6, 0.2, 0.1, 0.95} {
		p, _ := v.SearchSpace.Sample(tunetest.Rand(uint64(i)), tune.Params{})
		one := v.Add(p)
		v.ReportAll(one, 1, map[string]float64{"accuracy": accuracy, "memory": map[bool]float64{true: 9, false: 8}[accuracy >= 0.9]})
		v.End(one, tune.Completed)
		v.Now++
	}
	if got, want := progressPanel(v).Series[0].Y, []float64{0.3, 0.3, 0.5, 0.5, 0.6, 0.6}; !slices.Equal(got, want) {
		t.Errorf("the best values are %v, want %v", got, want)
	}
	wantNames := func(want ...string) {
		t.Helper()
		var names []string
		for _, s := range tune.CurvePanel(v).Series {
			if s.Name != "" {
				names = append(names, strings.TrimPrefix(s.Name, "trial-00000"))
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("the curves with names are %q, want %q", names, want)
		}
	}
	wantNames("4: 0.6", "2: 0.5", "3: 0.4", "1: 0.3", "5: 0.2", "6: 0.1")
	v.Add(tune.Params{}) // trial 8 has no value
	v.Bounds[0].Bound = 7
	wantNames("7: 0.95", "0: 0.9", "4: 0.6", "2: 0.5", "3: 0.4", "1: 0.3")
	if got := progressPanel(v).Series[0].Y; len(got) != 0 {
		t.Errorf("no trial is feasible, and the best values are %v", got)
	}
}

// Variances must be those of a known function: x and y explain 4/5 and 1/5 of 2x − y, and z
// nothing.
func TestVariancesAreThoseOfTheFunction(t *testing.T) {
	v := tradeOff(0, tune.Max)
	v.MetricName, v.Goals, v.Bounds = "value", nil, nil
	rng := tunetest.Rand(5)
	for range 300 {
		p, _ := v.SearchSpace.Sample(rng, tune.Params{})
		v.Done(p, 2*p.Float("x")-p.Float("y"))
	}
	got := map[string]float64{}
	for _, i := range Variances(v, 0) {
		got[i.Name] = i.Share
	}
	for name, want := range map[string]float64{"x": 0.8, "y": 0.2, "z": 0} {
		if math.Abs(got[name]-want) > 0.06 {
			t.Errorf("shares %v, want x 0.8, y 0.2, z 0", got)
			break
		}
	}
	if few := Variances(tradeOff(9, tune.Max), 0); few != nil {
		t.Errorf("nine trials give %v, want nothing", few)
	}
}
