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

	"github.com/paragon-train/paragon/internal/vfs"
	"github.com/paragon-train/paragon/tune"
)

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))

// maxLines is how many trials the pictures of the report show: the best ones.
const maxLines = 1000

// HTML writes a report of a search into a file: the best parameters, curves, the effect of each parameter, and a table of all
// trials. The page needs no network.
func HTML(path, name string, v tune.View) error {
	err := vfs.WriteFile(vfs.OS{}, path, func(w io.Writer) error { return reportTemplate.Execute(w, newReport(name, v)) })
	if err != nil {
		return fmt.Errorf("show: report: %w", err)
	}
	return nil
}

// A report is what the template shows.
type report struct {
	Name, Metric, Better string
	Trials               string
	Elapsed              time.Duration
	Best                 *reportTrial
	Params               []string
	Rows                 []reportTrial
	Shown                string // which trials the pictures show
	Curves, Search       picture
	Parallel             parallel
	Slices               []picture
	Importances          []bar
	Others, Jobs         []string
}

type reportTrial struct {
	Number           int
	Name, State      string
	Value, Step      string
	Params           []string
	Others, Jobs     []string
	Location, Rule   string
	Seconds, Failure string
}

// A bar of a chart; Width is in percent.
type bar struct {
	Name, Text string
	Width      float64
}

func newReport(name string, v tune.View) report {
	trials := slices.Collect(v.Trials())
	counts := make(map[tune.State]int)
	for _, t := range trials {
		counts[t.State]++
	}
	r := report{
		Name: name, Metric: v.Metric(), Better: "larger", Elapsed: v.Elapsed().Round(time.Millisecond),
		Trials: plural(len(trials), "trial") + ": " + countText(counts),
		Params: paramNames(v.Space(), trials), Others: otherMetrics(v.Metric(), trials),
	}
	if v.Mode() == tune.Min {
		r.Better = "smaller"
	}
	if elastic(trials) {
		r.Jobs = replicaColumns
	}
	for _, t := range trials {
		r.Rows = append(r.Rows, r.row(v, t))
	}
	if best := bestTrial(v); best != nil {
		row := r.row(v, best)
		r.Best = &row
	}
	ranked := ranking(v)
	r.Shown = "all trials that have a value"
	if len(ranked) > maxLines {
		r.Shown = fmt.Sprintf("the best %d of %d trials that have a value", maxLines, len(ranked))
		ranked = ranked[:maxLines]
	}
	if len(ranked) == 0 {
		return r
	}
	r.Curves, r.Search = curvePicture(v, ranked), searchPicture(v)
	r.Parallel = newParallel(v, ranked)
	for _, p := range r.Params {
		if s, ok := slicePicture(v, ranked, p); ok {
			r.Slices = append(r.Slices, s)
		}
	}
	for _, i := range Importances(v) {
		text := fmt.Sprintf("%.1f %%", 100*i.Share)
		if i.Trials < len(ranked) {
			text += fmt.Sprintf(" (%s had it)", plural(i.Trials, "trial"))
		}
		r.Importances = append(r.Importances, bar{i.Name, text, 100 * i.Share})
	}
	return r
}

func (r *report) row(v tune.View, t *tune.Trial) reportTrial {
	row := reportTrial{
		Number: t.Number, Name: t.Name(), State: string(t.State), Location: t.Location, Rule: t.Rule,
		Seconds: fmt.Sprintf("%.3f", t.Elapsed.Seconds()), Failure: firstLine(t.Error),
	}
	if x := v.Result(t); !math.IsNaN(x) {
		row.Value = valueText(x)
	}
	if t.Step() >= 0 {
		row.Step = fmt.Sprint(t.Step())
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
