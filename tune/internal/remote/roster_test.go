package remote

import "testing"

// A rank connects once. Of an elastic trial another process may take the place of one that left.
func TestARankIsThereOnce(t *testing.T) {
	r := newRoster()
	if !r.join(0, false) || r.join(0, true) {
		t.Error("a rank joined while it was there")
	}
	if said := r.leave(0); said || !r.ended(0) {
		t.Errorf("rank 0 closed its connection without done: said %v, ended %v", said, r.ended(0))
	}
	if r.join(0, false) {
		t.Error("a rank joined twice")
	}
	if !r.join(0, true) || r.ended(0) {
		t.Error("nobody took the place of a rank that left")
	}
	r.left[0] = Done{}
	if said := r.leave(0); !said {
		t.Error("a rank that had said how it ended counts as one that had not")
	}
}

// The lowest rank that is there stands for rank 0, and a leader waits for those of its host alone.
func TestALeaderWaitsForItsHost(t *testing.T) {
	task := Task{PerHost: 2}
	r := newRoster()
	if r.first() != -1 {
		t.Errorf("of none the first is %d", r.first())
	}
	for _, rank := range []int{3, 2, 4} {
		r.join(rank, false)
	}
	if r.first() != 2 || r.isAlone(2, task.Leader) || !r.isAlone(4, task.Leader) {
		t.Errorf("first %d, rank 2 alone %v, rank 4 alone %v", r.first(), r.isAlone(2, task.Leader), r.isAlone(4, task.Leader))
	}
	r.leave(3)
	if !r.isAlone(2, task.Leader) {
		t.Error("rank 2 waits for one that has left")
	}
}

// The oldest answer goes where there are too many.
func TestOldAnswersAreForgotten(t *testing.T) {
	v := newVerdicts()
	for step := range keptAnswers + 10 {
		v.add(step, Answer{Action: "continue"})
	}
	if _, ok := v.answers[9]; ok || len(v.answers) != keptAnswers || v.latest != keptAnswers+9 {
		t.Errorf("%d answers are kept, the newest of step %d; that of step 9 is among them: %v", len(v.answers), v.latest, ok)
	}
}
