package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// judgeOf is the judge of a running job of two workers and two servers with backups, which may be
// started again once, and what it did for the membership.
func judgeOf() (j *judge, did *[]string) {
	out, r := running(2, 2)
	set := settingsOf(2, 2)
	set.Elastic.Rejoin, set.Elastic.Backups = 1, 1
	f, s := wantedOf(out, r)
	did = new([]string)
	return &judge{set: set, now: out.now, job: out.job, policy: policy{set}, roster: r, hosts: &hostTable{}, sites: s, fleet: f,
		lose:          func(n *node, _ control.Cause) { r.setLife(n, lost) },
		hostFailed:    func(host, _ string) { *did = append(*did, "failed "+host) },
		serverFailed:  func(int, string) { *did = append(*did, "server failed") },
		startsMissing: func(host, _ string) { *did = append(*did, "missing on "+host) },
	}, did
}

// ends judges the end of a process.
func (j *judge) ends(process uint32, x control.ObservedProcess) {
	p := j.fleet.of(process)
	j.fleet.saw(p, control.StateEnded, j.now)
	x.Process, x.Role, x.State = process, p.Role, control.StateEnded
	j.ended(p, x)
}

// killed is the end of a process that somebody killed.
var killed = control.ObservedProcess{Cause: control.Cause{Kind: control.CauseSignal, Signal: 9}, Seconds: 5}

// Nobody takes the place of a worker that got SIGTERM from outside: whoever sent that wants no other
// one. Nor does one on a host that was removed.
func TestNobodyTakesThePlaceOfAWorkerThatIsNotWanted(t *testing.T) {
	for name, begin := range map[string]func(j *judge, x *control.ObservedProcess){
		"SIGTERM from outside": func(_ *judge, x *control.ObservedProcess) { x.Outside = true },
		"a removed host":       func(j *judge, _ *control.ObservedProcess) { j.sites.withdraw("w1") },
	} {
		j, did := judgeOf()
		x := killed
		begin(j, &x)
		if j.ends(2, x); len(j.fleet.workersOn("w1")) > 0 || len(*did) > 0 || j.fleet.of(2).Fate != control.FateLost {
			t.Errorf("%s: %d workers on w1, fate %q, %q; want none, %q, and nothing", name, len(j.fleet.workersOn("w1")), j.fleet.of(2).Fate, *did, control.FateLost)
		}
	}
}

// The attempts of a worker that has lived for long begin anew.
func TestALongLifeIsNoFailedAttempt(t *testing.T) {
	for lived, want := range map[time.Duration]int{longLife - 1: 0, longLife: 1} {
		j, _ := judgeOf()
		p := j.fleet.of(2)
		p.Attempt, p.Began = 1, j.now.Add(-lived)
		if j.ends(2, killed); len(j.fleet.workersOn("w1")) != want {
			t.Errorf("after %s and one attempt: %d workers are started again, want %d", lived, len(j.fleet.workersOn("w1")), want)
		}
	}
}

// A server is started again where it was, or elsewhere if its host is taken away; also while the job
// stops with a checkpoint, which needs its shards, but not when it just stops.
func TestWhereAServerIsStartedAgain(t *testing.T) {
	for _, tc := range []struct {
		away bool
		stop stopMode
		want []string
	}{{false, notStopping, []string{"s0"}}, {true, notStopping, []string{"w0"}}, {false, stoppingWithCheckpoint, []string{"s0"}}, {false, stoppingAll, nil}} {
		j, _ := judgeOf()
		j.sites.of("s0").Away, j.job.stop = tc.away, tc.stop
		j.ends(3, killed)
		var got []string
		for _, p := range j.fleet.list {
			if p.Attempt > 0 {
				got = append(got, p.Host)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("host away %t, stop %d: started again on %q, want %q", tc.away, tc.stop, got, tc.want)
		}
	}
}

// Before the job is complete another process takes the place of one that ended, unless that was
// stopped from outside.
func TestAProcessThatIsStoppedFromOutsideIsNotStartedAgain(t *testing.T) {
	for outside, want := range map[bool]control.Fate{false: control.FateRestarted, true: control.FateFailed} {
		j, _ := judgeOf()
		j.job.phase = wire.PhaseForming
		x := killed
		x.Outside = outside
		if j.ends(2, x); j.fleet.of(2).Fate != want {
			t.Errorf("from outside %t: the fate is %q, want %q", outside, j.fleet.of(2).Fate, want)
		}
	}
}

// A worker that ended well without saying so is lost if others go on with its share; the last one has
// done all its work.
func TestTheLastWorkerThatEndsWellHasDoneItsWork(t *testing.T) {
	j, _ := judgeOf()
	well := control.ObservedProcess{Cause: control.Cause{Kind: control.CauseExit}}
	var departed []string
	j.takeLeave = func(n *node, l *wire.Leave) { departed = append(departed, n.Host) }
	j.ends(2, well)
	if j.roster.node(2).life != lost || len(departed) > 0 {
		t.Errorf("with another one: life %d, departed %q, want %d, and none", j.roster.node(2).life, departed, lost)
	}
	if j.ends(1, well); !slices.Equal(departed, []string{"w0"}) {
		t.Errorf("the last one: departed %q, want the one on w0", departed)
	}
}
