package adapt

import (
	"fmt"
	"math"
)

// Of a change of the number of replicas.
const (
	// leastGain is the share of the present goodput that each further replica must add, and
	// that a replica which is given up may have added.
	leastGain = 0.05
	// changeMargin is by how much more a change must pay, as predictions err: so a number that
	// was just left is not wished for again.
	changeMargin = 0.02
	// unknownHorizon and longestHorizon bound the seconds for which a number of replicas is
	// expected to last.
	unknownHorizon = 600
	longestHorizon = 3600
)

// ReplicaChoice is what a job that is alone on its hosts knows when it chooses how many replicas it
// wants.
type ReplicaChoice struct {
	// Present is the number of replicas that it has, and Least and Most what it may have. A
	// Least of 0 is 1.
	Present     int
	Least, Most int
	// Goodput is the best goodput with so many replicas, in examples a second: Goodput.Best on
	// the hosts that they would be on. 0 stands for a number that is not possible.
	Goodput func(replicas int) float64
	// Explored is the most replicas with which steps were measured; 0: Present. More than twice
	// as many are not chosen, since the model's numbers for them are guesses.
	Explored int
	// ChangeSeconds is the training time that a change costs, as it was measured: examples that
	// are not used while replicas come or go, in seconds.
	ChangeSeconds float64
	// Remaining is how many seconds the job will still run; 0: that is not known, and 10
	// minutes are counted on. At most an hour is.
	Remaining float64
}

// Wish is the number of replicas that the job should have, and the reason, for people. A number
// other than Present pays if what it adds to the goodput, as a share of the present one, exceeds 5
// % for each further replica, the cost of the change spread over the time that remains, and 2 % for
// errors of the prediction. With fewer replicas the same sum is made: it pays to give up a replica
// that adds less than 3 %. So a number is left only for one that is better by a margin, in both
// directions.
func (r ReplicaChoice) Wish() (replicas int, reason string, err error) {
	least := max(r.Least, 1)
	switch {
	case r.Goodput == nil:
		return 0, "", fmt.Errorf("adapt: choice of replicas: Goodput is nil")
	case r.Present < 1:
		return 0, "", fmt.Errorf("adapt: choice of replicas: %d replicas are present, want at least 1", r.Present)
	case r.Least < 0 || r.Most < least:
		return 0, "", fmt.Errorf("adapt: choice of replicas: limits %d and %d, want a minimum of at least 1 and a maximum not below it", r.Least, r.Most)
	case !(r.ChangeSeconds >= 0) || math.IsInf(r.ChangeSeconds, 0) || !(r.Remaining >= 0):
		return 0, "", fmt.Errorf("adapt: choice of replicas: a change costs %g s and %g s remain, want numbers from 0", r.ChangeSeconds, r.Remaining)
	}
	if inside := min(max(r.Present, least), r.Most); inside != r.Present {
		return inside, fmt.Sprintf("%d replicas are present, and the limits are %d and %d", r.Present, least, r.Most), nil
	}
	now := r.at(r.Present)
	if now == 0 {
		return r.Present, "the goodput is not known yet", nil
	}
	horizon := min(r.Remaining, longestHorizon)
	if r.Remaining == 0 {
		horizon = unknownHorizon
	}
	cost := r.ChangeSeconds / horizon
	// value is that of a change to n replicas, as a share of the present goodput.
	value := func(n int) float64 {
		return r.at(n)/now - 1 - leastGain*float64(n-r.Present) - cost - changeMargin
	}
	best, most := r.Present, min(r.Most, max(2*max(r.Explored, r.Present), r.Present+1))
	for n := least; n <= most; n++ {
		if n != r.Present && value(n) > 0 && (best == r.Present || value(n) > value(best)) {
			best = n
		}
	}
	if best != r.Present {
		return best, fmt.Sprintf("goodput %.4g instead of %.4g examples/s (%+.0f %%) with %d instead of %d replicas", r.at(best), now, 100*(r.at(best)/now-1), best, r.Present), nil
	}
	if r.Present == r.Most {
		return best, fmt.Sprintf("goodput %.4g examples/s with the maximum number of replicas", now), nil
	}
	if r.at(best+1) == 0 {
		return best, fmt.Sprintf("goodput %.4g examples/s, and none is known with %d replicas", now, best+1), nil
	}
	return best, fmt.Sprintf("with %d replicas the goodput would be %.4g instead of %.4g examples/s (%+.0f %%), not worth a change", best+1, r.at(best+1), now, 100*(r.at(best+1)/now-1)), nil
}

// at is the goodput of so many replicas; 0 where it is no positive number.
func (r ReplicaChoice) at(n int) float64 {
	if g := r.Goodput(n); g > 0 && !math.IsInf(g, 0) {
		return g
	}
	return 0
}
