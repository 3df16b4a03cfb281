package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// noticeOf is the notice that a host is taken away after a time.
func noticeOf(left time.Duration) *control.HostNotice {
	return &control.HostNotice{LeftMillis: left.Milliseconds(), CheckpointMillis: left.Milliseconds()}
}

// Of two notices the one that leaves clearly less time counts, and the end of the time is kept for a
// checkpoint: half a minute, or half of less than a minute.
func TestTheTimeBeforeAHostIsTakenAwayGetsShorter(t *testing.T) {
	now := time.Unix(1000, 0)
	var d departingHost
	for _, x := range []struct{ left, by, limit time.Duration }{
		{4 * time.Minute, 4 * time.Minute, 210 * time.Second},
		{5 * time.Minute, 4 * time.Minute, 210 * time.Second},
		{239500 * time.Millisecond, 4 * time.Minute, 210 * time.Second},
		{20 * time.Second, 20 * time.Second, 10 * time.Second},
	} {
		d.notice(noticeOf(x.left), now)
		if by, limit := d.by.Sub(now), d.limit.Sub(now); by != x.by || limit != x.limit {
			t.Errorf("%s are left: the host is taken away in %s, the job stops in %s, want %s and %s", x.left, by, limit, x.by, x.limit)
		}
	}
}

// departingOf are the departing hosts of a job, of which w1 is one, their environment, and what was
// asked for through it.
func departingOf(out *output, r *roster) (l *departingHosts, env departingEnv, did *[]string) {
	set := settingsOf(2, 2)
	set.Elastic.Backups = 1
	f, s := wantedOf(out, r)
	hosts := newHostTable(time.Minute)
	l, did = &departingHosts{}, new([]string)
	env = departingEnv{set: set, job: out.job, hosts: &hosts, servers: &serverTable{}, sites: s, fleet: f,
		removeHost: func(host string) string { *did = append(*did, "remove "+host); return "" },
		removeServer: func(rank int) (string, bool) {
			*did = append(*did, fmt.Sprint("remove server ", rank))
			return "", false
		},
		addServer: func(host string) (uint32, string) {
			*did = append(*did, "add a server on "+host)
			return 7, ""
		},
		beginStop: func(string) { *did = append(*did, "stop") },
	}
	l.observe(out, env, []control.ObservedHost{{Host: "w1", Connection: 2, Notice: noticeOf(time.Minute)}})
	return l, env, did
}

// A host that is connected anew is not the one that was to be taken away, whatever it reports.
func TestANoticeEndsWithItsConnection(t *testing.T) {
	out, r := running(2, 2)
	l, env, _ := departingOf(out, r)
	if l.observe(out, env, []control.ObservedHost{{Host: "w1", Connection: 3, Notice: noticeOf(time.Minute)}}); l.any() {
		t.Error("the host is still being taken away")
	}
}

// A host that stays after all may have workers again, unless it is being removed by name.
func TestAHostThatStaysIsRemovedIfThatWasAskedFor(t *testing.T) {
	for _, removed := range []bool{false, true} {
		out, r := running(2, 2)
		l, env, _ := departingOf(out, r)
		l.goOn(out, env)
		if removed {
			env.hosts.set(out, "w1", control.RemovalQueued, "")
		}
		l.observe(out, env, []control.ObservedHost{{Host: "w1", Connection: 2}})
		if at := env.sites.of("w1"); at.Away || at.Withdrawn != removed {
			t.Errorf("removed by name %t: away %t, withdrawn %t", removed, at.Away, at.Withdrawn)
		}
	}
}

// A job whose workers cannot leave a host stops after some tries, unless others are starting that
// may make up for them.
func TestAJobStopsAfterSomeRefusals(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		out, r := running(2, 2)
		l, env, did := departingOf(out, r)
		env.removeHost = func(string) string { return "one must stay" }
		if arriving {
			env.fleet.want(control.WantedProcess{Role: control.Worker, Host: "w0"})
		}
		for try := 1; try <= leaveTries+1; try++ {
			l.goOn(out, env)
			out.now = out.now.Add(leaveRetry)
			if got, want := slices.Contains(*did, "stop"), !arriving && try >= leaveTries; got != want {
				t.Errorf("others arrive %t, after %d refusals: stopped is %t", arriving, try, got)
			}
		}
	}
}

// Workers that cannot leave are killed shortly before their host is taken away, so that the others
// know at once; those that may leave until the end are not.
func TestWorkersThatCannotLeaveAreKilled(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		out, r := running(2, 2)
		l, env, _ := departingOf(out, r)
		env.set.Elastic.Enabled = elastic
		d := l.list[0]
		d.stays = true
		out.now = d.limit
		l.pass(out, env, d)
		if want := d.by.Add(-lossTime); d.kill.IsZero() != elastic || !elastic && !d.kill.Equal(want) {
			t.Errorf("elastic %t: they are killed at %s, want %s", elastic, d.kill, want)
		}
	}
}

// The job stops if the server cannot be added that was to take the shards of a host that goes.
func TestTheJobStopsIfNoServerTakesTheShards(t *testing.T) {
	out, r := running(2, 2)
	l, env, did := departingOf(out, r)
	l.addServerElsewhere(out, env, l.list[0])
	l.serverNotAdded(out, env, 6, "s0", "x")
	if slices.Contains(*did, "stop") {
		t.Error("the job stops for another server")
	}
	if l.serverNotAdded(out, env, 7, "s0", "x"); !slices.Equal(*did, []string{"add a server on w0", "stop"}) {
		t.Errorf("got %q, want a server on w0, which has none, and a stop", *did)
	}
}
