package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The bars, in points of accuracy.
const (
	// leastMean is what the lower bound of the mean difference must be at least.
	leastMean = -1
	// leastSeed is the least difference of a seed in points, once twice the spread of fixed
	// runs is added to it.
	leastSeed = -3
)

// A row is a cell's figures, in points.
type row struct {
	seeds int
	// fixed and spread are the mean and the standard deviation of the fixed runs over the
	// seeds, in points.
	fixed, spread float64

	// mean and lower are of the differences, adaptive minus fixed; lower is the 95 % bound by
	// Student's distribution.
	mean, lower float64

	// worst is the smallest difference.
	worst float64

	// batch is the mean batch of the adaptive runs' steps, and largest their largest one.
	batch   float64
	largest int
}

// pass reports whether the cell holds both bars.
func (r row) pass() bool { return r.lower >= leastMean && r.worst >= leastSeed-2*r.spread }

// rowOf has the figures of the seeds of which both runs are there.
func rowOf(have map[runConfig]result, c cell, first, seeds int) row {
	var fixed, differences, batches []float64
	r := row{worst: math.Inf(1)}
	for seed := first; seed < first+seeds; seed++ {
		f, ok := have[runConfig{c, uint64(seed), false}]
		a, both := have[runConfig{c, uint64(seed), true}]
		if !ok || !both {
			continue
		}
		fixed, differences, batches = append(fixed, 100*f.Accuracy), append(differences, 100*(a.Accuracy-f.Accuracy)), append(batches, a.Batch)
		r.worst, r.largest = min(r.worst, differences[len(differences)-1]), max(r.largest, a.Largest)
	}
	if r.seeds = len(fixed); r.seeds < 2 {
		return r
	}
	r.fixed, r.spread = stat.MeanStdDev(fixed, nil)
	mean, deviation := stat.MeanStdDev(differences, nil)
	n := float64(r.seeds)
	student := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.95)
	r.mean, r.lower, r.batch = mean, mean-student*deviation/math.Sqrt(n), stat.Mean(batches, nil)
	return r
}

// write writes the table of all cells with at least two seeds.
func write(out io.Writer, have map[runConfig]result, first, seeds int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "model\toptimizer\tworkers\tseeds\tfixed\tspread\tmean difference\tlower bound\tworst seed\tmean batch\tlargest\t")
	for _, c := range cells() {
		r := rowOf(have, c, first, seeds)
		if r.seeds < 2 {
			continue
		}
		verdict := "pass"
		if !r.pass() {
			verdict = "FAIL"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%.2f %%\t%.2f\t%+.2f\t%+.2f\t%+.2f\t%.0f\t%d\t%s\n",
			c.Model, c.Optimizer, c.Workers, r.seeds, r.fixed, r.spread, r.mean, r.lower, r.worst, r.batch, r.largest, verdict)
	}
	return table.Flush()
}
