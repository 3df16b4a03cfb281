package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/curvetest"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// partOf is the regret of a result at a part of the budget; false: it does not have that part.
func (r *curveResult) partOf(part float64) (float64, bool) {
	i := slices.Index(r.Parts, part)
	if i < 0 || i >= len(r.Regret) {
		return 0, false
	}
	return r.Regret[i], true
}

// spread is the mean and the quartiles of values.
func spread(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f [%.1f %.1f]", mean(values), suggesttest.Quantile(values, 0.25), suggesttest.Quantile(values, 0.75))
}

// mean is NaN for no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// gatherParts are the regrets of results at a part of the budget, of one kind or, with "", of all.
func gatherParts(results []curveResult, part float64, kind string) []float64 {
	var values []float64
	for i := range results {
		r := &results[i]
		if v, ok := r.partOf(part); ok && (kind == "" || r.Kind == kind) {
			values = append(values, v)
		}
	}
	return values
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// writeCurveTables writes the regret over all problems at all parts of the budget with the times of
// decisions, and then, for each part, that of each kind.
func writeCurveTables(w io.Writer, all []curveResult, parts []float64, note string) error {
	rows, of := curveRows(all)
	if err := writeRegrets(w, rows, of, parts, note); err != nil {
		return err
	}
	for _, part := range parts {
		fmt.Fprintln(w)
		if err := writeKinds(w, rows, of, part); err != nil {
			return err
		}
	}
	return nil
}

// writeRegrets writes the regret over all problems, with the times of decisions.
func writeRegrets(w io.Writer, rows []curveRow, of map[curveRow][]curveResult, parts []float64, note string) error {
	table := metrics.Table{
		Title:   "Regret in points of accuracy, mean [quartiles] over problems and seeds, at parts of the budget; times in ms",
		Columns: []string{"workers", "rule", "suggester"},
		Note:    note,
	}
	for _, part := range parts {
		table.Columns = append(table.Columns, percent(part))
	}
	table.Columns = append(table.Columns, "searches", "trials", "full", "proposal", "p99", "verdict", "p99 ")
	for _, row := range rows {
		line := []any{row.workers, row.rule, row.suggester}
		for _, part := range parts {
			line = append(line, spread(gatherParts(of[row], part, "")))
		}
		average := func(f func(r *curveResult) float64) float64 {
			sum := 0.0
			for i := range of[row] {
				sum += f(&of[row][i])
			}
			return sum / float64(len(of[row]))
		}
		line = append(line, len(of[row]),
			fmt.Sprintf("%.0f", average(func(r *curveResult) float64 { return float64(r.Trials) })),
			fmt.Sprintf("%.0f", average(func(r *curveResult) float64 { return float64(r.Full) })),
			fmt.Sprintf("%.2f", average(func(r *curveResult) float64 { return r.Proposal })),
			fmt.Sprintf("%.2f", average(func(r *curveResult) float64 { return r.ProposalP99 })),
			fmt.Sprintf("%.3f", average(func(r *curveResult) float64 { return r.Verdict })),
			fmt.Sprintf("%.3f", average(func(r *curveResult) float64 { return r.VerdictP99 })))
		table.Row(line...)
	}
	_, err := table.WriteTo(w)
	return err
}

// writeKinds writes the regret of each kind of problems that some result is of, at a part of the
// budget.
func writeKinds(w io.Writer, rows []curveRow, of map[curveRow][]curveResult, part float64) error {
	table := metrics.Table{
		Title:   fmt.Sprintf("Regret by kind at %s of the budget, mean [quartiles]", percent(part)),
		Columns: []string{"workers", "rule", "suggester"},
	}
	var kinds []string
	for _, kind := range curvetest.Kinds() {
		if slices.ContainsFunc(rows, func(r curveRow) bool { return len(gatherParts(of[r], part, kind)) > 0 }) {
			kinds = append(kinds, kind)
		}
	}
	table.Columns = append(table.Columns, kinds...)
	for _, row := range rows {
		line := []any{row.workers, row.rule, row.suggester}
		for _, kind := range kinds {
			line = append(line, spread(gatherParts(of[row], part, kind)))
		}
		table.Row(line...)
	}
	_, err := table.WriteTo(w)
	return err
}
