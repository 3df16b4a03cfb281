package telemetry

import (
	"math"
	"slices"
	"time"
)

// A Tally is what a job has counted until some time. All but Shards only grow.
type Tally struct {
	// At is the time by a clock that does not go back.
	At time.Duration

	// Rounds is the number of rounds that are closed on all servers.
	Rounds float64

	// Shards is how many shards workers use, on all servers together.
	Shards float64

	// Workers are the members, in the order of their nodes.
	Workers []WorkerTally
}

// A WorkerTally is what was counted of one worker: by the servers, and by itself in its steps. NaN:
// nothing yet.
type WorkerTally struct {
	Node                                                      uint64
	BlamedRounds, BlamedSeconds                               float64
	Steps, StepSeconds, WaitSeconds, DataSeconds, SaveSeconds float64
}

// growth is what was counted between two times of the workers that are in both, without what
// checkpoints took. A count that went back is not known.
func growth(from, to *Tally) (list []WorkerTally) {
	for _, b := range to.Workers {
		i, ok := slices.BinarySearchFunc(from.Workers, b.Node, func(w WorkerTally, node uint64) int {
			switch {
			case w.Node < node:
				return -1
			case w.Node > node:
				return 1
			}
			return 0
		})
		if !ok {
			continue
		}
		a := from.Workers[i]
		less := func(b, a float64) float64 {
			if d := b - orZero(a); d >= 0 {
				return d
			}
			return math.NaN()
		}
		d := WorkerTally{Node: b.Node, BlamedRounds: less(b.BlamedRounds, a.BlamedRounds), BlamedSeconds: less(b.BlamedSeconds, a.BlamedSeconds), Steps: less(b.Steps, a.Steps),
			StepSeconds: less(b.StepSeconds, a.StepSeconds), WaitSeconds: less(b.WaitSeconds, a.WaitSeconds), DataSeconds: less(b.DataSeconds, a.DataSeconds), SaveSeconds: less(b.SaveSeconds, a.SaveSeconds)}

		// A save makes its worker late in all shards.
		if d.SaveSeconds > 0 {
			d.BlamedSeconds = max(0, d.BlamedSeconds-d.SaveSeconds*to.Shards)
		}
		if d.BlamedRounds >= 0 && d.BlamedSeconds >= 0 {
			list = append(list, d)
		}
	}
	return list
}

// stepsOf is how many steps the job made, the median of the workers, and how long one took; 0: no
// worker has reported any.
func stepsOf(grown []WorkerTally) (steps, each float64) {
	var counts []float64
	total, seconds := 0.0, 0.0
	for _, w := range grown {
		if w.Steps > 0 && w.StepSeconds > 0 {
			counts = append(counts, w.Steps)
			total += w.Steps
			seconds += w.StepSeconds
		}
	}
	if total == 0 {
		return 0, 0
	}
	return median(counts), seconds / total
}

// othersWait is for how long the workers other than i wait for the store in a step, their median.
// Where no one has ever waited it is not known.
func othersWait(to *Tally, grown []WorkerTally, i int) (seconds float64, ok bool) {
	var waits []float64
	for k, w := range grown {
		if k != i && w.Steps > 0 && w.WaitSeconds >= 0 {
			waits = append(waits, w.WaitSeconds/w.Steps)
		}
	}
	if len(waits) == 0 || !slices.ContainsFunc(to.Workers, func(w WorkerTally) bool { return w.WaitSeconds > 0 }) {
		return 0, false
	}
	return median(waits), true
}

// orZero is x, or 0 where it is not known: a training loop that has no such time reports none.
func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// median sorts x.
func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
