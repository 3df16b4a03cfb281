package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A costCell names one search.
type costCell struct {
	arm      string
	parallel int
	problem  int
	seed     int
}

// A costResult is what one search came to: the regrets at costParts of the time, and the trials that
// ended.
type costResult struct {
	regrets []float64
	trials  int
}

// runCosts makes the searches and prints the tables.
func runCosts(args []string, w io.Writer) error {
	s, err := parseCosts(args, w)
	if err != nil {
		return err
	}
	results, err := s.search()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Regret as a part of random's median at the whole time: geometric means over %d functions of the quartiles over %d seeds.\n%s; bench/tune %s\n\n",
		len(s.problems), s.seeds, machine(), strings.Join(args, " "))
	for _, kind := range append([]string{""}, pricings...) {
		s.writeTable(w, kind, results)
	}
	return nil
}

// search makes all searches, several at a time.
func (s *costSettings) search() (map[costCell]costResult, error) {
	cells := s.cells()
	results, errs := make([]costResult, len(cells)), make([]error, len(cells))
	slots := make(chan struct{}, s.workers)
	var all sync.WaitGroup
	for i, c := range cells {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			arm := s.arms[slices.IndexFunc(s.arms, func(a contestant) bool { return a.name == c.arm })]
			r := &results[i]
			r.regrets, r.trials, errs[i] = runCostSearch(s.problems[c.problem], arm.make(), c.parallel, *s, uint64(c.seed))
		})
	}
	all.Wait()
	of := map[costCell]costResult{}
	for i, c := range cells {
		of[c] = results[i]
	}
	return of, errors.Join(errs...)
}

// cells are all searches, the numbers at once outermost.
func (s *costSettings) cells() (list []costCell) {
	for _, parallel := range s.parallel {
		for _, arm := range s.arms {
			for i := range s.problems {
				for seed := range s.seeds {
					list = append(list, costCell{arm.name, parallel, i, s.firstSeed + seed})
				}
			}
		}
	}
	return list
}

// writeTable writes a table of the problems of one kind; "": of all.
func (s *costSettings) writeTable(w io.Writer, kind string, results map[costCell]costResult) {
	fmt.Fprintf(w, "| %s | at once | trials |", cmp.Or(kind, "all"))
	for _, part := range costParts {
		fmt.Fprintf(w, " %s of the time | quartiles |", percent(part))
	}
	fmt.Fprintf(w, "\n| --- | --- | --- |%s\n", strings.Repeat(" --- | --- |", len(costParts)))
	for _, parallel := range s.parallel {
		for _, arm := range s.arms {
			s.writeRow(w, kind, costCell{arm: arm.name, parallel: parallel}, results)
		}
	}
	fmt.Fprintln(w)
}

// writeRow writes the row of a suggester: the mean number of trials, and for each part of the time
// the geometric means of the quartiles.
func (s *costSettings) writeRow(w io.Writer, kind string, row costCell, results map[costCell]costResult) {
	trials, n := 0, 0

	// The quartiles are sums of logarithms.
	quartiles := make([][3]float64, len(costParts))
	for i, p := range s.problems {
		if kind != "" && p.kind != kind {
			continue
		}
		n++
		row.problem = i
		values, base, ended := s.regretsOf(row, results)
		trials += ended
		for k := range costParts {
			for j, q := range []float64{0.25, 0.5, 0.75} {
				quartiles[k][j] += math.Log(max(suggesttest.Quantile(values[k], q)/suggesttest.Median(base), 0.01))
			}
		}
	}
	fmt.Fprintf(w, "| %s | %d | %.0f |", row.arm, row.parallel, float64(trials)/float64(n*s.seeds))
	for k := range costParts {
		part := func(j int) float64 { return math.Exp(quartiles[k][j] / float64(n)) }
		fmt.Fprintf(w, " %.3f | %.3f, %.3f |", part(1), part(0), part(2))
	}
	fmt.Fprintln(w)
}

// regretsOf are the regrets of a row on one problem, by parts of the time and by seeds; base are
// those of the first suggester at the whole time, and trials is the number of trials that ended.
func (s *costSettings) regretsOf(row costCell, results map[costCell]costResult) (values [][]float64, base []float64, trials int) {
	values = make([][]float64, len(costParts))
	for seed := range s.seeds {
		row.seed = s.firstSeed + seed
		trials += results[row].trials
		for k, r := range results[row].regrets {
			values[k] = append(values[k], worstOf(r))
		}
		first := row
		first.arm = s.arms[0].name
		base = append(base, worstOf(results[first].regrets[len(costParts)-1]))
	}
	return values, base, trials
}

// worstOf replaces the regret of a search in which no trial has ended yet.
func worstOf(r float64) float64 {
	if math.IsNaN(r) {
		return 1e6
	}
	return r
}
