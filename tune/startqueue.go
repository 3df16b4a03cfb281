package tune

import "slices"

// A startQueue has the trials that start before the scheduler is asked, in this order. The zero
// value is empty.
type startQueue struct {
	numbers []int
	in      map[int]bool
}

// add adds a trial at the end, unless it is there.
func (q *startQueue) add(trial int) {
	if q.in[trial] {
		return
	}
	if q.in == nil {
		q.in = make(map[int]bool)
	}
	q.in[trial] = true
	q.numbers = append(q.numbers, trial)
}

// remove removes a trial, if it is there.
func (q *startQueue) remove(trial int) {
	if q.in[trial] {
		delete(q.in, trial)
		q.numbers = slices.DeleteFunc(q.numbers, func(n int) bool { return n == trial })
	}
}

// has says whether a trial is in the queue.
func (q *startQueue) has(trial int) bool { return q.in[trial] }

// ahead has trials that are added until done stand ahead of all that are there.
func (q *startQueue) ahead() (done func()) {
	waiting := q.numbers
	q.numbers = nil
	return func() { q.numbers = append(q.numbers, waiting...) }
}
