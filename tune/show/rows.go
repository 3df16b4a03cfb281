package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
)

// maxRows is how many trials a status table shows.
const maxRows = 20

// maxMetrics is how many metrics it shows besides the study's.
const maxMetrics = 3

// maxParams is how many parameters get a column; the rest is in the files.
const maxParams = 6

// order is the order of states in a table: what goes on comes first.
var order = map[tune.State]int{tune.Running: 0, tune.Paused: 1, tune.Pending: 2, tune.Completed: 3, tune.Pruned: 4, tune.Stopped: 5, tune.Failed: 6}

// states are all states in that order.
var states = []tune.State{tune.Running, tune.Paused, tune.Pending, tune.Completed, tune.Pruned, tune.Stopped, tune.Failed}

// statusTable is the table of a search at a moment: at most 20 trials, those that run first and
// then the best.
func statusTable(v tune.View) metrics.Table {
	trials := slices.Collect(v.Trials())
	place := make(map[int]int)
	ranked := ranking(v)
	for i, t := range ranked {
		// Trials with a value come before those without.
		place[t.Number] = i - len(ranked)
	}
	slices.SortStableFunc(trials, func(a, b *tune.Trial) int {
		if c := cmp.Compare(rank(a.State), rank(b.State)); c != 0 {
			return c
		}
		if c := cmp.Compare(place[a.Number], place[b.Number]); c != 0 {
			return c
		}
		return cmp.Compare(a.Number, b.Number)
	})
	rest := trials[min(len(trials), maxRows):]
	trials = trials[:min(len(trials), maxRows)]
	t := trialTable(v, trials, maxParams)
	if len(rest) > 0 {
		counts := make(map[tune.State]int)
		for _, r := range rest {
			counts[r.State]++
		}
		t.Note = fmt.Sprintf("... %d more not shown (%s)", len(rest), countText(counts))
	}
	return t
}

// rank puts trials that are over into one group, so that the best of them come first whatever way
// they ended.
func rank(s tune.State) int {
	if s.Final() && s != tune.Failed {
		return order[tune.Completed]
	}
	return order[s]
}

// trialTable has a row for each of the trials.
func trialTable(v tune.View, trials []*tune.Trial, maxParams int) metrics.Table {
	params := paramNames(v.Space(), trials)
	params = params[:min(len(params), maxParams)]
	others := otherMetrics(v, trials)
	front := onFront(v)
	t := metrics.Table{Columns: []string{"trial name", "status", "loc"}}
	t.Columns = append(t.Columns, params...)
	t.Columns = append(t.Columns, goalColumns(v)...)
	t.Columns = append(t.Columns, "iter", "total time (s)")
	jobs := elastic(trials)
	if jobs {
		t.Columns = append(t.Columns, replicaColumns...)
	}
	t.Columns = append(t.Columns, others...)
	for _, r := range trials {
		row := []any{r.Name(), stateText(r, jobs), r.Location}
		for _, name := range params {
			value, _ := r.Params.Get(name)
			row = append(row, cell(value))
		}
		row = append(row, goalCells(v, r, front)...)
		var step any
		if last, ok := r.LastStep(); ok {
			step = last
		}
		row = append(row, step, seconds(r.Elapsed))
		if jobs {
			row = append(row, replicaCells(r)...)
		}
		for _, name := range others {
			row = append(row, newest(r, name))
		}
		t.Row(row...)
	}
	return t
}

// paramNames are the parameters that any of the trials has, in the order of the space; what is not
// in the space comes after.
func paramNames(space tune.Space, trials []*tune.Trial) []string {
	var names []string
	seen := make(map[string]bool)
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, p := range space {
		add(p.Name)
	}
	for _, t := range trials {
		for _, name := range t.Params.Names() {
			add(name)
		}
	}
	return names
}

// otherMetrics are the first metrics by name that trials reported besides those by which they are
// judged.
func otherMetrics(v tune.View, trials []*tune.Trial) []string {
	known := judged(v)
	seen := make(map[string]bool)
	for _, t := range trials {
		if n := len(t.Reports); n > 0 {
			for _, m := range t.Reports[n-1].Metrics {
				seen[m.Name] = !slices.Contains(known, m.Name)
			}
		}
	}
	var names []string
	for name, other := range seen {
		if other {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxMetrics)]
}

// newest is a metric of the newest report that has it, or nil.
func newest(t *tune.Trial, name string) any {
	for _, r := range slices.Backward(t.Reports) {
		if x, ok := r.Metrics.Get(name); ok {
			return number(x)
		}
	}
	return nil
}

// countText is "3 running, 9 completed".
func countText(counts map[tune.State]int) string {
	var parts []string
	for _, s := range states {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	return strings.Join(parts, ", ")
}
