package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// wantedOf is the fleet of a job that runs, as the launcher's first report has it, and its sites.
// Each host has room for three workers.
func wantedOf(out *output, r *roster) (f *fleet, s *sites) {
	f, s = &fleet{}, &sites{}
	f.Adopted, f.reported, f.Last = true, 1, uint32(r.last())
	for _, n := range r.nodes {
		role := control.Worker
		if n.Host[0] == 's' {
			role = control.Server
		}
		f.adopt(control.ObservedProcess{Process: n.process, Role: role, Rank: int(n.Rank), Number: int(n.Rank), Host: n.Host, State: control.StateRunning})
		f.saw(f.of(n.process), control.StateRunning, out.now)
		s.observe(control.ObservedHost{Host: n.Host, Listed: role == control.Worker, Servers: true, Slots: 3, Connection: int(n.process)})
	}
	f.takeRanks(r, true)
	return f, s
}

func TestAWorkerIsStartedAgainAsOftenAsRejoinSays(t *testing.T) {
	out, r := running(2, 1)
	set := settingsOf(2, 1)
	set.Elastic.Rejoin = 1
	f, s := wantedOf(out, r)
	var did []string
	j := judge{set: set, now: out.now, job: out.job, policy: policy{set}, roster: r, hosts: &hostTable{}, sites: s, fleet: f,
		lose: func(n *node, cause control.Cause) {
			did = append(did, fmt.Sprintf("lose node %d: %v", n.Node, cause))
			r.setLife(n, lost)
		},
		startsMissing: func(host, why string) { did = append(did, host+": "+why) },
	}
	killed := func(process uint32) {
		p := f.of(process)
		f.saw(p, control.StateEnded, out.now)
		j.ended(p, control.ObservedProcess{Process: process, Role: control.Worker, State: control.StateEnded, Cause: control.Cause{Kind: control.CauseSignal, Signal: 9}, Seconds: 5})
	}
	killed(2)
	again := f.list[len(f.list)-1]
	if again.Host != "w1" || again.Attempt != 1 || again.Delay() != firstBackOff || f.of(2).Fate != control.FateLost || len(did) != 1 {
		t.Fatalf("got %+v after the first end, and %q, want another worker on w1 in %v, and one node lost", again.WantedProcess, did, firstBackOff)
	}
	again.Joined = true
	killed(again.Process)
	if len(f.list) != 4 || len(did) != 2 || did[1] != "w1: worker 2 ended: signal 9 (killed)" {
		t.Errorf("got %d processes and %q after the second end, want no other worker, and that it is missing", len(f.list), did)
	}
}

func TestAHostThatIsTakenAwayIsEmptiedOrTheJobStops(t *testing.T) {
	for _, c := range []struct {
		host    string
		backups int
		want    []string
	}{
		{"w1", 0, []string{"remove w1"}},
		{"s0", 1, []string{"remove server 0"}},
		{"s0", 0, []string{"stop: host s0 is being taken away, and the shards of its servers have no backups (--backups 1), so they cannot move"}},
	} {
		out, r := running(2, 2)
		set := settingsOf(2, 2)
		set.Elastic.Backups = c.backups
		f, s := wantedOf(out, r)
		var did []string
		env := departingEnv{set: set, job: out.job, hosts: &hostTable{}, servers: &serverTable{}, sites: s, fleet: f,
			removeHost:   func(host string) string { did = append(did, "remove "+host); return "" },
			removeServer: func(rank int) (string, bool) { did = append(did, fmt.Sprint("remove server ", rank)); return "", false },
			beginStop:    func(reason string) { did = append(did, "stop: "+reason) },
		}
		i := slices.IndexFunc(r.nodes, func(n *node) bool { return n.Host == c.host })
		notice := &control.HostNotice{LeftMillis: time.Minute.Milliseconds(), CheckpointMillis: time.Minute.Milliseconds()}
		var l departingHosts
		l.observe(out, env, []control.ObservedHost{{Host: c.host, Connection: int(r.nodes[i].process), Notice: notice}})
		l.goOn(out, env)
		if !l.has(c.host) || !slices.Equal(did, c.want) {
			t.Errorf("%s with %d backups: got %q, want %q", c.host, c.backups, did, c.want)
		}
	}
}

