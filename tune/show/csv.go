package show

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/paragon-train/paragon/tune"
)

// TrialsCSV writes a row for each trial: its number, state, parameters, the study's metric at its
// best and last, with several objectives whether it is on the Pareto front, with constraints its
// violation of them, the newest of its other metrics, steps, seconds, attempts, where it ran, and
// why it ended. Trials that are elastic jobs also have their newest replicas, restarts, global
// batch and goodput. Numbers have all of their digits.
func TrialsCSV(w io.Writer, v tune.View) error {
	c := newTrialColumns(v)
	out := csv.NewWriter(w)
	err := out.Write(c.head())
	for t := range v.Trials() {
		if err == nil {
			err = out.Write(c.row(t))
		}
	}
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	if err != nil {
		return fmt.Errorf("show: trials: %w", err)
	}
	return nil
}

// trialColumns are the columns of the table of trials.
type trialColumns struct {
	view tune.View
	// params and others are the names of parameters, and of metrics besides the study's.
	params, others []string
	// front has the trials on the Pareto front.
	front map[int]bool
	// jobs says that trials are elastic jobs.
	jobs bool
}

// newTrialColumns are the columns that the trials so far need.
func newTrialColumns(v tune.View) *trialColumns {
	trials := slices.Collect(v.Trials())
	return &trialColumns{view: v, params: paramNames(v.Space(), trials), others: allMetrics(v.Metric(), trials), front: onFront(v), jobs: elastic(trials)}
}

// head are the names of the columns.
func (c *trialColumns) head() []string {
	head := []string{"trial", "state"}
	for _, p := range c.params {
		head = append(head, "param/"+p)
	}
	metric := c.view.Metric()
	head = append(head, metric, "last "+metric)
	if several(c.view) {
		head = append(head, "front")
	}
	if len(c.view.Constraints()) > 0 {
		head = append(head, "violation")
	}
	head = append(head, c.others...)
	if c.jobs {
		head = append(head, replicaColumns...)
	}
	return append(head, "step", "reports", "seconds", "attempts", "location", "rule", "error")
}

// row are the cells of a trial.
func (c *trialColumns) row(t *tune.Trial) []string {
	row := []string{strconv.Itoa(t.Number), string(t.State)}
	for _, p := range c.params {
		value, _ := t.Params.Get(p)
		row = append(row, exact(value))
	}
	last := nan
	if r, ok := t.Last(); ok {
		last = r.Value
	}
	row = append(row, exact(c.view.Result(t)), exact(last))
	if several(c.view) {
		row = append(row, map[bool]string{true: "yes"}[c.front[t.Number]])
	}
	if len(c.view.Constraints()) > 0 {
		row = append(row, exact(c.view.Violation(t)))
	}
	for _, name := range c.others {
		row = append(row, exact(newest(t, name)))
	}
	if c.jobs {
		for _, x := range replicaCells(t) {
			row = append(row, exact(x))
		}
	}
	step := ""
	if last, ok := t.LastStep(); ok {
		step = strconv.Itoa(last)
	}
	return append(row, step, strconv.Itoa(len(t.Reports)), exact(t.Elapsed.Seconds()), strconv.Itoa(t.Attempts),
		t.Location, t.Rule, firstLine(t.Error))
}

// allMetrics are all metrics but the study's, by name.
func allMetrics(metric string, trials []*tune.Trial) []string {
	seen := map[string]bool{metric: true}
	var names []string
	for _, t := range trials {
		for _, r := range t.Reports {
			for _, m := range r.Metrics {
				if !seen[m.Name] {
					seen[m.Name] = true
					names = append(names, m.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// exact is a value with all of its digits; "" for nothing.
func exact(value any) string {
	switch x := value.(type) {
	case nil:
		return ""
	case float64:
		if x != x {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}
