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
	trials := slices.Collect(v.Trials())
	params := paramNames(v.Space(), trials)
	others := allMetrics(v.Metric(), trials)
	out := csv.NewWriter(w)
	head := []string{"trial", "state"}
	for _, p := range params {
		head = append(head, "param/"+p)
	}
	metric := v.Metric()
	head = append(head, metric, "last "+metric)
	front := onFront(v)
	if several(v) {
		head = append(head, "front")
	}
	if len(v.Constraints()) > 0 {
		head = append(head, "violation")
	}
	head = append(head, others...)
	jobs := elastic(trials)
	if jobs {
		head = append(head, replicaColumns...)
	}
	head = append(head, "step", "reports", "seconds", "attempts", "location", "rule", "error")
	if err := out.Write(head); err != nil {
		return fmt.Errorf("show: trials: %w", err)
	}
	for _, t := range trials {
		row := []string{strconv.Itoa(t.Number), string(t.State)}
		for _, p := range params {
			value, _ := t.Params.Get(p)
			row = append(row, exact(value))
		}
		last := nan
		if r, ok := t.Last(); ok {
			last = r.Value
		}
		row = append(row, exact(v.Result(t)), exact(last))
		if several(v) {
			row = append(row, map[bool]string{true: "yes"}[front[t.Number]])
		}
		if len(v.Constraints()) > 0 {
			row = append(row, exact(v.Violation(t)))
		}
		for _, name := range others {
			row = append(row, exact(newest(t, name)))
		}
		if jobs {
			for _, x := range replicaCells(t) {
				row = append(row, exact(x))
			}
		}
		step := ""
		if last, ok := t.LastStep(); ok {
			step = strconv.Itoa(last)
		}
		row = append(row, step, strconv.Itoa(len(t.Reports)), exact(t.Elapsed.Seconds()), strconv.Itoa(t.Attempts),
			t.Location, t.Rule, firstLine(t.Error))
		if err := out.Write(row); err != nil {
			return fmt.Errorf("show: trials: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("show: trials: %w", err)
	}
	return nil
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
