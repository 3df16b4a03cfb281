package cpu

import "github.com/paragon-train/paragon/internal/compute/plan"

// A runningStates has the running statistics of the batch normalisations that train. They change
// only with a run that succeeds: until then what they become is kept apart.
type runningStates struct{ all []*running }

// of is the running of a state, which all normalisations with this state share.
func (s *runningStates) of(state *plan.State) *running {
	for _, r := range s.all {
		if r.state == state {
			return r
		}
	}
	r := &running{state: state, next: plan.State{Mean: make([]float32, len(state.Mean)), Var: make([]float32, len(state.Var))}}
	s.all = append(s.all, r)
	return r
}

// begin forgets what a run before this one did not commit.
func (s *runningStates) begin() {
	for _, r := range s.all {
		r.moved = false
	}
}

// commit makes what the run found the running statistics.
func (s *runningStates) commit() {
	for _, r := range s.all {
		r.commit()
	}
}

// A running is running statistics during a run: what they become is theirs when the run has
// succeeded.
type running struct {
	state *plan.State
	next  plan.State

	// moved is true once this run has set next.
	moved bool
}

// now are the statistics at this point of the run.
func (r *running) now() *plan.State {
	if r.moved {
		return &r.next
	}
	return r.state
}

// move weighs a batch's statistics of channel k with momentum. When it was called for all channels,
// the caller sets moved.
func (r *running) move(k int, momentum, mean, variance float64) {
	now := r.now()
	r.next.Mean[k] = float32((1-momentum)*float64(now.Mean[k]) + momentum*mean)
	r.next.Var[k] = float32((1-momentum)*float64(now.Var[k]) + momentum*variance)
}

func (r *running) commit() {
	if r.moved {
		copy(r.state.Mean, r.next.Mean)
		copy(r.state.Var, r.next.Var)
	}
}
