package suggest

import (
	"math"
	"math/rand/v2"
	"slices"
)

// branchStartup is the number of finished trials of a branch below which its proposals are quasi-random.
const branchStartup = 4

// branches chooses a value for each parameter that others depend on, by what its branches promise, unless it is given. It returns given
// with these values, and the records that have them.
func (t *TPE) branches(m *model, recs []record, given []float64, rng *rand.Rand) ([]float64, []record) {
	chosen := slices.Clone(given)
	for _, j := range m.parents {
		if !math.IsNaN(chosen[j]) || !m.active(j, chosen) {
			continue
		}
		best, top := 0, math.Inf(-1)
		scores, running := branchScores(recs, j, m.dims[j].choices)
		total := 0
		for c := range scores {
			total += len(scores[c]) + running[c]
		}
		for _, c := range rng.Perm(len(scores)) {
			if v := t.promise(scores[c], running[c], total); v > top {
				best, top = c, v
			}
		}
		chosen[j] = float64(best)
		var within []record
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

// promise is what a branch can be hoped to reach, out of total trials over all branches:
//
//	best + Explore·(best − the score a quarter of the way down)·√(ln(total)/n)
//
// with n its trials, those that run too. As long as the branch's own parameters are not found, its best and its good trials
// differ much, and it is worth more of them; once they are, it is worth its best. The fewest trials go first while a branch
// has fewer than three that ended.
func (t *TPE) promise(scores []float64, running, total int) float64 {
	n := len(scores)
	if n < 3 {
		return math.MaxFloat64 / float64(1+n+running)
	}
	explore := t.Explore
	if explore == 0 {
		explore = 6
	}
	slices.Sort(scores)
	best, good := scores[n-1], scores[n-1-max(1, n/4)]
	if math.IsInf(best, -1) {
		return best
	}
	if math.IsInf(good, -1) {
		good = best // its good trials were pruned, or violate constraints
	}
	return best + explore*(best-good)*math.Sqrt(math.Log(float64(total))/float64(n+running))
}
