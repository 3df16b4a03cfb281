package telemetry

import (
	"math"
	"slices"
	"time"
)

// A Tally is what a job has counted until some time. All but Shards only grow.
type Tally struct {
	At      time.Duration // of a clock that does not go back
	Rounds  float64       // closed on all servers
	Shards  float64       // that workers use, on all servers together
	Workers []WorkerTally // the members, by node
}

// A WorkerTally is what was counted of one worker: by the servers, and by itself in its steps. NaN: nothing yet.
type WorkerTally struct {
	Node                                                      uint64
	BlamedRounds, BlamedSeconds                               float64
	Steps, StepSeconds, WaitSeconds, DataSeconds, SaveSeconds float64
}

// A Slow is a worker that the others wait for.
type Slow struct {
	Node        uint64
	Share       float64 // of the rounds that are charged to someone, those in which its contribution came last
	Rounds      float64 // of a shard, on average over the shards
	Gap         float64 // seconds, the mean time that it came after the last but one, or for which the others waited if that is less
	Steps       float64 // of the job; without reports of steps, the rounds
	Seconds     float64 // the time of all this
	StepSeconds float64 // mean time of a step
	Cause       string  // CauseCompute, CauseData, CauseNetwork; empty: not known
	Ratio       float64 // its time in Cause over that of the others, their median; 0: not known
}

// The causes for which a worker is slow.
const (
	CauseCompute = "compute" // its own work in a step takes longer than the others'
	CauseData    = "data"    // it waits longer for its next batch
	CauseNetwork = "network" // neither, so what it sends takes longer
)

// The rule. A worker is slow if its contribution comes last more often than those of equal workers would by chance, and if the others wait noticeably long
// for it. Steps of equal workers vary, too, and single ones take very long: a checkpoint, an evaluation, a first batch. So the fewer steps there are
// to judge by, the more often a worker must be last, which one long step does not change, and the longer the others must wait, which chance does not
// make of small differences. What a worker spends on checkpoints is not counted. Nor is more than the others say that they wait: a worker that
// computes between its push and its next use of the value may be late by that without being waited for.
const (
	leastSteps = 10               // to judge by
	mostSteps  = 1e6              // more make the judgement no surer
	longWindow = 30 * time.Second // if it has as many steps

	leastShare      = .5   // of the rounds in which a slow worker is last; and over twice its part, 1/workers
	leastShareOfTwo = .75  // where there are two workers
	leastGap        = .05  // of the time between rounds
	chance          = .004 // at most, that some one of equal workers is last so often
)

// FindSlow says which worker the others wait for, from the counts at two times; none: no one in particular. At most one worker can be last in most of
// the rounds, so of two that are equally slow none is named. In asynchronous mode no one waits for another's contribution, and none is named.
func FindSlow(from, to *Tally) (s Slow, ok bool) {
	rounds, workers := to.Rounds-from.Rounds, float64(len(to.Workers))
	s.Seconds = (to.At - from.At).Seconds()
	if !(rounds > 0) || !(to.Shards > 0) || workers < 2 || s.Seconds <= 0 {
		return Slow{}, false
	}
	s.Rounds = rounds / to.Shards
	grown := growth(from, to)
	s.Steps, s.StepSeconds = stepsOf(grown)
	between := s.StepSeconds * max(1, s.Steps/s.Rounds) // time between rounds: several steps with local ones
	if s.Steps == 0 {
		s.Steps, between = s.Rounds, s.Seconds/s.Rounds
		s.StepSeconds = between
	}
	n := min(s.Rounds, s.Steps, mostSteps)
	if !(n >= leastSteps-.01) {
		return Slow{}, false
	}
	least := max(leastShare, 2/workers)
	if workers == 2 {
		least = leastShareOfTwo
	}
	charged, all := 0.0, 0.0 // seconds, rounds
	for i := range grown {
		if w := &grown[i]; w.SaveSeconds > 0 { // a save makes its worker late in all shards
			w.BlamedSeconds = max(0, w.BlamedSeconds-w.SaveSeconds*to.Shards)
		}
		charged += grown[i].BlamedSeconds
		all += grown[i].BlamedRounds
	}
	if all < n/2 { // in most steps the others' contributions came almost together with the last one; servers' records are not of the very same time
		return Slow{}, false
	}
	for i := range grown {
		w := &grown[i]
		s.Node, s.Share, s.Gap = w.Node, w.BlamedRounds/all, w.BlamedSeconds/w.BlamedRounds
		if !(s.Share > least) { // of all workers at most one passes
			continue
		}
		if wait, ok := othersWait(grown, i); ok {
			s.Gap = min(s.Gap, wait*max(1, s.Steps/s.Rounds))
		}
		cost := (s.Gap*w.BlamedRounds - (charged-w.BlamedSeconds)/(workers-1)) / all // of each round, more than another worker's
		if s.plausible() && s.Gap > leastGap*between && cost > between/(workers*math.Sqrt(n)) && workers*atLeast(s.Share*n, n, 1/workers) <= chance {
			s.Cause, s.Ratio = causeOf(grown, i, s.Gap*s.Share*n/s.Steps)
			return s, true
		}
	}
	return Slow{}, false
}

