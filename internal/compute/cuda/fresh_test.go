package cuda

import "testing"

func TestHeldParametersGoUpOnce(t *testing.T) {
	full, forward := &schedule{}, &schedule{}
	want := func(f *freshness, s *schedule, stale bool, when string) {
		t.Helper()
		if got := f.stale(s, full); got != stale {
			t.Errorf("%s: got stale %v, want %v", when, got, stale)
		}
	}
	var f freshness
	f.took(full)
	want(&f, full, true, "parameters that are not held change with every run")

	f.hold(true)
	want(&f, forward, true, "held, and none has gone up")
	f.took(forward)
	want(&f, forward, false, "the schedule that took them")
	want(&f, full, true, "one that reads more")
	f.took(full)
	want(&f, forward, false, "one that reads less")

	// The schedules are made anew.
	now := schedules{full: &schedule{}, forward: &schedule{}}
	f.replaced(schedules{full, forward}, now)
	if f.stale(now.forward, now.full) {
		t.Error("new schedules do not know what the old ones took")
	}
	f.forget()
	if !f.stale(now.full, now.full) {
		t.Error("what was forgotten is fresh")
	}
}
