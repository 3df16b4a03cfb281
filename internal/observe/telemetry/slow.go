package telemetry

import (
	"math"
	"time"
)

// A Slow is a worker that the others wait for.
type Slow struct {
	Node uint64

	// Share is the part of the rounds that are charged to someone in which its contribution came
	// last.
	Share float64

	// Rounds is how many rounds a shard had, on average over the shards.
	Rounds float64

	// Gap is the mean time in seconds that it came after the last but one, or for which the others
	// waited if that is less.
	Gap float64

	// Steps is how many steps the job made or, if no worker reports steps, how many rounds.
	Steps float64

	// Seconds is the time in which all this was measured.
	Seconds float64

	// StepSeconds is the mean time of a step.
	StepSeconds float64

	// Cause is CauseCompute, CauseData or CauseNetwork; empty: it is not known.
	Cause string

	// Ratio is its time in Cause over the median of the others'; 0: it is not known.
	Ratio float64
}

// The causes for which a worker is slow.
const (
	// CauseCompute says that the worker's own work in a step takes longer than the others'.
	CauseCompute = "compute"

	// CauseData says that the worker waits longer for its next batch.
	CauseData = "data"

	// CauseNetwork says that neither is so, and what the worker sends takes longer.
	CauseNetwork = "network"
)

// The rule. A worker is slow if its contribution comes last more often than those of equal workers
// would by chance, if the others wait noticeably long for it, and if it is late in one step as in
// another. Steps of equal workers vary, too, and single ones take very long: a checkpoint, an
// evaluation, a first batch. So the fewer steps there are to judge by, the more often a worker must
// be last, which one long step does not change, and the longer the others must wait, which chance
// does not make of small differences. A worker whose steps merely vary more than those of the
// others is last often, but as often it is early: its lateness is no larger than chance makes of
// its variance. What a worker spends on checkpoints is not counted. Nor is more than the others say
// that they wait: a worker that computes between its push and its next use of the value may be late
// by that without being waited for.
const (
	// leastSteps is the number of steps to judge by.
	leastSteps = 8

	// mostSteps bounds the steps that a judgement counts: more make it no surer.
	mostSteps = 1e6

	// longWindow is taken if it has as many steps.
	longWindow = 30 * time.Second

	// leastShare is the part of the rounds in which a slow worker is last. It has to be over twice
	// its own part, 1/workers, too.
	leastShare = .5

	// leastShareOfTwo is the least share where there are two workers.
	leastShareOfTwo = .75

	// leastShareUnknown is the least share where the worker's own steps do not explain it.
	leastShareUnknown = .75

	// leastGap is a part of the time between rounds.
	leastGap = .05

	// leastCost is a part of the time between rounds over workers·√steps. A worker is slow only if
	// it costs the others more than that.
	leastCost = .8

	// chance is how likely it may be at most that some one of equal workers is last so often.
	chance = .05
)

// FindSlow says which worker the others wait for, from the counts at three times or more; none: no
// one in particular. At most one worker can be last in most of the rounds, so of two that are
// equally slow none is named. In asynchronous mode no one waits for another's contribution, and
// none is named.
func FindSlow(tallies []Tally) (s Slow, ok bool) {
	if len(tallies) < 3 {
		return Slow{}, false
	}
	from, to := &tallies[0], &tallies[len(tallies)-1]
	rounds, workers := to.Rounds-from.Rounds, float64(len(to.Workers))
	s.Seconds = (to.At - from.At).Seconds()
	if !(rounds > 0) || !(to.Shards > 0) || workers < 2 || s.Seconds <= 0 {
		return Slow{}, false
	}
	s.Rounds = rounds / to.Shards
	grown := growth(from, to)
	s.Steps, s.StepSeconds = stepsOf(grown)

	// A round has several steps where workers make local ones.
	perRound := max(1, s.Steps/s.Rounds)
	between := s.StepSeconds * perRound // time between rounds
	if s.Steps == 0 {
		s.Steps, between = s.Rounds, s.Seconds/s.Rounds
		s.StepSeconds = between
	}
	n := min(s.Rounds, s.Steps, mostSteps)
	if !(n >= leastSteps-.01) {
		return Slow{}, false
	}
	charged, all := charges(grown)

	// In most steps the others' contributions came almost together with the last one. Servers'
	// records are not of the very same time.
	if all < n/2 {
		return Slow{}, false
	}
	i := lastMostOften(grown)
	w := &grown[i]
	s.Node, s.Share, s.Gap = w.Node, w.BlamedRounds/all, w.BlamedSeconds/w.BlamedRounds
	wait, waits := othersWait(to, grown, i)
	if waits {
		s.Gap = min(s.Gap, wait*perRound)
	}
	least := max(leastShare, 2/workers)
	if workers == 2 {
		least = leastShareOfTwo
	}

	// cost is what the worker costs in each round more than another one.
	cost := (s.Gap*w.BlamedRounds - (charged-w.BlamedSeconds)/(workers-1)) / all
	if !(s.Share > least) || !s.plausible() || !(s.Gap > leastGap*between) || !(cost > leastCost*between/(workers*math.Sqrt(n))) || workers*atLeast(s.Share*n, n, 1/workers) > chance {
		return Slow{}, false
	}
	own, late := lateness(tallies, s.Node, perRound)
	if !own.isSteady() && !(s.Share > leastShareUnknown && late.isSteady() && own.mean() < late.mean()/2) {
		return Slow{}, false
	}
	if waits {
		s.Cause, s.Ratio = causeOf(grown, i, s.Gap*s.Share*n/s.Steps)
	}
	return s, true
}

// charges are what all workers are charged with together: the seconds, and the rounds.
func charges(grown []WorkerTally) (seconds, rounds float64) {
	for i := range grown {
		seconds += grown[i].BlamedSeconds
		rounds += grown[i].BlamedRounds
	}
	return seconds, rounds
}

// lastMostOften is the worker that was charged with most rounds.
func lastMostOften(grown []WorkerTally) (most int) {
	for i := range grown {
		if grown[i].BlamedRounds > grown[most].BlamedRounds {
			most = i
		}
	}
	return most
}

// plausible reports whether no number is beyond what a job can count: a broken process may report
// anything.
func (s *Slow) plausible() bool {
	return max(s.Rounds, s.Gap, s.Steps, s.Seconds, s.StepSeconds) <= math.MaxInt32
}

// causeOf says which part of the steps of worker i is longer than the others', so that it explains
// at least half of the time by which it is late.
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