func TestANumberOfWorkersIsReachedOnHostsWithFreeSlots(t *testing.T) {
	out, r := running(2, 1)
	set := settingsOf(2, 1)
	f, s := wantedOf(out, r)
	var left []string
	hosts := newHostTable(time.Minute)
	env := scaleEnv{set: set, job: out.job, policy: policy{set}, roster: r, hosts: &hosts, sites: s, fleet: f, departing: &departingHosts{},
		grantLeave: func(n *node, _ string) {
			left = append(left, n.Host)
			f.aim(f.of(n.process), control.GoalLeave, 0)
		},
	}
	sc := scaler{set: set}
	if done, begun := sc.ask(out, env, control.Request{Op: control.OpScale, Workers: 9}); begun || done.Error == "" {
		t.Errorf("9 workers on hosts with 6 slots: got %+v, want a refusal", done)
	}
	if _, begun := sc.ask(out, env, control.Request{Op: control.OpScale, Workers: 5}); !begun || s.inAll(f.staying) != 5 || f.staying("w0") != 3 {
		t.Errorf("5 workers: got %d in all, %d on w0, want 5 and 3", s.inAll(f.staying), f.staying("w0"))
	}
	if _, begun := sc.ask(out, env, control.Request{Op: control.OpScale, Workers: 1}); !begun || s.inAll(f.staying) != 1 || !slices.Equal(left, []string{"w1"}) {
		t.Errorf("1 worker: got %d in all, and those on %q leave, want 1, and the one on w1", s.inAll(f.staying), left)
	}
}

// scalesOf is a scaler of a job of two workers, on w0 and w1, and what it works with. left are the
// hosts whose workers were let go.
func scalesOf() (out *output, sc *scaler, env scaleEnv, left *[]string) {
	out, r := running(2, 1)
	set := settingsOf(2, 1)
	f, s := wantedOf(out, r)
	hosts := newHostTable(time.Minute)
	left = new([]string)
	env = scaleEnv{set: set, job: out.job, policy: policy{set}, roster: r, hosts: &hosts, sites: s, fleet: f, departing: &departingHosts{},
		grantLeave: func(n *node, _ string) {
			*left = append(*left, n.Host)
			f.aim(f.of(n.process), control.GoalLeave, 0)
		}}
	return out, &scaler{set: set}, env, left
}

// A worker that would be started again after a while is one of those that a new number starts: it is
// not started besides.
func TestAScaleTakesThePlaceOfDelayedStarts(t *testing.T) {
	out, sc, env, _ := scalesOf()
	env.fleet.wantAgain(control.WantedProcess{Role: control.Worker, Host: "w0", Attempt: 1})
	if _, begun := sc.ask(out, env, control.Request{Op: control.OpScale, Workers: 3}); !begun || len(env.fleet.workersOn("w0"))+len(env.fleet.workersOn("w1")) != 3 {
		t.Errorf("%d workers on w0, %d on w1, want 3 in all", len(env.fleet.workersOn("w0")), len(env.fleet.workersOn("w1")))
	}
}

// No other worker is started in place of one that is missing while one is to be started again.
func TestADelayedStartIsNotMissing(t *testing.T) {
	out, sc, env, _ := scalesOf()
	sc.ask(out, env, control.Request{Op: control.OpScale, Workers: 3})
	for _, p := range env.fleet.list {
		if p.isWorker() && !p.Joined {
			env.fleet.drop(p)
			break
		}
	}
	env.fleet.wantAgain(control.WantedProcess{Role: control.Worker, Host: "w0", Attempt: 1})
	sc.startsMissing(out, env, "w1", "x")
	if len(sc.newest.Starts) > 0 || sc.newest.Short != "" {
		t.Errorf("to be started %v, too few %q; want neither", sc.newest.Starts, sc.newest.Short)
	}
}

// A worker stays until the one on the new host is in the job, if there may be as many.
func TestAWorkerStaysUntilAnotherTakesItsPlace(t *testing.T) {
	for _, most := range []int{2, 3} {
		out, sc, env, left := scalesOf()
		env.set.Elastic.MaxWorkers = most
		env.sites.observe(control.ObservedHost{Host: "w2", Listed: true, Slots: 1})
		placement := []control.WorkersOnHost{{Host: "w0", Workers: 1}, {Host: "w2", Workers: 1}}
		if done, begun := sc.ask(out, env, control.Request{Op: control.OpScale, Placement: placement}); !begun {
			t.Fatal(done.Error)
		}
		if got, want := len(*left), 3-most; got != want {
			t.Errorf("at most %d workers: %d have left before the new one is there, want %d", most, got, want)
		}
	}
}
