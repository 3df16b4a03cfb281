package jobpage

import (
	"maps"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// scores are those of one evaluation that are known, by line; none: no evaluation is known.
type scores map[string]page.Number

// newScores are the loss, the accuracy and the metrics of one's own, by name, of one evaluation.
func newScores(loss, accuracy page.Number, names []string, score func(i int) page.Number) scores {
	s := scores{}
	put := func(line string, v page.Number) {
		if !math.IsNaN(float64(v)) {
			s[line] = v
		}
	}
	put(page.LineTestLoss, loss)
	put(page.LineTestAccuracy, accuracy)
	for i, name := range names {
		put(scoreLine(name), score(i))
	}
	return s
}

// of is the score of a line; NaN: it is not known.
func (s scores) of(line string) page.Number {
	if v, ok := s[line]; ok {
		return v
	}
	return nan
}

// same reports whether two scores are those of one evaluation. The past is kept as float32.
func (s scores) same(other scores) bool {
	return maps.EqualFunc(s, other, func(x, y page.Number) bool {
		a, b := float64(x), float64(y)
		return a == b || math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))
	})
}

// A report is what a worker says of the newest evaluation that it knows of.
type report struct {
	node uint64
	scores
}

// evaluations tells each evaluation of a job once. All workers report the same scores of an
// evaluation, with each record until the next one, but not at the same time: some still report
// those of the evaluation before when others have the new ones, and a worker may be silent for a
// while.
type evaluations struct {
	// found is in the order in which they were told.
	found []scores

	// at has, by worker, the place in found of the evaluation that it reported last.
	at map[uint64]int

	// waiting came at the same look as the newest evaluation. They are newer if that one is
	// reported no more while they are.
	waiting []scores
}

// find is what is new among the scores that workers report at one time; ok is false if all of them
// are known.
func (e *evaluations) find(reports []report) (found scores, ok bool) {
	newest, some := e.newest()
	stays := some && slices.ContainsFunc(reports, func(r report) bool { return r.same(newest) })
	fresh, waiting := []report{}, []scores{}
	for _, r := range reports {
		switch {
		case len(r.scores) == 0 || e.follows(r):
		case stays && slices.ContainsFunc(e.waiting, r.same):
			waiting = append(waiting, r.scores)
		default:
			fresh = append(fresh, r)
		}
	}
	e.waiting = waiting
	if len(fresh) == 0 {
		return nil, false
	}
	e.found = append(e.found, fresh[0].scores)
	for _, r := range fresh {
		if !e.follows(r) {
			e.waiting = append(e.waiting, r.scores)
		}
	}
	return fresh[0].scores, true
}

// follows reports whether a worker reports an evaluation that was found: the one that it reported
// before, or a later one.
func (e *evaluations) follows(r report) bool {
	if e.at == nil {
		e.at = map[uint64]int{}
	}
	at, reported := e.at[r.node]
	if !reported {
		for at = len(e.found) - 1; at >= 0 && !r.same(e.found[at]); {
			at--
		}
	} else {
		for at < len(e.found) && !r.same(e.found[at]) {
			at++
		}
	}
	if at < 0 || at == len(e.found) {
		return false
	}
	e.at[r.node] = at
	return true
}

// newest are the scores of the evaluation that was found last.
func (e *evaluations) newest() (s scores, ok bool) {
	if len(e.found) == 0 {
		return nil, false
	}
	return e.found[len(e.found)-1], true
}

// scoreLine is the line of a metric of one's own.
func scoreLine(name string) string { return page.LineTestScore + "/" + name }
