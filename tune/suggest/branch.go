package suggest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// branchStartup is the number of finished trials of a branch below which its proposals are
// quasi-random.
const branchStartup = 4

// branchExplore is the part of proposals that go to the branch with the largest expected gain.
const branchExplore = 0.5

// branchFloor is the part of an equal share of all trials that each branch gets whatever it
// promises. A branch's scores may hide what it is worth: its best two may be alike by chance, and
// only further trials would tell.
const branchFloor = 0.25

// branches chooses a value for each parameter that others depend on, by what its branches promise,
// unless it is given. It returns given with these values, and the records that have them.
func (m *model) branches(recs []record, given []float64, explore float64, rng *rand.Rand) ([]float64, []record) {
	chosen := slices.Clone(given)
	for _, j := range m.parents {
		if !math.IsNaN(chosen[j]) || !m.active(j, chosen) {
			continue
		}
		scores, running := branchScores(recs, j, m.dims[j].choices)
		c := branch(scores, running, m.fullBranches(recs, j, chosen), explore, rng)
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

// branchScores are for each value of dim j the scores of the trials that had it, and how many of
// them still run.
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

// fullBranches says of each value of dim j, those of chosen given, whether trials have had all
// points that there are under it.
func (m *model) fullBranches(recs []record, j int, chosen []float64) []bool {
	full, with := make([]bool, m.dims[j].choices), slices.Clone(chosen)
	for c := range full {
		with[j] = float64(c)
		tried := 0
		for i := range recs {
			if recs[i].x[j] == with[j] {
				tried++
			}
		}
		full[c] = float64(tried) >= m.room(with)
	}
	return full
}

// room is how many points there are at most where the dims that are not NaN have the values of x.
func (m *model) room(x []float64) float64 {
	n := 1.0
	for i, d := range m.dims {
		if math.IsNaN(x[i]) && m.possible(i, x) {
			n *= d.size()
		}
	}
	return n
}

// possible says whether dim i is there, or can be once the dims that are NaN in x have values.
func (m *model) possible(i int, x []float64) bool {
	if m.active(i, x) {
		return true
	}
	parent := m.space[m.at[i]].Parent
	for j := range i {
		if m.space[m.at[j]].Name == parent && math.IsNaN(x[j]) && m.possible(j, x) {
			return true
		}
	}
	return false
}

// branch is the one to go on with, by the scores of the branches' trials and how many more of them
// run. A branch that has fewer than three trials that ended, or less than branchFloor of an equal
// share of all, comes first, the one with the fewest before others. Else it is the branch of the
// best trial, or in a part explore of all proposals the one with the largest expected gain: the
// first keeps the best branch refined, the second gives the others what they promise. Full branches
// are left out, unless all are full.
func branch(scores [][]float64, running []int, full []bool, explore float64, rng *rand.Rand) int {
	order := rng.Perm(len(scores))
	if slices.Contains(full, false) {
		order = slices.DeleteFunc(order, func(c int) bool { return full[c] })
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(scores[a])+running[a], len(scores[b])+running[b]) })
	all, top := 0, math.Inf(-1)
	for c := range scores {
		all += len(scores[c]) + running[c]
		for _, score := range scores[c] {
			top = max(top, score)
		}
	}
	floor := branchFloor * float64(all) / float64(len(scores))
	best, first := math.Inf(-1), order[0]
	for _, c := range order {
		if len(scores[c]) < 3 || float64(len(scores[c])+running[c]) < floor {
			return c
		}
		if its := slices.Max(scores[c]); its > best {
			best, first = its, c
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

// expectedGain is by how much a branch's next trial can be hoped to be above top, the best score of
// all branches, up to a factor:
//
//	e/n · e/(e + top − best), e = best − the score a quarter of the way down those that are known
//
// with n its trials, those that run too, and its scores sorted, −∞ first where a trial was pruned
// or violates constraints. Were each of its trials a draw from one distribution, one in n would set
// a record, by about e; the second factor is the chance that such a record is above top, if the
// distribution has a heavy tail. A branch whose own parameters are found has e near 0.
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
