package telemetry

import (
	"slices"
	"time"
)

// A SlowWatch keeps the tallies of the recent past and says which worker is slow now. Its zero
// value is ready to use. It is not for use by several goroutines.
type SlowWatch struct {
	// tallies are at least one step and tallyEvery apart, except for the newest one.
	tallies []Tally
}

const (
	// tallyEvery is less than the second or so between heartbeats.
	tallyEvery = 800 * time.Millisecond

	// maxTallies is more than longWindow and leastSteps need.
	maxTallies = 64
)

// Add adds a tally. Its Workers become the watch's. One that is older than the newest, or has
// counted fewer rounds, begins the watch anew: the scheduler's knowledge has.
func (w *SlowWatch) Add(t Tally) {
	n := len(w.tallies)
	if n > 0 && (t.At < w.tallies[n-1].At || t.Rounds < w.tallies[n-1].Rounds) {
		w.tallies, n = nil, 0
	}
	if n > 1 && !apart(&w.tallies[n-2], &w.tallies[n-1]) {
		w.tallies[n-1] = t
	} else {
		w.tallies = append(w.tallies, t)
	}
	drop := max(0, len(w.tallies)-maxTallies)
	for drop+1 < len(w.tallies) && w.tallies[drop+1].At <= t.At-longWindow && steps(&w.tallies[drop+1], &t) >= leastSteps+3 {
		drop++
	}
	w.tallies = slices.Delete(w.tallies, 0, drop)
}

// apart reports whether two tallies are so far apart that both are kept.
func apart(a, b *Tally) bool { return b.At-a.At >= tallyEvery && steps(a, b) >= 1 }

// steps is how many rounds of each shard were made between two tallies.
func steps(a, b *Tally) float64 {
	if !(b.Shards > 0) {
		return 0
	}
	return (b.Rounds - a.Rounds) / b.Shards
}

// Slow is the worker that the others wait for; ok is false if there is no one in particular. A
// worker that has become slow is named within ten steps, by these alone. One that goes on is
// described by the last half minute, as long as the last ten steps name it, too.
func (w *SlowWatch) Slow() (s Slow, ok bool) {
	n := len(w.tallies) - 1
	short := n - leastParts
	for short >= 0 && !enough(&w.tallies[short], &w.tallies[n]) {
		short--
	}
	if short < 0 {
		return Slow{}, false
	}
	newest := &w.tallies[n]
	long := slices.IndexFunc(w.tallies, func(t Tally) bool { return t.At >= newest.At-longWindow })
	if long < short {
		if s, ok = FindSlow(w.tallies[long:]); ok && s.goesOn(w.tallies[short:]) {
			return s, true
		}
	}

	// What was told of a step may be in two tallies.
	for ; short >= 0; short-- {
		if s, ok = FindSlow(w.tallies[short:]); ok || steps(&w.tallies[short], newest) > leastSteps+windowSlack {
			return s, ok
		}
	}
	return Slow{}, false
}

// enough reports whether the job made leastSteps between two tallies, as the servers say and as the
// workers say: their records are not of the very same time.
func enough(a, b *Tally) bool {
	if steps(a, b) < leastSteps {
		return false
	}
	made, _ := stepsOf(growth(a, b))
	return made == 0 || made >= leastSteps
}

const (
	// leastParts is the number of parts of the time by which a worker is judged.
	leastParts = 3

	// windowSlack is the number of steps by which the shortest windows differ.
	windowSlack = 2
)

// goesOn reports whether a worker that was slow in the last half minute still is in the last steps.
func (s *Slow) goesOn(tallies []Tally) bool {
	_, late := lateness(tallies, s.Node, 1)
	return late.mean() > s.Gap*s.Share/2
}
