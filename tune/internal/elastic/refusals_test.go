package elastic

import (
	"testing"
	"time"
)

// Changes are tried again ten minutes after the third in turn that a job refused, and one that was
// carried out makes up for those before it.
func TestAJobThatRefusesThreeChangesIsLeftAlone(t *testing.T) {
	now := time.Unix(0, 0)
	var r refusals
	note := func(n int) {
		for range n {
			r.note("no route to host", now)
		}
	}
	note(2)
	r.reached()
	if note(2); r.fixed(now) != "" {
		t.Errorf("after two refusals changes are not tried: %q", r.fixed(now))
	}
	if note(1); r.fixed(now.Add(fixedFor)) != "no route to host" {
		t.Errorf("after three refusals changes are tried before %v have passed", fixedFor)
	}
	if later := now.Add(fixedFor + 1); r.fixed(later) != "" || r.inTurn != 0 {
		t.Errorf("after %v: fixed %q with %d refusals, want none", fixedFor, r.fixed(later), r.inTurn)
	}
}
