package show

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
)

// The page is one file with its style and its script in it: it can be sent to someone.
//
//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))

// maxLines is how many trials the pictures of the report show: the best ones.
const maxLines = 1000

// HTML writes a report of a search into a file: the best parameters, curves, the effect of each
// parameter, and a table of all trials. The page needs no network.
func HTML(path, name string, v tune.View) error {
	err := vfs.WriteFile(vfs.OS{}, path, func(w io.Writer) error { return reportTemplate.Execute(w, newReport(name, v)) })
	if err != nil {
		return fmt.Errorf("show: report: %w", err)
	}
	return nil
}

// A report is what the template shows.
type report struct {
	Name, Goal string
	Metric     string
	// Goals are the columns of values, by name.
	Goals  []string
	Trials string
	// Missed says what the deadline kept from being done.
	Missed  string
	Elapsed time.Duration
	Best    *reportTrial
	// Ranked says that there are trials with values.
	Ranked       bool
	Front        []reportTrial
	FrontPicture *picture
	FrontLines   *parallel
	Params       []string
	Rows         []reportTrial
	// Shown says which trials the pictures show.
	Shown string
	// Stopped and Predicted say that curves end in crosses, and that some go on to a predicted
	// end.
	Stopped, Predicted bool
	Curves, Search     picture
	Parallel           parallel
	Slices             []picture
	Importances        []bar
	Variances          []variances
	Others, Jobs       []string
}

// A reportTrial is a trial as a row of the page: texts as they are shown, and "" for nothing.
type reportTrial struct {
	Number      int
	Name, State string
	Value, Step string
	// BestStep says where the value is from: " at step 9".
	BestStep         string
	Goals            []string
	Params           []string
	Others, Jobs     []string
	Location, Rule   string
	Seconds, Failure string
}

// A variances is what the parameters explain of an objective.
type variances struct {
	Metric string
	Bars   []bar
}

// A bar of a chart; Width is in percent.
type bar struct {
	Name, Text string
	Width      float64
}

// newReport is the report of a study by what there is now.
func newReport(name string, v tune.View) report {
	trials := slices.Collect(v.Trials())
	counts := make(map[tune.State]int)
	for _, t := range trials {
		counts[t.State]++
	}
	r := report{
		Name: name, Metric: v.Metric(), Goal: goalText(v), Goals: goalColumns(v), Elapsed: rounded(v.Elapsed()),
		Trials: plural.Of(len(trials), "trial") + ": " + countText(counts), Missed: v.Plan().Missed,
		Params: paramNames(v.Space(), trials), Others: otherMetrics(v, trials),
	}
	if elastic(trials) {
		r.Jobs = replicaColumns
	}
	front := onFront(v)
	r.addRows(v, trials, front)
	ranked := ranking(v)
	r.Shown = "all trials that have a value"
	if len(ranked) > maxLines {
		r.Shown = fmt.Sprintf("the best %d of %d trials that have a value", maxLines, len(ranked))
		ranked = ranked[:maxLines]
	}
	if len(ranked) > 0 {
		r.addPictures(v, ranked, front)
		r.addBars(v, ranked)
	}
	return r
}

// addRows adds the tables of trials.
func (r *report) addRows(v tune.View, trials []*tune.Trial, front map[int]bool) {
	for _, t := range trials {
		r.Rows = append(r.Rows, r.row(v, t, front))
	}
	if best := bestTrial(v); best != nil {
		row := r.row(v, best, front)
		r.Best = &row
	}
	if several(v) {
		for _, t := range tune.Front(v) {
			r.Front = append(r.Front, r.row(v, t, front))
		}
	}
}

// addPictures adds the pictures of the trials that have a value.
func (r *report) addPictures(v tune.View, ranked []*tune.Trial, front map[int]bool) {
	r.Ranked = true
	r.Stopped = slices.ContainsFunc(ranked, func(t *tune.Trial) bool { return t.State == tune.Pruned })
	r.Predicted = slices.ContainsFunc(ranked, func(t *tune.Trial) bool { return t.Forecast() != nil })
	r.Curves, r.Search = curvePicture(v, ranked), searchPicture(v)
	r.Parallel = newParallel(v, ranked, paramNames(v.Space(), ranked), maxNamed)
	switch n := len(v.Objectives()); {
	case n == 2:
		p := frontPicture(v, ranked, front)
		r.FrontPicture = &p
	case n > 2:
		p := newParallel(v, ranked, nil, len(front))
		r.FrontLines = &p
	}
	for k := range v.Objectives() {
		for _, p := range r.Params {
			if s, ok := slicePicture(v, ranked, p, k); ok {
				r.Slices = append(r.Slices, s)
			}
		}
	}
}

// addBars adds how much each parameter decides.
func (r *report) addBars(v tune.View, ranked []*tune.Trial) {
	for _, i := range Importances(v) {
		text := fmt.Sprintf("%.1f %%", 100*i.Share)
		if i.Trials < len(ranked) {
			text += fmt.Sprintf(" (%s had it)", plural.Of(i.Trials, "trial"))
		}
		r.Importances = append(r.Importances, bar{i.Name, text, 100 * i.Share})
	}
	for k, o := range v.Objectives() {
		x := variances{Metric: o.Metric}
		for _, i := range Variances(v, k) {
			x.Bars = append(x.Bars, bar{i.Name, fmt.Sprintf("%.1f %%", 100*i.Share), 100 * i.Share})
		}
		if len(x.Bars) > 0 {
			r.Variances = append(r.Variances, x)
		}
	}
}

// rounded is a time without the digits that nobody reads.
func rounded(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// row is a trial with a text for each of the report's columns; "" is nothing.
func (r *report) row(v tune.View, t *tune.Trial, front map[int]bool) reportTrial {
	row := reportTrial{
		Number: t.Number, Name: t.Name(), State: string(t.State), Location: t.Location, Rule: t.Reason(),
		Seconds: fmt.Sprintf("%.3f", t.Elapsed.Seconds()), Failure: firstLine(t.Error),
	}
	if x := v.Result(t); !math.IsNaN(x) {
		row.Value = valueText(x)
	}
	for _, x := range goalCells(v, t, front) {
		text := ""
		if x != nil {
			text = strings.Trim(valueText(x), `"`)
		}
		row.Goals = append(row.Goals, text)
	}
	if last, ok := t.LastStep(); ok {
		row.Step, row.BestStep = fmt.Sprint(last), bestStep(t)
	}
	for _, name := range r.Params {
		text := ""
		if value, ok := t.Params.Get(name); ok {
			text = strings.Trim(valueText(value), `"`)
		}
		row.Params = append(row.Params, text)
	}
	for _, name := range r.Others {
		text := ""
		if x, ok := newest(t, name).(float64); ok {
			text = valueText(x)
		}
		row.Others = append(row.Others, text)
	}
	if r.Jobs != nil {
		for _, x := range replicaCells(t) {
			text := ""
			if x != nil {
				text = valueText(x)
			}
			row.Jobs = append(row.Jobs, text)
		}
	}
	return row
}
