package job

import (
	"slices"
	"testing"
	"time"
)

// Timers come in the order of their times, and of those for the same time the one first that was set
// first.
func TestTimersComeInTheirOrder(t *testing.T) {
	o := newOutput()
	for _, x := range []struct {
		after time.Duration
		what  string
	}{{3, "c"}, {1, "a"}, {3, "d"}, {2, "b"}} {
		o.after(x.after, x.what)
	}
	var got []string
	for next := o.timers.next(); !next.IsZero(); next = o.timers.next() {
		got = append(got, o.timers.pop().(string))
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// When the job no longer changes only timers stay that last; a timer that is set anew takes the place
// of the one before.
func TestTimersAreCancelled(t *testing.T) {
	o := newOutput()
	o.after(1, "x")
	o.afterAnew(5, "x")
	if next := o.timers.next(); !next.Equal(o.now.Add(5)) || len(o.timers.list) != 1 {
		t.Errorf("%d timers, the next one at %s, want one at %s", len(o.timers.list), next, o.now.Add(5))
	}
	o.timers.add(timer{o.now.Add(9), "y", true})
	o.timers.settle()
	if is := func(what event) bool { return what == "y" }; len(o.timers.list) != 1 || !o.timers.any(is) {
		t.Errorf("%v are left, want the lasting one", o.timers.list)
	}
	if o.timers.clear(); !o.timers.next().IsZero() {
		t.Errorf("%v are left, want none", o.timers.list)
	}
}
