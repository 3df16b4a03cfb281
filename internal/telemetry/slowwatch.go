package telemetry

import (
	"slices"
	"time"
)

// A SlowWatch keeps the tallies of the recent past and says which worker is slow now. Its zero value is ready to use. It is not for use by several
// goroutines.
type SlowWatch struct {
	tallies []Tally // one step and tallyEvery apart, but the newest may be closer
}

const (
	tallyEvery = 800 * time.Millisecond // heartbeats come once a second, more or less
	maxTallies = 64                     // more than longWindow and leastSteps need
)

// Add adds a tally. Its Workers become the watch's. One that is older than the newest, or has counted fewer rounds, begins the watch anew: the scheduler's
// knowledge has.
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
	for drop+1 < len(w.tallies) && w.tallies[drop+1].At <= t.At-longWindow && steps(&w.tallies[drop+1], &t) >= leastSteps+1 {
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

// Slow is the worker that the others wait for; ok is false if there is no one in particular. A worker that has become slow is named after ten steps, by
// these alone. One that goes on is described by the last half minute, as long as it is last in most of the last ten steps, too.
func (w *SlowWatch) Slow() (s Slow, ok bool) {
	n := len(w.tallies) - 1
	short := n - 1
	for ; short >= 0; short-- {
		if steps(&w.tallies[short], &w.tallies[n]) >= leastSteps {
			break
		}
	}
	if short < 0 {
		return Slow{}, false
	}
	newest := &w.tallies[n]
	long := slices.IndexFunc(w.tallies, func(t Tally) bool { return t.At >= newest.At-longWindow })
	if long = min(long, short); long < short {
		if s, ok = FindSlow(&w.tallies[long], newest); ok && lastShare(&w.tallies[short], newest, s.Node) > leastShare {
			return s, true
		}
	}
	return FindSlow(&w.tallies[short], newest)
}

// lastShare is the share of the rounds between two tallies in which a worker was last.
func lastShare(from, to *Tally, node uint64) float64 {
	for _, w := range growth(from, to) {
		if w.Node == node {
			return w.BlamedRounds / (to.Rounds - from.Rounds)
		}
	}
	return 0
}
