package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// points are what the scheduler kept of the workers.
type points struct {
	from    time.Time
	every   time.Duration
	workers []workerPoints
}

// workerPoints are a worker's counters at each point: steps, and seconds in them. NaN: no record came.
type workerPoints struct{ steps, seconds []float64 }

// within are the mean steps of each worker between two points that are next to each other, in seconds. A point has what a worker said up to a heartbeat
// before, so those of the first second are left out: the steps before it are not of the window.
func (p *points) within(from, to time.Time) (steps []float64) {
	for i := 1; ; i++ {
		begin := p.from.Add(time.Duration(i-1) * p.every)
		end := begin.Add(p.every)
		if end.After(to) {
			return steps
		}
		if begin.Before(from.Add(p.every)) {
			continue
		}
		some := false
		for _, w := range p.workers {
			if i >= len(w.steps) {
				continue
			}
			some = true
			if n := w.steps[i] - w.steps[i-1]; n > 0 { // neither NaN nor a point without a record between
				steps = append(steps, (w.seconds[i]-w.seconds[i-1])/n)
			}
		}
		if !some {
			return steps
		}
	}
}

// median of a list that is not empty; it is sorted on return.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// stepsOf are the steps of one kind of window in one cycle, or in all (-1).
func stepsOf(windows []window, kind string, cycle int) (steps []float64) {
	for i := range windows {
		if w := &windows[i]; w.kind == kind && (cycle < 0 || w.cycle == cycle) {
			steps = append(steps, w.steps...)
		}
	}
	return steps
}

// A ratio is an estimate, and the interval that has the true one in 95 of 100 runs.
type ratio struct{ value, low, high float64 }

// ratioOf is the median step in windows of a kind, divided by the median step in the baseline windows of the same cycle: the median over the
// cycles, so that a machine that gets slower does not matter. The interval is that of a bootstrap, which draws cycles with replacement.
func ratioOf(windows []window, kind string, cycles int) (ratio, error) {
	var each []float64
	for c := range cycles {
		with, without := stepsOf(windows, kind, c), stepsOf(windows, nobody, c)
		if len(with) > 0 && len(without) > 0 {
			each = append(each, median(with)/median(without))
		}
	}
	if len(each) == 0 {
		return ratio{}, fmt.Errorf("no worker reported a step while %s: want longer windows", kind)
	}
	random, drawn := rand.New(rand.NewPCG(1, 1)), make([]float64, draws)
	again := make([]float64, len(each))
	for i := range drawn {
		for k := range again {
			again[k] = each[random.IntN(len(each))]
		}
		drawn[i] = median(again)
	}
	slices.Sort(drawn)
	return ratio{median(each), drawn[len(drawn)*25/1000], drawn[len(drawn)*975/1000]}, nil
}

const draws = 2000

// writeTable writes what each kind of window costs.
func writeTable(w io.Writer, windows []window) error {
	cycles := 0
	for i := range windows {
		cycles = max(cycles, windows[i].cycle+1)
	}
	table := metrics.Table{Columns: []string{"window", "median step", "ratio", "95 %", "seconds of steps"}}
	for _, name := range append([]string{nobody}, names()...) {
		r, err := ratioOf(windows, name, cycles)
		if err != nil {
			return err
		}
		steps := stepsOf(windows, name, -1)
		between := fmt.Sprintf("%.4f to %.4f", r.low, r.high)
		if name == nobody {
			between = ""
		}
		table.Row(name, time.Duration(median(steps)*1e9).Round(10*time.Microsecond), fmt.Sprintf("%.4f", r.value), between, len(steps))
	}
	_, err := table.WriteTo(w)
	return err
}

func names() (list []string) {
	for _, k := range kinds {
		list = append(list, k.name)
	}
	return list
}
