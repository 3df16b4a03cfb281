package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A regret is what one search reached.
type regret struct {
	Suggester string  `json:"suggester"`
	Function  string  `json:"function"`
	Trials    int     `json:"trials"`
	Parallel  int     `json:"parallel"`
	Seed      int     `json:"seed"`
	Regret    float64 `json:"regret"`
	Seconds   float64 `json:"seconds"`
}

func saveRegrets(file string, all []regret) error {
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("tune: regrets: %w", err)
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

// loadRegrets reads what searches reached after these numbers of trials from files; random search
// is made anew.
func loadRegrets(files []string, at []int) ([]regret, error) {
	var all []regret
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var some []regret
		if err := json.Unmarshal(b, &some); err != nil {
			return nil, fmt.Errorf("tune: %s: %w", file, err)
		}
		for _, r := range some {
			if r.Suggester != "random" && slices.Contains(at, r.Trials) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// A row is a suggester with a number of trials at once.
type row struct {
	suggester string
	parallel  int
}

// cells are the regrets of each row and function.
type cells map[row]map[string][]float64

// gather sorts regrets by rows, in the order in which rows come first. seconds is the mean time of
// a trial of each row.
func gather(all []regret) (rows []row, c cells, seconds map[row]float64) {
	c, seconds = make(cells), make(map[row]float64)
	trials := make(map[row]int)
	for _, r := range all {
		at := row{r.Suggester, r.Parallel}
		if c[at] == nil {
			rows = append(rows, at)
			c[at] = make(map[string][]float64)
		}
		c[at][r.Function] = append(c[at][r.Function], r.Regret)
		seconds[at] += r.Seconds
		trials[at] += r.Trials
	}
	for at, n := range trials {
		seconds[at] /= float64(n)
	}
	return rows, c, seconds
}

// leastPart is the part of random search's median below which a regret is not told apart.
const leastPart = 1e-2

// part is the geometric mean over functions of the quantile q of the regrets, as parts of random
// search's median. NaN: a function is missing.
func (c cells) part(at row, problems []suggesttest.Problem, kind string, q float64) float64 {
	sum, n := 0.0, 0
	for _, p := range problems {
		if kind != "" && p.Kind != kind {
			continue
		}
		base := suggesttest.Quantile(c[row{"random", 1}][p.Name], 0.5)
		sum += math.Log(max(suggesttest.Quantile(c[at][p.Name], q)/base, leastPart))
		n++
	}
	return math.Exp(sum / float64(n))
}

// writeTables writes the regrets of each function, and then a summary by kinds as parts of random
// search's.
func writeTables(w io.Writer, s settings, trials int, all []regret, note string) error {
	rows, c, seconds := gather(all)
	each := metrics.Table{
		Title:   fmt.Sprintf("Simple regret after %d trials, median [quartiles] of the searches", trials),
		Columns: []string{"function", "kind"},
	}
	for _, at := range rows {
		each.Columns = append(each.Columns, fmt.Sprintf("%s, %d", at.suggester, at.parallel))
	}
	kinds := []string{}
	for _, kind := range suggesttest.Kinds() {
		if slices.ContainsFunc(s.problems, func(p suggesttest.Problem) bool { return p.Kind == kind }) {
			kinds = append(kinds, kind)
		}
	}
	for _, p := range s.problems {
		line := []any{p.Name, p.Kind}
		for _, at := range rows {
			r := c[at][p.Name]
			line = append(line, fmt.Sprintf("%.4f [%.4f %.4f]", suggesttest.Quantile(r, 0.5), suggesttest.Quantile(r, 0.25), suggesttest.Quantile(r, 0.75)))
		}
		each.Row(line...)
	}
	if _, err := each.WriteTo(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	summary := metrics.Table{
		Title:   fmt.Sprintf("Regret after %d trials as a part of random search's, geometric mean over functions", trials),
		Columns: append(append([]string{"suggester", "at once"}, kinds...), "all", "quartiles", "per trial"),
		Note:    note,
	}
	for _, at := range rows {
		line := []any{at.suggester, at.parallel}
		for _, kind := range kinds {
			line = append(line, fmt.Sprintf("%.3f", c.part(at, s.problems, kind, 0.5)))
		}
		low, high := c.part(at, s.problems, "", 0.25), c.part(at, s.problems, "", 0.75)
		line = append(line, fmt.Sprintf("%.3f", c.part(at, s.problems, "", 0.5)), fmt.Sprintf("%.3f %.3f", low, high),
			time.Duration(seconds[at]*float64(time.Second)).Round(time.Microsecond).String())
		summary.Row(line...)
	}
	_, err := summary.WriteTo(w)
	return err
}
