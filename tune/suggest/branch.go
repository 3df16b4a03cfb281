package suggest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// branchStartup is the number of finished trials of a branch below which its proposals are quasi-random.
const branchStartup = 4

// branchExplore is the part of proposals that go to the branch with the largest expected gain.
const branchExplore = 0.5

// branches chooses a value for each parameter that others depend on, by what its branches promise, unless it is given. It returns given
// with these values, and the records that have them.
func (m *model) branches(recs []record, given []float64, explore float64, rng *rand.Rand) ([]float64, []record) {
	chosen := slices.Clone(given)
	for _, j := range m.parents {
		if !math.IsNaN(chosen[j]) || !m.active(j, chosen) {
			continue
		}
		scores, running := branchScores(recs, j, m.dims[j].choices)
		c := branch(scores, running, explore, rng)
		chosen[j] = float64(c)
		within := make([]record, 0, len(scores[c])+running[c])
		for i := range recs {
			if recs[i].x[j] == chosen[j] {
				within = append(within, recs[i])
			}
		}
		recs = within
	}
	return chosen, recs
}

// branchScores are for each value of dim j the scores of the trials that had it, and how many of them still run.
func branchScores(recs []record, j, choices int) (scores [][]float64, running []int) {
	scores, running = make([][]float64, choices), make([]int, choices)
	for i := range recs {
		r := &recs[i]
		if math.IsNaN(r.x[j]) {
			continue
		}
		c := int(r.x[j])
		switch {
		case r.state == recordRunning:
			running[c]++
		case r.state != recordFailed:
			score := r.score
			if r.state == recordPruned || r.violation > 0 || math.IsNaN(score) {
				score = math.Inf(-1)
			}
			scores[c] = append(scores[c], score)
		}
	}
	return scores, running
}

// branch is the one to go on with, by the scores of the branches' trials and how many more of them run: one with fewer than three trials
// that ended, if there is one, the one with the fewest first; else the branch of the best trial, or in a part explore of all proposals the
// one with the largest expected gain. The first keeps the best branch refined, the second gives the others their share.
func branch(scores [][]float64, running []int, explore float64, rng *rand.Rand) int {
	order := rng.Perm(len(scores))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(scores[a])+running[a], len(scores[b])+running[b]) })
	top, first := math.Inf(-1), order[0]
	for _, c := range order {
		if len(scores[c]) < 3 {
			return c
		}
		if best := slices.Max(scores[c]); best > top {
			top, first = best, c
		}
	}
	if rng.Float64() >= explore {
		return first
	}
	most := 0.0
	for _, c := range order {
		slices.Sort(scores[c])
		if gain := expectedGain(scores[c], running[c], top); gain > most {
			most, first = gain, c
		}
	}
	return first
}

// expectedGain is by how much a branch's next trial can be hoped to be above top, the best score of all branches, up to a factor:
//
//	e/n · e/(e + top − best), e = best − the score a quarter of the way down those that are known
//
// with n its trials, those that run too, and its scores sorted, −∞ first where a trial was pruned or violates constraints. Were each of its trials a draw from one distribution, one in n would set a
// record, by about e; the second factor is the chance that such a record is above top, if the distribution has a heavy tail. A branch whose own
// parameters are found has e near 0.
func expectedGain(scores []float64, running int, top float64) float64 {
	n := len(scores)
	known := scores
	for len(known) > 0 && math.IsInf(known[0], -1) {
		known = known[1:]
	}
	if len(known) < 2 {
		return 0
	}
	best := known[len(known)-1]
	e := best - known[len(known)-1-max(1, len(known)/4)]
	if e == 0 {
		return 0
	}
	return e / float64(n+running) * e / (e + top - best)
}
