package scheduler

import (
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// wishes is the membership of a running job of three workers that rank 0 wishes to have another
// number of, from now on.
func wishes(workers, least int) (*output, *membership) {
	out, r := running(3, 1)
	set := settingsOf(3, 1)
	set.Elastic.MinWorkers, set.Elastic.MaxWorkers = least, 5
	m := newMembership(set, out.now)
	m.job, m.roster = *out.job, *r
	f, s := wantedOf(out, &m.roster)
	m.fleet, m.sites, out.job = *f, *s, &m.job
	m.wish = wish{workers: workers, due: out.now}
	out.take()
	return out, &m
}

// A wish waits while a worker comes, and for a while after one has come or gone: the new number must
// have been measured.
func TestAWishWaitsUntilTheNumberOfWorkersWasMeasured(t *testing.T) {
	out, m := wishes(4, 1)
	waits := func(what string) {
		t.Helper()
		if m.passWish(out); m.scale.newest.Number > 0 || !m.wish.due.Equal(out.now.Add(wishRetry)) {
			t.Errorf("%s: scale %d is begun, the wish %+v is looked at next; want that in %s", what, m.scale.newest.Number, m.wish, wishRetry)
		}
		out.now = m.wish.due
	}
	coming := m.fleet.want(control.WantedProcess{Role: control.Worker, Host: "w0"})
	waits("a worker comes")
	m.fleet.drop(coming)
	m.cameOrWent = out.now.Add(wishRetry - wishPause)
	waits("one came a moment ago")
	if m.passWish(out); m.scale.newest.Workers != 4 || m.wish != (wish{}) {
		t.Errorf("%s after that: the scale is %+v, the wish %+v; want 4 workers, and none", wishPause, m.scale.newest, m.wish)
	}
}

// A wish for fewer workers than the job may have is for as many as it may have.
func TestAWishKeepsTheLeastNumberOfWorkers(t *testing.T) {
	for least, want := range map[int]int{1: 1, 2: 2, 3: 0} {
		out, m := wishes(1, least)
		m.passWish(out)
		if got := m.scale.newest.Workers; got != want || len(out.Warnings) > 0 {
			t.Errorf("at least %d workers, 1 wished: the scale is to %d, want %d; warnings %q", least, got, want, out.Warnings)
		}
	}
}
