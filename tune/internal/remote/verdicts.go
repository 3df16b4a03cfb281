package remote

// keptAnswers is how many answers are kept: so many steps may another rank lag behind rank 0.
const keptAnswers = 4096

// verdicts are what rank 0 was answered to its reports. A session's mutex guards them.
type verdicts struct {
	// latest is the newest step that rank 0 has reported, -1 before the first.
	latest int
	// answers has the newest of them, by step.
	answers map[int]Answer
}

func newVerdicts() verdicts { return verdicts{latest: -1, answers: make(map[int]Answer)} }

// add keeps the answer to a step, and forgets the one to the oldest if there are too many.
func (v *verdicts) add(step int, a Answer) {
	v.answers[step] = a
	if v.latest = max(v.latest, step); len(v.answers) <= keptAnswers {
		return
	}
	oldest := step
	for s := range v.answers {
		oldest = min(oldest, s)
	}
	delete(v.answers, oldest)
}