// plausible reports whether no number is beyond what a job can count: a broken process may report anything.
func (s *Slow) plausible() bool {
	return max(s.Rounds, s.Gap, s.Steps, s.Seconds, s.StepSeconds) <= math.MaxInt32
}

// growth is what was counted between two times of the workers that are in both. A count that went back is not known.
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
		if d.BlamedRounds >= 0 && d.BlamedSeconds >= 0 {
			list = append(list, d)
		}
	}
	return list
}

// stepsOf is how many steps the job made, the median of the workers, and how long one took; 0: no worker has reported any.
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

// othersWait is for how long the workers other than i wait for the store in a step, their median. Where all say 0 it is not known.
func othersWait(grown []WorkerTally, i int) (seconds float64, ok bool) {
	var waits []float64
	for k, w := range grown {
		ok = ok || w.WaitSeconds > 0
		if k != i && w.Steps > 0 && w.WaitSeconds >= 0 {
			waits = append(waits, w.WaitSeconds/w.Steps)
		}
	}
	if !ok || len(waits) == 0 {
		return 0, false
	}
	return median(waits), true
}

// causeOf says which part of the steps of worker i is longer than the others', so that it explains at least half of the time by which it is late.
func causeOf(grown []WorkerTally, i int, late float64) (cause string, ratio float64) {
	parts := [...]struct {
		cause string
		of    func(w *WorkerTally) float64
	}{
		{CauseCompute, func(w *WorkerTally) float64 {
			return (w.StepSeconds - w.WaitSeconds - orZero(w.DataSeconds) - orZero(w.SaveSeconds)) / w.Steps
		}},
		{CauseData, func(w *WorkerTally) float64 { return orZero(w.DataSeconds) / w.Steps }},
	}
	best := late / 2
	cause = CauseNetwork
	if _, ok := othersWait(grown, i); !ok {
		return "", 0
	}
	for _, p := range parts {
		var others []float64
		for k := range grown {
			if v := p.of(&grown[k]); k != i && !math.IsNaN(v) && !math.IsInf(v, 0) {
				others = append(others, v)
			}
		}
		mine := p.of(&grown[i])
		if math.IsNaN(mine) || math.IsInf(mine, 0) || len(others) == 0 {
			return "", 0
		}
		theirs := median(others)
		if mine-theirs >= best {
			best, cause, ratio = mine-theirs, p.cause, 0
			if theirs > 0 {
				ratio = mine / theirs
			}
		}
	}
	return cause, ratio
}

// orZero is x, or 0 where it is not known: a training loop that has no such time reports none.
func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// atLeast is the probability of at least k of n events of probability p each.
func atLeast(k, n, p float64) float64 {
	k, n = math.Floor(k+.01), math.Floor(n+.01)
	sum, logOdds := 0.0, math.Log(p)-math.Log1p(-p)
	lg := func(x float64) float64 { y, _ := math.Lgamma(x + 1); return y }
	for ; k <= n; k++ {
		term := math.Exp(lg(n) - lg(k) - lg(n-k) + k*logOdds + n*math.Log1p(-p))
		if sum += term; term < sum*1e-6 {
			break
		}
	}
	return sum
}

// median sorts x.
func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
